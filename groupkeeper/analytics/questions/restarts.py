"""Restarts of members, and changes of the coordinator."""

from collections.abc import Iterator
from typing import Final

from groupkeeper.analytics.history.schemas import INT, LONG, REAL, TEXT, TIME, Column
from groupkeeper.analytics.questions.asking import One, question, surest
from groupkeeper.analytics.questions.figures import GROUP, PLACE, evidence, most_common, rank
from groupkeeper.analytics.questions.rows import Row
from groupkeeper.why.sessions import session_above

_AWAY: Final = (
    *("instance", "away_ms", "from", "session_timeout_ms", "partition", "offset"),
    *("source", "confidence"),
)
ABSORBED: Final = 0.95
"""Share of the restarts that the proposed session outlasts."""
OUTAGE_MS: Final = 600_000
"""Who is away for longer was not restarted: its partitions should have another owner meanwhile."""


@question(
    "Restart gaps",
    "How long members are away when they restart: with an instance id and a session timeout above"
    " it, a restart needs no rebalance.",
    reads={"sessions": _AWAY},
    columns=(
        GROUP,
        Column("restarts", LONG, "Clients that came back, but for outages."),
        Column("outages", LONG, "Clients that were away for longer than `outage_ms`."),
        Column("static", LONG, "Restarts with an instance id."),
        Column("median_ms", LONG, "How long they were away: median."),
        Column("p95_ms", LONG, "The least time that 95 % did not exceed."),
        Column("longest_ms", LONG, "The longest."),
        Column("session_timeout_ms", LONG, "`session.timeout.ms` of most of them."),
        Column("within", REAL, "Share of the restarts that were shorter than that, 0 to 1."),
        Column("proposed_ms", LONG, "`session.timeout.ms` that absorbs 95 %, with some room."),
        Column("from", TIME, "The first of them was back."),
        Column("until", TIME, "The last one was back."),
        *PLACE,
    ),
)
def restart_gaps(one: One, *, outage_ms: int = OUTAGE_MS) -> Iterator[Row]:
    """Per group with restarts: sessions of clients that had been in it before (`away_ms`). The
    proposal is that of `groupkeeper why` for the time that 95 % did not exceed. Outages are counted
    and nothing else: no session timeout should outlast them.
    """
    back = [row for row in one["sessions"].dicts(*_AWAY) if row["away_ms"] is not None]
    rows = [row for row in back if row["away_ms"] <= outage_ms]
    if not rows:
        return
    gaps = [row["away_ms"] for row in rows]
    session, _ = most_common(row["session_timeout_ms"] for row in rows)
    p95 = rank(gaps, ABSORBED)
    assert p95 is not None
    times = [row["from"] for row in rows if row["from"] is not None]
    yield {
        "group": one.key[0],
        "restarts": len(rows),
        "outages": len(back) - len(rows),
        "static": sum(bool(row["instance"]) for row in rows),
        "median_ms": rank(gaps, 0.5),
        "p95_ms": p95,
        "longest_ms": max(gaps),
        "session_timeout_ms": session,
        "within": sum(gap < session for gap in gaps) / len(gaps) if session is not None else None,
        "proposed_ms": session_above(p95),
        "from": min(times, default=None),
        "until": max(times, default=None),
        **evidence(rows),
        **surest(*rows),
    }


_EPOCHS: Final = (*("epoch", "node", "from", "until", "first_offset", "last_offset"),)


@question(
    "Split brain",
    "Parts of the log that two coordinators wrote at one time. This must be empty.",
    key=("log", "partition"),
    reads={"epochs": _EPOCHS},
    columns=(
        Column("log", TEXT, "`__consumer_offsets` or `__group_events`."),
        Column("partition", INT, "Of that log."),
        Column("what", TEXT, "`overlap`: of offsets; `went_back`: an older epoch wrote after a"
               " newer one; `two_nodes`: one epoch had two writers."),
        Column("epoch", INT, "Leader epoch of the earlier part."),
        Column("node", INT, "Its node; null if it is not known."),
        Column("other_epoch", INT, "Leader epoch of the later part."),
        Column("other_node", INT, "Its node; null if it is not known."),
        Column("first_offset", LONG, "Where the later part begins."),
        Column("last_offset", LONG, "Where the earlier part ends."),
        Column("from", TIME, "First record of the later part."),
        Column("until", TIME, "Last record of the earlier part."),
    ),
)  # fmt: skip
def split_brain(one: One) -> Iterator[Row]:
    """Per partition of the log: ranges of offsets with one writer each, compared with the one
    before that reaches furthest. A leader epoch has one node, and epochs only rise along the log.
    """
    rows = one["epochs"].dicts(*_EPOCHS)
    before = rows[0]
    for after in rows[1:]:
        what = _conflict(before, after)
        if what is not None:
            yield {
                "log": one.key[0],
                "partition": one.key[1],
                "what": what,
                "epoch": before["epoch"],
                "node": before["node"],
                "other_epoch": after["epoch"],
                "other_node": after["node"],
                "first_offset": after["first_offset"],
                "last_offset": before["last_offset"],
                "from": after["from"],
                "until": before["until"],
            }
        before = max(before, after, key=lambda row: row["last_offset"])


def _conflict(before: Row, after: Row) -> str | None:
    nodes = {before["node"], after["node"]} - {None}
    if before["epoch"] == after["epoch"] and len(nodes) > 1:
        return "two_nodes"
    if after["first_offset"] <= before["last_offset"]:
        return "overlap"
    return "went_back" if after["epoch"] < before["epoch"] else None
