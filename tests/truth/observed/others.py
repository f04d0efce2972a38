"""Situations of the coordinator's broker."""

import time

from tests.truth.observed.situations import FOUR, situation
from tests.truth.observed.stage import SESSION_MS, Stage

_THREE = ("alpha", "beta", "gamma")


@situation("coordinator's broker killed, back after 5 s", *FOUR, is_in_wave=True)
def _broker_killed(stage: Stage) -> None:
    stage.settled("alpha", "beta")
    with stage.coordinator_away(5):
        pass
    time.sleep(SESSION_MS / 1000 + 6)


@situation(
    "coordinator's broker and a member killed", *FOUR, is_in_wave=True, needs="session_expired:beta"
)
def _both_killed(stage: Stage) -> None:
    _, beta = stage.settled("alpha", "beta")
    with stage.coordinator_away(5):
        stage.kill(beta)
    time.sleep(SESSION_MS / 1000 + 10)


@situation("coordinator's broker killed for longer than a session", *FOUR, is_in_wave=True)
def _broker_killed_long(stage: Stage) -> None:
    stage.settled("alpha", "beta")
    with stage.coordinator_away(SESSION_MS / 1000 + 3):
        pass
    time.sleep(SESSION_MS / 1000 + 6)


@situation("closed, and the coordinator's broker is killed", *FOUR, is_in_wave=True)
def _closed_before(stage: Stage) -> None:
    """Before the others have joined again."""
    _, beta, _ = stage.settled(*_THREE)
    beta.ask("close")
    with stage.coordinator_away(5):
        pass
    time.sleep(SESSION_MS / 1000 + 6)


@situation("closed while the coordinator's broker is away", *FOUR, is_in_wave=True)
def _closed_away(stage: Stage) -> None:
    """The coordinator may not hear of it."""
    _, beta, _ = stage.settled(*_THREE)
    with stage.coordinator_away(5):
        beta.tell("close")
    time.sleep(SESSION_MS / 1000 + 10)
