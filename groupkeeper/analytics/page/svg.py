"""Pictures: a small vocabulary over SVG. Text stays text, and colours are classes of the page.

Marks of one look are collected into one path, about ten bytes each, so that thousands of them fit.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from groupkeeper.analytics.page.markup import Child, Html, joined, tag
from groupkeeper.analytics.page.times import Span, brief, ticks

PICTURE_BYTES: Final = 60_000
"""Most of one picture: who draws, coarsens until it fits."""
WIDTH: Final = 1120
LEFT: Final = 176
RIGHT: Final = 112
"""Margins of all pictures over time, so that they line up."""
LINE: Final = 13
"""Size of text."""
CHARACTER: Final = 6.9
"""Width of a usual character of that size."""


def short(value: float) -> str:
    """A coordinate with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to coordinates."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        part = (value - self.low) / ((self.high - self.low) or 1)
        return self.start + (self.end - self.start) * part


def time_scale(shown: Span) -> Scale:
    return Scale(shown.start, shown.end, LEFT, WIDTH - RIGHT)


class Marks:
    """Bars of several looks, which are classes: those of one look and thickness become one path."""

    def __init__(self) -> None:
        self._paths: dict[tuple[str, str], list[str]] = defaultdict(list)

    def across(self, look: str, thick: float, x: float, y: float, width: float) -> None:
        """One that lies, `y` being its middle."""
        self._paths[look, short(thick)].append(f"M{short(x)} {short(y)}h{short(width)}")

    def up(self, look: str, thick: float, x: float, bottom: float, top: float) -> None:
        """One that stands, `x` being its middle."""
        self._paths[look, short(thick)].append(f"M{short(x)} {short(bottom)}V{short(top)}")

    def html(self) -> Html:
        return Html(
            "".join(
                f'<path d="{"".join(bars)}" class="{look}" stroke-width="{thick}"/>'
                for (look, thick), bars in self._paths.items()
            )
        )


def label(x: float, y: float, words: Child, kind: str | None = None, title: str = "") -> Html:
    """Text; `kind` is a class: `end` and `middle` say what `x` is, `small` and `quiet` how."""
    hint = tag("title", title) if title else None
    return tag("text", hint, words, x=short(x), y=short(y), class_=kind)


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Html:
    return tag("line", x1=short(x1), y1=short(y1), x2=short(x2), y2=short(y2), class_=kind)


def box(x: float, y: float, width: float, height: float, kind: str, title: str = "") -> Html:
    return tag(
        "rect",
        tag("title", title) if title else None,
        x=short(x),
        y=short(y),
        width=short(width),
        height=short(height),
        class_=kind,
    )


def time_axis(
    shown: Span, scale: Scale, top: float, bottom: float, *, is_told: bool = True
) -> Html:
    """Upright lines at round times, with labels below."""
    return joined(
        [
            line(scale(at), top, scale(at), bottom, "grid"),
            label(scale(at), bottom + LINE + 3, words, "middle small") if is_told else None,
        ]
        for at, words in ticks(shown, 9)
    )


def amount_axis(
    scale: Scale, values: Sequence[float], show: Callable[[float], str] = brief
) -> Html:
    """Level lines across a picture over time, with labels at the left."""
    return joined(
        [
            line(LEFT, scale(each), WIDTH - RIGHT, scale(each), "grid"),
            label(LEFT - 6, scale(each) + 4, show(each), "end small"),
        ]
        for each in values
    )


def curve(points: Sequence[tuple[float, float]], kind: str) -> Html:
    """A line through points."""
    told = " ".join(f"{short(x)},{short(y)}" for x, y in points)
    return Html(f'<polyline points="{told}" class="{kind}"/>')


def picture(name: str, height: float, says: str, *children: Child, has_links: bool = False) -> Html:
    """The whole, with the title of the figure of this name. `says` is what somebody hears who does
    not see it: of a picture with links that, and then its texts.
    """
    return tag(
        "svg",
        tag("desc", says, id=f"{name}-says"),
        children,
        viewBox=f"0 0 {WIDTH} {short(height)}",
        width=WIDTH,
        height=short(height),
        role="group" if has_links else "img",
        aria_labelledby=f"{name}-title",
        aria_describedby=f"{name}-says",
        class_="picture",
    )


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture with what belongs to it."""

    name: str
    """Of its elements in the page."""
    title: str
    look_for: str
    """One sentence."""
    unit: str
    drawn: Html
    legend: Html | None = None
    level: str = "h3"
    """Of its heading."""

    def html(self) -> Html:
        return tag(
            "figure",
            tag(
                "figcaption",
                tag(self.level, self.title, id=f"{self.name}-title"),
                tag("p", self.look_for),
            ),
            self.legend,
            tag(
                "div",
                self.drawn,
                class_="scroll",
                tabindex="0",
                role="group",
                aria_label=f"Picture: {self.title}",
            ),
            tag("p", self.unit, class_="quiet unit"),
            class_="card",
            id=self.name,
        )
