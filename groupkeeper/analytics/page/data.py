"""The tables that a report is made of, and what its parts have in common."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from groupkeeper.analytics.history.schemas import LOG
from groupkeeper.analytics.page.causes import NAMES, families_of
from groupkeeper.analytics.page.times import DAY, EARLIEST, HOUR, Span

Tables = Mapping[str, pa.Table]
Row = dict[str, Any]
"""Any: a value of any type of a column; times are milliseconds since 1970."""
_TIMES: Final = {
    "coverage": ("from", "until"),
    "rounds": ("started", "ended"),
    "snapshots": ("time",),
    "commit_minutes": ("minute",),
    "events": ("time",),
}
_AMOUNTS: Final = ("duration_ms", "unowned_ms", "moved", "members")
_TEXTS: Final = ("group", "cause", "likely", "source")


@dataclass(slots=True)
class Group:
    """The rebalances of one group. Numbers of families are keys of `families` and `family_ms`."""

    name: str
    rounds: int
    not_stable_ms: int | None
    """None if no duration is known: a plain log tells none."""
    longest_ms: int | None
    unowned_ms: int
    moved: int
    members: int | None
    """Of its last rebalance."""
    is_inferred: bool
    """Nothing of it is from events."""
    families: Counter[int] = field(default_factory=Counter)
    family_ms: Counter[int] = field(default_factory=Counter)

    @property
    def usual(self) -> tuple[str, int]:
        """The cause of most of its rebalances, and of how many."""
        [(family, number)] = self.families.most_common(1)
        return NAMES[family], number


class Data:
    """All tables. A time that is far off would press all others together: one before Kafka, or a
    day after `made`, is wrong and cannot be drawn.
    """

    def __init__(self, tables: Tables, made: datetime) -> None:
        self.tables = tables
        self._latest = int(made.timestamp() * 1000) + DAY

    def has(self, name: str) -> bool:
        return name in self.tables and self.tables[name].num_rows > 0

    def columns(self, name: str, wanted: Sequence[str], group: str | None = None) -> pa.Table:
        """Columns of a table, or of the rows of one group; a column that is not there is null."""
        table = self.tables.get(name, pa.table({}))
        if group is not None and table.num_rows:
            table = table.filter(pc.equal(table["group"], group))
        nothing = pa.chunked_array([pa.nulls(table.num_rows)])
        there = table.column_names
        return pa.table({at: milliseconds(table[at]) if at in there else nothing for at in wanted})

    def rows(self, name: str, wanted: Sequence[str] = ()) -> list[Row]:
        """All columns if none are named."""
        there = self.tables[name].column_names if name in self.tables else ()
        found: list[Row] = self.columns(name, wanted or there).to_pylist()
        return found

    def within(self, times: pa.ChunkedArray) -> pa.ChunkedArray:
        """Times that can be drawn; null for others."""
        times = times.cast(pa.int64())
        is_usable = pc.and_(pc.greater_equal(times, EARLIEST), pc.less(times, self._latest))
        return pc.if_else(is_usable, times, pa.scalar(None, pa.int64()))

    @cached_property
    def rounds(self) -> pa.Table:
        """Rebalances with a group and a time, by time: `group`, `at` (the start, or the end if the
        start was not read), `family`, `is_event` and amounts.
        """
        table = self.columns("rounds", ("started", "ended", *_AMOUNTS, *_TEXTS))
        at = pc.coalesce(self.within(table["started"]), self.within(table["ended"]))
        made = {each: table[each].cast(pa.int64()) for each in _AMOUNTS}
        made |= {each: table[each].cast(pa.string()) for each in _TEXTS} | {"at": at}
        made["duration_ms"] = pc.max_element_wise(made["duration_ms"], 0, skip_nulls=False)
        made["family"] = families_of(made.pop("cause"), made.pop("likely"))
        made["is_event"] = pc.not_equal(made.pop("source"), LOG).fill_null(True)
        is_known = pc.and_(pc.is_valid(made["group"]), pc.is_valid(at))
        return pa.table(made).filter(is_known).sort_by("at")

    @cached_property
    def groups(self) -> list[Group]:
        """All groups of rounds, those first that were not stable for the longest."""
        sums = pa.TableGroupBy(self.rounds, "group", use_threads=False).aggregate(
            [
                *(("at", "count"), ("duration_ms", "sum"), ("duration_ms", "max")),
                *(("unowned_ms", "sum"), ("moved", "sum"), ("members", "last")),
                ("is_event", "any"),
            ]
        )
        found = {}
        for name, rounds, ms, longest, unowned, moved, members, is_event in zip(
            *(each.to_pylist() for each in sums.columns), strict=True
        ):
            amounts = rounds, ms, longest, unowned or 0, moved or 0, members
            found[name] = Group(name, *amounts, is_inferred=not is_event)
        by_family = self.rounds.group_by(["group", "family"])
        for row in by_family.aggregate([("at", "count"), ("duration_ms", "sum")]).to_pylist():
            found[row["group"]].families[row["family"]] = row["at_count"]
            found[row["group"]].family_ms[row["family"]] = row["duration_ms_sum"] or 0
        return sorted(
            found.values(),
            key=lambda each: (
                -(each.not_stable_ms or 0),
                -each.unowned_ms,
                -each.rounds,
                each.name,
            ),
        )

    @cached_property
    def span(self) -> Span | None:
        """From the first to the last time that was read; None if no time can be drawn."""
        ends = [
            end
            for name, columns in _TIMES.items()
            for column in self.columns(name, columns).columns
            for end in pc.min_max(self.within(column)).as_py().values()
            if end is not None
        ]
        return Span(min(ends), max(*ends, min(ends) + 1_000)) if ends else None

    @property
    def shown(self) -> Span:
        return self.span or Span(0, HOUR)

    @property
    def left_out(self) -> int:
        """Rebalances without a group or a time that can be drawn."""
        return self.tables["rounds"].num_rows - self.rounds.num_rows if self.has("rounds") else 0

    @property
    def is_inferred(self) -> bool:
        """No rebalance was read from events."""
        return bool(self.groups) and all(each.is_inferred for each in self.groups)


def milliseconds(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times as numbers: those of Python have a range that ends before that of a log's."""
    if not pa.types.is_timestamp(column.type):
        return column
    kind = pa.timestamp("ms", tz=column.type.tz)
    return column.cast(kind, safe=False).cast(pa.int64())
