"""Situations in which members go, pause, or are slow."""

import time

from tests.clients.libraries import CONFLUENT
from tests.truth.foreign import FRANZ_GO, JAVA
from tests.truth.observed.situations import FOUR, POLLERS, situation
from tests.truth.observed.stage import LATE_S, SESSION_MS, Stage
from tests.truth.play import KAFKA_PYTHON

_THREE = ("alpha", "beta", "gamma")
_POLL_MS = 30_000
_STALL_S = _POLL_MS / 1000 + LATE_S
"""Longer than `max.poll.interval.ms`, which is by default far above the session timeout, too."""
_NEAR_MS = 12_000


@situation("kill -9", *FOUR, needs="session_expired:beta")
def _killed(stage: Stage) -> None:
    alpha, beta, gamma = stage.settled(*_THREE)
    stage.kill(beta)
    stage.settle(alpha, gamma)


@situation("kill -9 of the leader", *FOUR, needs="session_expired:alpha")
def _killed_leader(stage: Stage) -> None:
    alpha, beta, gamma = stage.settled(*_THREE)
    stage.kill(alpha)
    stage.settle(beta, gamma)


@situation("kill -9, commits every 5 s", CONFLUENT, JAVA, needs="session_expired:beta")
def _killed_rare(stage: Stage) -> None:
    alpha, beta = stage.settled("alpha", "beta", commit_ms=5_000, seconds=20)
    stage.kill(beta)
    stage.settle(alpha)


@situation(
    "kill -9, nothing to commit",
    *FOUR,
    needs="session_expired:beta",
    is_fed=False,
    unknowable="session_expired",
)
def _killed_idle(stage: Stage) -> None:
    alpha, beta, gamma = stage.settled(*_THREE)
    stage.kill(beta)
    stage.settle(alpha, gamma)


@situation("kill -9 of two of three", *FOUR, needs="session_expired:")
def _killed_two(stage: Stage) -> None:
    alpha, beta, gamma = stage.settled(*_THREE)
    stage.kill(beta, gamma)
    stage.settle(alpha)


@situation("kill -9 of all", *FOUR, needs="session_expired:")
def _killed_all(stage: Stage) -> None:
    stage.kill(*stage.settled("alpha", "beta"))
    time.sleep(SESSION_MS / 1000 + 4)


@situation("kill -9 and started again at once", *FOUR, needs="session_expired: member_joined:beta")
def _crash_loop(stage: Stage) -> None:
    alpha, beta = stage.settled("alpha", "beta")
    stage.kill(beta)
    time.sleep(1)
    beta = stage.join("beta")
    stage.settle(alpha, beta, seconds=90)


@situation("kill -9, session of 45 s", CONFLUENT, JAVA, needs="session_expired:beta")
def _killed_default(stage: Stage) -> None:
    how = {"session_ms": 45_000, "commit_ms": 5_000}
    alpha, beta = stage.settled("alpha", "beta", seconds=20, **how)
    stage.kill(beta)
    stage.settle(alpha, seconds=90)


@situation("close", *FOUR, needs="member_left:beta")
def _closed(stage: Stage) -> None:
    alpha, beta, gamma = stage.settled(*_THREE)
    beta.ask("close")
    stage.settle(alpha, gamma)


@situation("close of the leader", *FOUR, needs="member_left:alpha")
def _closed_leader(stage: Stage) -> None:
    alpha, beta, gamma = stage.settled(*_THREE)
    alpha.ask("close")
    stage.settle(beta, gamma)


@situation(
    "close, nothing to commit",
    *FOUR,
    needs="member_left:beta",
    is_fed=False,
    unknowable="member_left",
)
def _closed_idle(stage: Stage) -> None:
    alpha, beta, gamma = stage.settled(*_THREE)
    beta.ask("close")
    stage.settle(alpha, gamma)


@situation(
    "close, its partitions idle for a session",
    *FOUR,
    needs="member_left:beta",
    unknowable="member_left",
)
def _closed_starved(stage: Stage) -> None:
    """The others have something to commit, as it had before."""
    alpha, beta, gamma = stage.settled(*_THREE, seconds=8)
    stage.starve(beta)
    time.sleep(SESSION_MS / 1000 + 1.5)
    beta.ask("close")
    stage.settle(alpha, gamma)


@situation(
    "close, its partitions idle for a poll interval",
    *FOUR,
    needs="member_left:beta",
    unknowable="member_left",
)
def _closed_starved_longer(stage: Stage) -> None:
    alpha, beta, gamma = stage.settled(*_THREE, seconds=8, poll_ms=20_000)
    stage.starve(beta)
    time.sleep(21.5)
    beta.ask("close")
    stage.settle(alpha, gamma)


