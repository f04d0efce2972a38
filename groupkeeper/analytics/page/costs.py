"""What rebalances cost and who is behind them: the worst groups, and rows of answers, as bars."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from groupkeeper.analytics.page.data import Data, Row, legend
from groupkeeper.analytics.page.figure import Figure, Lane, LaneRow, Link, Scale
from groupkeeper.analytics.page.markup import joined, linked, name
from groupkeeper.analytics.page.overview import counts_of
from groupkeeper.analytics.page.times import Span, count, told

ROWS: Final = 15


@dataclass(frozen=True, slots=True)
class Answer:
    """How the rows of an answer with the largest `by` are drawn: `words` has columns in braces, and
    `look` is that of the bar, up to the column `within`, if there is one.
    """

    name: str
    title: str
    look_for: str
    unit: str
    by: str
    words: str
    look: str
    within: str = ""


ANSWERS: Final = (
    Answer(
        "barrier",
        "Who held others up at the join barrier",
        "Look for a client that is far ahead of the others: all members wait until it polls.",
        "Unit: how much later than the one before it joined, summed up; in how many of the "
        "rebalances with several members. Those of less than a second are left out.",
        "held_ms",
        "{held_ms} in {held}, {share}; longest {longest_ms}",
        "p1",
    ),
    Answer(
        "restart_gaps",
        "How long clients were away that came back",
        "Look at what was shorter than the session timeout: with group.instance.id these "
        "restarts need no rebalance. The arrow leads to the timeout that 95 % of them need.",
        "Unit: restarts.",
        "restarts",
        "{restarts} restarts, half within {median_ms}, 95 % within {p95_ms}, longest {longest_ms}; "
        "session.timeout.ms {session_timeout_ms} → {proposed_ms}",
        "beyond",
        "within",
    ),
    Answer(
        "idle_members",
        "Members with nothing assigned",
        "Look for those that are idle all the time: they run and read nothing, because a topic has "
        "fewer partitions than the group has members.",
        "Unit: time as a member without a partition, and its share of the time as a member.",
        "idle_ms",
        "{idle_ms}, {share}",
        "unowned",
    ),
)


def not_stable(data: Data, link: Link) -> Figure | None:
    """The groups that were not stable for the longest, by cause."""
    worst = [each for each in data.groups.slice(0, ROWS).to_pylist() if each["not_stable_ms"]]
    if not worst:
        return None
    names, whole = [each["group"] for each in worst], Span(data.shown.start, data.shown.end + 1)
    lost = counts_of(data.rounds, Scale(whole, 1), names, "duration_ms")[:, 0]
    rest = len(data.groups) - len(worst)
    more = f" {count(rest, 'other group')}: see the table of groups." if rest else ""
    rows: list[LaneRow] = [
        (
            linked(each["group"], link(each["group"])),
            _words("{not_stable_ms}, {share}; longest {longest_ms}", each),
            _bars(*((f"p{at}", part) for at, part in enumerate(parts))),
        )
        for each, parts in zip(worst, lost.tolist(), strict=True)
    ]
    return _figure(
        "not-stable",
        "How long groups were not stable, by cause",
        "Look for the longest bar, and for the texture that fills most of it: that is what to "
        "change first.",
        "Unit: time in which a rebalance was under way, its share of all the time, and the longest "
        f"rebalance.{more}",
        rows,
        legend(np.flatnonzero(lost.sum(axis=0))),
    )


def answer(data: Data, asked: Answer, link: Link) -> Figure | None:
    """None without rows."""
    rows: list[LaneRow] = []
    for row in data.most(asked.name, asked.by, ROWS):
        within = (row[asked.within] or 0) * row[asked.by] if asked.within else 0
        words = _words(asked.words, row)
        lane = _bars(("within", round(within)), (asked.look, row[asked.by] - round(within)))
        rows.append((joined([_client(row), linked(row["group"], link(row["group"]))]), words, lane))
    looks = ("within", "shorter than the session timeout"), ("beyond", "longer, or not known")
    shown = looks if asked.within else ()
    return _figure(asked.name, asked.title, asked.look_for, asked.unit, rows, shown)


def _words(template: str, row: Row) -> str:
    """With the values of columns that are named in braces."""
    columns = re.findall(r"\{(\w+)\}", template)
    return template.format(**{each: told(each, row[each]) for each in columns})


def _client(row: Row) -> Sequence[str] | None:
    if "host" not in row:
        return None
    who = row["instance"] or row["client_id"] or row["member"] or "a client"
    return [name(f"{who} on {row['host']}" if row["host"] else who), ", "]


def _bars(*parts: tuple[str, float]) -> Lane:
    """Looks with amounts, one behind the other."""
    ends = [sum(amount for _, amount in parts[:at]) for at in range(len(parts) + 1)]
    return {
        "bars": [(ends[at], ends[at + 1], look) for at, (look, part) in enumerate(parts) if part]
    }


def _figure(
    identity: str,
    title: str,
    look_for: str,
    unit: str,
    rows: Sequence[LaneRow],
    looks: Sequence[tuple[str, str]] = (),
) -> Figure | None:
    """Bars to one scale from zero."""
    if not rows:
        return None
    most = max(lane["bars"][-1][1] for _, _, lane in rows)
    return Figure(identity, title, look_for, unit, rows, {"of": most, "legend": looks}, "bars")
