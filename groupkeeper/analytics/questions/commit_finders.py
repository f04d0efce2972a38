"""Finds what to say about commits: refused ones, zombies, lag, changes of rhythm, split brains.

The functions return findings about a row of an answer, about the rows of a group, or about all
answers; `finders.FINDERS` has the question of each.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from groupkeeper.analytics.questions.finding import (
    CRITICAL,
    HIGH,
    INFO,
    MEDIUM,
    AnswerRow,
    Answers,
    Finding,
    advise,
    did,
    grouped,
    plain,
    quoted,
    remedy,
    times,
    who,
)
from groupkeeper.why.texts import count, span

LISTENS: Final = 10
"""A client with more refusals than this ignores them: fewer may have been in flight."""


def find_zombies(row: AnswerRow) -> Finding | None:
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
    return Finding(severity, sentence, row, None, *remedy(text, row, row["ended_by"]))


def find_refused_commits(rows: Answers) -> Iterator[Finding]:
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


def find_lag(some: Sequence[AnswerRow]) -> Finding:
    """Return a finding for the partition that is most behind."""
    row = max(some, key=lambda row: row["now_ms"])
    sentence = (
        f"Group {quoted(row['group'])} is {span(row['now_ms'])} behind in partition "
        f"{row['topic_partition']} of {plain(row['topic'])}, {span(row['median_ms'])} "
        "in the median: add members or partitions, or find what slows it down."
    )
    return Finding(MEDIUM, sentence, row)


def find_rhythm_steps(some: Sequence[AnswerRow]) -> Finding:
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


def find_split_brain(row: AnswerRow) -> Finding:
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
