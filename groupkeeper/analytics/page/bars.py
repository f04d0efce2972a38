"""Bars that lie, one a row, with what they are at the left and their numbers behind them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from groupkeeper.analytics.page.markup import Html, cut, joined, tag
from groupkeeper.analytics.page.svg import WIDTH, Marks, Scale, box, label, line

EDGE: Final = 300
"""Where bars begin."""
LABEL: Final = 42
"""Characters of a label."""
ROW: Final = 24
_BEHIND: Final = 300
_TOP: Final = 6


@dataclass(frozen=True, slots=True)
class Bar:
    """`parts` are amounts with their looks, from the left; `href` is where the label leads."""

    label: str
    parts: Sequence[tuple[str, float]]
    words: str
    href: str | None = None

    @property
    def amount(self) -> float:
        return sum(amount for _, amount in self.parts)


def bars(rows: Sequence[Bar]) -> tuple[Html, float]:
    """Drawn to one scale from zero, and their height."""
    most = max(each.amount for each in rows) or 1
    scale = Scale(0, most, EDGE, WIDTH - _BEHIND)
    marks = Marks()
    for row, each in enumerate(rows):
        at = 0.0
        for look, amount in each.parts:
            wide = scale(at + amount) - scale(at)
            if wide >= 0.1:
                marks.across(look, ROW - 8, scale(at), _TOP + ROW * row + ROW / 2, wide)
            at += amount
    height = _TOP + ROW * len(rows)
    told = [_words(each, _TOP + ROW * row, scale(each.amount)) for row, each in enumerate(rows)]
    stripes = [box(0, _TOP + ROW * row, WIDTH, ROW, "stripe") for row in range(0, len(rows), 2)]
    axis = line(EDGE, _TOP, EDGE, height, "plot")
    return joined([stripes, marks.html(), axis, told]), height + 4


def _words(bar: Bar, top: float, end: float) -> Html:
    name = label(EDGE - 8, top + 16, cut(bar.label, LABEL), "end")
    return joined(
        [
            tag("a", name, href=bar.href) if bar.href else name,
            label(end + 8, top + 16, bar.words, "small"),
        ]
    )
