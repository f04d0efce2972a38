"""What a run knows of one log partition at its end, in files: the next run goes on from there."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa
from pyarrow import feather

_FOLDS: Final = "folds.json"
Tables = Mapping[str, pa.Table]


@dataclass(frozen=True, slots=True)
class State:
    """The states of folds, and tables."""

    folds: Mapping[str, Any] = field(default_factory=dict)
    tables: Tables = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Make the folder."""
        folder.mkdir(parents=True)
        (folder / _FOLDS).write_text(json.dumps(self.folds), encoding="utf-8")
        for name, table in self.tables.items():
            feather.write_feather(table, str(folder / f"{name}.arrow"), compression="zstd")

    @classmethod
    def read(cls, folder: str) -> Self:
        """What was written there."""
        folds = json.loads(Path(folder, _FOLDS).read_text(encoding="utf-8"))
        return cls(folds, read_tables(folder, [path.stem for path in Path(folder).glob("*.arrow")]))


def read_tables(folder: str, names: Iterable[str]) -> Tables:
    """Those of these tables that are in a state: one without rows is not."""
    paths = {name: Path(folder, f"{name}.arrow") for name in names}
    return {name: feather.read_table(path) for name, path in paths.items() if path.is_file()}
