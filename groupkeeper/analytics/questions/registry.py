"""All questions, by name."""

from collections.abc import Mapping
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


FINDINGS: Final = "findings"


def answers(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The answers to all questions by name, and the `findings` in them, which are first. `tables`
    are those of an analysis, with all columns; one that is left out is empty.
    """
    cuts = Cuts(tables)
    answered = {name: each.of_cuts(cuts) for name, each in QUESTIONS.items()}
    return {FINDINGS: findings_of(answered), **answered}
