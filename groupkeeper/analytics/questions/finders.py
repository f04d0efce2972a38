"""Derives findings from the answers to the questions: FINDERS.

Every number in a sentence is from the rows of the finding, or from the advice that `groupkeeper
why` gives about them. The functions are in `rebalance_finders`, `member_finders` and
`commit_finders`; here is the one that reads the findings of all others.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from groupkeeper.analytics.questions.commit_finders import (
    find_lag,
    find_refused_commits,
    find_rhythm_steps,
    find_split_brain,
    find_zombies,
)
from groupkeeper.analytics.questions.finding import (
    HIGH,
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
from groupkeeper.analytics.questions.member_finders import (
    find_eager,
    find_idle,
    find_restarts,
    find_skew,
    find_slow_to_rejoin,
)
from groupkeeper.analytics.questions.rebalance_finders import (
    find_duels,
    find_flapping,
    find_frequent_rebalances,
    find_not_stable,
    find_storms,
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
        if row["ended_by"] is not None:
            kind, text = "vanished", vanished(row, wanted.get(row["group"], 0))
        cost = row["silent_ms"] / 1000 * row["partitions"]
        severity = HIGH if row["ended"] == LOG_END else MEDIUM
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
    "split_brain": _each("split_brain", find_split_brain),
    "storms": _each("storms", find_storms),
    "duels": _each("duels", find_duels),
    "commit_silence": _silence,
    "zombies": _each("zombies", find_zombies),
    "flapping": find_flapping,
    "refused_commits": find_refused_commits,
    "barrier": find_slow_to_rejoin,
    "restart_gaps": _each("restart_gaps", find_restarts),
    "not_stable": _each("not_stable", find_not_stable),
    "rebalance_rate": find_frequent_rebalances,
    "idle_members": find_idle,
    "skew": _of_group("skew", find_skew),
    "cooperative_or_eager": _each("cooperative_or_eager", find_eager),
    "lag_seconds": _of_group("lag_seconds", find_lag),
    "rhythm_steps": _of_group("rhythm_steps", find_rhythm_steps),
}
"""Question -> function that returns the findings in its answer."""
