"""What is worth a finding in each answer, as a sentence with the number to change."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from groupkeeper.analytics.questions.figures import name_of
from groupkeeper.analytics.questions.rows import Row
from groupkeeper.analytics.questions.telling import (
    advise,
    change,
    did,
    likely_advice,
    percent,
    plain,
    quoted,
    times,
    who,
)
from groupkeeper.why.advice import LATE_MS, late_for_polls
from groupkeeper.why.sessions import SESSION_TIMEOUT_MS
from groupkeeper.why.texts import count, setting, span

CRITICAL, HIGH, MEDIUM, LOW, INFO = "critical", "high", "medium", "low", "info"

UNSTABLE: Final = 0.01
"""A group that is not stable for this share of its time is worth a finding."""
VERY_UNSTABLE: Final = 0.05
OFTEN: Final = 10.0
"""The same for this many rebalances a day, if no storm has most of them."""
HOLDS: Final = 3
"""The same for a client that held the join barrier this often."""
LISTENS: Final = 10
"""A client that is refused more often than this does not listen: fewer were on their way."""
RESTARTS: Final = 3
"""Fewer restarts say nothing about the next ones."""
SKEWED: Final = 2.0
"""The same for a member with this many times its share."""
BEHIND_MS: Final = 300_000
"""The same for a lag of this age at the end."""
EAGER_MS: Final = 60_000
"""The same for an eager group that cost this much time of partitions."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`row` is the row of the answer that it is about, or the first of them."""

    severity: str
    sentence: str
    row: Row
    cost_s: float | None = None
    setting: Row = field(default_factory=dict)
    """`config_key`, `now` and `proposed`."""


Answers = Mapping[str, Sequence[Row]]
"""Question -> rows of its answer; times are Unix milliseconds."""


def _split_brain(rows: Answers) -> Iterator[Finding]:
    for row in rows["split_brain"]:
        place = f"partition {row['partition']} of {row['log']}"
        first, other = row["epoch"], row["other_epoch"]
        offsets = (
            f"offset {row['last_offset']} of epoch {first} and {row['first_offset']} of {other}"
        )
        what = {
            "overlap": f"coordinators of epochs {first} and {other} wrote the same offsets",
            "went_back": f"epoch {other} wrote after epoch {first}, which is newer",
            "two_nodes": f"nodes {row['node']} and {row['other_node']} wrote epoch {first}",
        }[row["what"]]
        text = f"In {place} {what} ({offsets}): stop one of them, and compare their logs."
        yield Finding(CRITICAL, text, row)


def _storms(rows: Answers) -> Iterator[Finding]:
    for row in rows["storms"]:
        text = advise(row["cause"], row["likely"], row)
        told = did(row["cause"], row["likely"], row)
        because = f"{who(row)} {told}"
        if row["who_rounds"] < row["cause_rounds"]:
            because = f"clients such as {who(row)} {told.replace('was ', 'were ')}"
        some = "" if row["cause_rounds"] == row["rounds"] else f"{row['cause_rounds']} times "
        sentence = (
            f"Group {quoted(row['group'])} rebalanced {row['rounds']} times "
            f"{times(row['from'], row['until'])}, {some}because {because}. {text}"
        )
        unowned = row["unowned_ms"]
        cost = None if unowned is None else unowned / 1000
        yield Finding(HIGH, sentence, row, cost, change(text, row))


def _duels(rows: Answers) -> Iterator[Finding]:
    for row in rows["duels"]:
        hosts = " and ".join(plain(each) for each in row["hosts"][:3])
        clients = f"Two running clients{f' on {hosts}' if hosts else ''}"
        sentence = (
            f"{clients} have the group.instance.id {quoted(row['instance'])} in group "
            f"{quoted(row['group'])}: it changed hands {row['replacements']} times "
            f"{times(row['from'], row['until'])}. {likely_advice('duel')}"
        )
        setting = {
            "config_key": "group.instance.id",
            "now": plain(row["instance"]),
            "proposed": "one of its own for each client",
        }
        yield Finding(HIGH, sentence, row, None, setting)


