"""Situations in which members come, come back, or change what they read."""

import time

from tests.clients.libraries import CONFLUENT, Library
from tests.truth.foreign import FRANZ_GO, JAVA
from tests.truth.observed.situations import FOUR, situation
from tests.truth.observed.stage import SESSION_MS, Stage
from tests.truth.play import KAFKA_PYTHON

_THREE = ("alpha", "beta", "gamma")
_COOPERATIVE = {"partition__assignment__strategy": "cooperative-sticky"}
_JAVA_COOPERATIVE = {
    "partition__assignment__strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
}


def cooperative(client: Library) -> dict[str, str]:
    return _JAVA_COOPERATIVE if client is JAVA else _COOPERATIVE


def _quick(client: Library) -> dict[str, int]:
    """Let a client look for new partitions every second."""
    is_confluent = client is CONFLUENT
    return {
        "topic__metadata__refresh__interval__ms"
        if is_confluent
        else "metadata__max__age__ms": 1_000
    }


@situation("a member joins", *FOUR, needs="member_joined:gamma")
def _joins(stage: Stage) -> None:
    members = stage.settled("alpha", "beta")
    stage.settle(*members, stage.join("gamma"))


@situation("a static member joins", *FOUR, needs="member_joined:gamma")
def _static_joins(stage: Stage) -> None:
    members = stage.settled("alpha", "beta", static=True)
    stage.settle(*members, stage.join("gamma", static=True))


@situation("three members join at once", *FOUR, needs="member_joined:")
def _storm(stage: Stage) -> None:
    members = stage.settled("alpha")
    stage.settle(*members, *(stage.join(f"more{number}") for number in range(3)))


@situation(
    "one joins while another leaves",
    *FOUR,
    needs="member_left:beta member_joined:delta",
    unknowable="member_left member_joined",
)
def _swapped(stage: Stage) -> None:
    alpha, beta, gamma = stage.settled(*_THREE)
    delta = stage.join("delta")
    beta.ask("close")
    stage.settle(alpha, gamma, delta)


@situation("one joins while another is killed", *FOUR, needs="session_expired:beta")
def _swapped_killed(stage: Stage) -> None:
    alpha, beta, gamma = stage.settled(*_THREE)
    stage.kill(beta)
    time.sleep(3)
    delta = stage.join("delta")
    stage.settle(alpha, gamma, delta, seconds=90)


@situation("rolling restart", *FOUR, needs="member_left:alpha member_joined:alpha member_left:beta")
def _rolling(stage: Stage) -> None:
    stage.roll(away_s=1)


@situation("rolling restart, new member first", *FOUR, needs="member_left:alpha member_left:beta")
def _surge(stage: Stage) -> None:
    members = stage.settled("alpha", "beta")
    for place in range(2):
        old, members[place] = members[place], stage.join(f"new{place}")
        stage.settle(*members, old)
        old.ask("close")
        stage.settle(*members)


@situation("rolling restart, static", *FOUR)
def _rolling_static(stage: Stage) -> None:
    stage.roll(static=True, session_ms=45_000)


@situation("static member back too late", *FOUR, needs="session_expired:beta member_joined:beta")
def _too_late(stage: Stage) -> None:
    alpha, beta = stage.settled("alpha", "beta", static=True)
    beta.ask("close")
    stage.settle(alpha)
    stage.settle(alpha, stage.join("beta", static=True))


@situation("static member killed for good", *FOUR, needs="session_expired:beta")
def _static_gone(stage: Stage) -> None:
    alpha, beta = stage.settled("alpha", "beta", static=True)
    stage.kill(beta)
    stage.settle(alpha)


@situation(
    "static member removed by an administrator",
    *FOUR,
    needs="member_left:beta",
    unknowable="member_left",
)
def _removed(stage: Stage) -> None:
    stage.settled("alpha", "beta", static=True, session_ms=45_000)
    stage.remove("beta")  # most clients come back at once, in the same rebalance
    time.sleep(6)


@situation(
    "static member removed by an administrator, nothing to commit",
    *FOUR,
    needs="member_left:beta",
    unknowable="member_left",
    is_fed=False,
)
def _removed_idle(stage: Stage) -> None:
    """Nothing was committed for longer than a session."""
    stage.settled("alpha", "beta", static=True, seconds=SESSION_MS / 1000 + 8)
    stage.remove("beta")
    time.sleep(6)


@situation(
    "static member back in a rebalance, nothing to commit",
    *FOUR,
    needs="member_joined:gamma",
    is_fed=False,
    unknowable="member_joined",
)
def _unready_idle(stage: Stage) -> None:
    """Nothing was committed for longer than a session."""
    alpha, beta = stage.settled("alpha", "beta", static=True, seconds=SESSION_MS / 1000 + 8)
    stage.stall(alpha, "alpha", 5)
    gamma = stage.join("gamma", static=True)
    time.sleep(2)
    stage.kill(beta)
    stage.settle(alpha, gamma, stage.join("beta", static=True))


