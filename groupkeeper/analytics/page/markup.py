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
_VOID: Final = frozenset({"meta", "input"})


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


Child = Html | str | int | float | None | Iterable["Child"]


def cut(text: str, most: int) -> str:
    """At most `most` characters; of a longer one the beginning and the end, which differ most."""
    text = text if len(text) <= most else f"{text[: most - most // 3 - 1]}…{text[-(most // 3) :]}"
    return printable(text)


def text(value: object, most: int = TEXT_CHARACTERS) -> Html:
    """Escaped, for an element or for an attribute in quotes."""
    return Html(html.escape(cut(str(value), most)))


def name(value: object, most: int = NAME_CHARACTERS) -> Html:
    """A name out of a log, which has a direction of its own; the whole is not repeated."""
    return tag("bdi", text(value, most))


def linked(value: object, place: str | None, most: int = NAME_CHARACTERS) -> Html:
    """A name that leads to a place in the page, if there is one."""
    return tag("a", name(value, most), href=place) if place else name(value, most)


def tag(kind: str, *children: Child, **attributes: str | float | None) -> Html:
    """An element. `class_` is `class` and `aria_label` is `aria-label`; None leaves one out."""
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(
        f"<{kind}{told}>" if kind in _VOID else f"<{kind}{told}>{joined(children)}</{kind}>"
    )


def joined(children: Child) -> Html:
    """Children one after the other; None is left out."""
    if children is None:
        return Html("")
    if isinstance(children, Html):
        return children
    if isinstance(children, str | int | float):
        return text(children)
    return Html("".join(joined(each) for each in children))
