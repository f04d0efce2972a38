"""Findings about how a group is all the time: its restarts, assignment, lag."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from groupkeeper.analytics.history.schemas import LOG
from groupkeeper.analytics.questions.finding import (
    HIGH,
    INFO,
    LOW,
    MEDIUM,
    Answers,
    Finder,
    Finding,
    Row,
    name_of,
)
from groupkeeper.analytics.questions.telling import (
    advise,
    because,
    change,
    did,
    percent,
    plain,
    quoted,
    session_in,
    times,
    who,
)
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
    first = {row["group"]: row for row in rows.get("causes", ()) if row["rank"] == 1}
    for row in rows["rebalance_rate"]:
        group, cause = row["group"], first.get(row["group"])
        if row["per_day"] < OFTEN or 2 * stormy[group] > row["rounds"] or cause is None:
            continue
        if row["rounds"] < OFTEN:
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
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows["idle_members"]:
        if row["share"] > 0.5:
            found[row["group"]].append(row)
    for group, some in found.items():
        clients = _clients(some)
        longest = max(clients, key=lambda row: row["idle_ms"])
        known = (
            f" The group has {count(partitions[group], 'partition')}."
            if group in partitions
            else ""
        )
        sentence = (
            f"{count(len(clients), 'client')} of group {quoted(group)} had nothing to do, "
            f"{who(longest)} for {span(longest['idle_ms'])}.{known} Run fewer members, or add "
            "partitions."
        )
        yield Finding(LOW, sentence, longest)


def _clients(sessions: Iterable[Row]) -> list[Row]:
    """One row for each client, over its restarts."""
    found: dict[str | None, list[Row]] = defaultdict(list)
    for row in sessions:
        found[name_of(row)].append(row)
    return [
        max(some, key=lambda row: row["until"] - row["from"])
        | {"idle_ms": sum(row["idle_ms"] for row in some)}
        for some in found.values()
    ]


def _skew(rows: Answers) -> Iterator[Finding]:
    """One for each group, with the member that has most by its share."""
    worst: dict[str, Row] = {}
    for row in rows["skew"]:
        is_much = row["ratio"] >= SKEWED and row["partitions"] - row["fair"] > 1
        if is_much and row["ratio"] > worst.get(row["group"], {"ratio": 0})["ratio"]:
            worst[row["group"]] = row
    for row in worst.values():
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
        cost, changes = row["unowned_ms"], row["changes"]
        if row["is_cooperative"] is False and changes and (cost or 0) >= EAGER_MS:
            sentence = (
                f"Group {quoted(row['group'])} takes all partitions away in each rebalance "
                f"({plain(row['protocol'])}): {count(changes, 'change')} of its members "
                f"cost {_up_to(row)}{span(cost)} of partition time. With {_STRATEGY} set to "
                f"{_STICKY} for all members only partitions that move stand still."
            )
            setting = {"config_key": _STRATEGY, "now": row["protocol"], "proposed": _STICKY}
            severity = LOW if row["source"] == LOG else MEDIUM
            yield Finding(severity, sentence, row, cost / 1000, setting, row["protocol"])


def _lag(rows: Answers) -> Iterator[Finding]:
    """One for each group, with the partition that is most behind."""
    worst: dict[str, Row] = {}
    for row in rows["lag_seconds"]:
        if (
            row["now_ms"] >= BEHIND_MS
            and row["now_ms"] > worst.get(row["group"], row | {"now_ms": 0})["now_ms"]
        ):
            worst[row["group"]] = row
    for row in worst.values():
        sentence = (
            f"Group {quoted(row['group'])} is {span(row['now_ms'])} behind in partition "
            f"{row['topic_partition']} of {plain(row['topic'])}, {span(row['median_ms'])} "
            "in the median: add members or partitions, or find what slows it down."
        )
        yield Finding(MEDIUM, sentence, row)


def _steps(rows: Answers) -> Iterator[Finding]:
    """One for each group, with its first change."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows["rhythm_steps"]:
        found[row["group"]].append(row)
    for group, some in found.items():
        first = min(some, key=lambda row: row["at"])
        whole = first | {"from": first["at"], "until": max(row["at"] for row in some)}
        sentence = (
            f"The commit rhythm of group {quoted(group)} changed {count(len(some), 'time')}, first "
            f"in partition {first['topic_partition']} of {plain(first['topic'])} from "
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
