"""Rebalances over time: of all groups as bars, and of the worst groups as one line each."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Final

from groupkeeper.analytics.page.causes import FAMILIES, Family, legend
from groupkeeper.analytics.page.data import Data, Group, Row
from groupkeeper.analytics.page.flags import flags, lanes_height, lanes_of
from groupkeeper.analytics.page.markup import Html, cut, joined, tag
from groupkeeper.analytics.page.svg import (
    LEFT,
    PICTURE_BYTES,
    RIGHT,
    WIDTH,
    Figure,
    Marks,
    Scale,
    amount_axis,
    box,
    label,
    picture,
    time_axis,
    time_scale,
)
from groupkeeper.analytics.page.times import (
    SECOND,
    STEPS,
    Span,
    amounts,
    count,
    floor,
    length,
    share,
    step,
    step_name,
)

WORST: Final = 40
"""Groups in the timeline; the others are in the table."""
BINS: Final = 180
"""Most bins of a time axis: each is at least four wide, so that its pattern is seen."""
LABEL: Final = 24
"""Characters of a group at the left of a picture."""
_ROW: Final = 20
_TALL: Final = 200
_TOP: Final = 18
_LEVELS: Final = (6, 11, 16)
"""Heights of marks: few, some, many."""


def bin_of(span: Span, most: int = BINS) -> int:
    return max(step(span.ms, most), SECOND)


def rate(data: Data, findings: Sequence[Row]) -> Figure:
    """Rebalances per hour or so, by cause, with numbers of findings above."""
    size = bin_of(data.span)
    bins: dict[int, Counter[Family]] = defaultdict(Counter)
    for group in data.groups:
        for each in group.rounds:
            bins[floor(each.at, size)][each.family] += 1
    most = max(sum(each.values()) for each in bins.values())
    lanes = lanes_of(findings, data.span)
    top = 8 + lanes_height(lanes)
    scale, high = time_scale(data.span), amounts(most)[-1]
    up = Scale(0, high, top + _TALL, top)
    marks = _bars(bins, size, scale, up)
    total = sum(len(each.rounds) for each in data.groups)
    busiest = max(bins, key=lambda at: sum(bins[at].values()))
    per = step_name(size)
    within = f"in {per}" if per[0].isdigit() else f"in one {per}"
    drawn = picture(
        "rate",
        top + _TALL + 26,
        f"{count(total, 'rebalance')} of {count(len(data.groups), 'group')}; at most "
        f"{count(most)} {within}.",
        box(LEFT, top, WIDTH - LEFT - RIGHT, _TALL, "plot"),
        amount_axis(up, amounts(most)),
        time_axis(data.span, scale, top, top + _TALL),
        _restarts(data, scale, top),
        marks.html(),
        flags(lanes, top, top + _TALL),
        _peak(scale(busiest + size / 2), up(most), f"{count(most)} {within}"),
        has_links=bool(findings),
    )
    return Figure(
        "rate",
        f"Rebalances per {per}, by cause",
        "Look for towers: many rebalances at once have one cause, such as a deployment or a "
        "coordinator that restarted; a low steady band is one group that never settles."
        + (" Numbers above are those of the findings." if findings else ""),
        f"Unit: rebalances per {per}, all groups. Time: UTC."
        + (" ▽ a coordinator was loaded." if data.has("epochs") else ""),
        drawn,
        legend(_seen(data.groups)),
    )


def _seen(groups: Sequence[Group]) -> list[Family]:
    return [each for each in FAMILIES if any(each in group.families for group in groups)]


def _bars(bins: dict[int, Counter[Family]], size: int, scale: Scale, up: Scale) -> Marks:
    marks = Marks()
    wide = scale(size) - scale(0)
    thick = max(wide - (1 if wide > 4 else 0), 1.6)
    for at, counts in bins.items():
        below = 0
        for each in FAMILIES:
            if counts[each]:
                x = min(max(scale(at) + wide / 2, LEFT + thick / 2), WIDTH - RIGHT - thick / 2)
                marks.up(f"p{each.number}", thick, x, up(below), up(below + counts[each]))
                below += counts[each]
    return marks


def _peak(x: float, y: float, words: str) -> Html:
    """What the highest bar is, beside it."""
    is_right = x > (LEFT + WIDTH - RIGHT) / 2
    return label(x + (-8 if is_right else 8), y + 10, words, "end strong" if is_right else "strong")


def _restarts(data: Data, scale: Scale, top: float) -> Html:
    """Where coordinators were loaded."""
    seen = {
        round(scale(row["loaded"]))
        for row in data.rows("epochs", ("loaded",))
        if row["loaded"] is not None and data.span.has(row["loaded"])
    }
    return joined(
        tag("path", d=f"M{x - 5} {top - 1}h10l-5 8z", class_="loaded") for x in sorted(seen)
    )


def timeline(data: Data, link: Callable[[str], str | None]) -> Figure:
    """One line a group; `link` gives the place in the page where more is said of one."""
    shown = [each for each in data.groups if each.rounds][:WORST]
    sizes = [each for each in STEPS if each >= bin_of(data.span)]
    rows, size, limits = Html(""), 0, (1, 2)
    for size in sizes:
        rows, limits = _rows(shown, size, data.span)
        if len(rows) < PICTURE_BYTES - 200 * len(shown) - 6_000:
            break
    scale, bottom = time_scale(data.span), _TOP + _ROW * len(shown)
    few, some = limits
    drawn = picture(
        "timeline",
        bottom + 26,
        f"Rebalances over time of {count(len(shown), 'group')}, the worst first: {shown[0].name}.",
        [box(0, _TOP + _ROW * row, WIDTH, _ROW, "stripe") for row in range(0, len(shown), 2)],
        time_axis(data.span, scale, _TOP, bottom),
        rows,
        [_ends(each, _TOP + _ROW * row, link(each.name)) for row, each in enumerate(shown)],
        label(WIDTH - RIGHT + 8, 12, "number, cause", "small quiet"),
        has_links=True,
    )
    rest = len(data.groups) - len(shown)
    more = f" {count(rest, 'other group')}: see the table of groups." if rest > 0 else ""
    return Figure(
        "timeline",
        f"When groups rebalanced{': those that did so most, or longest' if rest > 0 else ''}",
        "Look for columns, which are moments that hit many groups, and for rows without gaps, "
        "which are groups that never rest.",
        f"One mark per {step_name(size)} with rebalances, in the colour of their usual cause: "
        f"low for 1{f' to {few}' if few > 1 else ''}, middle up to {some}, full for more. "
        f"At the right: rebalances, and the letter of the usual cause. Time: UTC.{more}",
        drawn,
        legend(_seen(shown)),
    )


def _rows(shown: Sequence[Group], size: int, span: Span) -> tuple[Html, tuple[int, int]]:
    binned = [_binned(each, size) for each in shown]
    most = max(sum(each.values()) for bins in binned for each in bins.values())
    limits = max(1, round(most ** (1 / 3))), max(2, round(most ** (2 / 3)))
    scale = time_scale(span)
    wide = max(scale(size) - scale(0) - 0.6, 2.0)
    marks = Marks()
    for row, bins in enumerate(binned):
        for at in sorted(bins):
            number = sum(bins[at].values())
            tall = _LEVELS[(number > limits[0]) + (number > limits[1])]
            kind = max(bins[at].items(), key=lambda each: each[1])[0]
            x = min(max(scale(at), LEFT), WIDTH - RIGHT - wide)
            marks.across(f"p{kind.number}", tall, x, _TOP + _ROW * (row + 1) - 2 - tall / 2, wide)
    return marks.html(), limits


def _binned(group: Group, size: int) -> dict[int, Counter[Family]]:
    bins: dict[int, Counter[Family]] = defaultdict(Counter)
    for each in group.rounds:
        bins[floor(each.at, size)][each.family] += 1
    return bins


def _ends(group: Group, top: float, place: str | None) -> Html:
    """The name before a row, and its numbers behind it; its title is for a pointer."""
    words = label(LEFT - 8, top + 14, cut(group.name, LABEL), "end")
    usual = group.usual
    assert usual is not None, "a group without rebalances has no row"
    kind, number = usual
    lasted = f", not stable for {length(group.not_stable_ms)}" if group.is_timed else ""
    says = (
        f"{cut(group.name, 80)}: {count(len(group.rounds), 'rebalance')}{lasted}; "
        f"{share(number, len(group.rounds))} {kind.label}"
    )
    return tag(
        "g",
        tag("title", says),
        tag("a", words, href=place) if place else words,
        box(LEFT, top, WIDTH - LEFT - RIGHT, _ROW, "hit"),
        label(WIDTH - RIGHT + 8, top + 14, f"{count(len(group.rounds))} {kind.letter}"),
        label(WIDTH - 2, top + 14, share(number, len(group.rounds)), "end small quiet"),
    )
