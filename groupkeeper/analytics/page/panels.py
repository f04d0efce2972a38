"""Single groups: ownership, commits and lag of those that a reader probably asks for next."""

from collections.abc import Sequence
from typing import Final

from groupkeeper.analytics.page.curves import curves
from groupkeeper.analytics.page.data import Data, Group, Row
from groupkeeper.analytics.page.markup import Html, joined, name, tag
from groupkeeper.analytics.page.owners import ownership
from groupkeeper.analytics.page.times import count, length, share

GROUPS: Final = 10
"""Those that findings are about, and then those that were not stable for the longest."""
PANELS_BYTES: Final = 300_000
"""Of all together; the first ones are shown."""


class Panels:
    """The groups that have a panel, and the places of these in the page."""

    def __init__(self, data: Data, findings: Sequence[Row]) -> None:
        known = {each.name: each for each in data.groups}
        wanted = [row["group"] for row in findings] + [*known]
        chosen = [known[each] for each in dict.fromkeys(wanted) if each in known][:GROUPS]
        self._made: dict[str, Html] = {}
        size = 0
        for number, group in enumerate(chosen, 1):
            made = _panel(data, group, f"group-{number}")
            if made is None:
                continue
            size += len(made.encode("utf-8"))
            if size > PANELS_BYTES:
                break
            self._made[group.name] = made
        self._places = {group.name: f"group-{number}" for number, group in enumerate(chosen, 1)}

    def link(self, group: str) -> str | None:
        """Where more is said of a group."""
        return f"#{self._places[group]}" if group in self._made else None

    def html(self) -> Html | None:
        """All of them, with a choice of one where scripts run."""
        if not self._made:
            return None
        options = [tag("option", group, value=self._places[group]) for group in self._made]
        options.append(tag("option", "all of these", value=""))
        choose = tag(
            "div",
            tag("label", "Show ", tag("select", options, id="choose")),
            class_="choose",
            hidden="",
        )
        return joined([choose, *self._made.values()])


def _times(data: Data, group: Group) -> list[str]:
    if not group.is_timed:
        return ["of unknown duration"]
    part = share(group.not_stable_ms, data.span.ms)
    return [
        f"not stable for {length(group.not_stable_ms)} ({part} of the time)",
        f"the longest {length(group.longest_ms)}",
    ]


def _panel(data: Data, group: Group, identity: str) -> Html | None:
    figures = [ownership(data, group, identity), curves(data, group, identity)]
    drawn = [each.html() for each in figures if each is not None]
    if not drawn:
        return None
    usual = group.usual
    words = [
        count(len(group.rounds), "rebalance"),
        *_times(data, group),
        f"mostly: {usual[0].label}" if usual else "",
        "inferred" if group.is_inferred else "",
    ]
    return tag(
        "article",
        tag("h3", name(group.name, 120), class_="title"),
        tag("p", ", ".join(filter(None, words)), ".", class_="quiet"),
        drawn,
        id=identity,
        class_="group-panel",
    )
