"""Tables cut by groups, so that no process has to hold the rows of all, and several can answer at
once.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Final
from zlib import crc32

import numpy as np
import pyarrow as pa
from pyarrow import dataset, ipc

from groupkeeper.analytics.errors import EngineFailed
from groupkeeper.analytics.history.schemas import TABLES

SLICE_ROWS: Final = 1_000_000
"""About so many rows of the largest table are in a slice, unless one group has more: some 300 MB in
the process that reads it.
"""
MOST_SLICES: Final = 100
"""A file is open for each."""

Tables = dict[str, pa.Table]
Keep = Callable[[str, pa.Table], pa.Table]
"""Name and some rows of a table -> those that are wanted."""


@dataclass(frozen=True, slots=True)
class Slices:
    """Folders with the rows of some groups each, and of every table cut how many rows there are."""

    folders: Sequence[str]
    rows: Mapping[str, int]

    def of_groups(self, groups: Iterable[str]) -> list[str]:
        """The folders that have the rows of some groups."""
        found = {self.folders[_slice_of(each, len(self.folders))] for each in groups}
        return sorted(found)

    def first(self, name: str) -> pa.Table:
        """The first row of a table; empty if it has none."""
        parts = (read_slice(folder, [name])[name] for folder in self.folders)
        some = (part.slice(0, 1) for part in parts if len(part))
        return next(some, TABLES[name].schema.empty_table())


def cut(found: Mapping[str, dataset.Dataset], keep: Keep, target: Path, most_rows: int) -> Slices:
    """Cut tables with a column `group`. `target` is a new folder that all workers can reach."""
    largest = max((each.count_rows() for each in found.values()), default=0)
    number = min(max(ceil(largest / most_rows), 1), MOST_SLICES)
    folders = [target / f"slice-{index:03d}" for index in range(number)]
    for each in folders:
        each.mkdir(parents=True)
    rows = {name: _cut(name, each, keep, folders) for name, each in found.items()}
    return Slices([*map(str, folders)], rows)


def read_slice(folder: str, names: Sequence[str]) -> Tables:
    """Table -> its rows in a slice."""
    return {name: _read(Path(folder, f"{name}.arrow")) for name in names}


def _read(path: Path) -> pa.Table:
    if not path.exists():  # each slice has a file of each table
        raise EngineFailed(
            f"{path} is gone: all workers must reach that folder, and nothing else may clean it"
        )
    with pa.memory_map(str(path)) as file:
        return ipc.open_file(file).read_all()


def _cut(name: str, rows: dataset.Dataset, keep: Keep, folders: Sequence[Path]) -> int:
    """Returns how many rows are kept."""
    kept = 0
    options = ipc.IpcWriteOptions(compression="lz4")
    with ExitStack() as stack:
        files = [str(folder / f"{name}.arrow") for folder in folders]
        writers = [
            stack.enter_context(ipc.new_file(file, rows.schema, options=options)) for file in files
        ]
        # File after file: a scan of all of them reads a GB ahead.
        fragments = rows.get_fragments()
        for batch in (each for some in fragments for each in some.to_batches(rows.schema)):
            wanted = keep(name, pa.Table.from_batches([batch]))
            kept += len(wanted)
            for index, part in _parts(wanted, len(folders)):
                writers[index].write_table(part)
    return kept


def _parts(rows: pa.Table, number: int) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each slice, in their order."""
    if number == 1 or not len(rows):
        yield 0, rows
        return
    groups = rows["group"].combine_chunks().dictionary_encode(null_encoding="encode")
    slices = np.array([_slice_of(group, number) for group in groups.dictionary.to_pylist()])
    index = slices[np.asarray(groups.indices)]
    for each in np.unique(index).tolist():
        is_it = index == each
        yield each, rows if is_it.all() else rows.filter(pa.array(is_it))


def _slice_of(group: str | None, number: int) -> int:
    return crc32((group or "").encode()) % number
