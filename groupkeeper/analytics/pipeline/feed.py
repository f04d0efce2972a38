"""Feeds the fold of `groupkeeper.history` with one partition, and writes its rows.

Converts parser columns of `__consumer_offsets` into the input of a `PartitionHistory`:

    records = group_records(table)      a `GroupRecord` for each record other than commits
    found = commit_runs(table)          commits of a partition between two records of its group
    told = spans_of(table)              which leader wrote which offsets, and gaps between them
    for each in in_order(records, runs(found), spans(told)):
        fold.add(each)

The first three functions take a table or batch with rows of one log partition in offset order, from
any number of whole record batches. Pieces of a log are passed one after the other.

Most records are commits, and inference needs little of them: the last ones before a record of their
group, and how regular they were. So runs are cut only at records of their group, at another leader
epoch and at the end of a piece; the fold joins runs that belong together.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from operator import itemgetter
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from groupkeeper.analytics.pipeline.output import (
    PROBLEMS,
    Ends,
    PartWriter,
    Passed,
    read_all,
    slices,
    table_of,
)
from groupkeeper.analytics.reading import parse_split
from groupkeeper.analytics.reading.columns import (
    EVENT_COLUMNS,
    GROUP_KEY_TYPE,
    OFFSET_KEY_TYPES,
    SCHEMA,
)
from groupkeeper.analytics.reading.plan import Split
from groupkeeper.analytics.reading.problems import Problem, is_damage
from groupkeeper.history.coverage import OFFSETS_LOG, Coverage, Span, known_of
from groupkeeper.history.partition import Fed, PartitionHistory
from groupkeeper.history.records import CommitRun, GroupRecord
from groupkeeper.history.rows import LOG, Rows, Told
from groupkeeper.history.state import restore
from groupkeeper.protocol.group_event_types import TYPES
from groupkeeper.protocol.group_events import INFERRED, TOPIC, Event, decode
from groupkeeper.why.texts import count

COLUMNS: Final = (
    *("batch_position", "offset", "timestamp_ms", "leader_epoch", "key_type", "group", "topic"),
    *("topic_partition", "tombstone", "key", "value", "problem"),
)
"""Parser columns used here."""
_OF_COMMITS: Final = COLUMNS[COLUMNS.index("offset") : COLUMNS.index("key")]
_TABLE: Final = 1 << 22
"""Codes below this number are renumbered with a lookup table."""
_TYPES: Final = {int: pa.int64(), int | None: pa.int64(), str: pa.string()}


def _fields_of(row: type[CommitRun | Span]) -> pa.Schema:
    """Return the fields as columns, in which stages pass rows on."""
    return pa.schema([(name, _TYPES[kind]) for name, kind in row.__annotations__.items()])


RUNS: Final = _fields_of(CommitRun)
SPANS: Final = _fields_of(Span)
_ROWS: Final = 20_000
"""Maximum number of rows that are Python objects at a time."""

_Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


def group_records(table: pa.Table | pa.RecordBatch) -> list[GroupRecord]:
    """Return the readable records about groups."""
    wanted = pc.and_(
        pc.greater_equal(table["key_type"], GROUP_KEY_TYPE),
        pc.and_(pc.is_null(table["problem"]), pc.is_valid(table["group"])),
    )
    found = table.filter(wanted)
    columns = ("offset", "timestamp_ms", "leader_epoch", "batch_position", "key_type")
    names = (*columns, "group", "key", "value")
    return list(
        map(GroupRecord._make, zip(*(found[name].to_pylist() for name in names), strict=True))
    )


def commit_runs(table: pa.Table | pa.RecordBatch) -> pa.Table:
    """Return commits as RUNS, by first offset. Includes transactional commits, even aborted ones:
    they show that the client was alive.
    """
    types = pa.array([*OFFSET_KEY_TYPES, GROUP_KEY_TYPE], pa.int16())
    found = table.select(_OF_COMMITS).filter(
        pc.and_(pc.is_in(table["key_type"], value_set=types), pc.is_null(table["problem"]))
    )
    is_commit = _numbers(found["key_type"]) < GROUP_KEY_TYPE
    groups = _codes(found["group"])
    # Number of earlier records of the same group: rows are in the order of offsets.
    by_group = _order(groups)
    cuts = np.empty(len(groups), np.int64)
    cuts[by_group] = np.cumsum(~is_commit[by_group])
    keep = is_commit & ~_numbers(found["tombstone"]).astype(bool)
    if not keep.any():
        return RUNS.empty_table()
    rows = found.filter(pa.array(keep))
    places = _places(groups[keep], rows)
    order = _order(places)
    places, cut = places[order], cuts[keep][order]
    epochs = _numbers(pc.fill_null(rows["leader_epoch"], -1)).astype(np.int64)[order]
    is_other = (np.diff(places) != 0) | (np.diff(cut) != 0) | (np.diff(epochs) != 0)
    starts = np.flatnonzero(np.r_[True, is_other])
    ends = np.r_[starts[1:], len(order)] - 1
    offsets = _numbers(rows["offset"])[order]
    times = _numbers(rows["timestamp_ms"])[order]
    gaps = np.diff(times, prepend=times[:1])
    gaps[starts] = 0
    by_offset = np.argsort(offsets[starts], kind="stable")
    first = rows.take(pa.array(order[starts][by_offset]))
    numbers = (
        *(offsets[starts], offsets[ends]),
        *(np.minimum.reduceat(times, starts), np.maximum.reduceat(times, starts)),
        *(ends - starts + 1, np.maximum(np.maximum.reduceat(gaps, starts), 0), epochs[starts]),
    )
    low, high, *more = (pa.array(each[by_offset]) for each in numbers)
    columns = [
        low,
        high,
        first["group"],
        first["topic"],
        first["topic_partition"].cast(pa.int64()),
        *more,
    ]
    return pa.table(columns, schema=RUNS)


def _places(groups: _Numbers, rows: pa.Table) -> _Numbers:
    """Return a number for each group, topic and partition."""
    topics = _codes(rows["topic"])
    partitions = _numbers(rows["topic_partition"]).astype(np.int64)
    partitions -= partitions.min()  # a commit may name any 32 bits
    pairs = _dense(groups * (topics.max() + 1) + topics)
    return _dense(pairs * (partitions.max() + 1) + partitions)


def _dense(codes: _Numbers) -> _Numbers:
    """Renumber codes from 0 on."""
    if codes.max() >= _TABLE:
        return np.unique(codes, return_inverse=True)[1].astype(np.int64)
    is_there = np.zeros(codes.max() + 1, bool)
    is_there[codes] = True
    numbers: _Numbers = (np.cumsum(is_there) - 1)[codes]
    return numbers


def _order(codes: _Numbers) -> _Numbers:
    """Return a stable sort order of codes. numpy sorts two-byte integers ten times as fast."""
    narrow = codes.astype(np.uint16) if codes.max(initial=0) < 2**16 else codes
    return np.argsort(narrow, kind="stable")


def spans_of(table: pa.Table | pa.RecordBatch) -> pa.Table:
    """Return runs of records of one leader epoch, as SPANS. A batch emptied by compaction has no
    records, so its offsets count as missing.
    """
    found = table.filter(pc.is_valid(table["offset"]))
    offsets = _numbers(found["offset"])
    if not len(offsets):
        return SPANS.empty_table()
    epochs = _numbers(pc.fill_null(found["leader_epoch"], -1)).astype(np.int64)
    times = _numbers(found["timestamp_ms"])
    starts = np.flatnonzero(np.r_[True, np.diff(epochs) != 0])
    ends = np.r_[starts[1:], len(offsets)] - 1
    # The index of the first record after the last hole before each record, or 0.
    behind = np.arange(len(offsets)) * np.r_[False, np.diff(offsets) != 1]
    whole_from = np.maximum(np.maximum.accumulate(behind)[ends], starts)
    leaders = epochs[starts]
    columns = (
        *(offsets[starts], offsets[ends], offsets[whole_from], times[whole_from]),
        pa.array(leaders, mask=leaders < 0),
        *(times[starts], times[ends], ends - starts + 1),
    )
    return pa.table([*map(pa.array, columns)], schema=SPANS)


def runs(rows: pa.Table) -> Iterator[CommitRun]:
    """Yield rows of RUNS as CommitRun, by first offset."""
    return map(CommitRun._make, _by_offset(rows))


def spans(rows: pa.Table) -> Iterator[Span]:
    """Yield rows of SPANS as Span, by first offset."""
    return map(Span._make, _by_offset(rows))


def _by_offset(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    for few in slices(rows.sort_by("first_offset"), _ROWS):
        yield from zip(*(each.to_pylist() for each in few.columns), strict=True)


def in_order(*feeds: Iterable[Fed]) -> Iterator[Fed]:
    """Merge inputs by their first log offset; each of `feeds` is already in order."""
    return merge(*feeds, key=itemgetter(0))


def _numbers(column: pa.Array | pa.ChunkedArray) -> _Numbers:
    whole = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    numbers: _Numbers = whole.to_numpy()
    return numbers


def _codes(column: pa.Array | pa.ChunkedArray) -> _Numbers:
    """Return a number for each text."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    codes = pc.fill_null(whole.dictionary_encode().indices, -1)
    numbers: _Numbers = codes.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


