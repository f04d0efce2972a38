"""Tables with the headings of Kafka's tools, or the same rows as JSON, one object a line."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from groupkeeper.why.texts import aligned, printable

NOTHING = "-"
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
        lines = [[printable(text(row[key])) for key in self._columns] for row in rows]
        if lines:
            print()
            print(*aligned([[*self._columns.values()], *lines]), sep="\n")


def text(value: Any) -> str:
    """A cell; a mapping of topics to partitions as Kafka writes it, "t:0,1;u:2"."""
    if value is None or value in ("", {}):
        return NOTHING
    if isinstance(value, Mapping):
        return ";".join(
            f"{topic}:{','.join(map(str, some))}" for topic, some in sorted(value.items())
        )
    return f"{value:.1f}" if isinstance(value, float) else str(value)
