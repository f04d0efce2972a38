"""Members that have nothing to do: one square a member, as the last group record has them."""

from collections import defaultdict
from collections.abc import Callable
from typing import Final

from groupkeeper.analytics.page.causes import swatch
from groupkeeper.analytics.page.data import Data
from groupkeeper.analytics.page.markup import Html, cut, tag
from groupkeeper.analytics.page.svg import WIDTH, Figure, box, label, picture
from groupkeeper.analytics.page.times import count

ROWS: Final = 20
SQUARES: Final = 40
"""Members of a group that are drawn."""
_ROW: Final = 22
_EDGE: Final = 300
_SIDE: Final = 14
_COLUMNS: Final = ("group", "time", "generation", "offset", "member", "assigned_partitions")


def idle_members(data: Data, link: Callable[[str], str | None]) -> Figure | None:
    """Groups with members without a partition in their last generation; None without one."""
    rows = [(group, busy, idle) for group, (busy, idle) in _last(data).items() if idle]
    rows.sort(key=lambda each: (-each[2], each[0]))
    if not rows:
        return None
    shown = rows[:ROWS]
    drawn = [
        _row(group, busy, idle, 4 + _ROW * row, link(group))
        for row, (group, busy, idle) in enumerate(shown)
    ]
    rest = len(rows) - len(shown)
    more = f" {count(rest, 'other group')} with fewer." if rest else ""
    total = sum(idle for _, _, idle in rows)
    return Figure(
        "idle",
        "Members with nothing assigned",
        "Look for hatched squares: these members run and read nothing, because a topic has fewer "
        "partitions than the group has members.",
        f"One square a member, in the last group record that was read.{more}",
        picture(
            "idle",
            8 + _ROW * len(shown),
            f"{count(total, 'member')} of {count(len(rows), 'group')} have no partition.",
            drawn,
            has_links=any(link(group) for group, _, _ in shown),
        ),
        tag("ul", tag("li", swatch("unowned"), "has no partition"), class_="legend"),
    )


def _last(data: Data) -> dict[str, tuple[int, int]]:
    """Group -> members with and without a partition, in its last record."""
    records: dict[str, dict[tuple[int, int], list[int]]] = defaultdict(lambda: defaultdict(list))
    for row in data.rows("members", _COLUMNS):
        if row["assigned_partitions"] is not None:
            at = (row["time"] or 0, row["offset"] or 0)
            records[row["group"]][at].append(row["assigned_partitions"])
    found = {}
    for group, by_record in records.items():
        last = by_record[max(by_record)]
        if any(last):
            found[group] = (sum(each > 0 for each in last), sum(each == 0 for each in last))
    return found


def _row(group: str, busy: int, idle: int, top: float, place: str | None) -> list[Html]:
    name = label(_EDGE - 8, top + 14, cut(group, 42), "end")
    kinds = ["idle"] * idle + ["busy"] * busy
    squares = [
        box(_EDGE + at * (_SIDE + 3), top + 3, _SIDE, _SIDE, kind)
        for at, kind in enumerate(kinds[:SQUARES])
    ]
    end = _EDGE + len(squares) * (_SIDE + 3) + 8
    words = f"{count(idle)} of {count(busy + idle)} have nothing"
    assert end < WIDTH
    return [
        tag("a", name, href=place) if place else name,
        *squares,
        label(end, top + 14, words, "small"),
    ]
