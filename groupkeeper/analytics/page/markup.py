"""Builds HTML as text. Everything that is not `Html` is escaped, and cannot leave its element.

Names come from logs: they are cut, and invisible characters and those that change the text
direction are replaced, before they are escaped.

A picture is a `Figure` with its words: numbers are HTML, and `lanes.js` draws the data beside them.
"""

import html
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from groupkeeper.analytics.page.times import TimeSpan, ticks
from groupkeeper.why.texts import printable

NAME_CHARACTERS: Final = 48
"""Shown length of a name; names in a log may have 32,767 bytes."""
TEXT_CHARACTERS: Final = 600
"""Shown length of a sentence."""


class Html(str):
    """Text that is already HTML."""

    __slots__ = ()


Child = Html | str | int | float | None | Iterable["Child"]


def cut(text: str, most: int) -> str:
    """Cut to `most` characters, from the beginning and the end, which differ most."""
    text = text if len(text) <= most else f"{text[: most - most // 3 - 1]}…{text[-(most // 3) :]}"
    return text if text.isprintable() else printable(text)


def name(value: object, most: int = NAME_CHARACTERS) -> Html:
    """Return a cut name from a log, isolated for text direction."""
    return Html(f"<bdi>{html.escape(cut(str(value), most))}</bdi>")


def linked(value: object, place: str | None, most: int = NAME_CHARACTERS) -> Html:
    """Return a name that links to a place in the page, if there is one."""
    return fill('<a href="{}">{}</a>', place, name(value, most)) if place else name(value, most)


def fill(template: str, *values: Child) -> Html:
    """Fill `{}` in a template with values: in elements, or in quoted attributes."""
    return Html(template.format(*map(joined, values)))


def joined(children: Child) -> Html:
    """Join children; None is left out."""
    if children is None:
        return Html("")
    if isinstance(children, Html):
        return children
    if isinstance(children, str | int | float):
        return Html(html.escape(cut(str(children), TEXT_CHARACTERS)))
    return Html("".join(map(joined, children)))


# Any: JSON.
Lane = dict[str, Any]
"""The drawing of a row: see `paint` in lanes.js."""
LaneRow = tuple[Child, Child, Lane]
"""A name, words and a lane."""
PageLink = Callable[[str], str | None]
"""Group -> anchor of its panel in the page, if any."""
_ROW: Final = """<li><span class="name">{}</span><span class="lane"></span>\
<span class="words">{}</span></li>"""
_FIGURE: Final = """<figure class="card" id="{}"><figcaption><{}>{}</{}><p>{}</p></figcaption>
<noscript><p class="quiet">The picture needs a script; these are its numbers.</p></noscript>
<ol class="lanes {}">{}</ol><p class="quiet">{}</p></figure>"""


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture with text. `look_for` is a sentence; `told` has the main numbers and their unit."""

    name: str
    """Id of its element in the page."""
    title: str
    look_for: str
    told: str
    rows: Sequence[LaneRow]
    shared: Lane = field(default_factory=dict)
    """Attributes common to all rows: `of`, `ticks`, `legend`, ..."""
    kind: str = ""
    level: str = "h3"
    """Level of its heading."""

    @property
    def data(self) -> Lane:
        return {**self.shared, "rows": [lane for _, _, lane in self.rows]}

    def html(self) -> Html:
        told = [fill(_ROW, name, words) for name, words, _ in self.rows]
        level, title, kind = Html(self.level), self.title, self.kind
        return fill(_FIGURE, self.name, level, title, level, self.look_for, kind, told, self.told)


def up_to(most: float, show: Callable[[float], str], tall: int) -> Lane:
    """Return the axis of a lane with amounts."""
    return {"most": most or 1, "axis": [(0, "0"), (most, show(most))], "tall": tall}


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps times to places from 0 to `of` across a picture, in steps of `size` ms."""

    shown: TimeSpan
    of: int

    @property
    def size(self) -> int:
        return self.shown.ms // self.of

    def __call__(self, at: int) -> float:
        return round((at - self.shown.start) * self.of / self.shown.ms, 1)

    @property
    def axis(self) -> Lane:
        return {"of": self.of, "ticks": [(self(at), words) for at, words in ticks(self.shown, 9)]}
