"""All questions, by name."""

from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa

from groupkeeper.analytics.questions import (
    committing,
    members,
    rates,
    refused,
    restarts,
    silence,
    storms,
    work,
)
from groupkeeper.analytics.questions.asking import Cuts, Question
from groupkeeper.analytics.questions.findings import findings_of

QUESTIONS: Final[Mapping[str, Question]] = {
    each.name: each
    for each in (
        rates.rebalance_rate,
        rates.timeline,
        rates.not_stable,
        rates.causes,
        rates.causes_by_software,
        rates.causes_by_host,
        storms.storms,
        members.flapping,
        refused.zombies,
        members.duels,
        refused.refused_commits,
        work.barrier,
        work.idle_members,
        work.skew,
        work.cooperative_or_eager,
        restarts.restart_gaps,
        silence.commit_silence,
        committing.commit_rhythm,
        committing.rhythm_steps,
        committing.lag_seconds,
        restarts.split_brain,
    )
}

OF_GROUPS: Final = tuple(name for name, each in QUESTIONS.items() if each.key == ("group",))
"""Questions that are asked of one group at a time; of others the rows of all groups are needed."""
FINDINGS: Final = "findings"


def answers(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The answers to all questions by name, and the `findings` in them, which are first. `tables`
    are those of an analysis, with all columns; one that is left out is empty.
    """
    return with_findings(answers_to(QUESTIONS, tables))


def answers_to(names: Iterable[str], tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The answers to some questions."""
    cuts = Cuts(tables)
    return {name: QUESTIONS[name].of_cuts(cuts) for name in names}


def with_findings(answered: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The answers to all questions, in their order, with `findings` first."""
    return {FINDINGS: findings_of(answered), **{name: answered[name] for name in QUESTIONS}}
