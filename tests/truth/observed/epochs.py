"""Situations of consumer groups (KIP-848)."""

import time
from functools import partial

from tests.clients.libraries import CONFLUENT
from tests.truth.foreign import JAVA
from tests.truth.observed.cluster import CONSUMER_SESSION
from tests.truth.observed.situations import situation
from tests.truth.observed.stage import Stage

_CONSUMER = {"group__protocol": "consumer"}
_THREE = ("alpha", "beta", "gamma")
_POLL_MS = 30_000
_of_consumers = partial(situation, is_consumer=True)


@_of_consumers("consumer group: close", JAVA, CONFLUENT, needs="left:")
def _closes(stage: Stage) -> None:
    alpha, beta, gamma = stage.settled(*_THREE, **_CONSUMER)
    beta.ask("close")
    stage.settle(alpha, gamma)


@_of_consumers("consumer group: kill -9", JAVA, CONFLUENT, needs="fenced:")
def _killed(stage: Stage) -> None:
    alpha, beta, gamma = stage.settled(*_THREE, **_CONSUMER)
    stage.kill(beta)
    stage.settle(alpha, gamma)


@_of_consumers("consumer group: a member joins", JAVA, CONFLUENT, needs="joined:")
def _joins(stage: Stage) -> None:
    members = stage.settled("alpha", "beta", **_CONSUMER)
    stage.settle(*members, stage.join("gamma", **_CONSUMER))


@_of_consumers("consumer group: three members join at once", JAVA, CONFLUENT, needs="joined:")
def _storm(stage: Stage) -> None:
    members = stage.settled("alpha", **_CONSUMER)
    more = [stage.join(f"more{number}", **_CONSUMER) for number in range(3)]
    stage.settle(*members, *more)


@_of_consumers("consumer group: close of all", JAVA, CONFLUENT, needs="left:")
def _closed_all(stage: Stage) -> None:
    for each in stage.settled("alpha", "beta", **_CONSUMER):
        each.ask("close")
    time.sleep(3)


@_of_consumers("consumer group: slow member", JAVA, CONFLUENT, needs="joined:")
def _slow(stage: Stage) -> None:
    """It gives partitions up when it polls again, before its time is up."""
    alpha, beta = stage.settled("alpha", "beta", poll_ms=60_000, **_CONSUMER)
    stage.stall(beta, "beta", 8)
    gamma = stage.join("gamma", **_CONSUMER)
    time.sleep(10)  # all have partitions before it gives up its own
    stage.settle(alpha, beta, gamma)


@_of_consumers("consumer group: poll too late", JAVA, CONFLUENT, needs="left:")
def _polls_late(stage: Stage) -> None:
    stage.poll_too_late(_POLL_MS, **_CONSUMER)


@_of_consumers("consumer group: a static member is closed and back", JAVA, CONFLUENT)
def _static_back(stage: Stage) -> None:
    alpha, beta = stage.settled("alpha", "beta", static=True, **_CONSUMER)
    beta.ask("close")
    time.sleep(2)
    stage.settle(alpha, stage.join("beta", static=True, **_CONSUMER))


@_of_consumers("consumer group: a static member is closed", JAVA, CONFLUENT, needs="fenced:")
def _static_closed(stage: Stage) -> None:
    alpha, beta = stage.settled("alpha", "beta", static=True, **_CONSUMER)
    beta.ask("close")
    stage.settle(alpha)


@_of_consumers("consumer group: partitions are added", JAVA, CONFLUENT)
def _grows(stage: Stage) -> None:
    members = stage.settled("alpha", "beta", **_CONSUMER)
    stage.add_partitions(9)
    stage.settle(*members)


@_of_consumers("consumer group: classic before", JAVA, CONFLUENT, needs="joined:")
def _upgraded(stage: Stage) -> None:
    """A group is converted while it runs, and back when no member of the new protocol is left."""
    alpha, beta = stage.settled("alpha", "beta")
    gamma = stage.join("gamma", **_CONSUMER)
    stage.settle(alpha, beta, gamma)
    time.sleep(3)
    gamma.ask("close")
    stage.settle(alpha, beta)


@_of_consumers("consumer group: another subscription", JAVA, CONFLUENT)
def _subscribes(stage: Stage) -> None:
    other = stage.group.topic + "-other"
    stage.admin.ask("create_topic", topic=other, partitions=2)
    _, beta, _ = stage.settled(*_THREE, **_CONSUMER)
    stage.subscribe(beta, "beta", other)
    time.sleep(10)


@_of_consumers(
    "consumer group: paused for longer than the session", JAVA, CONFLUENT, needs="fenced:"
)
def _paused(stage: Stage) -> None:
    alpha, beta = stage.settled("alpha", "beta", **_CONSUMER)
    stage.stop(beta, "beta")
    stage.settle(alpha)
    beta.go_on()
    stage.settle(alpha, beta)


@_of_consumers("consumer group: zombie commits", JAVA, CONFLUENT, needs="fenced:")
def _zombie(stage: Stage) -> None:
    alpha, beta = stage.settled("alpha", "beta", **_CONSUMER)
    stage.stop(beta, "beta")
    stage.settle(alpha)
    beta.tell("commit")
    beta.go_on()
    time.sleep(8)


@_of_consumers("consumer group: rolling restart", JAVA, CONFLUENT, needs="left: joined:")
def _rolling(stage: Stage) -> None:
    stage.roll(away_s=1, **_CONSUMER)


@_of_consumers("consumer group: rolling restart, static", JAVA, CONFLUENT)
def _rolling_static(stage: Stage) -> None:
    stage.roll(static=True, **_CONSUMER)


@_of_consumers("consumer group: two members with one instance id", JAVA, CONFLUENT)
def _duel(stage: Stage) -> None:
    stage.settled("alpha", "beta", static=True, **_CONSUMER)
    stage.join("beta", static=True, **_CONSUMER)
    time.sleep(12)


@_of_consumers(
    "consumer group: coordinator's broker killed, back after 5 s", JAVA, CONFLUENT, is_in_wave=True
)
def _broker_killed(stage: Stage) -> None:
    stage.settled("alpha", "beta", **_CONSUMER)
    with stage.coordinator_away(5):
        pass
    time.sleep(CONSUMER_SESSION.timeout_ms / 1000 + 8)


@_of_consumers(
    "consumer group: coordinator's broker and a member killed",
    JAVA,
    CONFLUENT,
    needs="fenced:",
    is_in_wave=True,
)
def _both_killed(stage: Stage) -> None:
    _, beta = stage.settled("alpha", "beta", **_CONSUMER)
    with stage.coordinator_away(5):
        stage.kill(beta)
    time.sleep(CONSUMER_SESSION.timeout_ms / 1000 + 10)
