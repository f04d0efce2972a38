"""What a run knows of one log partition at its end, in files: the next run goes on from there."""

import json
import os
import shutil
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa

from groupkeeper.analytics.errors import reading

_FOLDS: Final = "folds.json"
Tables = Mapping[str, pa.Table]


@dataclass(frozen=True, slots=True)
class State:
    """The states of folds, and tables."""

    folds: Mapping[str, Any] = field(default_factory=dict)
    tables: Tables = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Make the folder; one that is there is of another attempt and has the same content."""
        attempt = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
        attempt.mkdir(parents=True)
        (attempt / _FOLDS).write_text(json.dumps(self.folds), encoding="utf-8")
        for name, table in self.tables.items():
            options = pa.ipc.IpcWriteOptions(compression="zstd")
            with pa.ipc.new_file(attempt / f"{name}.arrow", table.schema, options=options) as file:
                file.write_table(table)
        try:
            os.rename(attempt, folder)
        except OSError:
            shutil.rmtree(attempt)
            if not folder.is_dir():
                raise

    @classmethod
    def read(cls, folder: str) -> Self:
        """What was written there. Raises AnalyticsError."""
        path = Path(folder, _FOLDS)
        with reading(path):
            folds = json.loads(path.read_text(encoding="utf-8"))
        return cls(folds, read_tables(folder, [path.stem for path in Path(folder).glob("*.arrow")]))


def read_tables(folder: str, names: Iterable[str]) -> Tables:
    """Those of these tables that are in a state: one without rows is not."""
    found = {}
    for name in names:
        path = Path(folder, f"{name}.arrow")
        if path.is_file():
            with reading(path), pa.memory_map(str(path)) as source:
                found[name] = pa.ipc.open_file(source).read_all()
    return found
