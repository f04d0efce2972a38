"""Sums, ranks and runs that several questions need. Nulls are left out; of nothing, None."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from groupkeeper.analytics.history.schemas import INT, LONG, TEXT, Column
from groupkeeper.analytics.questions.rows import Numbers, Row

H = TypeVar("H", bound=Hashable)

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 86_400_000
SPAN_MS: Final = 1 << 41
"""Longer than any log: 69 years. Times of several members are looked at together on one line, as
`member * SPAN_MS + time`."""

EVIDENCE: Final = 20
"""How many log offsets a row names at most; the first ones."""
GROUP: Final = Column("group", TEXT, "Group id.")
FOLLOW_UP: Final = "member_rejoined"
"""Cause of the second rebalance of a cooperative change: never what began it all."""
PLACE: Final = (
    Column("partition", INT, "Partition of the log in which the evidence is."),
    Column("evidence", pa.list_(LONG), f"Log offsets that say so, the first {EVIDENCE}."),
)
WHY_COLUMNS: Final = (
    Column("silent_ms", LONG, "The longest time since a last request when a session ended."),
    Column("away_ms", LONG, "The longest time until the client came back; null: it did not."),
    Column("session_timeout_ms", LONG, "`session.timeout.ms` of most of these sessions."),
    Column("rebalance_timeout_ms", LONG, "The same for `max.poll.interval.ms`."),
    Column("connection", TEXT, "Of most when they ended: `open` or `closed`; null: unknown."),
)
WHY: Final = tuple(each.name for each in WHY_COLUMNS)
"""What says which setting to change: of sessions, and of answers that are about some sessions."""


# Any: as in Row; they are numbers or None here.
def total(values: Iterable[Any]) -> int | None:
    known = [each for each in values if each is not None]
    return sum(known) if known else None


def largest(values: Iterable[Any]) -> int | None:
    return max((each for each in values if each is not None), default=None)


def rank(values: Iterable[Any], share: float) -> int | None:
    """The least value that is not exceeded by this share of them (the nearest rank)."""
    known = sorted(each for each in values if each is not None)
    return known[max(1, ceil(share * len(known))) - 1] if known else None


def most_common(values: Iterable[H]) -> tuple[H | None, int]:
    """The most frequent value and how often it is met; of several the first in order. None counts
    if nothing else is met.
    """
    counts = Counter(values)
    known = {each: number for each, number in counts.items() if each is not None} or counts
    if not known:
        return None, 0
    return min(known.items(), key=lambda item: (-item[1], str(item[0])))


def runs(times: Sequence[int], least: int, within_ms: int) -> Iterator[tuple[int, int]]:
    """Longest stretches of sorted times in which each is among `least` within `within_ms`: the
    index of the first, and that behind the last.
    """
    start = end = 0
    for first in range(len(times) - least + 1):
        if times[first + least - 1] - times[first] > within_ms:
            continue
        if first >= end:
            if end:
                yield start, end
            start = first
        end = first + least
    if end:
        yield start, end


def evidence(rows: Sequence[Row]) -> Row:
    """Values of PLACE for rows with `partition` and `offset`."""
    offsets = [row["offset"] for row in rows if row["offset"] is not None]
    return {"partition": rows[0]["partition"], "evidence": offsets[:EVIDENCE]}


def why(sessions: Iterable[Row]) -> Row:
    """Values of WHY_COLUMNS."""
    rows = [*sessions]
    longest = {name: largest(row[name] for row in rows) for name in WHY[:2]}
    return longest | {name: most_common(row[name] for row in rows)[0] for name in WHY[2:]}


def started(row: Row) -> Any:
    """When a round began, or if that was not read, ended; None if neither is known."""
    return row["started"] if row["started"] is not None else row["ended"]


def is_timed(session: Mapping[str, Any]) -> bool:
    """Whether a session goes on, or it is known when it ended."""
    return session["until"] is not None or session["ended_by"] is None


def name_of(instance: object, client_id: object, member: object = None) -> str | None:
    """A member in one word, that stays the same over its restarts if it can."""
    found = instance or client_id or member
    return None if found is None else str(found)


def joined_up(starts: npt.ArrayLike, ends: npt.ArrayLike) -> tuple[Numbers, Numbers]:
    """The union of intervals, as disjoint ones in order."""
    starts, ends = np.asarray(starts, dtype=np.int64), np.asarray(ends, dtype=np.int64)
    order = np.argsort(starts, kind="stable")
    order = order[ends[order] > starts[order]]
    starts, furthest = starts[order], np.maximum.accumulate(ends[order])
    if not len(starts):
        return starts, furthest
    is_first = np.concatenate(([True], starts[1:] > furthest[:-1]))
    is_last = np.concatenate((is_first[1:], [True]))
    return starts[is_first], furthest[is_last]


def overlap(starts: Numbers, ends: Numbers, of: tuple[Numbers, Numbers]) -> Numbers:
    """How much of each interval is inside of disjoint ones."""
    return _covered(ends, of) - _covered(starts, of)


def _covered(times: Numbers, of: tuple[Numbers, Numbers]) -> Numbers:
    """How much of the disjoint intervals is before each time."""
    starts, ends = of
    before = np.concatenate(([0], np.cumsum(ends - starts)))
    index = np.searchsorted(starts, times, side="right")
    behind = np.where(index > 0, np.maximum(0, ends[index - 1] - times), 0) if len(ends) else 0
    return np.asarray(before[index] - behind, dtype=np.int64)


def starts_of(codes: Numbers) -> Numbers:
    """Where runs of equal values begin, and the end of the last."""
    changes = np.flatnonzero(codes[1:] != codes[:-1]) + 1
    ends = [len(codes)] if len(codes) else []
    return np.concatenate(([0], changes, ends)).astype(np.int64)


def last_before(times: Sequence[int], time: int) -> int:
    """Index of the last of sorted times that is earlier; -1 if none is."""
    return bisect_left(times, time) - 1
