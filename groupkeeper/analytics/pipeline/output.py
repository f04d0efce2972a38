"""The files that workers write and the driver reads, in folders of this machine: rows of tables,
and data passed between the stages.

Also tracks where reading ended in each log partition: the last record, and problems after it, which
may be resolved when the log has grown.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import feather

from groupkeeper.analytics.reading.plan import Split
from groupkeeper.analytics.schemas import INT, LONG, TABLES, TEXT
from groupkeeper.history.fields import LAST_MS

PROBLEMS: Final = pa.schema(
    [
        ("partition", INT),
        ("batch_position", LONG),
        ("offset", LONG),
        ("problem_bytes", LONG),
        ("problem", TEXT),
    ]
)
_Row = dict[str, Any]  # of PROBLEMS


@dataclass(frozen=True, slots=True)
class _End:
    """The last record of a partition: its log offset, and the position of its batch."""

    offset: int
    path: str
    position: int


@dataclass(slots=True)
class Ends:
    """Ends of reading by log partition; `problems` are rows of PROBLEMS after the last record."""

    ends: dict[int, _End] = field(default_factory=dict)
    problems: dict[int, list[_Row]] = field(default_factory=dict)

    def merge(self, other: "Ends") -> None:
        """Add the ends of a later part."""
        self.ends |= other.ends
        self.problems |= other.problems

    def watched(self, split: Split, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pass on the batches of a split, without rows about problems after the log's
        last record.
        """
        last = -1
        held: list[pa.RecordBatch] = []
        for batch in batches:
            is_record = batch.column("offset").is_valid()
            if is_record.true_count:
                last = max(last, self._seen(split, batch))
            if split.last and is_record.true_count < len(batch):
                held.append(batch.filter(pc.invert(is_record)))
                yield batch.filter(is_record)
            else:
                yield batch
        if split.last:
            self.problems[split.partition] = []
        for batch in held:
            is_behind = pc.greater(batch.column("batch_position"), last)
            behind = batch.filter(is_behind).select(PROBLEMS.names)
            self.problems[split.partition] += behind.to_pylist()
            if len(behind) < len(batch):
                yield batch.filter(pc.invert(is_behind))

    def _seen(self, split: Split, batch: pa.RecordBatch) -> int:
        """Return the position of the batch with the highest offset."""
        offsets = batch.column("offset")
        highest = pc.max(offsets).as_py()
        position = batch.column("batch_position")[pc.index(offsets, highest).as_py()].as_py()
        known = self.ends.get(split.partition)
        if known is None or highest >= known.offset:
            self.ends[split.partition] = _End(highest, split.path, position)
        return int(position)


OPEN: Final = "open"
"""Prefix of files whose rows the next run replaces."""
_BATCH_ROWS: Final = 100_000
_FOLDS: Final = "folds.json"
OutputTables = Mapping[str, pa.Table]


@dataclass(frozen=True, slots=True)
class Output:
    """The files of one run: `<table>/<part>.arrow`, and the state for the next run in `state/`.
    `before`: partition -> folder of its last state; `unsolved`: (topic, partition) -> problems
    after the last record read. Tables in `left_out` are not written, and no state unless `goes_on`.
    """

    folder: Path
    before: Mapping[int, str] = field(default_factory=dict)
    unsolved: Mapping[tuple[str, int], Sequence[_Row]] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()
    goes_on: bool = True

    def part(self, name: str) -> "PartWriter":
        """Return a writer for the finished rows of one work item; names are unique."""
        return PartWriter(self.folder, name, self.left_out)

    def open_part(self, partition: int) -> "PartWriter":
        """Return a writer for the rows of a partition that the next run replaces."""
        return PartWriter(self.folder, f"{OPEN}-{partition}", self.left_out)

    def state(self, partition: int) -> Path:
        """Return the folder for the state of a partition."""
        return self.folder / "state" / str(partition)


def partition_name(partition: int) -> str:
    """The name of a partition's files; -1 stands for segments outside of partition folders."""
    return f"partition-{partition:05d}" if partition >= 0 else "partition-none"


