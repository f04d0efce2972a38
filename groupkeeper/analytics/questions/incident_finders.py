"""Findings about what happened: storms, duels, members that went on or fell silent."""

from collections.abc import Iterator, Mapping
from typing import Final

from groupkeeper.analytics.questions.finding import (
    CRITICAL,
    HIGH,
    LOW,
    MEDIUM,
    Answers,
    Finder,
    Finding,
    Row,
    advise,
    asked_of,
    because,
    change,
    did,
    grouped,
    likely_advice,
    name_of,
    percent,
    plain,
    quoted,
    session_in,
    times,
    who,
)
from groupkeeper.analytics.questions.state_finders import STATES
from groupkeeper.why.advice import LATE_MS, late_for_polls
from groupkeeper.why.sessions import SESSION_TIMEOUT_MS
from groupkeeper.why.texts import count, setting, span

HOLDS: Final = 3
"""A client that held the join barrier this often is worth a finding."""
LISTENS: Final = 10
"""A client that is refused more often than this does not listen: fewer were on their way."""


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
        yield Finding(CRITICAL, text, row, kind=f"{place}, {offsets}")


def _storms(rows: Answers) -> Iterator[Finding]:
    for row in rows["storms"]:
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
        yield Finding(HIGH, sentence, row, cost, *_change(text, row, row["cause"]))


def _change(text: str, row: Row, kind: str | None) -> tuple[Row, str | None, int]:
    """The setting to change; where there is none, what else findings of a group differ in; and the
    session timeout that is asked for.
    """
    setting = change(text, row)
    return setting, None if setting else kind, session_in(text)


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
            kind, text = "vanished", _vanished(row, wanted.get(row["group"], 0))
        cost = row["silent_ms"] / 1000 * row["partitions"]
        severity = HIGH if row["ended"] == LOG_END else MEDIUM
        yield Finding(severity, sentence + text, row, cost, *_change(text, row, kind))


LOG_END: Final = "log_end"
_WITHOUT_COMMIT: Final[Mapping[str, str]] = {
    "commit": "",
    "loss": "; then it lost them",
    LOG_END: "; at the end of the log it still had not",
}
"""How a silence ended."""


def _sessions(rows: Answers) -> dict[str | None, int]:
    """Group -> the longest session timeout that its other findings ask for."""
    others = {**INCIDENTS, **STATES}
    del others["commit_silence"]
    return asked_of(each for name, find in others.items() if name in rows for each in find(rows))


def _vanished(row: Row, asked_ms: int) -> str:
    """Its partitions waited for the end of its session. `asked_ms` is what other findings of the
    group ask for, 0 if none does.
    """
    session, wanted = row["session_timeout_ms"], max(SESSION_TIMEOUT_MS, asked_ms)
    text = "It sent nothing any more, and kept its partitions until its session ended"
    if session is None or session <= wanted:
        return f"{text}."
    needed = "which its restarts need" if asked_ms == wanted else "or as long as a restart takes"
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
        yield Finding(severity, sentence, row, None, *_change(text, row, row["ended_by"]))


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
        yield Finding(MEDIUM, sentence, row, None, *_change(text, row, cause))


def _is_same(row: Row, other: Row) -> bool:
    """Whether a storm or duel has the same client, at that time."""
    is_together = other["from"] <= row["until"] and row["from"] <= other["until"]
    names = [(each["group"], name_of(each)) for each in (row, other)]
    return is_together and names[0] == names[1]


def _refused(rows: Answers) -> Iterator[Finding]:
    """One for each group and cause, without those of zombies."""
    zombies = {(row["group"], row["member"]) for row in rows.get("zombies", ())}
    left = (row for row in rows["refused_commits"] if (row["group"], row["member"]) not in zombies)
    for some in grouped(left, "group", "cause"):
        group, cause = some[0]["group"], some[0]["cause"]
        refused = sum(row["refused"] for row in some)
        since, until = min(row["from"] for row in some), max(row["until"] for row in some)
        whole = some[0] | {"from": since, "until": until}
        sentence = f"Group {quoted(group)} refused {count(refused, 'commit')} {times(since, until)}"
        if cause is None:
            sentence += ": what made them invalid was before what was read."
        else:
            sentence += (
                f" after rebalances with the cause {plain(cause)}: their records were probably "
                "processed twice. Commit in onPartitionsRevoked, and process no batch for longer "
                "than max.poll.interval.ms."
            )
        yield Finding(MEDIUM, sentence, whole, kind=cause)


def _barrier(rows: Answers) -> Iterator[Finding]:
    """One for each group, with the client that was the last to come of those that came too late for
    polls, or else held it up for the longest.
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


def _late(row: Row) -> int:
    """How late a client came at most that came too late for polls, else 0."""
    late: int = row["longest_join_ms"] or 0
    return late if late >= LATE_MS else 0


INCIDENTS: Final[Mapping[str, Finder]] = {
    "split_brain": _split_brain,
    "storms": _storms,
    "duels": _duels,
    "commit_silence": _silence,
    "zombies": _zombies,
    "flapping": _flapping,
    "refused_commits": _refused,
    "barrier": _barrier,
}
"""By question."""
