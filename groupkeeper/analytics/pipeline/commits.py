"""Aggregates commits: the newest of each group, topic and partition, and statistics per minute.

Rows are those of `groupkeeper.analytics.reading.parse` without problems; transactional commits only
if committed.

A transactional commit counts if its producer's next marker is a commit marker, which may be in a
later piece of the log. Source: KIP-98, Kafka's `OffsetMetadataManager.replayEndTransactionMarker`.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from groupkeeper.analytics.reading.columns import CONTROL, SCHEMA, TRANSACTIONAL
from groupkeeper.analytics.schemas import TABLES
from groupkeeper.history.fields import LAST_MS

MINUTES: Final = TABLES["commit_minutes"].schema
MOST_KEYS: Final = 200_000
"""Maximum number of held keys; beyond it commits are passed on, with fewer duplicates removed."""
MOST_MINUTES: Final = 500_000
"""Maximum number of held rows of `commit_minutes`."""

_KEY: Final = ("group", "topic", "topic_partition")
_MINUTE_MS: Final = 60_000
_COMMITTED: Final = pa.schema(
    [
        *(SCHEMA.field(name) for name in _KEY),
        ("time", pa.int64()),
        ("partition", pa.int32()),
        ("committed_offset", pa.int64()),
    ]
)

_Numbers = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]


def key_codes(table: pa.Table) -> _Numbers:
    """Return a number for each row, equal for equal group, topic and partition."""
    codes = np.zeros(len(table), np.int64)
    for name in _KEY:
        column = table.column(name).combine_chunks().dictionary_encode()
        # With up to 2**20 rows, the product of three such numbers fits into an int64.
        codes = codes * (len(column.dictionary) + 1) + _numbers(column.indices, -1) + 1
    return codes


def _numbers(column: pa.Array | pa.ChunkedArray, missing: int) -> _Numbers:
    values = column.fill_null(missing).to_numpy()
    return np.asarray(values, np.int64)


def _by_key(codes: _Numbers, numbers: _Numbers) -> _Numbers:
    """Return the order by key and, within keys, by these numbers, which are nearly sorted."""
    order = np.argsort(numbers, kind="stable")
    codes = codes[order]
    # numpy sorts two bytes ten times as fast as eight.
    narrow = codes.astype(np.uint16) if codes.max(initial=0) < 2**16 else codes
    return order[np.argsort(narrow, kind="stable")]


def _starts(changes: _Mask) -> _Numbers:
    """Return where runs begin: at the first row, and after each change."""
    return np.concatenate(([0], np.flatnonzero(changes) + 1)).astype(np.int64)


def newest(commits: pa.Table) -> pa.Table:
    """Return the commit with the highest log offset of each key, tombstones included."""
    if not len(commits):
        return commits
    codes = key_codes(commits)
    order = _by_key(codes, _numbers(commits.column("offset"), -1))
    sorted_codes = codes[order]
    last = np.append(sorted_codes[1:] != sorted_codes[:-1], True)
    return commits.take(pa.array(np.sort(order[last])))


class Newest:
    """The newest commits of a run of a log."""

    def __init__(self) -> None:
        self._parts: list[pa.Table] = []
        self._rows = 0
        self._keys = 0

    def add(self, commits: pa.Table) -> None:
        if not len(commits):
            return
        self._parts.append(newest(commits))
        self._rows += len(self._parts[-1])
        if self._rows > 2 * max(MOST_KEYS, self._keys):
            self._parts = [self.take()]
            self._rows = self._keys = len(self._parts[0])

    @property
    def is_full(self) -> bool:
        """Whether there are more than MOST_KEYS keys."""
        return self._keys > MOST_KEYS

    def take(self) -> pa.Table:
        """Remove and return the held commits."""
        parts = self._parts
        self._parts, self._rows, self._keys = [], 0, 0
        return newest(pa.concat_tables(parts)) if parts else SCHEMA.empty_table()


def times_of(commits: pa.Table) -> _Numbers:
    """Return the commit times in epoch ms: from the value if set, else from the record."""
    said = _numbers(commits.column("commit_timestamp_ms"), -1)
    return np.where(said >= 0, said, _numbers(commits.column("timestamp_ms"), -1))


class Minutes:
    """Rows of `commit_minutes` of one log partition, from commits in log order.

    Rows of the same key and minute are joined as if one followed the other. If a transaction was
    decided among other commits for the key, the longest gap may be too long.
    """

    def __init__(self) -> None:
        self._parts: list[pa.Table] = []
        self._rows = 0

    def add(self, commits: pa.Table) -> None:
        """Add commits; tombstones and commits without a time do not count."""
        times = times_of(commits)
        tombstones = commits.column("tombstone").to_numpy()
        counts = ~tombstones & (times >= 0) & (times <= LAST_MS)
        commits = commits.append_column("time", pa.array(times)).select(_COMMITTED.names)
        if not counts.all():
            commits = commits.filter(pa.array(counts))
        if len(commits):
            self._keep(_by_minute(commits))

    def merge(self, rows: pa.Table) -> None:
        """Add rows of an adjacent piece."""
        self._keep(rows)

    def _keep(self, rows: pa.Table) -> None:
        self._parts.append(rows)
        self._rows += len(rows)

    @property
    def is_full(self) -> bool:
        return self._rows > MOST_MINUTES

    def take(self) -> pa.Table:
        """Remove and return all rows, one per key and minute."""
        merged = _merged(pa.concat_tables(self._parts)) if self._parts else MINUTES.empty_table()
        self._parts, self._rows = [], 0
        return merged

    def take_before(self, minute: int) -> pa.Table:
        """Remove and return the rows of minutes before `minute` (epoch milliseconds)."""
        rows = self.take()
        old = _milliseconds(rows, "minute") < minute
        self._keep(rows.filter(pa.array(~old)))
        return rows.filter(pa.array(old))


def latest_minute(rows: pa.Table) -> int:
    """Return the latest minute in epoch milliseconds; 0 without rows."""
    return int(_milliseconds(rows, "minute").max(initial=0))


def _by_minute(commits: pa.Table) -> pa.Table:
    times = _numbers(commits.column("time"), -1)
    codes = key_codes(commits)
    order = _by_key(codes, times)
    times, codes = times[order], codes[order]
    minutes = times // _MINUTE_MS
    starts = _starts((codes[1:] != codes[:-1]) | (minutes[1:] != minutes[:-1]))
    ends = np.append(starts[1:], len(order)) - 1
    gaps = np.diff(times, prepend=times[0])
    gaps[starts] = -1
    offsets = _numbers(commits.column("committed_offset"), -1)[order]
    return _rows_of(
        commits,
        order[starts],
        {
            "minute": minutes[starts] * _MINUTE_MS,
            "commits": np.diff(starts, append=len(order)),
            "first_offset": offsets[starts],
            "last_offset": offsets[ends],
            "first_time": times[starts],
            "last_time": times[ends],
            "longest_gap_ms": np.maximum.reduceat(gaps, starts),
        },
    )


def _merged(rows: pa.Table) -> pa.Table:
    """Merge rows of one key and minute."""
    if not len(rows):
        return rows
    firsts, minutes = _milliseconds(rows, "first_time"), _milliseconds(rows, "minute")
    codes = key_codes(rows)
    order = _by_key(codes, firsts)
    codes, minutes, firsts = codes[order], minutes[order], firsts[order]
    starts = _starts((codes[1:] != codes[:-1]) | (minutes[1:] != minutes[:-1]))
    if len(starts) == len(rows):
        return rows.take(pa.array(order))
    ends = np.append(starts[1:], len(order)) - 1
    lasts = _milliseconds(rows, "last_time")[order]
    between = firsts - np.concatenate((firsts[:1], lasts[:-1]))
    between[starts] = -1
    gaps = np.maximum(_numbers(rows.column("longest_gap_ms"), -1)[order], between)
    return _rows_of(
        rows,
        order[starts],
        {
            "minute": minutes[starts],
            "commits": np.add.reduceat(_numbers(rows.column("commits"), 0)[order], starts),
            "first_offset": _numbers(rows.column("first_offset"), 0)[order][starts],
            "last_offset": _numbers(rows.column("last_offset"), 0)[order][ends],
            "first_time": firsts[starts],
            "last_time": np.maximum.reduceat(lasts, starts),
            "longest_gap_ms": np.maximum.reduceat(gaps, starts),
        },
    )


def _milliseconds(rows: pa.Table, name: str) -> _Numbers:
    return _numbers(rows.column(name).cast(pa.int64()), -1)


def _rows_of(table: pa.Table, places: _Numbers, numbers: dict[str, _Numbers]) -> pa.Table:
    """Rows of MINUTES: key and log partition from rows at `places`, and columns `numbers`."""
    keys = table.select([*_KEY, "partition"]).take(pa.array(places))
    columns = {name: keys.column(name) for name in keys.column_names}
    columns |= {name: pa.array(values) for name, values in numbers.items()}
    gaps = numbers["longest_gap_ms"]
    columns["longest_gap_ms"] = pa.array(gaps, mask=gaps < 0)
    made = [columns[field.name].cast(field.type) for field in MINUTES]
    return pa.Table.from_arrays(made, schema=MINUTES)


def commit_rows(commits: pa.Table) -> pa.Table:
    """Return rows of the table `commits`."""
    times = times_of(commits)
    schema = TABLES["commits"].schema
    columns = {name: commits.column(name) for name in schema.names if name in SCHEMA.names}
    columns["time"] = pa.array(times, mask=(times < 0) | (times > LAST_MS))
    columns["leader_epoch"] = commits.column("commit_leader_epoch")
    made = [columns[field.name].cast(field.type) for field in schema]
    return pa.Table.from_arrays(made, schema=schema)


MOST_PENDING: Final = 200_000
"""Maximum number of commits that wait for their marker; beyond it a later stage decides them."""
COMMIT_MARKER: Final = b"\0\0\0\1"


@dataclass(slots=True)
class Transactions:
    """The transactions of adjacent records of one log partition."""

    pending: pa.Table = field(default_factory=SCHEMA.empty_table)
    """Commits of transactions without a marker so far."""
    ended: set[int] = field(default_factory=set)
    """Producers with a marker in this run: their later markers decide nothing in earlier runs."""

    def decide(self, more: pa.Table) -> tuple[pa.Table, pa.Table, pa.Table]:
        """Add commits and markers in log order. Returns the commits of committed transactions, as
        plain commits; `traces` of aborted ones; and markers that may decide commits of earlier
        runs.

        The next marker of its producer decides a commit.
        """
        table = pa.concat_tables([self.pending, more]).combine_chunks()
        producers = table.column("producer_id").to_numpy()
        is_marker = table.column("attributes").to_numpy() & CONTROL != 0
        commits = pc.equal(table.column("key"), COMMIT_MARKER).fill_null(False).to_numpy()
        order = np.argsort(producers, kind="stable")
        count = len(order)
        places = np.where(is_marker[order], np.arange(count), count)
        following = np.minimum.accumulate(places[::-1])[::-1]
        # Rows after the last marker point to themselves, and are not markers.
        at = np.where(following < count, following, np.arange(count))
        next_marker = np.empty(count, np.int64)
        next_marker[order] = order[at]
        is_decided = is_marker[next_marker] & (producers[next_marker] == producers)
        committed = is_decided & commits[next_marker] & ~is_marker
        aborted = is_decided & ~commits[next_marker] & ~is_marker
        self.pending = table.filter(pa.array(~is_decided))
        first = table.filter(pa.array(self._are_first(producers, is_marker)))
        left = traces(table.filter(pa.array(aborted)))
        return _plain(table.filter(pa.array(committed))), left, first

    def hand_out(self) -> pa.Table:
        """Remove and return the undecided commits. Later records are a new run."""
        waiting = self.pending
        self.pending = SCHEMA.empty_table()
        self.ended.clear()
        return waiting

    def _are_first(self, producers: _Numbers, is_marker: _Mask) -> _Mask:
        """Return which rows are the first marker of their producer in this run."""
        first = np.zeros(len(producers), np.bool_)
        places = np.flatnonzero(is_marker)
        found, at = np.unique(producers[places], return_index=True)
        for producer, place in zip(found.tolist(), places[at].tolist(), strict=True):
            if producer not in self.ended:
                self.ended.add(producer)
                first[place] = True
        return first


def traces(commits: pa.Table) -> pa.Table:
    """Return tombstones without a topic, which keep groups known that have no other commit: in a
    coordinator, an aborted commit creates its group, too.
    """
    values = {"topic": None, "topic_partition": None, "tombstone": True}
    for at, field_ in enumerate(SCHEMA):
        if field_.name in values:
            column = pa.array([values[field_.name]] * len(commits), field_.type)
            commits = commits.set_column(at, field_, column)
    return _plain(commits)


def _plain(table: pa.Table) -> pa.Table:
    """Return the commits without the transactional attribute."""
    at = SCHEMA.get_field_index("attributes")
    cleared = table.column(at).to_numpy() & ~np.int16(TRANSACTIONAL)
    return table.set_column(at, SCHEMA.field(at), pa.array(cleared, pa.int16()))
