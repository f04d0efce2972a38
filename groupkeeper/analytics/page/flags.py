"""Findings in a picture over time: their numbers above it, on lines down to what they are about."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from groupkeeper.analytics.page.data import Row
from groupkeeper.analytics.page.findings import CARDS, within
from groupkeeper.analytics.page.markup import Html, joined, tag
from groupkeeper.analytics.page.svg import box, label, line, short, time_scale
from groupkeeper.analytics.page.times import Span

LANES: Final = 4
"""More findings at one time than these are not marked; their cards say when they were."""
LONGEST: Final = 0.5
"""A finding about a longer part of the time than this is not marked: it is everywhere."""
_LANE: Final = 20


@dataclass(frozen=True, slots=True)
class Flag:
    """`start` and `end` are coordinates."""

    number: int
    kind: str
    lane: int
    start: float
    end: float


def lanes_of(findings: Sequence[Row], span: Span) -> list[Flag]:
    """Where numbers go so that none is upon another; the lowest lane is 0."""
    scale = time_scale(span)
    ends: list[float] = []
    found = []
    marked = [
        (within(row, span), number, str(row["severity"]))
        for number, row in enumerate(findings[:CARDS], 1)
    ]
    for part, number, kind in sorted(marked, key=lambda each: each[0].start):
        start, end = scale(part.start), scale(part.end)
        lane = next((at for at, taken in enumerate(ends) if taken < start - 9), len(ends))
        if part.ms > LONGEST * span.ms or lane == LANES:
            continue
        ends[lane : lane + 1] = [max(end, start + 9) + 3]
        found.append(Flag(number, kind, lane, start, end))
    return found


def lanes_height(found: Sequence[Flag]) -> int:
    return _LANE * max((each.lane + 1 for each in found), default=0)


def flags(found: Sequence[Flag], top: float, bottom: float) -> Html:
    """Above `top`, each a link to its card."""
    return joined(_flag(each, top - 12 - _LANE * each.lane, bottom) for each in found)


def _flag(flag: Flag, y: float, bottom: float) -> Html:
    return tag(
        "a",
        line(flag.start, y, flag.start, bottom, "pole"),
        box(flag.start, y - 1.5, max(flag.end - flag.start, 1), 3, f"flag {flag.kind}"),
        tag("circle", cx=short(flag.start), cy=short(y), r=9, class_=f"flag {flag.kind}"),
        label(flag.start, y + 4, str(flag.number), "middle tiny onflag"),
        href=f"#finding-{flag.number}",
        aria_label=f"Finding {flag.number}",
    )
