"""Situations of clients with other settings (long and short sessions, no automatic commits), and of
restarts in a row.
"""

import time

from tests.clients.libraries import CONFLUENT
from tests.truth.foreign import FRANZ_GO, JAVA
from tests.truth.observed.comings import cooperative
from tests.truth.observed.situations import FOUR, situation
from tests.truth.observed.stage import Stage

_THREE = ("alpha", "beta", "gamma")
_LONG = {"session_ms": 45_000, "commit_ms": 5_000}
"""Defaults of most clients."""


@situation("close, no automatic commits", *FOUR, needs="member_left:beta", unknowable="member_left")
def _closed_uncommitted(stage: Stage) -> None:
    alpha, beta, gamma = stage.settled(*_THREE, auto_commit=False)
    beta.ask("close")
    stage.settle(alpha, gamma)


@situation(
    "kill -9, no automatic commits",
    *FOUR,
    needs="session_expired:beta",
    unknowable="session_expired",
)
def _killed_uncommitted(stage: Stage) -> None:
    alpha, beta, gamma = stage.settled(*_THREE, auto_commit=False)
    stage.kill(beta)
    stage.settle(alpha, gamma)


@situation("close, session of 45 s", CONFLUENT, JAVA, FRANZ_GO, needs="member_left:beta")
def _closed_default(stage: Stage) -> None:
    alpha, beta = stage.settled("alpha", "beta", seconds=20, **_LONG)
    beta.ask("close")
    stage.settle(alpha)


@situation("kill -9, session of 6 s", *FOUR, needs="session_expired:beta")
def _killed_short(stage: Stage) -> None:
    alpha, beta, gamma = stage.settled(*_THREE, session_ms=6_000)
    stage.kill(beta)
    stage.settle(alpha, gamma)


@situation("members are added one by one", *FOUR, needs="member_joined:beta member_joined:delta")
def _added(stage: Stage) -> None:
    members = stage.settled("alpha")
    for name in ("beta", "gamma", "delta"):
        members.append(stage.join(name))
        stage.settle(*members)


@situation("static member restarted again and again", *FOUR)
def _restarted(stage: Stage) -> None:
    """Each time within its session, which triggers no rebalance."""
    alpha, beta = stage.settled("alpha", "beta", static=True, session_ms=45_000)
    for _ in range(3):
        beta.ask("close")
        time.sleep(1)
        beta = stage.join("beta", static=True, session_ms=45_000)
        stage.settle(alpha, beta)


@situation("cooperative: rolling restart, static", CONFLUENT, JAVA, FRANZ_GO)
def _cooperative_static(stage: Stage) -> None:
    stage.roll(static=True, session_ms=45_000, **cooperative(stage.client))
