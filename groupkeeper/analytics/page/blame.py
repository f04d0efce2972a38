"""Which groups were not stable for how long, and who held the others up at the join barrier."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from groupkeeper.analytics.page.bars import Bar, bars
from groupkeeper.analytics.page.causes import FAMILIES, legend
from groupkeeper.analytics.page.data import Data, Row
from groupkeeper.analytics.page.svg import Figure, picture
from groupkeeper.analytics.page.times import count, length, share

ROWS: Final = 15
HELD_MS: Final = 1_000
"""Who joins at least so much later than the one before has held the others up."""
_COLUMNS: Final = (
    *("group", "last_instance", "last_client_id", "last_host", "last_member", "held_ms"),
    "members",
)


def not_stable(data: Data, link: Callable[[str], str | None]) -> Figure | None:
    """Bars of the worst groups, by cause."""
    worst = [each for each in data.groups if each.not_stable_ms > 0][:ROWS]
    if not worst:
        return None
    rows = [
        Bar(
            each.name,
            [(f"p{kind.number}", each.by_family_ms[kind]) for kind in FAMILIES],
            f"{length(each.not_stable_ms)}, {share(each.not_stable_ms, data.span.ms)}; longest "
            f"{length(each.longest_ms)}",
            link(each.name),
        )
        for each in worst
    ]
    drawn, height = bars(rows)
    rest = len(data.groups) - len(worst)
    more = f" {count(rest, 'other group')}: see the table of groups." if rest else ""
    says = f"{worst[0].name} was not stable for the longest: {length(worst[0].not_stable_ms)}."
    return Figure(
        "not-stable",
        "How long groups were not stable, by cause",
        "Look for the longest bar, and for the pattern that fills most of it: that is what to "
        "change first.",
        "Unit: time in which a rebalance was under way, its share of all the time, and the "
        f"longest rebalance.{more}",
        picture("not-stable", height, says, drawn, has_links=any(each.href for each in rows)),
        legend([each for each in FAMILIES if any(group.by_family_ms[each] for group in worst)]),
    )


@dataclass(slots=True)
class _Held:
    """What one client cost a group."""

    group: str
    who: str
    times: int = 0
    ms: int = 0
    longest_ms: int = 0


def barrier(data: Data, link: Callable[[str], str | None]) -> Figure | None:
    """Bars of clients that joined last; None if nobody was late."""
    found: dict[tuple[str, str], _Held] = {}
    several: dict[str, int] = defaultdict(int)
    for row in data.rows("rounds", _COLUMNS):
        several[row["group"]] += (row["members"] or 0) > 1
        if (row["held_ms"] or 0) >= HELD_MS:
            who = _who(row)
            held = found.setdefault((row["group"], who), _Held(row["group"], who))
            held.times += 1
            held.ms += row["held_ms"]
            held.longest_ms = max(held.longest_ms, row["held_ms"])
    worst = sorted(found.values(), key=lambda each: (-each.ms, each.group, each.who))
    if not worst:
        return None
    rows = [
        Bar(
            f"{each.who}, {each.group}",
            [("p1", each.ms)],
            f"{length(each.ms)} in {count(each.times)} of {count(several[each.group])}; longest "
            f"{length(each.longest_ms)}",
            link(each.group),
        )
        for each in worst[:ROWS]
    ]
    drawn, height = bars(rows)
    says = f"First: {rows[0].label}, {rows[0].words}."
    rest = len(worst) - len(rows)
    more = f" {count(rest, 'other client')} held others up for less." if rest > 0 else ""
    return Figure(
        "barrier",
        "Who held others up at the join barrier",
        "Look for a client that is far ahead of the others: all members wait until it polls.",
        "Unit: how much later than the one before it joined, summed up; in how many of the "
        f"rebalances with several members. Those of less than a second are left out.{more}",
        picture(
            "barrier",
            height,
            says,
            drawn,
            has_links=any(each.href for each in rows),
        ),
    )


def _who(row: Row) -> str:
    who = row["last_instance"] or row["last_client_id"] or row["last_member"] or "a client"
    return f"{who} on {row['last_host']}" if row["last_host"] else str(who)
