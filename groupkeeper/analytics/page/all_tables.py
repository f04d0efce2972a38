"""Every table of the analysis: the first rows of each, as far as the page has room."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from groupkeeper.analytics.history.schemas import TABLES
from groupkeeper.analytics.page.about import About
from groupkeeper.analytics.page.data import Data, milliseconds
from groupkeeper.analytics.page.document import note
from groupkeeper.analytics.page.markup import Child, Html, joined
from groupkeeper.analytics.page.tables import (
    Column,
    folded,
    shown_length,
    shown_list,
    shown_name,
    shown_number,
    shown_time,
    shown_words,
    shown_yes,
    table,
)
from groupkeeper.analytics.page.times import NONE, count, share

MOST_BYTES: Final = 320_000
"""Of the rows of all tables: those that need less than their part leave it to the others."""
FIRST: Final = "findings"
"""It has half of them, if it needs that: the page shows a few of its rows elsewhere."""
LARGEST: Final[Mapping[str, str]] = {
    "rounds": "duration_ms",
    "sessions": "away_ms",
    "refusals": "count",
}
"""Table -> the column whose largest values are shown; of others the first rows are."""
SENTENCES: Final = frozenset({"sentence", "assumption", "reason"})
"""Columns that are read as a whole."""
COUNTED: Final = frozenset(
    {
        *("events", "commits", "snapshots", "assignments", "members"),
        *("ownership", "commit_minutes", "lag"),
    }
)
"""Shown as a number of rows only: rows of these say nothing by themselves."""


def all_tables(data: Data, about: About, room: int) -> Html | None:
    """Answers and then tables, each folded, with rows of `room` bytes at most; a sentence about
    those that are not shown.
    """
    if not data.tables:
        return None
    full = [name for name, content in data.tables.items() if content.num_rows]
    shown = sorted((name for name in full if name not in COUNTED), key=TABLES.__contains__)
    made = _made(data, about, shown, min(room, MOST_BYTES))
    counted = [
        f"{name} ({count(data.tables[name].num_rows, 'row')})" for name in full if name in COUNTED
    ]
    empty = [_title(name, about) for name in data.tables if name not in full]
    return joined(
        [
            note("All rows are in the files of --out and --csv."),
            [made[name] for name in shown],
            note(f"Only counted here: {', '.join(counted)}.") if counted else None,
            note(f"Without rows: {', '.join(empty)}.") if empty else None,
        ]
    )


def _made(data: Data, about: About, names: Sequence[str], left: int) -> dict[str, Html]:
    made = {}
    waiting = sorted(names, key=lambda name: (name != FIRST, data.tables[name].num_rows))
    for at, name in enumerate(waiting):
        part = left // (2 if name == FIRST else len(waiting) - at)
        made[name], size = _folded(name, data.tables[name], about, part)
        left -= size
    return made


def _title(name: str, about: About) -> str:
    asked = about.questions.get(name)
    return name if asked is None else asked.title


def _folded(name: str, content: pa.Table, about: About, most: int) -> tuple[Html, int]:
    """With how many bytes its rows have. Columns without any value are left out."""
    asked, known = about.questions.get(name), TABLES.get(name)
    meaning = asked.meaning if asked is not None else known.about if known is not None else ""
    told = asked.columns if asked is not None else known.columns if known is not None else ()
    hints = {each.name: each.about for each in told}
    rows, order = _first(name, content, most // 40)
    rows = rows.select([each for each in rows.column_names if rows[each].null_count < len(rows)])
    columns = [_column(each, hints.get(each.name)) for each in rows.schema]
    lists = [rows[each].to_pylist() for each in rows.column_names]
    title = _title(name, about)
    html, number, size = table(title, columns, zip(*lists, strict=True), most)
    return folded(title, html, number, content.num_rows, f"{meaning} {order}".strip()), size


def _first(name: str, content: pa.Table, most: int) -> tuple[pa.Table, str]:
    """Some rows, the largest first where that has a meaning."""
    column = LARGEST.get(name)
    if column is None or column not in content.column_names or content.num_rows <= most:
        return _zoned(content.slice(0, most)), ""
    places = pc.select_k_unstable(content[column], most, [("", "descending")])
    return _zoned(content.take(places)), f"Those with the largest {column} are shown."


def _zoned(content: pa.Table) -> pa.Table:
    """Times as numbers, and their columns marked."""
    for at, each in enumerate(content.schema):
        if pa.types.is_timestamp(each.type):
            field = pa.field(each.name, pa.int64(), metadata={b"is": b"time"})
            content = content.set_column(at, field, milliseconds(content.column(at)))
    return content


def _column(field: pa.Field, hint: str | None) -> Column:
    title = field.name.replace("_ms", "").replace("_", " ")
    if field.metadata and field.metadata.get(b"is") == b"time":
        return Column(title, shown_time, hint=hint)
    if pa.types.is_boolean(field.type):
        return Column(title, shown_yes, hint=hint)
    if pa.types.is_list(field.type):
        return Column(title, shown_list, hint=hint)
    if not pa.types.is_integer(field.type) and not pa.types.is_floating(field.type):
        return Column(title, shown_words if field.name in SENTENCES else shown_name, hint=hint)
    if field.name.endswith("_ms"):
        return Column(title, shown_length, is_number=True, hint=hint, has_key=True)
    if re.search(r"(^|_)(share|within)$", field.name):
        return Column(title, _percent, is_number=True, hint=hint, has_key=True)
    if pa.types.is_floating(field.type):
        return Column(title, _real, is_number=True, hint=hint)
    is_name = field.name.endswith(("offset", "partition", "epoch", "generation", "round", "id"))
    return Column(title, _plain if is_name else shown_number, is_number=True, hint=hint)


def _plain(value: int | None) -> Child:
    return NONE if value is None else str(value)


def _real(value: float | None) -> Child:
    return NONE if value is None else f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _percent(value: float | None) -> Child:
    return NONE if value is None else share(value, 1)
