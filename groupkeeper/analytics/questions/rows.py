"""The rows of one key of a table: cut to what is known, sorted, with times as numbers.

Both engines build these in the same way, so that a question sees the same rows in the same order.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from groupkeeper.analytics.history.schemas import EVENTS, LOG, TABLES, TIME
from groupkeeper.protocol.group_events import TOPIC

Numbers = npt.NDArray[np.int64]
Key = tuple[object, ...]
# Any: the values of a row have the types of its table.
Row = dict[str, Any]

NONE: Final = np.iinfo(np.int64).min
"""Stands for null in arrays of numbers."""

OFFSETS_LOG: Final = "__consumer_offsets"
EVENTS_LOG: Final = TOPIC
FROM_EVENTS: Final = frozenset({"events", "refusals"})
"""Tables without `source` whose rows are from events; those of all others are from the log."""

ORDER: Final[Mapping[str, tuple[str, ...]]] = {
    "rounds": ("ended", "started", "partition", "offset"),
    "sessions": ("from", "member", "until"),
    "refusals": ("time", "partition", "offset"),
    "epochs": ("first_offset", "epoch", "last_offset"),
}
"""How rows of one key are sorted, where not by the key columns of their table."""
ENDS: Final[Mapping[str, str]] = {
    "ownership": "until",
    "sessions": "until",
    "commit_minutes": "last_time",
}
"""Column that says when a row is over, where it is not `day_of`."""
LAST: Final = frozenset({"ended", "until"})
"""Null in these is later than all times; in others it is earlier."""

Place = tuple[str, int]
"""A log and its partition."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What is known of a partition of a log, in Unix milliseconds; None: not told."""

    known_from: int | None = None
    since: int | None = None
    until: int | None = None


def reaches(coverage: pa.Table | None) -> dict[Place, Reach]:
    """Of each partition in a `coverage` table; nothing if there is none. A log that is whole from
    its first record on has no limit: that record may be written after what it tells.
    """
    if coverage is None:
        return {}
    whole = pc.equal(coverage["known_from_offset"], 0).fill_null(False)
    columns = {
        name: coverage[name].cast(TIME).cast(pa.int64()).to_pylist()
        for name in ("known_from", "from", "until")
    }
    for index, is_whole in enumerate(whole.to_pylist()):
        if is_whole:
            columns["known_from"][index] = None
    times = zip(*columns.values(), strict=True)
    places = zip(coverage["log"].to_pylist(), coverage["partition"].to_pylist(), strict=True)
    return {place: Reach(*some) for place, some in zip(places, times, strict=True)}


class Sorted:
    """Rows of one table, sorted by key columns and ORDER; columns are sorted when they are asked
    for, and kept.
    """

    def __init__(
        self, name: str, table: pa.Table, key: tuple[str, ...], reach: Mapping[Place, Reach]
    ) -> None:
        self.name, self._key = name, key
        self._table = _cut(name, _typed(name, table), reach)
        self._columns: dict[str, pa.Array] = {}
        self._order = _order(self._table, key, _order_of(name))

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def has(self, name: str) -> bool:
        return name in self._table.column_names

    def column(self, name: str) -> pa.Array:
        found = self._columns.get(name)
        if found is None:
            found = self._table[name].combine_chunks()
            if self._order is not None:
                found = found.take(self._order)
            self._columns[name] = found
        return found

    def by_key(self) -> Iterator[tuple[Key, "Rows"]]:
        """Each key with its rows, in the order of keys."""
        if not len(self):
            return
        changes = np.zeros(len(self), dtype=bool)
        changes[0] = True
        for name in self._key:
            codes = _codes(self.column(name))
            changes[1:] |= codes[1:] != codes[:-1]
        starts = np.flatnonzero(changes)
        firsts = pa.array(starts)
        values = [self.column(name).take(firsts).to_pylist() for name in self._key]
        ends = [*starts[1:].tolist(), len(self)]
        for index, (start, end) in enumerate(zip(starts.tolist(), ends, strict=True)):
            yield tuple(each[index] for each in values), Rows(self, start, end - start)