def _silence(rows: Answers) -> Iterator[Finding]:
    restarts = {row["group"]: row["proposed_ms"] for row in _restarting(rows)}
    for row in rows["commit_silence"]:
        goes_on = "" if row["is_over"] else "; at the end of the log it still had not"
        lag = f" {count(row['lag'], 'record')} waited for it." if row["lag"] else ""
        sentence = (
            f"{who(row)} in group {quoted(row['group'])} committed nothing for "
            f"{span(row['silent_ms'])} {times(row['from'], row['until'])} on "
            f"{count(row['partitions'], 'partition')}; others committed in "
            f"{row['others_minutes']} of these minutes{goes_on}.{lag} "
        )
        text = "Look for a record that it cannot process, or a thread that hangs."
        if row["ended_by"] is not None:
            text = _vanished(row, restarts.get(row["group"], 0))
        cost = row["silent_ms"] / 1000 * row["partitions"]
        severity = MEDIUM if row["is_over"] else HIGH
        yield Finding(severity, sentence + text, row, cost, change(text, row))


def _vanished(row: Row, restarts_ms: int) -> str:
    """Its partitions waited for the end of its session. `restarts_ms` is the timeout that restarts
    in the group need, 0 if none is known: another finding asks for that.
    """
    session, wanted = row["session_timeout_ms"], max(SESSION_TIMEOUT_MS, restarts_ms)
    text = "It sent nothing any more, and kept its partitions until its session ended"
    if session is None or session <= wanted:
        return f"{text}."
    needed = "which its restarts need" if restarts_ms == wanted else "or as long as a restart takes"
    return (
        f"{text}, after {span(session)}: set {setting('session.timeout.ms', wanted)}, {needed}, "
        "and others get them sooner."
    )


def _zombies(rows: Answers) -> Iterator[Finding]:
    """Without those that noticed soon, and had nothing to commit."""
    for row in rows["zombies"]:
        if not row["refused_commits"] and row["refused"] <= LISTENS:
            continue
        refused = count(row["refused"], "request")
        if row["refused_commits"] == row["refused"]:
            refused = count(row["refused"], "commit")
        elif row["refused_commits"]:
            refused = f"{refused}, {row['refused_commits']} of them commits,"
        text = advise(row["ended_by"], row["likely"], row) if row["ended_by"] != "replaced" else ""
        sentence = (
            f"{who(row)} went on for {span(row['went_on_ms'])} after group {quoted(row['group'])} "
            f"had removed it: {refused} refused "
            f"{times(row['from'], row['until'])}. It {did(row['ended_by'], row['likely'], row)}."
        )
        sentence += f" {text}" if text else ""
        severity = HIGH if row["refused_commits"] > LISTENS else MEDIUM
        yield Finding(severity, sentence, row, None, change(text, row))


def _flapping(rows: Answers) -> Iterator[Finding]:
    """Without those that a storm or a duel is about."""
    known = [*rows.get("storms", ()), *(row | {"client_id": None} for row in rows.get("duels", ()))]
    for row in rows["flapping"]:
        if any(_is_same(row, each) for each in known):
            continue
        text = "Find out why it restarts."
        if row["ended_by"] is not None:
            text = advise(row["ended_by"], row["likely"], row)
        cause = row["ended_by"] or "replaced"
        sentence = (
            f"{who(row)} joined or left group {quoted(row['group'])} {row['changes']} times "
            f"{times(row['from'], row['until'])}: it {did(cause, row['likely'], row)}. {text}"
        )
        yield Finding(MEDIUM, sentence, row, None, change(text, row))


def _is_same(row: Row, other: Row) -> bool:
    """Whether a storm or duel has the same client, at that time."""
    is_together = other["from"] <= row["until"] and row["from"] <= other["until"]
    names = [(each["group"], name_of(each["instance"], each["client_id"])) for each in (row, other)]
    return is_together and names[0] == names[1]


def _refused(rows: Answers) -> Iterator[Finding]:
    """One for each group and cause, without those of zombies."""
    zombies = {(row["group"], row["member"]) for row in rows.get("zombies", ())}
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows["refused_commits"]:
        if (row["group"], row["member"]) in zombies:
            continue
        found[row["group"], row["cause"] or "unknown"].append(row)
    for (group, cause), some in found.items():
        refused = sum(row["refused"] for row in some)
        since, until = min(row["from"] for row in some), max(row["until"] for row in some)
        whole = some[0] | {"from": since, "until": until}
        sentence = (
            f"Group {quoted(group)} refused {count(refused, 'commit')} {times(since, until)} "
            f"after rebalances with the cause {plain(cause)}: their records were probably "
            "processed twice. Commit in onPartitionsRevoked, and process no batch for longer than "
            "max.poll.interval.ms."
        )
        yield Finding(MEDIUM, sentence, whole)


