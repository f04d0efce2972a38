"""Tables as Kafka's tools print them, or the same rows as JSON, one object a line."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from groupkeeper.why.texts import printable

NOTHING = "-"
SMALLEST_WIDTHS = {"GROUP": 15, "TOPIC": 15, "PARTITION": 10, "CONSUMER-ID": 15, "HOST": 15}
Row = Mapping[str, Any]


class Table:
    """`columns` are the keys of the rows, and of the JSON, with their headings."""

    def __init__(self, columns: Mapping[str, str], *, as_json: bool) -> None:
        self._columns = columns
        self._as_json = as_json

    def show(self, rows: Iterable[Row]) -> None:
        """An empty line, the headings and the rows; nothing if there are none."""
        if self._as_json:
            for row in rows:
                print(json.dumps({key: row[key] for key in self._columns}, ensure_ascii=False))
            return
        lines = [[text(row[key]) for key in self._columns] for row in rows]
        if lines:
            print()
            show_lines([[*self._columns.values()], *lines])


def show_lines(lines: Sequence[Sequence[str]]) -> None:
    """Print cells below each other; the widths of the columns are Kafka's, or larger."""
    lines = [[printable(cell) for cell in cells] for cells in lines]
    widths = [
        max(SMALLEST_WIDTHS.get(cells[0], 0), *map(len, cells))
        for cells in zip(*lines, strict=True)
    ]
    for cells in lines:
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        print(" ".join(padded).rstrip())


def text(value: Any) -> str:
    """A cell; a mapping of topics to partitions as Kafka writes it, "t:0,1;u:2"."""
    if value is None or value in ("", {}):
        return NOTHING
    if isinstance(value, Mapping):
        return ";".join(
            f"{topic}:{','.join(map(str, some))}" for topic, some in sorted(value.items())
        )
    return f"{value:.1f}" if isinstance(value, float) else str(value)
