"""The tables of a report, and functions that several sections use."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from groupkeeper.analytics.page.times import DAY, EARLIEST, HOUR, TimeSpan, share
from groupkeeper.analytics.schemas import LOG
from groupkeeper.protocol.group_event_words import CODES, FAMILIES, LIKELY

NAMES: Final = tuple(f"{letter} {name}" for letter, name in FAMILIES.items())
"""Letter and name of each family of causes. The first has the style `p0`, and so on."""
_LETTERS: Final = "".join(FAMILIES)
_NUMBERS: Final = {
    code: _LETTERS.index(word.family) for code, word in {**CODES, **LIKELY}.items() if word.family
}
PageTables = Mapping[str, pa.Table]
PageRow = dict[str, Any]
"""Any: a value of any column type; times are milliseconds since 1970."""
_TIMES: Final = {
    "coverage": ("from", "until"),
    "rounds": ("started", "ended"),
    "snapshots": ("time",),
    "commit_minutes": ("minute",),
    "events": ("time",),
}
_AMOUNTS: Final = ("duration_ms", "unowned_ms", "moved", "members")
_TEXTS: Final = ("group", "cause", "likely", "source")
_TOTALS: Final = (
    ("at", "count", "rebalances"),
    ("duration_ms", "sum", "not_stable_ms"),
    ("duration_ms", "max", "longest_ms"),
    ("unowned_ms", "sum", "no_owner_ms"),
    ("moved", "sum", "moved"),
    ("members", "last", "members"),
    ("is_event", "any", "is_event"),
)
"""Column of rounds, aggregation, column of groups."""


class Data:
    """All tables. Times before Kafka existed, or more than a day after `made`, are wrong; they are
    not drawn, as they would compress all others.
    """

    def __init__(self, tables: PageTables, made: datetime) -> None:
        self.tables = tables
        self._latest = int(made.timestamp() * 1000) + DAY

    def has(self, name: str) -> bool:
        return name in self.tables and self.tables[name].num_rows > 0

    def columns(self, name: str, wanted: Sequence[str], group: str | None = None) -> pa.Table:
        """Return columns of a table, of one group if given; missing columns are null."""
        table = self.tables.get(name, pa.table({}))
        if group is not None and table.num_rows:
            table = table.filter(pc.equal(table["group"], group))
        nothing = pa.chunked_array([pa.nulls(table.num_rows)])
        there = table.column_names
        return pa.table({at: milliseconds(table[at]) if at in there else nothing for at in wanted})

    def rows(self, name: str, wanted: Sequence[str]) -> list[PageRow]:
        found: list[PageRow] = self.columns(name, wanted).to_pylist()
        return found

    def within(self, times: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return the times, null for those that cannot be drawn."""
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
    def groups(self) -> pa.Table:
        """Totals of all groups with rounds, those not stable for the longest first."""
        rounds, ms = self.rounds, float(self.shown.ms)
        columns, hows, names = zip(*_TOTALS, strict=True)
        by = pa.TableGroupBy(rounds, "group", use_threads=False)
        found = by.aggregate([*zip(columns, hows, strict=True)]).rename_columns(["group", *names])
        places = pc.index_in(rounds["group"], found["group"].combine_chunks()).to_numpy()
        counts = np.zeros((found.num_rows, len(NAMES)), dtype=np.int64)
        np.add.at(counts, (places, rounds["family"].to_numpy()), 1)
        most = counts.argmax(axis=1), counts.max(axis=1), counts.sum(axis=1)
        usual = [f"{NAMES[at]} {share(of, all_)}" for at, of, all_ in zip(*most, strict=True)]
        shares = pc.divide(found["not_stable_ms"].cast(pa.float64()), ms)
        found = found.add_column(3, "share", shares)
        found = found.append_column("usual_cause", pa.array(usual, pa.string()))
        order = ("not_stable_ms", "no_owner_ms", "rebalances")
        return found.sort_by([(each, "descending") for each in order] + [("group", "ascending")])

    @cached_property
    def span(self) -> TimeSpan | None:
        """From the first to the last time that was read; None if no time can be drawn."""
        ends = [
            end
            for name, columns in _TIMES.items()
            for column in self.columns(name, columns).columns
            for end in pc.min_max(self.within(column)).as_py().values()
            if end is not None
        ]
        return TimeSpan(min(ends), max(*ends, min(ends) + 1_000)) if ends else None

    @property
    def shown(self) -> TimeSpan:
        return self.span or TimeSpan(0, HOUR)

    @property
    def left_out(self) -> int:
        """Number of rebalances without a group or a drawable time."""
        return self.tables["rounds"].num_rows - self.rounds.num_rows if self.has("rounds") else 0

    @property
    def is_inferred(self) -> bool:
        """Whether no rebalance was read from events."""
        return len(self.groups) > 0 and not pc.any(self.groups["is_event"]).as_py()


def milliseconds(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times as numbers: Python's datetime has a smaller range than a log."""
    if not pa.types.is_timestamp(column.type):
        return column
    kind = pa.timestamp("ms", tz=column.type.tz)
    return column.cast(kind, safe=False).cast(pa.int64())


def families_of(cause: pa.ChunkedArray, likely: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Return the number of each row's family. A probable reason takes precedence over the code."""
    found = np.full(len(cause), len(NAMES) - 1)
    for column in (cause, likely):
        places = pc.index_in(column.cast(pa.string()), pa.array([*_NUMBERS])).fill_null(-1)
        at = places.to_numpy()
        found = np.where(at < 0, found, np.array([*_NUMBERS.values()])[at])
    return found


def legend(numbers: Iterable[int]) -> list[tuple[str, str]]:
    """Return the legend of these families."""
    return [(f"p{at}", NAMES[at]) for at in sorted({*numbers})]
