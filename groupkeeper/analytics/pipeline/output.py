"""The files that workers write, and the driver reads: tables of the result, and what passes between
the stages. A worker that runs twice, even at the same time, leaves one file.
"""

import os
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import pyarrow as pa

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.pipeline.ends import Row
from groupkeeper.analytics.store.days import DAY, DAYS, by_day

if TYPE_CHECKING:
    from pyarrow import parquet

_BATCH_ROWS: Final = 100_000

Place = tuple[str, str]
"""Table and day."""


@dataclass(frozen=True, slots=True)
class Output:
    """What one run writes into a folder: `<table>/day=<date>/<part>.parquet`, and in `state/` what
    the next run goes on from. `before` has for each partition the folder of its last state, and
    `unsolved` for a topic and partition the problems behind the last record that was read. Of
    `left_out` no rows are written, and no state unless a run `goes_on` later.
    """

    folder: Path
    run: int = 1
    before: Mapping[int, str] = field(default_factory=dict)
    unsolved: Mapping[tuple[str, int], Sequence[Row]] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()
    goes_on: bool = True

    def part(self, name: str) -> "Part":
        """Finished rows of one work item; no other one has that name."""
        return Part(self.folder, finished_name(self.run, name), self.left_out)

    def open_part(self, partition: int) -> "Part":
        """Rows of a partition that the next run replaces."""
        return Part(self.folder, open_name(self.run, partition), self.left_out)

    def state(self, partition: int) -> Path:
        """Where this run puts the state of a partition."""
        return self.folder / state_name(self.run, partition)


def finished_name(run: int, name: str) -> str:
    """A file with rows that never change again, without its suffix."""
    return f"run-{run:06d}-{name}"


def open_name(run: int, partition: int) -> str:
    """The file with rows that are not finished, without its suffix."""
    return f"open-{run:06d}-{partition_name(partition)}"


def state_name(run: int, partition: int) -> str:
    """The folder of a state."""
    return f"state/run-{run:06d}-{partition_name(partition)}"


def partition_name(partition: int) -> str:
    """-1 is that of segments in no partition folder."""
    return f"partition-{partition:05d}" if partition >= 0 else "partition-none"


class Part:
    """Writes the rows of one work item, each table and day into a file of its own; a context
    manager. What has no rows has no file.
    """

    def __init__(self, folder: Path, name: str, left_out: frozenset[str] = frozenset()) -> None:
        self._folder = folder
        self.left_out = left_out
        self._name = f"{name}.parquet"
        self._files: dict[Place, tuple[Path, parquet.ParquetWriter]] = {}
        self._waiting: dict[Place, list[pa.Table]] = {}
        self._rows = 0

    def write(self, table: str, rows: pa.Table | pa.RecordBatch) -> None:
        """Append rows, which have the schema of the table."""
        if table in self.left_out:
            return
        if isinstance(rows, pa.RecordBatch):
            rows = pa.Table.from_batches([rows])
        for day, few in by_day(rows, DAYS[table]):
            self._waiting.setdefault((table, day), []).append(few)
        self._rows += len(rows)
        if self._rows > _BATCH_ROWS:
            self._flush()

    def _flush(self) -> None:
        """Few large row groups are read faster than many small ones."""
        from pyarrow import parquet

        for place, waiting in self._waiting.items():
            if place not in self._files:
                table, day = place
                folder = self._folder / table / f"{DAY}={day}"
                folder.mkdir(parents=True, exist_ok=True)
                attempt = folder / f".{self._name}.{uuid.uuid4().hex}"
                schema = waiting[0].schema
                writer = parquet.ParquetWriter(attempt, schema, compression="zstd")
                self._files[place] = attempt, writer
            self._files[place][1].write_table(pa.concat_tables(waiting))
        self._waiting.clear()
        self._rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        is_whole = False
        try:
            if error is None:
                self._flush()
                is_whole = True
        finally:
            for attempt, writer in self._files.values():
                writer.close()
                if is_whole:
                    os.replace(attempt, attempt.with_name(self._name))
                else:
                    attempt.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Passed:
    """Rows of one log partition in a file of Arrow batches: numbers of the batches."""

    path: str
    batches: tuple[int, ...]

    def read(self) -> pa.Table:
        """All rows."""
        with pa.memory_map(self.path) as source, pa.ipc.open_file(source) as file:
            found = [file.get_batch(number) for number in self.batches]
            return pa.Table.from_batches(found, file.schema)


class Spool:
    """Writes batches for the next stage into one file; a context manager."""

    def __init__(self, folder: str, name: str, schema: pa.Schema) -> None:
        # A name for each attempt: the driver is told the one that counts.
        self.path = str(Path(folder, f"{name}.{uuid.uuid4().hex}.arrow"))
        self._schema = schema
        if not Path(folder).is_dir():
            raise AnalyticsError(
                f"a worker does not have the folder {folder}: name one that all of them and this "
                "machine share, with --out or in TMPDIR"
            )
        self._sink = pa.OSFile(self.path, "wb")
        self._file = pa.ipc.new_file(
            self._sink, schema, options=pa.ipc.IpcWriteOptions(compression="lz4")
        )
        self._count = 0
        self._of: defaultdict[int, list[int]] = defaultdict(list)

    def write(self, partition: int, rows: pa.Table) -> None:
        """Append rows of a log partition."""
        for batch in rows.combine_chunks().to_batches(_BATCH_ROWS):
            if batch.num_rows:
                self._file.write_batch(batch)
                self._of[partition].append(self._count)
                self._count += 1

    def passed(self) -> dict[int, Passed]:
        """What was written, by log partition."""
        return {of: Passed(self.path, tuple(numbers)) for of, numbers in self._of.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        self._sink.close()


def read_all(parts: Sequence[Passed], schema: pa.Schema) -> pa.Table:
    """The rows of several files."""
    return pa.concat_tables([schema.empty_table(), *(part.read() for part in parts)])


def slices(table: pa.Table, rows: int = _BATCH_ROWS) -> Iterator[pa.Table]:
    """The table in pieces of bounded size."""
    for start in range(0, len(table), rows):
        yield table.slice(start, rows)
