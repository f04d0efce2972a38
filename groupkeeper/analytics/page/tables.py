"""Tables of the page: sortable where scripts run, with a limit of bytes, and what it leaves out."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from groupkeeper.analytics.page.markup import Child, Html, joined, name, tag, text
from groupkeeper.analytics.page.times import NONE, count, day_time, length

# Any: a value of a column.
Shown = Callable[[Any], Child]


@dataclass(frozen=True, slots=True)
class Column:
    """A column that `has_key` is sorted by the numbers behind what it shows."""

    title: str
    show: Shown
    is_number: bool = False
    hint: str | None = None
    has_key: bool = False


def table(
    caption: str, columns: Sequence[Column], rows: Iterable[Sequence[Any]], most: int
) -> tuple[Html, int, int]:
    """A table, how many rows it has, and their bytes, at most `most`. End tags that HTML does not
    need are left out: of large tables they are a third.
    """
    body: list[str] = []
    size = 0
    for row in rows:
        line = _row(columns, row)
        if size + len(line.encode("utf-8")) > most:
            break
        size += len(line.encode("utf-8"))
        body.append(line)
    head = tag(
        "tr",
        [
            tag(
                "th",
                each.title,
                scope="col",
                class_="number" if each.is_number else None,
                title=each.hint,
            )
            for each in columns
        ],
    )
    # numbers are at the right by their column: a class for each cell would be a tenth of the page
    rights = [f"n{at}" for at, each in enumerate(columns, 1) if each.is_number]
    made = tag(
        "table",
        tag("caption", caption),
        tag("thead", head),
        tag("tbody", Html("".join(body))),
        class_=" ".join(["sortable", *rights]),
    )
    return made, len(body), size


def _row(columns: Sequence[Column], row: Sequence[Any]) -> str:
    cells = []
    for number, (column, value) in enumerate(zip(columns, row, strict=True)):
        start = "<td" if number else "<th scope=row"
        key = ""
        if column.has_key and value is not None:
            key = f" data-k={value:.9g}" if isinstance(value, float) else f" data-k={int(value)}"
        cells.append(f"{start}{key}>{joined(column.show(value))}")
    return f"<tr>{''.join(cells)}\n"


def scrolled(caption: str, made: Html) -> Html:
    """With a place of its own that scrolls, by keys too."""
    return tag(
        "div",
        made,
        class_="scroll tall",
        tabindex="0",
        role="group",
        aria_label=f"Table: {caption}",
    )


def folded(caption: str, made: Html, shown: int, total: int, note: str) -> Html:
    """Closed until it is opened; says how many rows it shows of how many."""
    rows = count(total, "row") if shown == total else f"{count(shown)} of {count(total, 'row')}"
    return tag(
        "details",
        tag("summary", caption, " ", tag("span", rows, class_="quiet")),
        tag("p", note, class_="quiet") if note else None,
        scrolled(caption, made),
        class_="table",
    )


# -- values ----------------------------------------------------------------------------------------


def shown_number(value: float | None) -> Child:
    return NONE if value is None else count(value)


def shown_length(value: float | None) -> Child:
    return length(value)


def shown_time(value: int | datetime | None) -> Child:
    if isinstance(value, datetime):
        value = round(value.timestamp() * 1000)
    return day_time(value)


def shown_name(value: object) -> Child:
    return NONE if value is None else name(value)


def shown_words(value: str | None) -> Child:
    return NONE if value is None else tag("span", text(value), class_="words")


def shown_yes(value: bool | None) -> Child:
    return NONE if value is None else "yes" if value else "no"


LIST_MOST: Final = 6
"""Elements of a list in a cell."""


def shown_list(value: Sequence[object] | None) -> Child:
    if not value:
        return NONE
    more = f" and {count(len(value) - LIST_MOST)} more" if len(value) > LIST_MOST else ""
    told = [
        [", " if number else "", name(each, 24)] for number, each in enumerate(value[:LIST_MOST])
    ]
    return [told, more]
