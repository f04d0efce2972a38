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


def find_outage(row: AnswerRow) -> Finding | None:
    """Return a finding, unless it is unknown whether a group that went on had anything to read."""
    if row["what"] == "stuck" and row["lag"] is None:
        return None
    waited = ""
    if row["lag"]:
        old = "" if row["waiting_ms"] is None else f", the oldest for {span(row['waiting_ms'])}"
        waited = (
            f" {count(row['lag'], 'record')} in {count(row['partitions'], 'partition')} "
            f"{'waits' if row['lag'] == 1 else 'wait'} for it{old}."
        )
    group, lasted = quoted(row["group"]), span(row["lasted_ms"])
    when = times(row["from"], row["until"])
    if row["what"] == "stuck":
        sentence = (
            f"No member of group {group} committed for {lasted} {when}, up to the end of what was "
            f"read, although {count(row['members'], 'member')} went on.{waited} Look for what all "
            "of them wait for."
        )
        return Finding(CRITICAL, sentence, row, row["waited_s"], kind="stuck")
    return _gone(row, f"Group {group} had no members for {lasted} {when}", waited)


def _gone(row: AnswerRow, sentence: str, waited: str) -> Finding:
    lost, members = row["lost"], row["members"]
    is_lost = 2 * lost >= members
    ends = f"its last {count(members, 'member')} {did(row['ended_by'], row['likely'], row)}"
    if is_lost:
        whom = "" if lost == members else f"{lost} of "
        ends = f"{whom}its last {count(members, 'member')} vanished without leaving"
    if row["is_over"]:
        return Finding(MEDIUM if is_lost else INFO, f"{sentence}: {ends}.", row, kind="gone")
    waited = waited or " What waits for it is unknown."
    severity = (CRITICAL if row["lag"] else HIGH) if is_lost else MEDIUM if row["lag"] else INFO
    text = f"{sentence}, up to the end of what was read: {ends}.{waited}"
    return Finding(severity, text, row, row["waited_s"], kind="gone")


def find_lag(rows: Answers) -> Iterator[Finding]:
    """Yield a finding for each group that is behind, without those that do not work at all."""
    idle = {row["group"] for row in rows.get("outages", ()) if not row["is_over"]}
    for some in grouped(rows["lag_seconds"], "group"):
        if some[0]["group"] not in idle:
            yield _behind(some)


def _behind(some: Sequence[AnswerRow]) -> Finding:
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
