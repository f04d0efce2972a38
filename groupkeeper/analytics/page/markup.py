"""HTML as text. Everything that is not `Html` is escaped, and cannot leave its element.

Names come from logs: they are cut, and characters that cannot be seen or turn the direction of
text are replaced, before they are escaped.
"""

import html
from collections.abc import Iterable
from typing import Final

from groupkeeper.why.texts import printable

NAME_CHARACTERS: Final = 48
"""How much of a name is shown; a log may have names of 32,767 bytes."""
TEXT_CHARACTERS: Final = 600
"""How much of a sentence is shown."""


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


Child = Html | str | int | float | None | Iterable["Child"]


def cut(text: str, most: int) -> str:
    """At most `most` characters; of a longer one the beginning and the end, which differ most."""
    text = text if len(text) <= most else f"{text[: most - most // 3 - 1]}…{text[-(most // 3) :]}"
    return text if text.isprintable() else printable(text)


def name(value: object, most: int = NAME_CHARACTERS) -> Html:
    """A name out of a log, which has a direction of its own; the whole is not repeated."""
    return Html(f"<bdi>{html.escape(cut(str(value), most))}</bdi>")


def linked(value: object, place: str | None, most: int = NAME_CHARACTERS) -> Html:
    """A name that leads to a place in the page, if there is one."""
    return fill('<a href="{}">{}</a>', place, name(value, most)) if place else name(value, most)


def fill(template: str, *values: Child) -> Html:
    """HTML with `{}` where values are: in elements, or in attributes in quotes."""
    return Html(template.format(*map(joined, values)))


def joined(children: Child) -> Html:
    """Children one after the other; None is left out."""
    if children is None:
        return Html("")
    if isinstance(children, Html):
        return children
    if isinstance(children, str | int | float):
        return Html(html.escape(cut(str(children), TEXT_CHARACTERS)))
    return Html("".join(map(joined, children)))
