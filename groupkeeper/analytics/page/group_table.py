"""The table of all groups."""

from collections.abc import Callable
from typing import Final

from groupkeeper.analytics.page.data import Data, Group
from groupkeeper.analytics.page.markup import Child, Html, joined, name, tag
from groupkeeper.analytics.page.tables import (
    Column,
    scrolled,
    shown_length,
    shown_number,
    table,
)
from groupkeeper.analytics.page.times import NONE, count, share

TABLE_BYTES: Final = 240_000
"""Of the table of groups: a thousand with usual names need about 200 kB."""


def groups_part(data: Data, link: Callable[[str], str | None]) -> Html | None:
    if not data.groups:
        return None

    def shown_group(value: str) -> Child:
        place = link(value)
        return tag("a", name(value), href=place) if place else name(value)

    def shown_share(part: int | None) -> Child:
        return NONE if part is None else share(part, data.span.ms)

    columns = (
        Column("Group", shown_group),
        Column("Rebalances", shown_number, is_number=True),
        Column("Not stable", shown_length, is_number=True, has_key=True),
        Column("Share", shown_share, is_number=True),
        Column("Longest", shown_length, is_number=True, has_key=True),
        Column("No owner", shown_length, is_number=True, has_key=True),
        Column("Moved", shown_number, is_number=True),
        Column("Members", shown_number, is_number=True),
        Column("Usual cause", str),
    )
    rows = (_row(each) for each in data.groups)
    made, shown, _ = table(
        "Groups, those that were not stable for the longest first", columns, rows, TABLE_BYTES
    )
    left = len(data.groups) - shown
    note = f" {count(left)} are left out: the page has a limit of size." if left else ""
    return joined(
        [
            tag(
                "p",
                f"{count(len(data.groups), 'group')}.{note} No owner: summed over partitions.",
            ),
            _filter(),
            tag("div", scrolled("groups", made), id="groups-table", class_="groups"),
        ]
    )


def _row(group: Group) -> tuple[object, ...]:
    usual = group.usual
    assert usual is not None
    family, number = usual
    return (
        group.name,
        len(group.rounds),
        group.not_stable,
        group.not_stable,
        group.longest_ms if group.is_timed else None,
        group.unowned_ms or None,
        group.moved,
        group.members,
        f"{family.letter} {family.label} {share(number, len(group.rounds))}",
    )


def _filter() -> Html:
    """Shown by the script, which it needs."""
    return tag(
        "div",
        tag("label", "Find a group ", tag("input", type="search", data_table="groups-table")),
        tag("span", role="status", class_="quiet"),
        class_="filter",
        hidden="",
    )
