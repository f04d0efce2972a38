"""Commits and lag of a group over time, below its rebalances."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from groupkeeper.analytics.page.causes import FAMILIES, legend
from groupkeeper.analytics.page.data import Data, Group
from groupkeeper.analytics.page.markup import Html, cut, joined
from groupkeeper.analytics.page.svg import (
    LEFT,
    RIGHT,
    WIDTH,
    Figure,
    Marks,
    Scale,
    amount_axis,
    box,
    curve,
    label,
    picture,
    time_axis,
    time_scale,
)
from groupkeeper.analytics.page.times import (
    MINUTE,
    amounts,
    brief,
    count,
    durations,
    floor,
    length,
    step,
    step_name,
)

POINTS: Final = 280
"""Most points of a curve."""
LINES: Final = 150
"""So many rebalances are drawn through the curves; more would hide them."""
_STRIP: Final = 16
_BAND: Final = 92
_SPACE: Final = 28
_TOP: Final = 8


def curves(data: Data, group: Group, identity: str) -> Figure | None:
    """None if no commits and no lag are known."""
    size = step(data.span.ms, POINTS)
    bands = [
        each
        for each in (_commits(data, group, size), _lag_time(data, group, size))
        if each is not None
    ]
    if not bands:
        return None
    first = _TOP + _STRIP + 22
    height = first + len(bands) * (_BAND + _SPACE)
    title = " and ".join(each.what for each in bands).capitalize()
    drawn = picture(
        f"{identity}-curves",
        height + 6,
        f"{title} of {cut(group.name, 80)}; "
        + "; ".join(f"{each.what} {each.most}" for each in bands),
        [
            _drawn(data, band, first + at * (_BAND + _SPACE), is_last=band is bands[-1])
            for at, band in enumerate(bands)
        ],
        _rounds(data, group, height - _SPACE),
    )
    return Figure(
        f"{identity}-curves",
        f"{title}, with rebalances",
        "Look for what follows a rebalance: commits that stop, and lag that grows and takes long "
        "to come down.",
        f"One point per {step_name(size)}. Marks at the top are rebalances, by cause. Time: UTC.",
        drawn,
        legend([each for each in FAMILIES if each in group.families]),
        "h4",
    )


@dataclass(frozen=True, slots=True)
class Band:
    """One curve: its points are at times, and `show` writes their values."""

    what: str
    unit: str
    kind: str
    points: Mapping[int, float]
    axis: Sequence[float]
    show: Callable[[float], str]

    @property
    def most(self) -> str:
        return f"at most {self.show(max(self.points.values()))}"


def _commits(data: Data, group: Group, size: int) -> Band | None:
    sums: dict[int, float] = defaultdict(float)
    for row in data.rows("commit_minutes", ("minute", "commits"), [group.name]):
        if data.span.has(row["minute"]):
            sums[floor(row["minute"], size)] += (row["commits"] or 0) * MINUTE / size
    if not sums:
        return None
    whole = {at: sums.get(at, 0.0) for at in range(min(sums), max(sums) + 1, size)}
    axis = amounts(max(whole.values()), 3)
    return Band("commits", "Commits a minute, all partitions", "commits", whole, axis, brief)


def _lag_time(data: Data, group: Group, size: int) -> Band | None:
    """In time; in records where no time is known."""
    rows = data.rows("lag", ("time", "lag", "lag_ms"), [group.name])
    is_time = any(row["lag_ms"] is not None for row in rows)
    most: dict[int, float] = {}
    for row in rows:
        value = row["lag_ms"] if is_time else row["lag"]
        if data.span.has(row["time"]) and value is not None:
            at = floor(row["time"], size)
            most[at] = max(most.get(at, 0.0), value)
    if not most:
        return None
    highest = max(most.values())
    if is_time:
        unit = "Lag of the worst partition, time"
        return Band("lag", unit, "lag", most, durations(highest, 3), length)
    return Band(
        "lag", "Lag of the worst partition, records", "lag", most, amounts(highest, 3), brief
    )


def _drawn(data: Data, band: Band, top: float, *, is_last: bool) -> Html:
    across, bottom = time_scale(data.span), top + _BAND
    up = Scale(0, band.axis[-1], bottom, top)
    points = [
        (min(max(across(at), LEFT), WIDTH - RIGHT), up(value))
        for at, value in sorted(band.points.items())
    ]
    closed = [(points[0][0], bottom), *points, (points[-1][0], bottom)]
    return joined(
        [
            box(LEFT, top, WIDTH - LEFT - RIGHT, _BAND, "plot"),
            amount_axis(up, band.axis, band.show),
            time_axis(data.span, across, top, bottom, is_told=is_last),
            curve(closed, f"area {band.kind}"),
            curve(points, f"line {band.kind}"),
            label(LEFT, top - 6, band.unit, "small strong"),
            label(WIDTH - RIGHT - 6, top + 15, band.most, "end small strong"),
        ]
    )


def _rounds(data: Data, group: Group, bottom: float) -> Html:
    scale, marks = time_scale(data.span), Marks()
    through = len(group.rounds) <= LINES
    for each in group.rounds:
        x = scale(each.at)
        wide = max(scale(each.at + each.ms) - x, 1.6)
        marks.up(f"p{each.family.number}", 3, x, _TOP + _STRIP, _TOP)
        if through:
            marks.up("rule", wide, x, bottom, _TOP + _STRIP)
    words = f"{count(len(group.rounds))}"
    return joined(
        [
            marks.html(),
            label(LEFT - 8, _TOP + 12, "rebalances", "end small"),
            label(WIDTH - RIGHT + 8, _TOP + 12, words, "small"),
        ]
    )
