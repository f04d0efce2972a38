"""How long clients were away that came back, beside the session timeout that they have."""

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from typing import Final

from groupkeeper.analytics.page.causes import box_swatch
from groupkeeper.analytics.page.data import Data
from groupkeeper.analytics.page.markup import Html, joined, tag
from groupkeeper.analytics.page.svg import (
    LEFT,
    RIGHT,
    WIDTH,
    Figure,
    Scale,
    amount_axis,
    box,
    label,
    line,
    picture,
)
from groupkeeper.analytics.page.times import (
    HOUR,
    MINUTE,
    SECOND,
    amounts,
    brief,
    count,
    length,
    share,
)

EDGES: Final = (
    *(each * SECOND for each in (0, 1, 2, 5, 10, 15, 20, 30, 45, 60, 90)),
    *(each * MINUTE for each in (2, 3, 5, 10, 30)),
    *(HOUR, 6 * HOUR),
)
"""Of the bars; the last one has no end."""
LIMITS: Final = 3
"""Session timeouts that are drawn: the most frequent ones."""
_TALL: Final = 200
_LANE: Final = 16
"""Of the words of a session timeout, one below the other."""
_TOP: Final = 14 + _LANE * LIMITS


def restart_gaps(data: Data) -> Figure | None:
    """None if no client came back."""
    columns = ("away_ms", "session_timeout_ms")
    rows = [[row[each] for each in columns] for row in data.rows("sessions", columns)]
    gaps = [(away, limit) for away, limit in rows if away is not None]
    if not gaps:
        return None
    within = Counter(_bar(away) for away, limit in gaps if limit is not None and away < limit)
    every = Counter(_bar(away) for away, _ in gaps)
    limits = Counter(limit for _, limit in gaps if limit is not None)
    usual = sorted(each for each, _ in limits.most_common(LIMITS))
    places = [*every, *map(_bar, usual)]
    across = _Across(max(min(places) - 1, 0), min(max(places) + 2, len(EDGES)))
    axis = amounts(max(every.values()))
    up = Scale(0, axis[-1], _TOP + _TALL, _TOP)
    saved = share(within.total(), len(gaps))
    drawn = picture(
        "restarts",
        _TOP + _TALL + 26,
        f"{count(len(gaps), 'restart')}; {saved} shorter than the session timeout.",
        amount_axis(up, axis, brief),
        [_two(across, at, every[at], within[at], up) for at in sorted(every)],
        [
            label(across(at), _TOP + _TALL + 16, length(EDGES[at]) if at else "0", "middle small")
            for at in range(across.first, across.end)
        ],
        [_limit(across, each, limits, lane) for lane, each in enumerate(usual)],
    )
    return Figure(
        "restarts",
        "How long clients were away that came back",
        "Look at what is left of the line: with group.instance.id these restarts need no "
        "rebalance. Bars a little to the right of it say how much longer the timeout has to be.",
        f"Unit: restarts. {saved} of {count(len(gaps))} were shorter than the session timeout of "
        "the client.",
        drawn,
        _legend(),
    )


def _bar(away: int) -> int:
    return max(bisect_right(EDGES, away) - 1, 0)


@dataclass(frozen=True, slots=True)
class _Across:
    """The axis of times, with equal room for each bar from the first to before `end`."""

    first: int
    end: int

    def __call__(self, at: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (at - self.first) / (self.end - self.first)

    def place(self, ms: int) -> float:
        at = _bar(ms)
        if at + 1 == len(EDGES):
            return self(at + 0.5)
        return self(at + (ms - EDGES[at]) / (EDGES[at + 1] - EDGES[at]))


def _two(across: _Across, at: int, number: int, within: int, up: Scale) -> Html:
    x, wide = across(at) + 2, across(at + 1) - across(at) - 4
    return joined(
        [
            box(x, up(within), wide, up(0) - up(within), "within") if within else None,
            box(x, up(number), wide, up(within) - up(number), "beyond")
            if number > within
            else None,
            label(x + wide / 2, up(number) - 4, count(number), "middle small"),
        ]
    )


def _limit(across: _Across, ms: int, limits: Counter[int], lane: int) -> Html:
    x, y = across.place(ms), _TOP - 8 - _LANE * lane
    words = f"session.timeout.ms {ms} ({share(limits[ms], limits.total())} of clients)"
    side, kind = (-5, "end small strong") if x > WIDTH * 0.6 else (5, "small strong")
    return joined([line(x, y - 8, x, _TOP + _TALL, "limit"), label(x + side, y, words, kind)])


def _legend() -> Html:
    kinds = {
        "within": "shorter than the session timeout of the client",
        "beyond": "longer, or not known",
    }
    return tag(
        "ul",
        [tag("li", box_swatch(kind), words) for kind, words in kinds.items()],
        class_="legend",
    )