class Rows:
    """Some consecutive rows. Times are integers: Unix milliseconds."""

    def __init__(self, of: Sorted | None, start: int, size: int) -> None:
        self._of, self._start, self._size = of, start, size

    def __len__(self) -> int:
        return self._size

    def has(self, name: str) -> bool:
        return self._of is not None and self._of.has(name)

    def column(self, name: str) -> pa.Array:
        if self._of is None:
            return pa.array([], pa.int64())
        return self._of.column(name).slice(self._start, self._size)

    def values(self, name: str) -> list[object]:
        found: list[object] = self.column(name).to_pylist()
        return found

    def numbers(self, name: str, null: int = NONE) -> Numbers:
        """A column of whole numbers or times; `null` where there is none."""
        found = self.column(name)
        if found.null_count:
            found = found.fill_null(null)
        return np.asarray(found).astype(np.int64, copy=False)

    def codes(self, *names: str) -> tuple[Numbers, list[Key]]:
        """One number for equal values of these columns, from 0, and the values of each number."""
        codes = np.zeros(len(self), dtype=np.int64)
        for name in names:
            values, each = np.unique(_codes(self.column(name)), return_inverse=True)
            codes = codes * len(values) + each
        _, firsts, found = np.unique(codes, return_index=True, return_inverse=True)
        where = pa.array(firsts)
        columns = [self.column(name).take(where).to_pylist() for name in names]
        return found.astype(np.int64), list(zip(*columns, strict=True))

    def dicts(self, *names: str) -> list[Row]:
        """Rows with these columns, for tables that are small."""
        columns = [self.values(name) for name in names]
        return [dict(zip(names, each, strict=True)) for each in zip(*columns, strict=True)]

    def reach(self) -> Reach:
        """What is known of the partitions of the log that these rows are from."""
        if not len(self) or not self.has(_KNOWN):
            return Reach()
        known, since, until = (self.numbers(name) for name in (_KNOWN, _SINCE, _UNTIL))
        return Reach(_none(known.max()), _none(since.max()), _none(until.max()))

    def sure(self) -> Row:
        """`source` and `confidence` of an answer that is made of all of these rows."""
        if not len(self):
            return {}
        if not self.has("source"):
            return {"source": EVENTS if self._of and self._of.name in FROM_EVENTS else LOG}
        is_inferred = pc.any(pc.equal(self.column("source"), LOG)).as_py()
        least = pc.min(self.column("confidence")).as_py()
        return {"source": LOG if is_inferred else EVENTS, "confidence": least}

    def newest(self) -> int | None:
        """The latest of the times in these rows that all questions get."""
        if self._of is None:
            return None
        types = {each.name: each.type for each in TABLES[self._of.name].columns}
        always = columns_of(self._of.name, ())
        known = [self.numbers(name).max() for name in always if types[name] == TIME]
        return _none(max(known)) if known else None


NOTHING: Final = Rows(None, 0, 0)
_KNOWN, _SINCE, _UNTIL = "_known_from", "_since", "_until"


def _none(value: np.int64) -> int | None:
    return None if value == NONE else int(value)


def columns_of(name: str, columns: Iterable[str]) -> tuple[str, ...]:
    """Those of a table, and what it is sorted and cut by: each question gets them."""
    has = {each.name for each in TABLES[name].columns}
    table = TABLES[name]
    always = [*_order_of(name), table.day_of, ENDS.get(name, table.day_of)]
    always += [each for each in ("partition", "source", "confidence") if each in has]
    return tuple(dict.fromkeys((*columns, *always)))


def _order_of(name: str) -> tuple[str, ...]:
    return ORDER.get(name) or TABLES[name].key


