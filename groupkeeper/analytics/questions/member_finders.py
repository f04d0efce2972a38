"""Finds what to say about members: slow to rejoin, often restarted, idle, or with unequal shares.

The functions return findings about a row of an answer, about the rows of a group, or about all
answers; `finders.FINDERS` has the question of each.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from groupkeeper.analytics.questions.finding import (
    INFO,
    LOW,
    MEDIUM,
    AnswerRow,
    Answers,
    Finding,
    change,
    clients,
    grouped,
    percent,
    plain,
    quoted,
    round_of,
    up_to,
    who,
)
from groupkeeper.analytics.schemas import LOG
from groupkeeper.why.advice import LATE_MS, late_for_polls
from groupkeeper.why.client_settings import INSTANCE, SESSION
from groupkeeper.why.gate import Audience, SettingChange, judge
from groupkeeper.why.proposals import EACH, absence_cost, incremental
from groupkeeper.why.texts import count, span

HOLDS: Final = 3
"""A client that held up the join barrier at least this often is a finding."""

RESTARTS: Final = 3
"""Fewer restarts do not predict the next ones."""

OUTAGE_MS: Final = 600_000
"""The default of `outage_ms` of `restart_gaps`."""


def find_slow_to_rejoin(rows: Answers) -> Iterator[Finding]:
    """Yield one finding for each group: about the client that returned to poll latest, if by
    LATE_MS or more, or else the one that held up rebalances longest.
    """
    for some in grouped((row for row in rows["barrier"] if row["held"] >= HOLDS), "group"):
        row = max(some, key=lambda each: (_late(each), each["held_ms"]))
        others = f" So did {count(len(some) - 1, 'other client')}." if len(some) > 1 else ""
        sentence = (
            f"{who(row)} held up {row['held']} rebalances of group {quoted(row['group'])} "
            f"({percent(row['share'])}) for {span(row['held_ms'])} in all, "
            f"{span(row['longest_ms'])} at most.{others}"
        )
        if not _late(row):
            yield Finding(LOW, sentence, row)
        else:
            text = late_for_polls(Audience.of(round_of(row)), row["longest_join_ms"])
            yield Finding(MEDIUM, f"{sentence} {text}", row, None, change(text, row))


def _late(row: AnswerRow) -> int:
    """Return the longest join time of a client in ms if it is LATE_MS or more, else 0."""
    late: int = row["longest_join_ms"] or 0
    return late if late >= LATE_MS else 0


def find_restarts(row: AnswerRow) -> Finding | None:
    """Return a finding if most restarts cost a rebalance."""
    if row["restarts"] < RESTARTS:
        return None
    is_enough = row["within"] is not None and row["within"] >= 0.95
    is_static = row["restarts"] - row["static"] < RESTARTS  # a few were dynamic once
    if is_enough and is_static:
        return None
    known, proposed = row["session_timeout_ms"], row["proposed_ms"]
    session = max(known or 0, proposed)
    beside = (
        f" (beside {count(row['outages'], 'absence')} of more than {span(OUTAGE_MS)})"
        if row["outages"]
        else ""
    )
    most = "at most " if row["source"] == LOG else ""  # counted from the last commit
    settings = () if is_static else ((INSTANCE, EACH),)
    about = round_of(row)
    change_of = SettingChange((*settings, (SESSION, session)), absence_cost(about, session))
    verdict = judge(change_of, Audience.of(about))
    sentence = (
        f"Members of group {quoted(row['group'])} restarted {row['restarts']} times{beside}, "
        f"and 95 % were back after {most}{span(row['p95_ms'])}. {verdict.text}"
    )
    if not verdict.passes:
        return Finding(LOW, sentence, row)
    told = row | {"instance": True if is_static else None}
    setting = change(verdict.text, told)
    return Finding(MEDIUM, sentence, row, None, setting, session_ms=session)


def find_scaling(rows: Answers) -> Iterator[Finding]:
    """Yield one finding for each group whose members were scaled in and out."""
    scaled = (row for row in rows["returns"] if row["kind"] == "scaling")
    for some in grouped(scaled, "group"):
        times_ = len({row["batch"] for row in some})
        row = max(some, key=lambda each: (each["together"], each["away_ms"]))
        stayed = count(row["stayed"], "other")
        sentence = (
            f"Members of group {quoted(row['group'])} left together and came back together "
            f"{count(times_, 'time')}, up to {row['together']} at once, "
            f"{span(row['away_ms'])} later while {stayed} went on: that looks like scaling. No "
            "setting of the session is for this: it would leave their partitions unread meanwhile."
        )
        whole = row | {
            "from": min(each["from"] for each in some),
            "until": max(each["until"] for each in some),
            "client_id": None,
            "instance": None,
        }
        yield Finding(INFO, sentence, whole, kind="scaling")


def find_idle(rows: Answers) -> Iterator[Finding]:
    """Yield one finding for each group, with the clients that were idle most of their time."""
    partitions = {row["group"]: row["partitions"] for row in rows.get("not_stable", ())}
    for some in grouped(rows["idle_members"], "group"):
        several, group = clients(some), some[0]["group"]
        longest = max(several, key=lambda row: row["idle_ms"])
        has = partitions.get(group)
        known = "" if has is None else f" The group has {count(has, 'partition')}."
        sentence = (
            f"{count(len(several), 'client')} of group {quoted(group)} had nothing to do, "
            f"{who(longest)} for {span(longest['idle_ms'])}.{known} Run fewer members, or add "
            "partitions."
        )
        yield Finding(LOW, sentence, longest)


def find_skew(some: Sequence[AnswerRow]) -> Finding:
    """Return a finding for the member with the highest ratio to its share."""
    row = max(some, key=lambda row: row["ratio"])
    sentence = (
        f"{who(row)} had {row['partitions']:.1f} partitions of group {quoted(row['group'])}, "
        f"{row['ratio']:.1f} times its share of {row['fair']:.1f}: members share alike with an "
        "assignor that deals out the partitions of all topics together, as sticky ones do."
    )
    return Finding(LOW, sentence, row)


def find_eager(row: AnswerRow) -> Finding:
    cost = row["unowned_ms"]
    about = round_of(row)
    about.unread_ms, about.moved = cost, row.get("moved")
    about.duration_ms = row.get("median_ms")
    verdict = judge(incremental(about), Audience.of(about))
    sentence = (
        f"Group {quoted(row['group'])} takes all partitions away in each rebalance "
        f"({plain(row['protocol'])}): {count(row['changes'], 'change')} of its members "
        f"cost {up_to(row)}{span(cost)} of partition time. {verdict.text}"
    )
    setting = {}
    if verdict.passes:
        key, value = verdict.settings[0]
        setting = {"config_key": key, "now": row["protocol"], "proposed": value}
    severity = LOW if row["source"] == LOG else MEDIUM
    return Finding(severity, sentence, row, cost / 1000, setting, row["protocol"])
