"""Requests that the coordinator refused: of members after their end, and commits that came too
late. Only events know of them.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from groupkeeper.analytics.history.schemas import INT, LONG, TEXT, TEXTS, TIME, Column
from groupkeeper.analytics.questions.asking import One, question, surest
from groupkeeper.analytics.questions.figures import (
    GROUP,
    PLACE,
    WHY,
    WHY_COLUMNS,
    evidence,
    last_before,
    started,
    why,
)
from groupkeeper.analytics.questions.members import LOST, MEMBER, WHO, first_of
from groupkeeper.analytics.questions.rows import Row

_SURE: Final = ("source", "confidence")
_END: Final = ("member", *WHO, "until", "ended_by", "likely")


@question(
    "Zombies",
    "Clients that went on after the group had removed them: what they did then was lost or done"
    " twice. One refused request tells a client that it is out; more say that it does not listen.",
    needs_events=True,
    reads={
        "refusals": (
            *("time", "first", "member", *WHO, "api", "error", "count", "partition", "offset"),
        ),
        "sessions": (*_END, "from", *WHY, "partition", *_SURE),
    },
    columns=(
        GROUP,
        *MEMBER,
        Column("removed", TIME, "When its session ended."),
        Column("ended_by", TEXT, "Code of the cause, or `replaced`."),
        Column("likely", TEXT, "What probably is behind its end; null without evidence."),
        Column("refused", LONG, "Requests that were refused afterwards."),
        Column("refused_commits", LONG, "Those that were to commit offsets."),
        Column("from", TIME, "The first one."),
        Column("until", TIME, "The last one."),
        Column("went_on_ms", LONG, "From the end of its session to the last one."),
        Column("apis", TEXTS, "Names of the requests."),
        Column("errors", TEXTS, "Kafka's names of the errors."),
        *WHY_COLUMNS,
        *PLACE,
    ),
)
def zombies(one: One, *, least: int = 1) -> Iterator[Row]:
    """Per member whose session ended: at least `least` requests under its member id that were
    refused after that. Requests that were refused before, of members that never had a session, or
    of those that were lost with a coordinator, are none. It was away from its last good request
    until the first refused one.
    """
    ends = _ended(one["sessions"].dicts(*_END, *WHY, *_SURE))
    found: dict[str, list[Row]] = defaultdict(list)
    for row in one["refusals"].dicts(
        *("time", "first", "member", *WHO, "api", "error", "count", "partition", "offset")
    ):
        end = ends.get(row["member"])
        if end is not None and row["time"] > end["until"]:
            found[row["member"]].append(row)
    for member, rows in sorted(found.items()):
        end = ends[member]
        refused = sum(row["count"] for row in rows)
        if refused < least:
            continue
        since = max(end["until"], min(first_of(row) for row in rows))
        until = max(row["time"] for row in rows)
        yield {
            "group": one.key[0],
            "member": member,
            **{name: rows[-1][name] or end[name] for name in WHO},
            "removed": end["until"],
            "ended_by": end["ended_by"],
            "likely": end["likely"],
            "refused": refused,
            "refused_commits": sum(row["count"] for row in rows if row["api"] in COMMITS),
            "from": since,
            "until": until,
            "went_on_ms": until - end["until"],
            "apis": sorted({row["api"] for row in rows}),
            "errors": sorted({row["error"] for row in rows}),
            **why([end]),
            "away_ms": since - end["until"] + (end["silent_ms"] or 0),
            **evidence(rows),
            **surest(end),
        }


def _ended(sessions: list[Row]) -> dict[str, Row]:
    """Member id -> its last session, if the group ended that."""
    last = {row["member"]: row for row in sessions}
    gone = {member: row for member, row in last.items() if row["until"] is not None}
    return {member: row for member, row in gone.items() if row["ended_by"] != LOST}


COMMITS: Final = frozenset({"OffsetCommit", "TxnOffsetCommit"})

_REFUSED: Final = (
    *("time", "first", "member", *WHO, "api", "error", "count", "round", "likely"),
    *("partition", "offset"),
)
_ROUND: Final = (
    *("started", "ended", "round", "generation", "cause", "likely", "by_member"),
    *("by_instance", "by_client_id", "by_host", "partition", "offset", *_SURE),
)


@question(
    "Refused commits",
    "Commits that came too late, and the rebalance that made them invalid: records since the last"
    " good commit were processed again by the next owner.",
    needs_events=True,
    reads={
        "refusals": _REFUSED,
        "rounds": _ROUND,
        "sessions": ("member", "from", "until", "ended_by", "partition"),
    },
    columns=(
        GROUP,
        *MEMBER,
        Column("api", TEXT, "Name of the request."),
        Column("error", TEXT, "Kafka's name of the error."),
        Column("refused", LONG, "How many."),
        Column("from", TIME, "The first one."),
        Column("until", TIME, "The last one."),
        Column("likely", TEXT, "What probably is behind it; null without evidence."),
        Column("round_started", TIME, "The rebalance began; null if none was read."),
        Column("generation", INT, "Its new generation."),
        Column("cause", TEXT, "Code of its first cause."),
        Column("by", TEXT, "Who began it: instance id, client id or member id."),
        Column("by_host", TEXT, "The same: address."),
        Column("after_ms", LONG, "From its beginning to the first refused commit."),
        *PLACE,
    ),
)
def refused_commits(one: One) -> Iterator[Row]:
    """Each refused OffsetCommit or TxnOffsetCommit (one row for those that were stored together),
    with the rebalance that made it invalid: of a member that was gone, the last one that had begun
    when it was removed; else the last one that had begun. Evidence is the refusal, then the
    rebalance.
    """
    ends = _ended(one["sessions"].dicts("member", "until", "ended_by"))
    rounds = [row for row in one["rounds"].dicts(*_ROUND) if started(row) is not None]
    rounds.sort(key=started)
    times = [started(row) for row in rounds]
    for row in one["refusals"].dicts(*_REFUSED):
        if row["api"] not in COMMITS:
            continue
        first = first_of(row)
        end = ends.get(row["member"], {"until": first})
        index = last_before(times, min(first, end["until"]) + 1)
        by = rounds[index] if index >= 0 else dict.fromkeys(_ROUND)
        yield {
            "group": one.key[0],
            **{name: row[name] for name in ("member", *WHO, "api", "error", "likely")},
            "refused": row["count"],
            "from": first,
            "until": row["time"],
            "round_started": started(by),
            "generation": by["generation"],
            "cause": by["cause"],
            "by": by["by_instance"] or by["by_client_id"] or by["by_member"],
            "by_host": by["by_host"],
            "after_ms": first - times[index] if index >= 0 else None,
            **evidence([row, by]),
            **surest(*([by] if index >= 0 else [])),
        }
