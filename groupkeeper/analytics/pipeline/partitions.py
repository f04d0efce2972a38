"""The second stage of an analysis: folds the pieces of a log partition, in order, into tables."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from groupkeeper.analytics.pipeline.chunks import KINDS, ChunkPiece, kinds_of
from groupkeeper.analytics.pipeline.commits import (
    Minutes,
    Newest,
    Transactions,
    commit_rows,
    latest_minute,
    traces,
)
from groupkeeper.analytics.pipeline.feed import PartitionFeed
from groupkeeper.analytics.pipeline.group_table import GENERATIONS, GROUPS, MEMBERS, GroupTable
from groupkeeper.analytics.pipeline.lag import Lags
from groupkeeper.analytics.pipeline.output import (
    PROBLEMS,
    Ends,
    FoldState,
    Output,
    OutputTables,
    PartWriter,
    Passed,
    Spool,
    partition_name,
    read_all,
    slices,
)
from groupkeeper.analytics.reading.columns import SCHEMA
from groupkeeper.analytics.reading.plan import Split
from groupkeeper.analytics.schemas import INT, LONG, TEXT, TIME
from groupkeeper.history.fields import LAST_MS
from groupkeeper.protocol.records.consumer_offsets import GROUP_CONFIGS_TYPE

OFFSETS: Final = pa.schema(
    [
        ("group", TEXT),
        ("topic", TEXT),
        ("topic_partition", INT),
        ("committed_offset", LONG),
        ("commit_leader_epoch", INT),
        ("commit_time", TIME),
        ("metadata", TEXT),
        ("partition", INT),
        ("offset", LONG),
    ]
)
SCHEMAS: Final = {
    "groups": GROUPS,
    "members": MEMBERS,
    "generations": GENERATIONS,
    "offsets": OFFSETS,
    "problems": PROBLEMS,
    "unsolved": PROBLEMS,
}
"""The printed tables. `unsolved` are problems that the next run looks for again."""
LATE_MS: Final = 3_600_000
"""A commit decided later than this becomes a separate row of `commit_minutes`."""
_ROWS: Final = 20_000
"""Maximum number of group records that are Python objects at a time."""
_ADDED: Final = ("generations", "problems")
"""Printed tables that a later run appends to; it rebuilds the others."""
_RECORD: Final = (
    *("batch_position", "offset", "timestamp_ms", "key_type", "group", "tombstone", "key", "value"),
)
LAST_RECORDS: Final = pa.schema([SCHEMA.field(name) for name in _RECORD])


@dataclass(frozen=True, slots=True)
class FoldJob:
    """Input common to all partitions: where printed and other tables go, topic names by id, groups
    of the event log to read (empty: all), and the data folders, which may hold topics' logs.
    """

    scratch: str
    output: Output | None
    names: Mapping[bytes, str]
    groups: frozenset[str] = frozenset()
    data: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionWork:
    """One partition: pieces of its offsets log, in log order, and splits of its event log. Both
    follow the state in the folder `before`.
    """

    partition: int
    pieces: tuple[ChunkPiece, ...]
    events: tuple[Split, ...] = ()
    before: str | None = None

    @property
    def is_news(self) -> bool:
        """Whether there is more than the end of an event log that may be unfinished."""
        return bool(self.pieces) or not all(split.last for split in self.events)


@dataclass(frozen=True, slots=True)
class Folded:
    """The result of one partition: printed tables, and where its event log ended."""

    partition: int
    tables: dict[str, Passed]
    events: Ends


Spools = Mapping[str, Spool]
_Row = dict[str, Any]  # of a table


def fold_partition(job: FoldJob, work: PartitionWork) -> Folded:
    """Run the second stage for one partition."""
    partition = work.partition
    before = FoldState.read(work.before) if work.before else FoldState()
    with ExitStack() as files:
        spools = {
            name: files.enter_context(Spool(job.scratch, f"{name}-{partition}")) for name in SCHEMAS
        }
        part = None
        if job.output:
            part = files.enter_context(job.output.part(partition_name(partition)))
        lags = Lags(job.data)
        fold = _Fold(partition, job.names, spools, part, before, lags)
        history = None
        if part:
            told = _of_kind(work.pieces, "spans")
            lost = [offset for piece in work.pieces for offset in piece.lost]
            history = PartitionFeed(partition, part, job.names, told, lost, before.folds)
            for problems in history.read(work.events, job.groups):
                spools["problems"].write(partition, problems)
        for tables in in_order(work.pieces):
            fold.add(tables["records"], tables["minutes"])
            if history:
                history.add(tables)
        after = fold.finish()
        if history and job.output:
            with job.output.open_part(partition) as under_way:
                folds = history.finish(under_way)
                _write_minutes(under_way, after.tables["minutes"], lags)
            after = FoldState(folds, after.tables)
    made = {name: found for name, spool in spools.items() for found in spool.passed().values()}
    if job.output and job.output.goes_on:
        printed = {name: passed.read() for name, passed in made.items()}
        FoldState(after.folds, {**printed, **after.tables}).write(job.output.state(partition))
    return Folded(partition, made, history.ends if history else Ends())


def in_order(pieces: Sequence[ChunkPiece]) -> Iterator[dict[str, pa.Table]]:
    """Yield tables of KINDS, with records by log offset. Pieces with overlapping offsets, as in a
    copy taken in the middle of a compaction, are merged.
    """
    together: list[ChunkPiece] = []
    for piece in pieces:
        if together and piece.first > max(each.last for each in together):
            yield _read(together)
            together = []
        together.append(piece)
    if together:
        yield _read(together)


def _read(pieces: Sequence[ChunkPiece]) -> dict[str, pa.Table]:
    found = {kind: read_all(_of_kind(pieces, kind), schema) for kind, schema in KINDS.items()}
    return found | {"records": found["records"].sort_by("offset")}


def _of_kind(pieces: Sequence[ChunkPiece], kind: str) -> list[Passed]:
    return [piece.passed[kind] for piece in pieces if kind in piece.passed]


class _Fold:
    """The state of one log partition. Its size is bounded by groups and keys, not by records."""

    def __init__(
        self,
        partition: int,
        names: Mapping[bytes, str],
        spools: Spools,
        part: PartWriter | None,
        before: FoldState,
        lags: Lags,
    ) -> None:
        self._partition = partition
        self._spools = spools
        self._part = part
        self._lags = lags
        self._groups = GroupTable(partition, names)
        self._newest = Newest()
        self._minutes = Minutes()
        self._transactions = Transactions()
        self._go_on(before.tables)

    def _go_on(self, before: OutputTables) -> None:
        for name in set(_ADDED) & before.keys():
            self._write(name, before[name])
        if "newest" in before:
            self._newest.add(before["newest"])
            self._minutes.merge(before["minutes"])
            self._transactions.pending = before["pending"]
            self._groups.restore(before["last_records"].to_pylist())

    def add(self, records: pa.Table, minutes: pa.Table) -> None:
        """Add the next piece."""
        problem = records.column("problem").is_valid()
        self._write("problems", records.filter(problem).select(PROBLEMS.names))
        records = records.filter(pc.invert(problem))
        is_commit, decides = kinds_of(records)
        self._newest.add(records.filter(pa.array(is_commit & ~decides)))
        if decides.any() or len(self._transactions.pending):
            decided, aborted, _ = self._transactions.decide(records.filter(pa.array(decides)))
            self._newest.add(decided)
            self._newest.add(aborted)
            if self._part:
                self._part.write("commits", commit_rows(decided))
                self._minutes.add(decided)
        self._add_others(records.filter(pa.array(~is_commit & ~decides)))
        self._minutes.merge(minutes)
        self._write_minutes(latest_minute(minutes) - LATE_MS)

    def _add_others(self, records: pa.Table) -> None:
        """Add records of groups, and of unknown types with a group. A group may have configs
        without existing: such records say nothing of it.
        """
        says = pc.not_equal(records.column("key_type"), GROUP_CONFIGS_TYPE)
        named = records.filter(pc.and_(records.column("group").is_valid(), says)).select(_RECORD)
        rows = (row for few in slices(named, _ROWS) for row in few.to_pylist())
        generations = self._groups.add(rows)
        while few := [*islice(generations, _ROWS)]:
            self._write_rows("generations", few)

    def finish(self) -> FoldState:
        """Write the tables at the end of the log. Returns the state for the next run."""
        newest = self._newest.take()
        committed = newest.filter(pc.invert(newest.column("tombstone")))
        self._write("offsets", _offset_rows(committed))
        last = pa.Table.from_pylist(self._groups.state(), schema=LAST_RECORDS)
        self._write_rows("problems", self._groups.problems)
        self._groups.problems = []
        known = pa.concat_tables([newest, traces(self._transactions.pending)])
        groups, members = self._groups.finish(_by_group(known))
        self._write_rows("groups", groups)
        self._write_rows("members", members)
        self._write_rows("unsolved", self._groups.problems)
        kept = {
            "newest": newest,
            "pending": self._transactions.pending,
            "minutes": self._minutes.take(),
            "last_records": last,
        }
        return FoldState(tables=kept)

    def _write(self, name: str, rows: pa.Table) -> None:
        self._spools[name].write(self._partition, rows)

    def _write_rows(self, name: str, rows: list[_Row]) -> None:
        for start in range(0, len(rows), _ROWS):
            few = rows[start : start + _ROWS]
            self._write(name, pa.Table.from_pylist(few, schema=SCHEMAS[name]))

    def _write_minutes(self, before: int) -> None:
        if self._part:
            _write_minutes(self._part, self._minutes.take_before(before), self._lags)


def _write_minutes(part: PartWriter, minutes: pa.Table, lags: Lags) -> None:
    part.write("commit_minutes", minutes)
    part.write("lag", lags.of(minutes))


def _offset_rows(commits: pa.Table) -> pa.Table:
    times = commits.column("commit_timestamp_ms")
    known = pc.and_(pc.greater_equal(times, 0), pc.less_equal(times, LAST_MS))
    instants = pc.if_else(known, times, None).cast(TIME)
    columns = [
        instants if name == "commit_time" else commits.column(name) for name in OFFSETS.names
    ]
    return pa.Table.from_arrays(columns, schema=OFFSETS)


def _by_group(commits: pa.Table) -> dict[str, _Row]:
    """Return the argument of GroupTable.finish; tombstones date groups without commits."""
    is_dead = commits.column("tombstone")
    said, written = commits.column("commit_timestamp_ms"), commits.column("timestamp_ms")
    columns = {
        "group": commits.column("group"),
        "last": commits.column("offset"),
        "offsets": pc.invert(is_dead).cast(pa.int64()),
        "last_commit": said,
        "deleted": pc.if_else(is_dead, written, None),
    }
    sums = pa.table(columns).group_by("group")
    found = sums.aggregate(
        [("offsets", "sum"), *((name, "max") for name in ("last", "last_commit", "deleted"))]
    )
    return {
        row["group"]: {
            "offsets": row["offsets_sum"],
            "last": row["last_max"],
            "last_commit": row["last_commit_max" if row["offsets_sum"] else "deleted_max"],
        }
        for row in found.to_pylist()
    }