@dataclass(frozen=True, slots=True)
class Passed:
    """Rows of one log partition in a file of Arrow batches: the batch numbers, or all if empty."""

    path: str
    numbers: tuple[int, ...] = ()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches in order."""
        with pa.OSFile(self.path) as source, pa.ipc.open_file(source) as file:
            yield from map(file.get_batch, self.numbers or range(file.num_record_batches))

    def read(self) -> pa.Table:
        return pa.Table.from_batches(self.batches())


class Spool(ExitStack):
    """Writes rows of several log partitions into one file, which is created with the first row. A
    context manager; names are unique within a folder.
    """

    def __init__(self, folder: str | Path, name: str) -> None:
        super().__init__()
        self._path = Path(folder, f"{name}.arrow")
        self._file: pa.RecordBatchFileWriter | None = None
        self._count = 0
        self._of: defaultdict[int, list[int]] = defaultdict(list)

    def write(self, partition: int, rows: pa.Table) -> None:
        """Append rows; all have the same schema."""
        for batch in rows.combine_chunks().to_batches(_BATCH_ROWS):
            if batch.num_rows:
                if self._file is None:
                    self._path.parent.mkdir(parents=True, exist_ok=True)
                    sink = self.enter_context(pa.OSFile(str(self._path), "wb"))
                    options = pa.ipc.IpcWriteOptions(compression="lz4")
                    file = pa.ipc.new_file(sink, rows.schema, options=options)
                    self._file = self.enter_context(file)
                self._file.write_batch(batch)
                self._of[partition].append(self._count)
                self._count += 1

    def passed(self) -> dict[int, Passed]:
        """Return the written rows by log partition."""
        return {of: Passed(str(self._path), tuple(numbers)) for of, numbers in self._of.items()}


class PartWriter(ExitStack):
    """Writes the rows of one work item, one file per table; a context manager."""

    def __init__(self, folder: Path, name: str, left_out: Collection[str] = ()) -> None:
        super().__init__()
        self.left_out = left_out
        self._folder = folder
        self._name = name
        self._spools: dict[str, Spool] = {}

    def write(self, table: str, rows: pa.Table | pa.RecordBatch) -> None:
        """Append rows with the schema of the table."""
        if table in self.left_out:
            return
        if table not in self._spools:
            spool = Spool(self._folder / table, self._name)
            self._spools[table] = self.enter_context(spool)
        whole = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        self._spools[table].write(0, whole)


def read_all(parts: Sequence[Passed], schema: pa.Schema) -> pa.Table:
    """Return the rows of several files."""
    return pa.concat_tables([schema.empty_table(), *(part.read() for part in parts)])


def slices(table: pa.Table, rows: int = _BATCH_ROWS) -> Iterator[pa.Table]:
    """Yield the table in pieces of bounded size."""
    for start in range(0, len(table), rows):
        yield table.slice(start, rows)


@dataclass(frozen=True, slots=True)
class FoldState:
    """The state of one log partition between runs: states of folds, and tables."""

    folds: Mapping[str, Any] = field(default_factory=dict)
    tables: OutputTables = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write the state into a new folder."""
        folder.mkdir(parents=True)
        (folder / _FOLDS).write_text(json.dumps(self.folds), encoding="utf-8")
        for name, table in self.tables.items():
            feather.write_feather(table, str(folder / f"{name}.arrow"), compression="zstd")

    @classmethod
    def read(cls, folder: str) -> Self:
        """Read a state that was written there."""
        folds = json.loads(Path(folder, _FOLDS).read_text(encoding="utf-8"))
        return cls(folds, read_tables(folder, [path.stem for path in Path(folder).glob("*.arrow")]))


def read_tables(folder: str, names: Iterable[str]) -> OutputTables:
    """Return the tables that a state contains, of `names`; tables without rows are absent."""
    paths = {name: Path(folder, f"{name}.arrow") for name in names}
    return {name: feather.read_table(path) for name, path in paths.items() if path.is_file()}


def table_of(name: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return an Arrow table with the schema of the table `name`.

    Absent columns are null. Texts and numbers come from logs that anybody may have written: lone
    surrogates are escaped, and numbers that do not fit become null. Raises ValueError with one line
    for an unknown column or a value of the wrong kind.
    """
    schema = TABLES[name].schema
    if strange := set().union(*rows).difference(schema.names):
        raise ValueError(f"a row of {name}: unknown columns {', '.join(sorted(strange))}")
    return pa.table([_column(name, field, rows) for field in schema], schema=schema)


def _column(name: str, field: pa.Field, rows: Sequence[Mapping[str, Any]]) -> pa.Array:
    column = field.name  # pyarrow makes a new str for each access
    values = [row.get(column) for row in rows]
    try:
        made = pa.array(values, field.type)
        if not pa.types.is_timestamp(field.type) or _are_times(made):
            return made
        values = [fitting(value, field.type) for value in values]
    except (pa.ArrowInvalid, OverflowError, UnicodeEncodeError):
        values = [fitting(value, field.type) for value in values]
    except (pa.ArrowTypeError, TypeError) as error:
        raise ValueError(f"column {column} of {name}: {error}") from None
    try:
        return pa.array(values, field.type)
    except (pa.ArrowException, TypeError) as error:
        raise ValueError(f"column {column} of {name}: {error}") from None


def _are_times(column: pa.Array) -> bool:
    """Return whether all values are in the years 1970 to 9999."""
    found = pc.min_max(column.cast(pa.int64())).as_py()
    return found["min"] is None or (found["min"] >= 0 and found["max"] <= LAST_MS)


def fitting(value: Any, kind: pa.DataType) -> Any:
    """Return the value in storable form."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, list):
        return [fitting(each, kind.value_type) for each in value]
    if isinstance(value, int) and not isinstance(value, bool):
        if pa.types.is_timestamp(kind):
            return value if 0 <= value <= LAST_MS else None
        limit = 1 << (kind.bit_width - 1)
        return value if -limit <= value < limit else None
    return value
