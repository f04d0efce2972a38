"""Derives findings from the answers to the questions: FINDERS.

Every number in a sentence is from the rows of the finding, or from the advice that `groupkeeper
why` gives about them. The functions are in `rebalance_finders`, `member_finders` and
`commit_finders`; here is the one that reads the findings of all others.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from groupkeeper.analytics.questions import commit_finders as commits
from groupkeeper.analytics.questions import member_finders as members
from groupkeeper.analytics.questions import rebalance_finders as rebalances
from groupkeeper.analytics.questions.finding import (
    HIGH,
    INFO,
    MEDIUM,
    AnswerRow,
    Answers,
    Finder,
    Finding,
    asked_of,
    grouped,
    quoted,
    remedy,
    times,
    vanished,
    who,
)
from groupkeeper.why.texts import count, span


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
        cost: float | None = row["silent_ms"] / 1000 * row["partitions"]
        severity = HIGH if row["ended"] == LOG_END else MEDIUM
        if row["ended_by"] is not None:
            kind, text = "vanished", vanished(row, wanted.get(row["group"], 0))
        elif row["lag"] is None:
            kind, severity, cost = "silent", INFO, None
            text = f"{text} Or there was nothing to read: its lag is unknown."
        yield Finding(severity, sentence + text, row, cost, *remedy(text, row, kind))


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


def _each(question: str, tell: Callable[[AnswerRow], Finding | None]) -> Finder:
    """Apply `tell` to each row."""
    return lambda rows: filter(None, map(tell, rows[question]))


def _of_group(question: str, tell: Callable[[Sequence[AnswerRow]], Finding]) -> Finder:
    """Apply `tell` to all rows of each group."""
    return lambda rows: map(tell, grouped(rows[question], "group"))


FINDERS: Final[Mapping[str, Finder]] = {
    "split_brain": _each("split_brain", commits.find_split_brain),
    "outages": _each("outages", commits.find_outage),
    "storms": rebalances.find_storms,
    "duels": _each("duels", rebalances.find_duels),
    "commit_silence": _silence,
    "zombies": _each("zombies", commits.find_zombies),
    "flapping": rebalances.find_flapping,
    "refused_commits": commits.find_refused_commits,
    "barrier": members.find_slow_to_rejoin,
    "returns": members.find_scaling,
    "restart_gaps": _each("restart_gaps", members.find_restarts),
    "not_stable": _each("not_stable", rebalances.find_not_stable),
    "rebalance_rate": rebalances.find_frequent_rebalances,
    "idle_members": members.find_idle,
    "skew": _of_group("skew", members.find_skew),
    "cooperative_or_eager": _each("cooperative_or_eager", members.find_eager),
    "lag_seconds": commits.find_lag,
    "rhythm_steps": _of_group("rhythm_steps", commits.find_rhythm_steps),
}
"""Question -> function that returns the findings in its answer."""
