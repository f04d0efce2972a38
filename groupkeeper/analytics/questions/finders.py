"""Derives findings from the answers to the questions: FINDERS.

Every number in a sentence is from the rows of the finding, or from the advice that `groupkeeper
why` gives about them.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from groupkeeper.analytics.questions.finding import (
    CRITICAL,
    HIGH,
    INFO,
    LOW,
    MEDIUM,
    AnswerRow,
    Answers,
    Finder,
    Finding,
    advise,
    asked_of,
    because,
    change,
    clients,
    did,
    grouped,
    likely_advice,
    name_of,
    percent,
    plain,
    quoted,
    session_in,
    times,
    vanished,
    who,
)
from groupkeeper.analytics.schemas import LOG
from groupkeeper.why.advice import LATE_MS, late_for_polls
from groupkeeper.why.texts import count, span

HOLDS: Final = 3
"""A client that held up the join barrier at least this often is a finding."""
LISTENS: Final = 10
"""A client with more refusals than this ignores them: fewer may have been in flight."""
OUTAGE_MS: Final = 600_000
"""The default of `outage_ms` of `restart_gaps`."""
UNSTABLE: Final = 0.01
"""A group that is not stable for this share of its time is a finding."""
VERY_UNSTABLE: Final = 0.05
RESTARTS: Final = 3
"""Fewer restarts do not predict the next ones."""


def _split_brain(row: AnswerRow) -> Finding:
    place = f"partition {row['partition']} of {row['log']}"
    first, other = row["epoch"], row["other_epoch"]
    offsets = f"offset {row['last_offset']} of epoch {first} and {row['first_offset']} of {other}"
    what = {
        "overlap": f"coordinators of epochs {first} and {other} wrote the same offsets",
        "went_back": f"epoch {other} wrote after epoch {first}, which is newer",
        "two_nodes": f"nodes {row['node']} and {row['other_node']} wrote epoch {first}",
    }[row["what"]]
    text = f"In {place} {what} ({offsets}): stop one of them, and compare their logs."
    return Finding(CRITICAL, text, row, kind=f"{place}, {offsets}")


def _storms(row: AnswerRow) -> Finding:
    text = advise(row["cause"], row["likely"], row)
    told = did(row["cause"], row["likely"], row)
    why = because(row, told)
    if row["who_rounds"] < row["cause_rounds"]:
        why = because(row, told.replace("was ", "were "), "clients such as {}")
    some = "" if row["cause_rounds"] == row["rounds"] else f"{row['cause_rounds']} times "
    sentence = (
        f"Group {quoted(row['group'])} rebalanced {row['rounds']} times "
        f"{times(row['from'], row['until'])}, {some}{why}. {text}"
    )
    unowned = row["unowned_ms"]
    cost = None if unowned is None else unowned / 1000
    return Finding(HIGH, sentence, row, cost, *_change(text, row, row["cause"]))


def _change(text: str, row: AnswerRow, kind: str | None) -> tuple[AnswerRow, str | None, int]:
    """Return the setting to change; without one, the kind of the finding; and the proposed session
    timeout.
    """
    setting = change(text, row)
    return setting, None if setting else kind, session_in(text)


def _duels(row: AnswerRow) -> Finding:
    hosts = " and ".join(plain(each) for each in row["hosts"][:3])
    two = f"Two running clients{f' on {hosts}' if hosts else ''}"
    sentence = (
        f"{two} have the group.instance.id {quoted(row['instance'])} in group "
        f"{quoted(row['group'])}: it changed hands {row['replacements']} times "
        f"{times(row['from'], row['until'])}. {likely_advice('duel')}"
    )
    setting = {
        "config_key": "group.instance.id",
        "now": plain(row["instance"]),
        "proposed": "one of its own for each client",
    }
    return Finding(HIGH, sentence, row, None, setting)


def _silence(rows: Answers) -> Iterator[Finding]:
    wanted = _sessions(rows)
    for row in rows["commit_silence"]:
        goes_on = _WITHOUT_COMMIT[row["ended"]]
        lag = f" {count(row['lag'], 'record')} waited for it." if row["lag"] else ""
        sentence = (
            f"{who(row)} in group {quoted(row['group'])} committed nothing for "
            f"{span(row['silent_ms'])} {times(row['from'], row['until'])} on "
            f"{count(row['partitions'], 'partition')}; others committed in "
            f"{row['others_minutes']} of these minutes{goes_on}.{lag} "
        )
        kind, text = "hung", "Look for a record that it cannot process, or a thread that hangs."
        if row["ended_by"] is not None:
            kind, text = "vanished", vanished(row, wanted.get(row["group"], 0))
        cost = row["silent_ms"] / 1000 * row["partitions"]
        severity = HIGH if row["ended"] == LOG_END else MEDIUM
        yield Finding(severity, sentence + text, row, cost, *_change(text, row, kind))


LOG_END: Final = "log_end"
_WITHOUT_COMMIT: Final[Mapping[str, str]] = {
    "commit": "",
    "loss": "; then it lost them",
    LOG_END: "; at the end of the log it still had not",
}
"""End of a silence -> words for the sentence."""


def _sessions(rows: Answers) -> dict[str | None, int]:
    """Return group -> the longest session timeout in its other findings."""
    others = rows.keys() & FINDERS.keys() - {"commit_silence"}
    return asked_of(each for name in others for each in FINDERS[name](rows))


def _zombies(row: AnswerRow) -> Finding | None:
    """Return a finding, except for members that soon noticed and had nothing to commit."""
    if not row["refused_commits"] and row["refused"] <= LISTENS:
        return None
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
    return Finding(severity, sentence, row, None, *_change(text, row, row["ended_by"]))


def _flapping(rows: Answers) -> Iterator[Finding]:
    """Yield findings, except about clients of a storm or a duel."""
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
        yield Finding(MEDIUM, sentence, row, None, *_change(text, row, cause))


def _is_same(row: AnswerRow, other: AnswerRow) -> bool:
    """Return whether a storm or duel has the same client at an overlapping time."""
    is_together = other["from"] <= row["until"] and row["from"] <= other["until"]
    names = [(each["group"], name_of(each)) for each in (row, other)]
    return is_together and names[0] == names[1]


def _refused(rows: Answers) -> Iterator[Finding]:
    """Yield one finding for each group and cause, without zombies."""
    zombies = {(row["group"], row["member"]) for row in rows.get("zombies", ())}
    left = (row for row in rows["refused_commits"] if (row["group"], row["member"]) not in zombies)
    for some in grouped(left, "group", "cause"):
        group, cause = some[0]["group"], some[0]["cause"]
        refused = sum(row["refused"] for row in some)
        since, until = min(row["from"] for row in some), max(row["until"] for row in some)
        whole = some[0] | {"from": since, "until": until}
        sentence = f"Group {quoted(group)} refused {count(refused, 'commit')} {times(since, until)}"
        if cause is None:
            sentence += ": the rebalance that made them invalid was not read."
        else:
            sentence += (
                f" after rebalances with the cause {plain(cause)}: their records were probably "
                "processed twice. Commit in onPartitionsRevoked, and process no batch for longer "
                "than max.poll.interval.ms."
            )
        yield Finding(MEDIUM, sentence, whole, kind=cause)


def _barrier(rows: Answers) -> Iterator[Finding]:
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
            text = late_for_polls(row["longest_join_ms"])
            yield Finding(MEDIUM, f"{sentence} {text}", row, None, change(text, row))


def _late(row: AnswerRow) -> int:
    """Return the longest join time of a client in ms if it is LATE_MS or more, else 0."""
    late: int = row["longest_join_ms"] or 0
    return late if late >= LATE_MS else 0


def _restarts(row: AnswerRow) -> Finding | None:
    """Return a finding if most restarts cost a rebalance."""
    if row["restarts"] < RESTARTS:
        return None
    is_enough = row["within"] is not None and row["within"] >= 0.95
    is_static = row["static"] == row["restarts"]
    if is_enough and is_static:
        return None
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
    return Finding(MEDIUM, sentence, row, None, change(advice, about), session_ms=session)


def _up_to(row: AnswerRow) -> str:
    """Return "up to " for inferred rows: unowned time then begins at the last commit."""
    return "up to " if row["source"] == LOG else ""


def _not_stable(row: AnswerRow) -> Finding | None:
    if row["share"] < UNSTABLE:
        return None
    sentence = (
        f"Group {quoted(row['group'])} was not stable for {span(row['not_stable_ms'])}, "
        f"{percent(row['share'])} of the time {times(row['from'], row['until'])}; its partitions "
        f"had no owner for {_up_to(row)}{row['unowned_s']:.0f} partition-seconds."
    )
    severity = HIGH if row["share"] >= VERY_UNSTABLE else MEDIUM
    return Finding(severity, sentence, row, row["unowned_s"])


def _often(rows: Answers) -> Iterator[Finding]:
    """Yield groups that rebalance all the time, without a storm."""
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


def _skew(some: Sequence[AnswerRow]) -> Finding:
    """Return a finding for the member with the highest ratio to its share."""
    row = max(some, key=lambda row: row["ratio"])
    sentence = (
        f"{who(row)} had {row['partitions']:.1f} partitions of group {quoted(row['group'])}, "
        f"{row['ratio']:.1f} times its share of {row['fair']:.1f}: with "
        "partition.assignment.strategy set to cooperative-sticky members share alike."
    )
    setting = {"config_key": _STRATEGY, "now": None, "proposed": _STICKY}
    return Finding(LOW, sentence, row, None, setting)


_STRATEGY, _STICKY = "partition.assignment.strategy", "cooperative-sticky"


def _eager(row: AnswerRow) -> Finding:
    cost = row["unowned_ms"]
    sentence = (
        f"Group {quoted(row['group'])} takes all partitions away in each rebalance "
        f"({plain(row['protocol'])}): {count(row['changes'], 'change')} of its members "
        f"cost {_up_to(row)}{span(cost)} of partition time. With {_STRATEGY} set to "
        f"{_STICKY} for all members only partitions that move stand still."
    )
    setting = {"config_key": _STRATEGY, "now": row["protocol"], "proposed": _STICKY}
    severity = LOW if row["source"] == LOG else MEDIUM
    return Finding(severity, sentence, row, cost / 1000, setting, row["protocol"])


def _lag(some: Sequence[AnswerRow]) -> Finding:
    """Return a finding for the partition that is most behind."""
    row = max(some, key=lambda row: row["now_ms"])
    sentence = (
        f"Group {quoted(row['group'])} is {span(row['now_ms'])} behind in partition "
        f"{row['topic_partition']} of {plain(row['topic'])}, {span(row['median_ms'])} "
        "in the median: add members or partitions, or find what slows it down."
    )
    return Finding(MEDIUM, sentence, row)


def _steps(some: Sequence[AnswerRow]) -> Finding:
    """Return a finding for the first change."""
    first = min(some, key=lambda row: row["at"])
    whole = first | {"from": first["at"], "until": max(row["at"] for row in some)}
    sentence = (
        f"The commit rhythm of group {quoted(first['group'])} changed "
        f"{count(len(some), 'time')}, first in partition {first['topic_partition']} of "
        f"{plain(first['topic'])} from "
        f"{first['before_per_minute']:.2g} to {first['after_per_minute']:.2g} commits a minute."
    )
    return Finding(INFO, sentence, whole)


def _each(question: str, tell: Callable[[AnswerRow], Finding | None]) -> Finder:
    """Apply `tell` to each row."""
    return lambda rows: filter(None, map(tell, rows[question]))


def _of_group(question: str, tell: Callable[[Sequence[AnswerRow]], Finding]) -> Finder:
    """Apply `tell` to all rows of each group."""
    return lambda rows: map(tell, grouped(rows[question], "group"))


FINDERS: Final[Mapping[str, Finder]] = {
    "split_brain": _each("split_brain", _split_brain),
    "storms": _each("storms", _storms),
    "duels": _each("duels", _duels),
    "commit_silence": _silence,
    "zombies": _each("zombies", _zombies),
    "flapping": _flapping,
    "refused_commits": _refused,
    "barrier": _barrier,
    "restart_gaps": _each("restart_gaps", _restarts),
    "not_stable": _each("not_stable", _not_stable),
    "rebalance_rate": _often,
    "idle_members": _idle,
    "skew": _of_group("skew", _skew),
    "cooperative_or_eager": _each("cooperative_or_eager", _eager),
    "lag_seconds": _of_group("lag_seconds", _lag),
    "rhythm_steps": _of_group("rhythm_steps", _steps),
}
"""Question -> function that returns the findings in its answer."""
