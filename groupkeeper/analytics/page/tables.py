"""Tables of the page: all groups, and the first rows of every table, as far as the page has room.
Tables are sortable with scripts, and state how many of their rows are shown.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from groupkeeper.analytics.page.data import Data, milliseconds
from groupkeeper.analytics.page.markup import Child, Html, PageLink, fill, joined, linked, name
from groupkeeper.analytics.page.read import ReportHeader
from groupkeeper.analytics.page.times import NONE, count, day_time, told
from groupkeeper.analytics.schemas import TABLES

GROUPS_BYTES: Final = 240_000
"""Limit of the table of groups: a thousand with usual names need about 200 kB."""
MOST_BYTES: Final = 320_000
"""Limit for rows of all other tables; tables that need less than their share leave it to others."""
FIRST: Final = "findings"
"""The table that may use half of the room: the page shows few of its rows elsewhere."""
LARGEST: Final[Mapping[str, str]] = {
    "rounds": "duration_ms",
    "sessions": "away_ms",
    "refusals": "count",
    "barrier": "held_ms",
    "restart_gaps": "restarts",
    "idle_members": "idle_ms",
}
"""Table -> column by which the largest rows are shown; of other tables the first rows are shown."""
SENTENCES: Final = frozenset({"sentence", "assumption", "reason"})
"""Columns with sentences, which are not cut."""
COUNTED: Final = frozenset(
    {
        *("events", "commits", "snapshots", "assignments", "members"),
        *("ownership", "commit_minutes", "lag"),
    }
)
"""Tables for which only the number of rows is shown: single rows are not informative."""
_FOLDED: Final = """<details class="table"><summary>{} <span class="quiet">{}</span></summary>
<p class="quiet">{}</p>{}</details>"""
_TABLE: Final = """<div class="scroll tall" role="group" tabindex="0" aria-label="Table: {}">
<table class="sortable {}"><caption>{}</caption><thead><tr>{}</tr></thead><tbody>{}</tbody></table>
</div>"""
_HEAD: Final = '<th scope="col" class="{}" title="{}">{}</th>'
LIST_MOST: Final = 6
"""Maximum number of list elements in a cell."""


def groups_part(data: Data, link: PageLink) -> Html | None:
    """Return the table of all groups, those not stable for the longest first."""
    if not len(data.groups):
        return None
    rows = data.groups.drop_columns(["is_event"])
    made, shown, _ = _table("All groups", rows, {}, GROUPS_BYTES, link)
    left = len(rows) - shown
    note = f" {count(left)} are left out: the page has a limit of size." if left else ""
    said = f"{count(len(rows), 'group')}.{note} No owner: summed over partitions."
    return fill('<div id="groups-table"><p>{}</p>{}</div>', said, made)


def tables_part(data: Data, about: ReportHeader, room: int) -> Html | None:
    """Return answers and then tables, each collapsed, with at most `room` bytes of rows; and a
    sentence about tables that are not shown.
    """
    if not data.tables:
        return None
    full = [each for each in data.tables if data.has(each)]
    shown = sorted((each for each in full if each not in COUNTED), key=TABLES.__contains__)
    made, left = {}, min(room, MOST_BYTES)
    waiting = sorted(shown, key=lambda each: (each != FIRST, data.tables[each].num_rows))
    for at, each in enumerate(waiting):
        part = left // (2 if each == FIRST else len(waiting) - at)
        made[each], size = _folded(each, data.tables[each], about, part)
        left -= size
    counted = [
        f"{each} ({count(data.tables[each].num_rows, 'row')})" for each in full if each in COUNTED
    ]
    empty = [_title(each, about) for each in data.tables if each not in full]
    notes = (
        "All rows are in the files of --out and --csv.",
        f"Only counted here: {', '.join(counted)}." if counted else "",
        f"Without rows: {', '.join(empty)}." if empty else "",
    )
    said = " ".join(filter(None, notes))
    return fill('<p class="quiet">{}</p>{}', said, [made[each] for each in shown])


def _title(table: str, about: ReportHeader) -> str:
    asked = about.questions.get(table)
    return table if asked is None else asked.title


def _folded(table: str, content: pa.Table, about: ReportHeader, most: int) -> tuple[Html, int]:
    """Return a collapsed table, and the size of its rows in bytes. Empty columns are left out."""
    asked, known = about.questions.get(table), TABLES.get(table)
    meaning = asked.meaning if asked else known.about if known else ""
    columns = asked.columns if asked else known.columns if known else ()
    hints = {each.name: each.about for each in columns}
    used = [each for each in content.column_names if content[each].null_count < len(content)]
    rows = content.select(used)
    column, limit = LARGEST.get(table), most // (6 * max(len(used), 1))
    if column in used and len(rows) > limit:
        rows = rows.take(pc.select_k_unstable(rows[column], limit, [("", "descending")]))
        meaning += f" Those with the largest {column} are shown."
    rows = rows.slice(0, limit)
    title, total = _title(table, about), content.num_rows
    made, shown, size = _table(title, rows, hints, most)
    rows_told = f"{count(shown)} of " if shown < total else ""
    rows_told += count(total, "row")
    return fill(_FOLDED, title, rows_told, meaning, made), size


def _table(
    caption: str,
    content: pa.Table,
    hints: Mapping[str, str],
    most: int,
    link: PageLink | None = None,
) -> tuple[Html, int, int]:
    """Return a table, its number of rows, and their size in bytes, at most `most`. `link` gives
    targets for the first column.
    """
    names, body, size = content.column_names, list[str](), 0
    lists = [_told_times(each).to_pylist() for each in content.columns]
    for row in zip(*lists, strict=True):
        line = _row(names, row, link)
        size += len(line.encode())
        if size > most:
            size -= len(line.encode())
            break
        body.append(line)
    numbers = [
        at
        for at, each in enumerate(content.schema.types)
        if pa.types.is_integer(each) or pa.types.is_floating(each)
    ]
    titles = [each.replace("_ms", "").replace("_", " ") for each in names]
    head = [
        fill(_HEAD, "number" if at in numbers else "", hints.get(each), titles[at])
        for at, each in enumerate(names)
    ]
    # Numbers are right-aligned by column: a class per cell would take a tenth of the page.
    rights = " ".join(f"n{at + 1}" for at in numbers)
    made = fill(_TABLE, caption, rights, caption, head, Html("".join(body)))
    return made, len(body), size


def _row(columns: Sequence[str], row: Sequence[Any], link: PageLink | None) -> str:
    """A row, without optional end tags (a third of large tables); `data-k` sorts durations."""
    named = [*zip(columns, row, strict=True)]
    cells = [NONE if each is None else _cell(column, each) for column, each in named]
    if link is not None:
        cells[0] = linked(row[0], link(row[0]))
    keys = [
        f" data-k={each:.9g}" if column.endswith("_ms") and each is not None else ""
        for column, each in named
    ]
    told = [f"<td{key}>{joined(cell)}" for key, cell in zip(keys, cells, strict=True)]
    return f"<tr><th scope=row{told[0].removeprefix('<td')}{''.join(told[1:])}\n"


def _told_times(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_timestamp(column.type):
        return column
    return pa.chunked_array(
        [pa.array(map(day_time, milliseconds(column).to_pylist()), pa.string())]
    )


# Any: a value of any column.
def _cell(column: str, value: Any) -> Child:
    """Format a value that is not null."""
    if isinstance(value, str):
        is_sentence = column in SENTENCES
        return fill('<span class="words">{}</span>', value) if is_sentence else name(value)
    if isinstance(value, list):
        shown = [[", " if at else "", name(each, 24)] for at, each in enumerate(value[:LIST_MOST])]
        more = f" and {count(len(value) - LIST_MOST)} more" if len(value) > LIST_MOST else ""
        return [shown, more] if value else NONE
    return told(column, value)
