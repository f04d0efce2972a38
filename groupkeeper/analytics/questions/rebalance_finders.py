"""Finds what to say about rebalances: storms, duels, clients that come and go, unstable groups.

The functions return findings about a row of an answer, or about all answers; `finders.FINDERS` has
the question of each.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from groupkeeper.analytics.questions.finding import (
    CHEAP_S,
    HIGH,
    LOW,
    MEDIUM,
    AnswerRow,
    Answers,
    Finding,
    advise,
    because,
    change,
    did,
    likely_advice,
    name_of,
    percent,
    plain,
    quoted,
    remedy,
    scaled_groups,
    session_in,
    severity_of,
    times,
    up_to,
    who,
)
from groupkeeper.why.texts import span

UNSTABLE: Final = 0.01
"""A group that is not stable for this share of its time is a finding, if that cost CHEAP_S."""
DAY_MS: Final = 86_400_000
"""A rate a day is told of times as long as that."""


def find_storms(rows: Answers) -> Iterator[Finding]:
    scaled = scaled_groups(rows)
    for row in rows["storms"]:
        yield _storm(row | {"away_ms": None} if row["group"] in scaled else row)


def _storm(row: AnswerRow) -> Finding:
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
    return Finding(severity_of(cost), sentence, row, cost, *remedy(text, row, row["cause"]))


def find_duels(row: AnswerRow) -> Finding:
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


def find_flapping(rows: Answers) -> Iterator[Finding]:
    """Yield findings, except about clients of a storm or a duel."""
    known = [*rows.get("storms", ()), *(row | {"client_id": None} for row in rows.get("duels", ()))]
    scaled = scaled_groups(rows)
    for each in rows["flapping"]:
        row = each | {"away_ms": None} if each["group"] in scaled else each
        if any(_is_same(row, other) for other in known):
            continue
        if row.get("replacements") == row["changes"]:
            yield _restarted(row)
            continue
        text = "Find out why it restarts."
        if row["ended_by"] is not None:
            text = advise(row["ended_by"], row["likely"], row)
        cause = row["ended_by"] or "replaced"
        sentence = (
            f"{who(row)} joined or left group {quoted(row['group'])} {row['changes']} times "
            f"{times(row['from'], row['until'])}: it {did(cause, row['likely'], row)}. {text}"
        )
        yield Finding(MEDIUM, sentence, row, None, *remedy(text, row, cause))


def _restarted(row: AnswerRow) -> Finding:
    """Return a finding about a static member: its restarts needed no rebalance."""
    sentence = (
        f"{who(row)} restarted {row['replacements']} times in group {quoted(row['group'])} "
        f"{times(row['from'], row['until'])}, without a rebalance. Find out why."
    )
    return Finding(LOW, sentence, row, kind="replaced")


def _is_same(row: AnswerRow, other: AnswerRow) -> bool:
    """Return whether a storm or duel has the same client at an overlapping time."""
    is_together = other["from"] <= row["until"] and row["from"] <= other["until"]
    names = [(each["group"], name_of(each)) for each in (row, other)]
    return is_together and names[0] == names[1]


def find_not_stable(row: AnswerRow) -> Finding | None:
    unread, unowned = row["unread_s"], row["unowned_s"]
    cost = unowned if unread is None else max(unread, unowned)
    if row["share"] < UNSTABLE or cost < CHEAP_S:
        return None
    sentence = (
        f"Group {quoted(row['group'])} was not stable for {span(row['not_stable_ms'])}, "
        f"{percent(row['share'])} of the time {times(row['from'], row['until'])}; its partitions "
        f"had no owner for {up_to(row)}{unowned:.0f} partition-seconds."
    )
    return Finding(severity_of(cost), sentence, row, cost)


def find_frequent_rebalances(rows: Answers) -> Iterator[Finding]:
    """Yield groups that rebalance all the time, without a storm."""
    stormy: Counter[str] = Counter()
    for row in rows.get("storms", ()):
        stormy[row["group"]] += row["rounds"]
    scaled = scaled_groups(rows)
    first = {row["group"]: row for row in rows.get("causes", ())}
    for row in rows["rebalance_rate"]:
        group, cause = row["group"], first.get(row["group"])
        if 2 * stormy[group] > row["rounds"] or cause is None:
            continue
        about = cause | {"group": group, "client_id": cause["who"], "host": None}
        about |= {"away_ms": None} if group in scaled else {}
        text = advise(cause["cause"], cause["likely"], about)
        told = did(cause["cause"], cause["likely"], about)
        why = because(about, told, "{} or another client")
        rate = f", {row['per_day']:.1f} times a day"
        sentence = (
            f"Group {quoted(group)} rebalanced {row['rounds']} times "
            f"{times(row['from'], row['until'])}{rate if _is_long(row) else ''}; "
            f"{cause['rounds']} times {why}. {text}"
        )
        unowned, asked = cause["unowned_ms"], session_in(text)
        cost = None if unowned is None else unowned / 1000
        severity = MEDIUM if severity_of(cost) == HIGH else severity_of(cost)
        yield Finding(severity, sentence, row, cost, change(text, about), session_ms=asked)


def _is_long(row: AnswerRow) -> bool:
    """Return whether a rate a day can be told: of a shorter time it is a guess."""
    return bool(row["until"] - row["from"] >= DAY_MS)
