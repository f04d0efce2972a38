"""What the pictures are drawn from: columns of the tables as lists of Python, prepared once."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from groupkeeper.analytics.history.schemas import LOG
from groupkeeper.analytics.page.causes import Family, family
from groupkeeper.analytics.page.times import DAY, EARLIEST, HOUR, Span

Tables = Mapping[str, pa.Table]
Row = dict[str, Any]
"""Any: a value of any type of a column; times are milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class Round:
    """A rebalance, as far as it is drawn."""

    at: int
    """Its start, or its end if the start was not read."""
    ms: int
    """How long the group was not stable."""
    family: Family


@dataclass(slots=True)
class Group:
    """What is known of one group."""

    name: str
    rounds: list[Round] = field(default_factory=list)
    not_stable_ms: int = 0
    unowned_ms: int = 0
    longest_ms: int = 0
    moved: int = 0
    members: int | None = None
    """Of its last rebalance."""
    families: Counter[Family] = field(default_factory=Counter)
    by_family_ms: Counter[Family] = field(default_factory=Counter)
    is_inferred: bool = False
    """Nothing of it is from events."""
    is_timed: bool = False
    """It is known how long a rebalance took: no plain log tells that."""

    @property
    def not_stable(self) -> int | None:
        """`not_stable_ms`, if it is known."""
        return self.not_stable_ms if self.is_timed else None

    @property
    def usual(self) -> tuple[Family, int] | None:
        """The cause of most of its rebalances, and of how many."""
        return max(self.families.items(), key=lambda each: each[1], default=None)

    @property
    def badness(self) -> tuple[int, int, int]:
        return self.not_stable_ms, self.unowned_ms, len(self.rounds)


class Data:
    """All tables, and what pictures have in common. A time that is far off would press all others
    together: one before Kafka, or a day after `made`, is wrong and cannot be drawn.
    """

    def __init__(self, tables: Tables, made: datetime) -> None:
        self.tables = tables
        self._latest = int(made.timestamp() * 1000) + DAY

    def has(self, name: str) -> bool:
        return name in self.tables and self.tables[name].num_rows > 0

    def rows(
        self, name: str, columns: Sequence[str], groups: Iterable[str] | None = None
    ) -> list[Row]:
        """Rows of a table, or those of some groups; a column that it has not is None."""
        if not self.has(name):
            return []
        table = self.tables[name]
        if groups is not None:
            table = table.filter(
                pc.is_in(table["group"], value_set=pa.array([*groups], pa.string()))
            )
        lists = [_list(table, each) for each in columns]
        return [dict(zip(columns, values, strict=True)) for values in zip(*lists, strict=True)]

    @cached_property
    def groups(self) -> list[Group]:
        """All groups of rounds, those first that were not stable for the longest."""
        found: dict[str, Group] = {}
        for row in self.rows("rounds", _ROUND_COLUMNS):
            at = next(filter(self._is_usable, (row["started"], row["ended"])), None)
            if row["group"] is None or at is None:
                continue
            group = found.get(row["group"])
            if group is None:
                group = found[row["group"]] = Group(row["group"], is_inferred=True)
            _add(group, row, at)
        for each in found.values():
            each.rounds.sort(key=lambda round_: round_.at)
        return sorted(
            found.values(), key=lambda each: (*(-each for each in each.badness), each.name)
        )

    @property
    def has_times(self) -> bool:
        """A time was read that can be drawn."""
        return bool(self._times)

    @cached_property
    def _times(self) -> list[int]:
        return [
            at
            for name in ("coverage", "rounds", "snapshots", "commit_minutes", "events")
            for at in self._ends(name)
        ]

    @cached_property
    def span(self) -> Span:
        """From the first to the last time that was read."""
        times = self._times
        if not times:
            return Span(0, HOUR)
        return Span(min(times), max(*times, min(times) + 1_000))

    def _ends(self, name: str) -> list[int]:
        if not self.has(name):
            return []
        table = self.tables[name]
        columns = [each for each in _TIMES[name] if each in table.column_names]
        ends = []
        for each in columns:
            times = milliseconds(table[each])
            is_known = pc.and_(pc.greater_equal(times, EARLIEST), pc.less(times, self._latest))
            ends += pc.min_max(times.filter(is_known)).values()
        return [at.as_py() for at in ends if at.as_py() is not None]

    def _is_usable(self, at: int | None) -> bool:
        return at is not None and EARLIEST <= at < self._latest

    @cached_property
    def left_out(self) -> int:
        """Rebalances without a group or a time that can be drawn."""
        return int(self.tables["rounds"].num_rows) - sum(len(each.rounds) for each in self.groups)

    @property
    def is_inferred(self) -> bool:
        """No rebalance was read from events."""
        return bool(self.groups) and all(each.is_inferred for each in self.groups)


_ROUND_COLUMNS: Final = (
    *("group", "started", "ended", "duration_ms", "cause", "likely", "members", "moved"),
    *("unowned_ms", "source"),
)
_TIMES: Final = {
    "coverage": ("from", "until"),
    "rounds": ("started", "ended"),
    "snapshots": ("time",),
    "commit_minutes": ("minute",),
    "events": ("time",),
}


def _list(table: pa.Table, name: str) -> list[Any]:
    if name not in table.column_names:
        return [None] * table.num_rows
    column = table[name]
    if pa.types.is_timestamp(column.type):
        column = milliseconds(column)
    return list(column.to_pylist())


def milliseconds(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times as numbers: those of Python have a range that ends before that of a log's."""
    kind = pa.timestamp("ms", tz=column.type.tz)
    return column.cast(kind, safe=False).cast(pa.int64())


def _add(group: Group, row: Row, at: int) -> None:
    kind = family(row["cause"], row["likely"])
    ms = max(row["duration_ms"] or 0, 0)
    group.rounds.append(Round(at, ms, kind))
    group.is_timed = group.is_timed or row["duration_ms"] is not None
    group.not_stable_ms += ms
    group.unowned_ms += row["unowned_ms"] or 0
    group.longest_ms = max(group.longest_ms, ms)
    group.moved += row["moved"] or 0
    group.families[kind] += 1
    group.by_family_ms[kind] += ms
    group.members = row["members"] if row["members"] is not None else group.members
    group.is_inferred = group.is_inferred and row["source"] == LOG