@situation("static member back in a rebalance", *FOUR, needs="member_joined:gamma")
def _unready(stage: Stage) -> None:
    alpha, beta = stage.settled("alpha", "beta", static=True, session_ms=45_000)
    stage.kill(beta)
    time.sleep(1)
    gamma = stage.join("gamma", static=True, session_ms=45_000)
    time.sleep(2)
    stage.settle(alpha, gamma, stage.join("beta", static=True, session_ms=45_000))


@situation("two members with one instance id", *FOUR, harm=r"\brestarted\b")
def _duel(stage: Stage) -> None:
    stage.settled("alpha", "beta", static=True, session_ms=45_000)
    stage.join("beta", static=True, session_ms=45_000)
    time.sleep(12)


@situation("subscription changes", KAFKA_PYTHON, CONFLUENT, JAVA, needs=":alpha")
def _subscribes(stage: Stage) -> None:
    other = stage.group.topic + "-other"
    stage.admin.ask("create_topic", topic=other, partitions=2)
    alpha, _, _ = stage.settled(*_THREE)
    stage.subscribe(alpha, "alpha", other)
    time.sleep(10)


@situation(
    "subscription of a follower changes", KAFKA_PYTHON, CONFLUENT, JAVA, needs="updated:beta"
)
def _follower_subscribes(stage: Stage) -> None:
    other = stage.group.topic + "-other"
    stage.admin.ask("create_topic", topic=other, partitions=2)
    _, beta, _ = stage.settled(*_THREE)
    stage.subscribe(beta, "beta", other)
    time.sleep(10)


@situation("partitions are added", *FOUR, needs="leader:alpha")
def _grows(stage: Stage) -> None:
    alpha, beta = stage.settled("alpha", "beta", **_quick(stage.client))
    stage.add_partitions(8)
    # The leader that kafka-python 3.0.12 has sometimes hangs when it has assigned them.
    stage.settle_or_lose_one(alpha, beta)


@situation("partitions are added, nothing to commit", *FOUR, needs="leader:alpha", is_fed=False)
def _grows_idle(stage: Stage) -> None:
    alpha, beta = stage.settled("alpha", "beta", **_quick(stage.client))
    stage.add_partitions(8)
    stage.settle_or_lose_one(alpha, beta)


@situation("cooperative: a member joins", CONFLUENT, JAVA, FRANZ_GO, needs="member_joined:gamma")
def _cooperative_joins(stage: Stage) -> None:
    how = cooperative(stage.client)
    members = stage.settled("alpha", "beta", **how)
    stage.settle(*members, stage.join("gamma", **how))


@situation("cooperative: close", CONFLUENT, JAVA, FRANZ_GO, needs="member_left:beta")
def _cooperative_closes(stage: Stage) -> None:
    alpha, beta, gamma = stage.settled(*_THREE, **cooperative(stage.client))
    beta.ask("close")
    stage.settle(alpha, gamma)


@situation("cooperative: kill -9", CONFLUENT, JAVA, FRANZ_GO, needs="session_expired:beta")
def _cooperative_killed(stage: Stage) -> None:
    alpha, beta, gamma = stage.settled(*_THREE, **cooperative(stage.client))
    stage.kill(beta)
    stage.settle(alpha, gamma)


@situation("cooperative: rolling restart", CONFLUENT, JAVA, FRANZ_GO, needs="member_left:alpha")
def _cooperative_rolling(stage: Stage) -> None:
    stage.roll(away_s=1, **cooperative(stage.client))


@situation(
    "cooperative: one joins while another is killed",
    CONFLUENT,
    JAVA,
    FRANZ_GO,
    needs="session_expired:beta member_joined:delta",
)
def _cooperative_swapped(stage: Stage) -> None:
    how = cooperative(stage.client)
    alpha, beta, gamma = stage.settled(*_THREE, **how)
    stage.kill(beta)
    time.sleep(SESSION_MS / 1000 - 2)
    delta = stage.join("delta", **how)
    stage.settle(alpha, gamma, delta, seconds=90)


@situation("a rebalance is enforced", JAVA, FRANZ_GO, needs="leader:alpha")
def _enforced(stage: Stage) -> None:
    alpha, beta = stage.settled("alpha", "beta")
    alpha.ask("enforce")
    time.sleep(6)
    beta.ask("enforce")
    time.sleep(6)


@situation("cooperative: a follower enforces a rebalance", JAVA, FRANZ_GO, needs="updated:beta")
def _cooperative_enforced(stage: Stage) -> None:
    _, beta, _ = stage.settled(*_THREE, **cooperative(stage.client))
    beta.ask("enforce")
    time.sleep(8)
