"""The files that workers write into folders of this machine, and the driver reads: rows of tables,
and what passes between the stages.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Generic, TypeVar

import pyarrow as pa

from groupkeeper.analytics.pipeline.ends import Row

Key = TypeVar("Key", int, str)

OPEN: Final = "open"
"""Begins the names of files with rows that the next run replaces."""
_BATCH_ROWS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Output:
    """What one run leaves in a folder: `<table>/<part>.arrow`, and in `state/` what the next run
    goes on from. `before` has for each partition the folder of its last state, and
    `unsolved` for a topic and partition the problems behind the last record that was read. Of
    `left_out` no rows are written, and no state unless a run `goes_on` later.
    """

    folder: Path
    before: Mapping[int, str] = field(default_factory=dict)
    unsolved: Mapping[tuple[str, int], Sequence[Row]] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()
    goes_on: bool = True

    def part(self, name: str) -> "Part":
        """Finished rows of one work item; no other one has that name."""
        return Part(self.folder, name, self.left_out)

    def open_part(self, partition: int) -> "Part":
        """Rows of a partition that the next run replaces."""
        return Part(self.folder, f"{OPEN}-{partition}", self.left_out)

    def state(self, partition: int) -> Path:
        """Where this run puts the state of a partition."""
        return self.folder / "state" / str(partition)


def partition_name(partition: int) -> str:
    """-1 is that of segments in no partition folder."""
    return f"partition-{partition:05d}" if partition >= 0 else "partition-none"


@dataclass(frozen=True, slots=True)
class Passed:
    """Rows in a file of Arrow batches."""

    path: str

    def batches(self) -> Iterator[pa.RecordBatch]:
        """In their order."""
        with pa.OSFile(self.path) as source, pa.ipc.open_file(source) as file:
            yield from map(file.get_batch, range(file.num_record_batches))

    def read(self) -> pa.Table:
        """All rows."""
        return pa.Table.from_batches(self.batches())


class Spool(ExitStack, Generic[Key]):
    """Writes rows into files of this machine, one of each table, or partition of the log; a context
    manager. What has no rows has no file. No other one of the folder has that name.
    """

    def __init__(self, folder: str | Path, name: str, left_out: Collection[Key] = ()) -> None:
        super().__init__()
        self.left_out: Collection[Key] = left_out
        self._folder = folder
        self._name = f"{name}.arrow"
        self._files: dict[Key, tuple[str, pa.RecordBatchFileWriter]] = {}

    def write(self, of: Key, rows: pa.Table | pa.RecordBatch) -> None:
        """Append rows, which always have the same schema."""
        if of in self.left_out or not len(rows):
            return
        if of not in self._files:
            path = Path(self._folder, str(of), self._name)
            path.parent.mkdir(parents=True, exist_ok=True)
            sink = self.enter_context(pa.OSFile(str(path), "wb"))
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            file = self.enter_context(pa.ipc.new_file(sink, rows.schema, options=options))
            self._files[of] = str(path), file
        whole = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        self._files[of][1].write_table(whole.combine_chunks(), _BATCH_ROWS)

    def passed(self) -> dict[Key, Passed]:
        """What was written."""
        return {of: Passed(path) for of, (path, _) in self._files.items()}


Part = Spool[str]


def read_all(parts: Sequence[Passed], schema: pa.Schema) -> pa.Table:
    """The rows of several files."""
    return pa.concat_tables([schema.empty_table(), *(part.read() for part in parts)])


def slices(table: pa.Table, rows: int = _BATCH_ROWS) -> Iterator[pa.Table]:
    """The table in pieces of bounded size."""
    for start in range(0, len(table), rows):
        yield table.slice(start, rows)