def _barrier(rows: Answers) -> Iterator[Finding]:
    for row in rows["barrier"]:
        if row["held"] < HOLDS:
            continue
        sentence = (
            f"{who(row)} held up {row['held']} rebalances of group {quoted(row['group'])} "
            f"({percent(row['share'])}) for {span(row['held_ms'])} in all, "
            f"{span(row['longest_ms'])} at most."
        )
        if row["longest_join_ms"] is None or row["longest_join_ms"] < LATE_MS:
            yield Finding(LOW, sentence, row)
        else:
            text = late_for_polls(row["longest_join_ms"])
            yield Finding(MEDIUM, f"{sentence} {text}", row, None, change(text, row))


def _restarting(rows: Answers) -> list[Row]:
    """Groups with so many restarts that they tell how long the next ones take."""
    return [row for row in rows.get("restart_gaps", ()) if row["restarts"] >= RESTARTS]


def _restarts(rows: Answers) -> Iterator[Finding]:
    """Where most restarts cost a rebalance."""
    for row in _restarting(rows):
        is_enough = row["within"] is not None and row["within"] >= 0.95
        is_static = row["static"] == row["restarts"]
        if is_enough and is_static:
            continue
        known, proposed = row["session_timeout_ms"], row["proposed_ms"]
        session = max(known or 0, proposed)
        first = "" if is_static else "give each member a group.instance.id, and "
        price = "" if session == known else " A member that dies keeps its partitions as long."
        sentence = (
            f"Members of group {quoted(row['group'])} restarted {row['restarts']} times, and 95 % "
            f"were back after {span(row['p95_ms'])}: {first}{'set' if price else 'keep'} "
            f"session.timeout.ms={session} ({span(session)}), and these restarts "
            f"need no rebalance.{price}"
        )
        about = row | {"instance": True if is_static else None}
        yield Finding(MEDIUM, sentence, row, None, change(sentence, about))


def _not_stable(rows: Answers) -> Iterator[Finding]:
    for row in rows["not_stable"]:
        if row["share"] >= UNSTABLE:
            sentence = (
                f"Group {quoted(row['group'])} was not stable for {span(row['not_stable_ms'])}, "
                f"{percent(row['share'])} of the time {times(row['from'], row['until'])}; its "
                f"partitions had no owner for {row['unowned_s']:.0f} partition-seconds."
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
        sentence = (
            f"Group {quoted(group)} rebalanced {row['rounds']} times "
            f"{times(row['from'], row['until'])}, {row['per_day']:.1f} times a day; "
            f"{cause['rounds']} times because {who(about)} or another client "
            f"{did(cause['cause'], cause['likely'], about)}. {text}"
        )
        yield Finding(MEDIUM, sentence, row, None, change(text, about))


def _idle(rows: Answers) -> Iterator[Finding]:
    """One for each group, with the clients whose members were idle for most of their time."""
    partitions = {row["group"]: row["partitions"] for row in rows.get("not_stable", ())}
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows["idle_members"]:
        if row["share"] > 0.5:
            found[row["group"]].append(row)
    for group, some in found.items():
        longest = max(some, key=lambda row: row["idle_ms"])
        known = (
            f" The group has {count(partitions[group], 'partition')}."
            if group in partitions
            else ""
        )
        clients = {(name_of(row["instance"], row["client_id"]), row["host"]) for row in some}
        sentence = (
            f"{count(len(clients), 'client')} of group {quoted(group)} had nothing to do, "
            f"{who(longest)} for {span(longest['idle_ms'])}.{known} Run fewer members, or add "
            "partitions."
        )
        yield Finding(LOW, sentence, longest)


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
                f"cost {span(cost)} of partition time. With {_STRATEGY} set to {_STICKY} "
                "for all members only partitions that move stand still."
            )
            setting = {"config_key": _STRATEGY, "now": row["protocol"], "proposed": _STICKY}
            yield Finding(MEDIUM, sentence, row, cost / 1000, setting)


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


FINDERS: Final[Mapping[str, Callable[[Answers], Iterator[Finding]]]] = {
    "split_brain": _split_brain,
    "storms": _storms,
    "duels": _duels,
    "commit_silence": _silence,
    "zombies": _zombies,
    "flapping": _flapping,
    "refused_commits": _refused,
    "barrier": _barrier,
    "restart_gaps": _restarts,
    "not_stable": _not_stable,
    "rebalance_rate": _often,
    "idle_members": _idle,
    "skew": _skew,
    "cooperative_or_eager": _eager,
    "lag_seconds": _lag,
    "rhythm_steps": _steps,
}
"""Question -> what is worth a finding in its answer."""
USED: Final = (*FINDERS, "causes")
"""The answers that findings are made of."""