@situation(
    "kill -9, its partitions idle before",
    *FOUR,
    needs="session_expired:beta",
    unknowable="session_expired",
)
def _killed_starved(stage: Stage) -> None:
    alpha, beta, gamma = stage.settled(*_THREE, seconds=8)
    stage.starve(beta)
    time.sleep(SESSION_MS / 1000 + 1.5)
    stage.kill(beta)
    stage.settle(alpha, gamma)


@situation(
    "close after an hour of nothing to commit",
    *FOUR,
    needs="member_left:beta",
    is_fed=False,
    unknowable="member_left",
)
def _closed_later(stage: Stage) -> None:
    """As long as its session, which is what counts."""
    alpha, beta = stage.settled("alpha", "beta", seconds=SESSION_MS / 1000 + 8)
    beta.ask("close")
    stage.settle(alpha)


@situation("close of all", *FOUR, needs="member_left:")
def _closed_all(stage: Stage) -> None:
    for each in stage.settled("alpha", "beta"):
        each.ask("close")
    time.sleep(3)


@situation("close of all, and all are back", *FOUR, needs="member_left: member_joined:")
def _recreated(stage: Stage) -> None:
    for each in stage.settled("alpha", "beta"):
        each.ask("close")
    time.sleep(2)
    stage.settle(stage.join("alpha"), stage.join("beta"))


@situation(
    "kill -9 of one, close of another", *FOUR, needs="session_expired:beta member_left:gamma"
)
def _both(stage: Stage) -> None:
    alpha, beta, gamma = stage.settled(*_THREE)
    stage.kill(beta)
    time.sleep(2)
    gamma.ask("close")
    stage.settle(alpha)
    time.sleep(4)


@situation("paused for longer than the session", *FOUR, needs="session_expired:beta")
def _paused(stage: Stage) -> None:
    alpha, beta = stage.settled("alpha", "beta")
    stage.stop(beta, "beta")
    stage.settle(alpha)
    beta.go_on()
    stage.settle(alpha, beta)


@situation("paused for less than the session", *FOUR)
def _short_pause(stage: Stage) -> None:
    _, beta = stage.settled("alpha", "beta")
    stage.stop(beta, "beta")
    time.sleep(4)
    beta.go_on()
    time.sleep(8)


@situation("zombie commits", KAFKA_PYTHON, CONFLUENT, JAVA, needs="session_expired:beta")
def _zombie(stage: Stage) -> None:
    alpha, beta = stage.settled("alpha", "beta")
    stage.stop(beta, "beta")
    stage.settle(alpha)
    beta.tell("commit")
    beta.go_on()
    time.sleep(8)


@situation("poll too late", *POLLERS, needs="member_left:beta")
def _polls_late(stage: Stage) -> None:
    stage.poll_too_late(_POLL_MS)


@situation("poll too late, near the session", *POLLERS, needs="member_left:beta")
def _polls_late_near(stage: Stage) -> None:
    """Which of the two ended may not show."""
    stage.poll_too_late(_NEAR_MS)


@situation(
    "poll too late, nothing to commit",
    *POLLERS,
    needs="member_left:beta",
    is_fed=False,
    unknowable="member_left",
)
def _polls_late_idle(stage: Stage) -> None:
    stage.poll_too_late(_POLL_MS)


@situation("slow member in a rebalance", *POLLERS, needs="member_joined:gamma")
def _slow(stage: Stage) -> None:
    """It joins before its time is up."""
    alpha, beta = stage.settled("alpha", "beta", poll_ms=_POLL_MS)
    stage.stall(beta, "beta", 8)
    stage.settle(alpha, beta, stage.join("gamma", poll_ms=_POLL_MS))


@situation("too slow member in a rebalance", *POLLERS, needs="member_joined:gamma")
def _too_slow(stage: Stage) -> None:
    alpha, beta = stage.settled("alpha", "beta", poll_ms=_POLL_MS)
    stage.stall(beta, "beta", _STALL_S)
    gamma = stage.join("gamma", poll_ms=_POLL_MS)
    time.sleep(_STALL_S)
    stage.polls_again(beta)
    stage.settle(alpha, beta, gamma)


@situation("killed in a rebalance", *POLLERS, needs="member_joined:gamma session_expired:beta")
def _killed_in_round(stage: Stage) -> None:
    alpha, beta = stage.settled("alpha", "beta")
    stage.stall(alpha, "alpha", 5)
    gamma = stage.join("gamma")
    time.sleep(1.5)
    stage.kill(beta)
    stage.settle(alpha, gamma)


@situation("unsubscribed and subscribed again", *POLLERS, needs="member_left:beta")
def _unsubscribed(stage: Stage) -> None:
    alpha, beta = stage.settled("alpha", "beta")
    beta.ask("unsubscribe")
    stage.settle(alpha)
    beta.ask("resubscribe", topics=[stage.group.topic])
    stage.settle(alpha, beta)


_ = FRANZ_GO
