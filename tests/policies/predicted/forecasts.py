"""What the logs of plays predict, beside what was measured at the clients."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from groupkeeper.analytics.answering import replays_of
from groupkeeper.analytics.questions.registry import QUESTIONS, Local
from groupkeeper.analytics.what_if.question import Past, past_of
from groupkeeper.analytics.what_if.replay import ReplaySettings, replay
from groupkeeper.coordinator.policy import Policy
from tests.policies.predicted.plays import measured_in
from tests.policies.predicted.unread import unread_ms
from tests.weeks.analysed import tables_of

NEAR: Final = 0.1
LEAST_S: Final = 10.0
"""Of fewer partition-seconds a tenth is less than what a client needs to answer a rebalance."""


@dataclass(frozen=True, slots=True)
class Log:
    """The log of one play: what is recorded of its group, and what was measured."""

    past: Past
    rebalances: int
    unread_ms: int
    set_ms: int
    """When the policy was set, or would have been, in Unix milliseconds."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a log predicts and what was measured: rebalances, and partition-seconds that nobody
    read.
    """

    number: str
    client: str
    what: str
    measured: tuple[int, float]
    predicted: tuple[int, float]

    @property
    def off(self) -> float:
        """The difference of partition-seconds, as a part of those measured."""
        return (
            (self.predicted[1] - self.measured[1]) / self.measured[1] if self.measured[1] else 0.0
        )

    @property
    def is_met(self) -> bool:
        """Rebalances are exact, and partition-seconds near enough if there are enough."""
        is_near = abs(self.off) <= NEAR or self.measured[1] < LEAST_S
        return self.measured[0] == self.predicted[0] and is_near


def log_of(folder: Path, partitions: int) -> Log:
    """Read the log of a play with one group, and what was measured."""
    tables: Mapping[str, Any] = tables_of(folder / "data")
    measured = measured_in(folder)
    [group] = {*tables["sessions"]["group"].to_pylist()}
    with Local(tables) as local:
        local.ask(QUESTIONS["not_stable"])
        [(_, rows, _)] = replays_of(local, [group], {})
    past = past_of(rows)
    assert past is not None
    unread = unread_ms(measured.turns, partitions, past.end_ms)
    return Log(past, len(rows["rounds"]), unread, measured.set_ms)


def predicted(log: Log, policy: Policy | None = None) -> tuple[int, float]:
    """Rebalances and partition-seconds under a policy; None for the one that the group had."""
    past, behaviour = log.past, log.past.behaviour
    if policy is not None:
        behaviour = replace(behaviour, policies=((log.set_ms, policy),))
    outcome = replay(past.lives, behaviour, ReplaySettings(), past.end_ms)
    return outcome.rounds, (outcome.unread_ms - outcome.paused_ms) / 1000


def forecasts(
    number: str, client: str, policy: Policy, with_policy: Log, without: Log
) -> list[Forecast]:
    """All that the two logs of a check predict."""
    there = with_policy.rebalances, with_policy.unread_ms / 1000
    not_there = without.rebalances, without.unread_ms / 1000
    return [
        Forecast(number, client, "with, as it was", there, predicted(with_policy)),
        Forecast(number, client, "without, as it was", not_there, predicted(without)),
        Forecast(number, client, "with, from without", there, predicted(without, policy)),
    ]
