"""Findings about how a group is all the time: its restarts, assignment, lag."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from groupkeeper.analytics.questions.finding import (
    HIGH,
    INFO,
    LOW,
    MEDIUM,
    Answers,
    Finder,
    Finding,
    Row,
    advise,
    because,
    change,
    did,
    grouped,
    name_of,
    percent,
    plain,
    quoted,
    session_in,
    times,
    who,
)
from groupkeeper.analytics.schemas import LOG
from groupkeeper.why.texts import count, span

OUTAGE_MS: Final = 600_000
"""The default of `outage_ms` of `restart_gaps`."""
UNSTABLE: Final = 0.01
"""A group that is not stable for this share of its time is worth a finding."""
VERY_UNSTABLE: Final = 0.05
OFTEN: Final = 10.0
"""The same for this many rebalances a day, if no storm has most of them."""
RESTARTS: Final = 3
"""Fewer restarts say nothing about the next ones."""
SKEWED: Final = 2.0
"""The same for a member with this many times its share."""
BEHIND_MS: Final = 300_000
"""The same for a lag of this age at the end."""
EAGER_MS: Final = 60_000
"""The same for an eager group that cost this much time of partitions."""


def _restarts(rows: Answers) -> Iterator[Finding]:
    """Where most restarts cost a rebalance."""
    for row in rows["restart_gaps"]:
        if row["restarts"] < RESTARTS:
            continue
        is_enough = row["within"] is not None and row["within"] >= 0.95
        is_static = row["static"] == row["restarts"]
        if is_enough and is_static:
            continue
        known, proposed = row["session_timeout_ms"], row["proposed_ms"]
        session = max(known or 0, proposed)
        first = "" if is_static else "give each member a group.instance.id, and "
        price = "" if session == known else " A member that dies keeps its partitions as long."
        beside = (
            f" (beside {count(row['outages'], 'absence')} of more than {span(OUTAGE_MS)})"
            if row["outages"]
            else ""
        )
        most = "at most " if row["source"] == LOG else ""  # counted from the last commit
        verb = "set" if price else "keep"
        advice = f"{first}{verb} session.timeout.ms={session} ({span(session)})"
        sentence = (
            f"Members of group {quoted(row['group'])} restarted {row['restarts']} times{beside}, "
            f"and 95 % were back after {most}{span(row['p95_ms'])}: {advice}, and these restarts "
            f"need no rebalance.{price}"
        )
        about = row | {"instance": True if is_static else None}
        yield Finding(MEDIUM, sentence, row, None, change(advice, about), session_ms=session)


def _up_to(row: Row) -> str:
    """Without events a partition has no owner from its last commit on."""
    return "up to " if row["source"] == LOG else ""


def _not_stable(rows: Answers) -> Iterator[Finding]:
    for row in rows["not_stable"]:
        if row["share"] >= UNSTABLE:
            sentence = (
                f"Group {quoted(row['group'])} was not stable for {span(row['not_stable_ms'])}, "
                f"{percent(row['share'])} of the time {times(row['from'], row['until'])}; its "
                f"partitions had no owner for {_up_to(row)}{row['unowned_s']:.0f} "
                "partition-seconds."
            )
            severity = HIGH if row["share"] >= VERY_UNSTABLE else MEDIUM
            yield Finding(severity, sentence, row, row["unowned_s"])


def _often(rows: Answers) -> Iterator[Finding]:
    """Groups that rebalance all the time, without a storm."""
    stormy: Counter[str] = Counter()
    for row in rows.get("storms", ()):
        stormy[row["group"]] += row["rounds"]
    first = {row["group"]: row for row in rows.get("causes", ())}
    for row in rows["rebalance_rate"]:
        group, cause = row["group"], first.get(row["group"])
        if 2 * stormy[group] > row["rounds"] or cause is None:
            continue
        about = cause | {"group": group, "client_id": cause["who"], "host": None}
        text = advise(cause["cause"], cause["likely"], about)
        told = did(cause["cause"], cause["likely"], about)
        why = because(about, told, "{} or another client")
        sentence = (
            f"Group {quoted(group)} rebalanced {row['rounds']} times "
            f"{times(row['from'], row['until'])}, {row['per_day']:.1f} times a day; "
            f"{cause['rounds']} times {why}. {text}"
        )
        asked = session_in(text)
        yield Finding(MEDIUM, sentence, row, None, change(text, about), session_ms=asked)


def _idle(rows: Answers) -> Iterator[Finding]:
    """One for each group, with the clients whose members were idle for most of their time."""
    partitions = {row["group"]: row["partitions"] for row in rows.get("not_stable", ())}
    for some in grouped(rows["idle_members"], "group"):
        clients, group = _clients(some), some[0]["group"]
        longest = max(clients, key=lambda row: row["idle_ms"])
        has = partitions.get(group)
        known = "" if has is None else f" The group has {count(has, 'partition')}."
        sentence = (
            f"{count(len(clients), 'client')} of group {quoted(group)} had nothing to do, "
            f"{who(longest)} for {span(longest['idle_ms'])}.{known} Run fewer members, or add "
            "partitions."
        )
        yield Finding(LOW, sentence, longest)


def _clients(sessions: Iterable[Row]) -> list[Row]:
    """One row for each client, over its restarts."""
    return [
        max(some, key=lambda row: row["until"] - row["from"])
        | {"idle_ms": sum(row["idle_ms"] for row in some)}
        for some in grouped((row | {"name": name_of(row)} for row in sessions), "name")
    ]


def _skew(rows: Answers) -> Iterator[Finding]:
    """One for each group, with the member that has most by its share."""
    for some in grouped(rows["skew"], "group"):
        row = max(some, key=lambda row: row["ratio"])
        sentence = (
            f"{who(row)} had {row['partitions']:.1f} partitions of group {quoted(row['group'])}, "
            f"{row['ratio']:.1f} times its share of {row['fair']:.1f}: with "
            "partition.assignment.strategy set to cooperative-sticky members share alike."
        )
        setting = {"config_key": _STRATEGY, "now": None, "proposed": _STICKY}
        yield Finding(LOW, sentence, row, None, setting)


_STRATEGY, _STICKY = "partition.assignment.strategy", "cooperative-sticky"


def _eager(rows: Answers) -> Iterator[Finding]:
    for row in rows["cooperative_or_eager"]:
        cost = row["unowned_ms"]
        sentence = (
            f"Group {quoted(row['group'])} takes all partitions away in each rebalance "
            f"({plain(row['protocol'])}): {count(row['changes'], 'change')} of its members "
            f"cost {_up_to(row)}{span(cost)} of partition time. With {_STRATEGY} set to "
            f"{_STICKY} for all members only partitions that move stand still."
        )
        setting = {"config_key": _STRATEGY, "now": row["protocol"], "proposed": _STICKY}
        severity = LOW if row["source"] == LOG else MEDIUM
        yield Finding(severity, sentence, row, cost / 1000, setting, row["protocol"])


def _lag(rows: Answers) -> Iterator[Finding]:
    """One for each group, with the partition that is most behind."""
    for some in grouped(rows["lag_seconds"], "group"):
        row = max(some, key=lambda row: row["now_ms"])
        sentence = (
            f"Group {quoted(row['group'])} is {span(row['now_ms'])} behind in partition "
            f"{row['topic_partition']} of {plain(row['topic'])}, {span(row['median_ms'])} "
            "in the median: add members or partitions, or find what slows it down."
        )
        yield Finding(MEDIUM, sentence, row)


def _steps(rows: Answers) -> Iterator[Finding]:
    """One for each group, with its first change."""
    for some in grouped(rows["rhythm_steps"], "group"):
        first = min(some, key=lambda row: row["at"])
        whole = first | {"from": first["at"], "until": max(row["at"] for row in some)}
        sentence = (
            f"The commit rhythm of group {quoted(first['group'])} changed "
            f"{count(len(some), 'time')}, first in partition {first['topic_partition']} of "
            f"{plain(first['topic'])} from "
            f"{first['before_per_minute']:.2g} to {first['after_per_minute']:.2g} commits a minute."
        )
        yield Finding(INFO, sentence, whole)


STATES: Final[Mapping[str, Finder]] = {
    "restart_gaps": _restarts,
    "not_stable": _not_stable,
    "rebalance_rate": _often,
    "idle_members": _idle,
    "skew": _skew,
    "cooperative_or_eager": _eager,
    "lag_seconds": _lag,
    "rhythm_steps": _steps,
}
"""By question."""
