"""Tables with the headings of Kafka's tools, or the same rows as JSON, one object per line."""

from collections.abc import Mapping, Sequence
from typing import Any

from groupkeeper.cli.json_text import json_text
from groupkeeper.why.texts import aligned, printable

NOTHING = "-"
HEADINGS = {"coordinator": "COORDINATOR (ID)", "members": "#MEMBERS", "partitions": "#PARTITIONS"}
"""Headings by column, where they are not just the column's name in capitals."""
TableRow = Mapping[str, Any]


def show(rows: Sequence[TableRow], *, as_json: bool) -> None:
    """Print an empty line, headings and rows, whose keys are the columns; nothing without rows."""
    if as_json:
        for row in rows:
            print(json_text(row))
    elif rows:
        headings = [HEADINGS.get(key, key.upper().replace("_", "-")) for key in rows[0]]
        cells = [[printable(text(each)) for each in row.values()] for row in rows]
        print("", *aligned([headings, *cells]), sep="\n")


def text(value: Any) -> str:
    """Format a cell; a mapping of topics to partitions as in Kafka, "t:0,1;u:2"."""
    if value is None or value in ("", {}):
        return NOTHING
    if isinstance(value, Mapping):
        return ";".join(
            f"{topic}:{','.join(map(str, some))}" for topic, some in sorted(value.items())
        )
    return f"{value:.1f}" if isinstance(value, float) else str(value)
