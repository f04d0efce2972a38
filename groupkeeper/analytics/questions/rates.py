"""How often groups rebalance, when, why, and what it costs.

A rebalance is a row of `rounds`: one join phase, whatever came of it.
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, Final

import numpy as np

from groupkeeper.analytics.history.schemas import INT, LONG, REAL, TEXT, TIME, Column
from groupkeeper.analytics.questions.asking import One, question, surest
from groupkeeper.analytics.questions.figures import (
    DAY_MS,
    GROUP,
    HOUR_MS,
    WHY,
    WHY_COLUMNS,
    joined_up,
    largest,
    most_common,
    name_of,
    overlap,
    rank,
    started,
    total,
    why,
)
from groupkeeper.analytics.questions.rows import Row

COST: Final = (
    Column("duration_ms", LONG, "Sum of their durations."),
    Column("unowned_ms", LONG, "Sum over partitions of the time without an owner meanwhile."),
)
CAUSE: Final = (
    Column("cause", TEXT, "Code of the first cause (docs/events.md); `unknown`: not found."),
    Column("likely", TEXT, "What probably is behind it; null without evidence."),
)
_SURE: Final = ("source", "confidence")


def _period(one: One, first: Row | None, start: int) -> tuple[int, int]:
    """From when to when the group was seen: a group with generation 1 is not older than that."""
    known = one.reach.known_from if one.reach.known_from is not None else one.reach.since
    is_new = first is not None and isinstance(first["generation"], int) and first["generation"] <= 1
    since = start if known is None or is_new else min(known, start)
    return since, max(since, one.reach.until or since)


@question(
    "Rebalance rate",
    "Groups at the top rebalance most: a group that nobody deploys should be near zero.",
    reads={
        "rounds": (
            *("started", "ended", "outcome", "generation", "duration_ms", "members", "partition"),
            *_SURE,
        )
    },
    columns=(
        GROUP,
        Column("rounds", LONG, "Rebalances, whatever came of them."),
        Column("completed", LONG, "Those with new assignments."),
        Column("from", TIME, "Since when the group was seen."),
        Column("until", TIME, "End of what was read."),
        Column("per_day", REAL, "Rebalances a day; of a shorter time than an hour, as of an hour."),
        Column("busiest_hour", TIME, "Beginning of the hour with the most rebalances."),
        Column("busiest_rounds", LONG, "How many began in it."),
        Column("median_ms", LONG, "Of their durations."),
        Column("longest_ms", LONG, "Of their durations."),
        Column("members", INT, "The most that took part."),
    ),
)
def rebalance_rate(one: One) -> Iterator[Row]:
    """Per group: all rebalances of the time that is known, divided by that time. It begins where
    the log is known from, or with the first rebalance of a group of generation 1.
    """
    rows = [
        row
        for row in one["rounds"].dicts(
            "started", "ended", "outcome", "generation", "duration_ms", "members"
        )
        if started(row) is not None
    ]
    if not rows:
        return
    since, until = _period(one, rows[0], min(started(row) for row in rows))
    hours = [started(row) // HOUR_MS * HOUR_MS for row in rows]
    busiest, many = most_common(hours)
    yield {
        "group": one.key[0],
        "rounds": len(rows),
        "completed": sum(row["outcome"] == "completed" for row in rows),
        "from": since,
        "until": until,
        "per_day": len(rows) * DAY_MS / max(until - since, HOUR_MS),
        "busiest_hour": busiest,
        "busiest_rounds": many,
        "median_ms": rank((row["duration_ms"] for row in rows), 0.5),
        "longest_ms": largest(row["duration_ms"] for row in rows),
        "members": largest(row["members"] for row in rows),
    }


@question(
    "Timeline",
    "Hours with many rebalances, and their cause: peaks at fixed times are deploys or batch jobs.",
    reads={
        "rounds": (
            *("started", "ended", "cause", "generation", "duration_ms", "unowned_ms", "moved"),
            *("partition", *_SURE),
        )
    },
    columns=(
        GROUP,
        Column("hour", TIME, "Beginning of the hour in which they began."),
        CAUSE[0],
        Column("rounds", LONG, "Rebalances."),
        Column("generation", INT, "The last generation."),
        *COST,
        Column("moved", LONG, "Partitions that got another owner."),
    ),
)
def timeline(one: One) -> Iterator[Row]:
    """Per group, hour and first cause: the rebalances that began in that hour. One whose beginning
    was not read counts where it ended.
    """
    found: dict[tuple[int, str], list[Row]] = defaultdict(list)
    columns = ("started", "ended", "cause", "generation", "duration_ms", "unowned_ms", "moved")
    for row in one["rounds"].dicts(*columns, *_SURE):
        if started(row) is not None:
            found[started(row) // HOUR_MS * HOUR_MS, str(row["cause"])].append(row)
    for (hour, cause), rows in sorted(found.items()):
        yield {
            "group": one.key[0],
            "hour": hour,
            "cause": cause,
            "rounds": len(rows),
            "generation": largest(row["generation"] for row in rows),
            "duration_ms": total(row["duration_ms"] for row in rows),
            "unowned_ms": total(row["unowned_ms"] for row in rows),
            "moved": total(row["moved"] for row in rows),
            **surest(*rows),
        }


@question(
    "Not stable",
    "The share of its time that a group spends in rebalances, and how long partitions had no owner:"
    " each partition-second is a second in which records of one partition waited.",
    reads={
        "rounds": ("started", "ended", "outcome", "generation", "partition", *_SURE),
        "ownership": (
            *("topic", "topic_partition", "from", "until", "is_owned", "partition"),
            *_SURE,
        ),
    },
    columns=(
        GROUP,
        Column("from", TIME, "Since when the group was seen."),
        Column("until", TIME, "End of what was read."),
        Column("not_stable_ms", LONG, "Time in which a rebalance was under way."),
        Column("share", REAL, "That part of the time, 0 to 1."),
        Column("empty_ms", LONG, "Time in which the group had no members."),
        Column("partitions", LONG, "Partitions that had an owner at some time."),
        Column("unowned_s", REAL, "Partition-seconds without an owner while it had members."),
        Column("unowned_empty_s", REAL, "The same while it had none."),
        Column("unowned_share", REAL, "`unowned_s` of all partition-seconds with members."),
    ),
)
def not_stable(one: One) -> Iterator[Row]:
    """Per group: the union of the times in which a rebalance was under way, and the sum over
    partitions of the times in which nobody owned them (`ownership`). A group is without members
    from a rebalance that ended `emptied` to the beginning of the next.
    """
    rounds, owned = one["rounds"], one["ownership"]
    rows = [
        row
        for row in rounds.dicts("started", "ended", "outcome", "generation")
        if started(row) is not None
    ]
    starts, ends = owned.numbers("from"), owned.numbers("until", one.reach.until or 0)
    times = [started(row) for row in rows] + ([int(starts.min())] if len(owned) else [])
    if not times:
        return
    since, until = _period(one, rows[0] if rows else None, min(times))
    # Any: times are numbers.
    open_at: Any = [until if row["ended"] is None else row["ended"] for row in rows]
    still = joined_up([started(row) for row in rows], open_at)
    empty = joined_up(*_empty(rows, until))
    is_owned = np.asarray(owned.column("is_owned").cast("int64")).astype(bool)
    codes, _ = owned.codes("topic", "topic_partition")
    lengths = np.maximum(ends - starts, 0)
    while_empty = overlap(starts, np.maximum(starts, ends), empty)
    served = lengths - while_empty
    unowned, seconds = int(served[~is_owned].sum()), int(served.sum())
    not_stable_ms = int((still[1] - still[0]).sum())
    yield {
        "group": one.key[0],
        "from": since,
        "until": until,
        "not_stable_ms": not_stable_ms,
        "share": not_stable_ms / (until - since) if until > since else 0.0,
        "empty_ms": int((empty[1] - empty[0]).sum()),
        "partitions": len(np.unique(codes[is_owned])),
        "unowned_s": unowned / 1000,
        "unowned_empty_s": int(while_empty[~is_owned].sum()) / 1000,
        "unowned_share": unowned / seconds if seconds else 0.0,
    }


# Any: times are numbers.
def _empty(rows: list[Row], until: int) -> tuple[list[Any], list[Any]]:
    """From when to when the group had no members."""
    starts: list[Any] = []
    ends: list[Any] = []
    for row, later in zip_longest(rows, rows[1:]):
        if row["outcome"] == "emptied" and row["ended"] is not None:
            starts.append(row["ended"])
            ends.append(until if later is None else max(started(later), started(row)))
    return starts, ends


BEGUN: Final = (
    "started", "ended", "group", "cause", "likely", "duration_ms", "unowned_ms",
    "by_member", "by_instance", "by_client_id", "by_host", "by_software", "partition", *_SURE,
)  # fmt: skip
_RANKED: Final = (
    *CAUSE,
    Column("rank", INT, "1 is the most frequent one."),
    Column("rounds", LONG, "Rebalances that it began."),
    Column("share", REAL, "Of all rebalances of this row's first column, 0 to 1."),
    Column("groups", LONG, "In how many groups."),
    Column("who", TEXT, "Who began the most: instance id or client id; null if nobody did."),
    Column("who_rounds", LONG, "How many of them."),
    *COST,
    Column("from", TIME, "The first."),
    Column("until", TIME, "The last."),
)


def _ranked(one: One) -> Iterator[Row]:
    """Causes of one key, the most frequent first; of equal ones by name."""
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    rows = one["rounds"].dicts(*BEGUN)
    for row in rows:
        found[str(row["cause"]), str(row["likely"] or "")].append(row)
    ranked = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    for place, ((cause, likely), some) in enumerate(ranked, start=1):
        who, many = most_common(
            name_of(row["by_instance"], row["by_client_id"], row["by_member"]) for row in some
        )
        times = [started(row) for row in some if started(row) is not None]
        yield {
            "cause": cause,
            "likely": likely or None,
            "rank": place,
            "rounds": len(some),
            "share": len(some) / len(rows),
            "groups": len({row["group"] for row in some}),
            "who": who,
            "who_rounds": many if who is not None else 0,
            "duration_ms": total(row["duration_ms"] for row in some),
            "unowned_ms": total(row["unowned_ms"] for row in some),
            "from": min(times, default=None),
            "until": max(times, default=None),
            **surest(*some),
        }


@question(
    "Causes by group",
    "What made each group rebalance: the first rows of a group are what to change first.",
    reads={"rounds": BEGUN, "sessions": ("from", "ended_by", "likely", *WHY)},
    columns=(GROUP, *_RANKED, *WHY_COLUMNS),
)
def causes(one: One) -> Iterator[Row]:
    """Per group and first cause (with what is likely behind it): its rebalances, ranked. The times
    at the end are of sessions that ended by this cause; of members that joined, of those that had
    been in the group before.
    """
    sessions = one["sessions"].dicts("from", "ended_by", "likely", *WHY)
    for row in _ranked(one):
        cause = row["cause"], row["likely"]
        ended = [each for each in sessions if (each["ended_by"], each["likely"]) == cause]
        if row["cause"] in _JOINED:
            ended = [each for each in sessions if each["away_ms"] is not None]
        yield {"group": one.key[0], **row, **why(ended)}


_JOINED: Final = frozenset({"member_joined", "static_member_joined"})


@question(
    "Causes by client software",
    "Which client library and version the rebalances come from: one version that stands out has a"
    " defect or other defaults.",
    key=("by_software",),
    reads={"rounds": BEGUN},
    columns=(Column("software", TEXT, "Name and version; null: not known."), *_RANKED),
)
def causes_by_software(one: One) -> Iterator[Row]:
    """Per client library of who triggered a rebalance, and first cause: as for groups."""
    for row in _ranked(one):
        yield {"software": one.key[0], **row}


@question(
    "Causes by host",
    "Which machines the rebalances come from: one that stands out is overloaded, or restarts.",
    key=("by_host",),
    reads={"rounds": BEGUN},
    columns=(Column("host", TEXT, "Address; null: not known."), *_RANKED),
)
def causes_by_host(one: One) -> Iterator[Row]:
    """Per address of who triggered a rebalance, and first cause: as for groups."""
    for row in _ranked(one):
        yield {"host": one.key[0], **row}