def _typed(name: str, table: pa.Table) -> pa.Table:
    """With the types of the schema, as Spark gives others; times as numbers; no other columns."""
    types = {each.name: each.type for each in TABLES[name].columns}
    columns = {}
    for each in filter(types.get, table.column_names):
        found = table[each] if table[each].type == types[each] else table[each].cast(types[each])
        columns[each] = found.cast(pa.int64()) if types[each] == TIME else found
    return pa.table(columns)


def _cut(name: str, table: pa.Table, reach: Mapping[Place, Reach]) -> pa.Table:
    """Without what was over before its partition of the log is known, and owners since a time that
    is not; with the reach beside.
    """
    if name == "ownership":
        table = table.filter(table["from"].is_valid())
    if "partition" not in table.column_names or not reach or "log" in table.column_names:
        return table
    places = _places(name, table, reach)
    found = [reach.get(place, Reach()) for place in places[0]]
    for column, part in ((_KNOWN, "known_from"), (_SINCE, "since"), (_UNTIL, "until")):
        values = [getattr(each, part) for each in found]
        each = np.array([NONE if value is None else value for value in values], dtype=np.int64)
        table = table.append_column(column, pa.array(each[places[1]]))
    known = np.asarray(table[_KNOWN])
    end = ENDS.get(name, TABLES[name].day_of)
    over = np.asarray(table[end].fill_null(np.iinfo(np.int64).max))
    if name == "ownership":  # of one that goes on the part that is known
        begun = pc.max_element_wise(table["from"], pa.array(known))
        table = table.set_column(table.column_names.index("from"), "from", begun)
    return table if bool((over >= known).all()) else table.filter(pa.array(over >= known))


def _places(
    name: str, table: pa.Table, reach: Mapping[Place, Reach]
) -> tuple[list[Place], npt.NDArray[np.int64]]:
    """The partitions of logs that are met, and for each row which of them it is from."""
    partitions = np.asarray(table["partition"].fill_null(-1)).astype(np.int64)
    if "source" in table.column_names:
        is_event = np.asarray(pc.equal(table["source"], EVENTS).fill_null(False)).astype(np.int64)
    else:
        is_event = np.full(len(partitions), int(name in FROM_EVENTS))
    size = max((place[1] for place in reach), default=0) + 2
    logs = (OFFSETS_LOG, EVENTS_LOG)
    places = [(log, partition) for log in logs for partition in range(size)]
    inside = np.where((partitions < 0) | (partitions >= size), size - 1, partitions)
    return places, is_event * size + inside


def _codes(column: pa.Array) -> Numbers:
    """Numbers in the order of the values; null is first."""
    if pa.types.is_integer(column.type):
        if column.null_count:
            column = column.fill_null(NONE if column.type == pa.int64() else -(2**31))
        return np.asarray(column).astype(np.int64, copy=False)
    encoded = pc.dictionary_encode(column, null_encoding="mask")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    ranks = np.empty(len(encoded.dictionary) + 1, dtype=np.int64)
    ranks[np.asarray(pc.sort_indices(encoded.dictionary))] = np.arange(len(encoded.dictionary))
    ranks[-1] = -1
    found: Numbers = ranks[np.asarray(encoded.indices.fill_null(len(encoded.dictionary)))]
    return found


def _order(table: pa.Table, key: tuple[str, ...], order: tuple[str, ...]) -> pa.Array | None:
    """Indices that sort it; None if it is sorted."""
    columns = []
    for name in dict.fromkeys((*key, *order)):
        if name in table.column_names:
            column = table[name].combine_chunks()
            if name in LAST and column.null_count:
                column = column.fill_null(np.iinfo(np.int64).max)
            columns.append(_codes(column))
    if not columns or table.num_rows < 2 or _is_sorted(columns):
        return None
    return pa.array(np.lexsort(columns[::-1]))


def _is_sorted(columns: list[Numbers]) -> bool:
    """Whether rows rise, by the first column in which two neighbours differ."""
    undecided = np.ones(len(columns[0]) - 1, dtype=bool)
    for each in columns:
        if bool((undecided & (each[1:] < each[:-1])).any()):
            return False
        undecided &= each[1:] == each[:-1]
    return True