class Gaps:
    """Losses of records in one split."""

    def __init__(self) -> None:
        self._places: list[_Numbers] = []
        """Positions and first offsets of batches with records."""
        self._damaged: list[int] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Add parser rows in file order; rows about damage may come later."""
        offsets = batch.column("offset")
        records = offsets.is_valid().to_numpy(zero_copy_only=False)
        positions = batch.column("batch_position").fill_null(-1).to_numpy()
        if not records.all():
            texts = batch.column("problem").filter(pa.array(~records)).to_pylist()
            told = zip(texts, positions[~records].tolist(), strict=True)
            self._damaged += [position for text, position in told if _is_lost(text)]
        found = positions[records]
        if len(found):
            starts = np.flatnonzero(np.r_[True, np.diff(found) != 0])
            numbers = offsets.drop_null().to_numpy()
            self._places.append(np.stack((found[starts], numbers[starts])))

    def lost_until(self) -> list[int]:
        """Return the offsets of the first records after each loss."""
        if not self._damaged or not self._places:
            return []
        positions, offsets = np.concatenate(self._places, axis=1)
        at = np.searchsorted(positions, sorted(self._damaged))
        return sorted({int(offsets[each]) for each in at if each < len(offsets)})


def _is_lost(problem: str) -> bool:
    if problem.startswith(Problem.REMOVED.text):
        return True
    return is_damage(problem) and problem != Problem.BAD_EPOCH.text


_HISTORY: Final = "history"
_EVENT_SCHEMA: Final = pa.schema([SCHEMA.field(name) for name in EVENT_COLUMNS])

_OF_EVENTS: Final = ("offset", "timestamp_ms", "group", "value", "problem")

_Row = dict[str, Any]  # of a table
_State = Mapping[str, Any]
"""A JSON object: the state to continue the fold from."""
NEW: Final[_State] = {}


class PartitionFeed:
    """Feeds events, group records and commits of one partition; all events first."""

    def __init__(
        self,
        partition: int,
        part: PartWriter,
        names: Mapping[bytes, str],
        told: Sequence[Passed],
        lost: Sequence[int],
        state: _State = NEW,
    ) -> None:
        """`told` has rows of SPANS, `lost` the first offsets after losses."""
        self._partition = partition
        more = spans(read_all(told, SPANS))
        before = state.get(_HISTORY)
        if before:
            read = restore(Coverage(OFFSETS_LOG, partition), before["records"])
            known = known_of(more, [*before["known"][1], *lost], read)
            self._fold = PartitionHistory.restore(before, known, names, part.left_out)
        else:
            known = known_of(more, lost)
            self._fold = PartitionHistory(partition, known, names, part.left_out)
        self._part = part
        self.ends = Ends()

    def read(self, splits: Sequence[Split], groups: frozenset[str]) -> Iterator[pa.Table]:
        """Fold the events of all splits and write finished rows; yields rows of PROBLEMS, also for
        each type of event that this version does not know. A non-empty `groups` limits the events.
        """
        unknown: dict[str, list[int]] = {}
        for rows in _split_order(splits, self.ends):
            for few in slices(rows, _ROWS):
                problems = [*self._events(few, groups, unknown)]
                yield pa.Table.from_pylist(problems, schema=PROBLEMS)
                _write(self._part, self._fold.take())
        told = [self._unknown(kind, some) for kind, some in sorted(unknown.items())]
        yield pa.Table.from_pylist(told, schema=PROBLEMS)
        for each in self.ends.problems.values():
            each[:] = [_problem(row, row["problem"]) for row in each]

    def _unknown(self, kind: str, offsets: Sequence[int]) -> _Row:
        """Return a row of PROBLEMS for the events of an unknown type."""
        told = f"{count(len(offsets), 'event')} of type {kind}, which this version does not know"
        row = {"partition": self._partition, "offset": offsets[0]}
        return _problem(row, f"{Problem.UNKNOWN_TYPE.text}: {told}")

    def add(self, tables: Mapping[str, pa.Table]) -> None:
        """Add the next piece: tables of `chunks.KINDS`, records by offset."""
        records = (
            record for few in slices(tables["records"], _ROWS) for record in group_records(few)
        )
        for fed in in_order(records, runs(tables["runs"]), spans(tables["spans"])):
            self._fold.add(fed)
        _write(self._part, self._fold.take())

    def finish(self, part: PartWriter) -> _State:
        """Write the unfinished rows at the end of the log. Returns the `state` for a later feed."""
        _write(part, self._fold.open())
        return {_HISTORY: self._fold.state()}

    def _events(
        self, rows: pa.Table, groups: frozenset[str], unknown: dict[str, list[int]]
    ) -> Iterator[_Row]:
        """Fold events; yields rows of PROBLEMS for other records. Offsets of events of unknown type
        go to `unknown`.
        """
        columns = (rows[name].to_pylist() for name in _OF_EVENTS)
        for at, (offset, at_ms, group, value, problem) in enumerate(zip(*columns, strict=True)):
            if offset is None or problem:
                yield _problem(_row(rows, at), problem)
            elif groups and group is not None and group not in groups:
                continue
            else:
                try:
                    event = decode(None, value or b"")
                except ValueError as error:
                    self._fold.skip(offset, at_ms)
                    yield _problem(_row(rows, at), f"{Problem.BAD_VALUE.text}: {error}")
                else:
                    self._fold.add(told_of(offset, event))
                    if event.type not in TYPES:
                        unknown.setdefault(event.type, []).append(offset)


def told_of(offset: int, event: Event) -> Told:
    """Return an event with its source: an observer stores what it infers, and how sure it is."""
    source, confidence = (event.fields.get(name) for name in INFERRED)
    if source != LOG or not isinstance(confidence, int | float):
        return Told(offset, event)
    return Told(offset, event, LOG, float(confidence))


def _write(part: PartWriter, rows: Rows) -> None:
    for name, each in rows.items():
        if each and name not in part.left_out:
            part.write(name, table_of(name, each))


def _row(rows: pa.Table, at: int) -> _Row:
    row: _Row = rows.slice(at, 1).to_pylist()[0]
    return row


def _problem(row: _Row, text: str) -> _Row:
    return {**row, "problem": f"{text}{', ' if ':' in text else ': '}in {TOPIC}"}


def _split_order(splits: Sequence[Split], ends: Ends) -> Iterator[pa.Table]:
    """Yield rows by log offset, after rows about damage. Splits with overlapping offsets, as in a
    copy taken in the middle of a compaction, are merged.
    """
    together: list[Split] = []
    for split in splits:
        if together and split.first >= max(each.until for each in together):
            yield _parsed(together, ends)
            together = []
        together.append(split)
    if together:
        yield _parsed(together, ends)


def _parsed(splits: Sequence[Split], ends: Ends) -> pa.Table:
    parsed = ((split, parse_split(split, EVENT_COLUMNS)) for split in splits)
    batches = [batch for split, each in parsed for batch in ends.watched(split, each)]
    return pa.Table.from_batches(batches, _EVENT_SCHEMA).sort_by("offset")
