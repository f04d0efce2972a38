"""Incidents of topics, subscriptions, assignors and applications that ask for a rebalance."""

import time
from typing import Any, Final

from groupkeeper.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tests.clients.libraries import AIOKAFKA, CONFLUENT, Library
from tests.clients.process import wait_until
from tests.truth.foreign import FRANZ_GO, JAVA
from tests.truth.incidents.stage import LONG_MS, Stage
from tests.truth.incidents.truths import incident, truth
from tests.truth.play import KAFKA_PYTHON

_CHANGED: Final = (r"(other|different) topics", r"crash|(?<!sessions )restarted")
_GREW: Final = "leader_rejoined|leader_rejoined/partitions_changed"
_AWAY: Final = "leader_rejoined/coordinator_stalled member_rejoined/coordinator_stalled"
"""Rebalances that the restart itself causes: Java forgets its metadata when no broker is left, and
franz-go joins again after errors.
"""
_FOUR: Final = (KAFKA_PYTHON, CONFLUENT, JAVA, FRANZ_GO)


def quick(client: Library) -> dict[str, Any]:
    """Settings of a client that looks for new partitions and topics every second."""
    key = (
        "topic__metadata__refresh__interval__ms"
        if client is CONFLUENT
        else "metadata__max__age__ms"
    )
    return {key: 1_000, "session_ms": LONG_MS}


def add_partitions(stage: Stage, count: int) -> None:
    """Let the topic have so many partitions, and wait until the members have them."""
    topic = CreatePartitionsTopic(name=stage.group.topic, count=count, assignments=None)
    with stage.client() as client:
        answer = client.call(3, CreatePartitionsRequest(topics=[topic], timeout_ms=10_000))
    assert not answer.results[0].error_code, answer
    members = stage.members
    wait_until(lambda: sum(len(each.assigned or ()) for each in members) == count, members, 40.0)
    time.sleep(1)


@incident(
    "partitions are added",
    *_FOUR,
    AIOKAFKA,
    source="tulios/kafkajs#133; IBM/sarama#1839",
    truth=truth(
        "The topic got more partitions; the leader noticed and rejoined.",
        _GREW,
        "member_rejoined/*",
        *_CHANGED,
    ),
)
def _grows(stage: Stage) -> None:
    stage.settled("alpha", "beta", **quick(stage.group.library))
    add_partitions(stage, 8)


@incident(
    "partitions are added after a restart of the coordinator",
    *_FOUR,
    AIOKAFKA,
    source="review of the core, C4",
    truth=truth(
        "The coordinator was restarted, later the topic got more partitions.",
        f"{_GREW}|rejoined_after_load/partitions_changed|rejoined_after_load",
        f"coordinator_loaded rejoined_after_load/* requests_refused/* {_AWAY}",
        *_CHANGED,
    ),
)
def _grows_later(stage: Stage) -> None:
    stage.settled("alpha", "beta", **quick(stage.group.library))
    stage.away(1)
    time.sleep(3)
    add_partitions(stage, 8)


@incident(
    "the application enforces a rebalance",
    JAVA,
    FRANZ_GO,
    source="KIP-568; review of the core, C5",
    truth=truth(
        "The leader's application called enforceRebalance.",
        "leader_rejoined/rebalance_enforced",
        "",
        r"partitions (came|were added)|topics or partitions|second rebalance",
        *_CHANGED,
    ),
)
def _enforced(stage: Stage) -> None:
    alpha, beta = stage.settled("alpha", "beta", session_ms=LONG_MS)
    alpha.ask("enforce")
    time.sleep(3)
    stage.group.settle(alpha, beta)


@incident(
    "the application enforces a rebalance after a restart of the coordinator",
    JAVA,
    FRANZ_GO,
    source="KIP-568; review of the core, C4 and C5",
    truth=truth(
        "The coordinator was restarted; later the leader's application called enforceRebalance.",
        "rejoined_after_load/rebalance_enforced|leader_rejoined/rebalance_enforced",
        "coordinator_loaded requests_refused/* rejoined_after_load leader_rejoined member_rejoined"
        f" {_AWAY}",
        r"second rebalance of a cooperative|only 0 partitions that moved",
        r"partitions (came|were added)|topics or partitions",
        *_CHANGED,
    ),
)
def _enforced_later(stage: Stage) -> None:
    alpha, beta = stage.settled("alpha", "beta", session_ms=LONG_MS)
    stage.away(1)
    time.sleep(4)
    alpha.ask("enforce")
    time.sleep(3)
    stage.group.settle(alpha, beta)


@incident(
    "a member subscribes to another topic",
    KAFKA_PYTHON,
    CONFLUENT,
    AIOKAFKA,
    JAVA,
    source="apache/kafka#1726 (KIP-70)",
    truth=truth(
        "The application of alpha subscribed to another topic.",
        "subscription_changed",
        "leader_rejoined/partitions_changed",  # once Java knows the partitions of the new topic
        r"partitions came",
    ),
)
def _subscribes(stage: Stage) -> None:
    other = stage.group.topic + "-other"
    stage.admin.ask("create_topic", topic=other, partitions=1)
    alpha, _ = stage.settled("alpha", "beta")
    alpha.tell("subscribe", topics=[other])
    time.sleep(5)


@incident(
    "a topic that nobody subscribes any more",
    KAFKA_PYTHON,
    CONFLUENT,
    AIOKAFKA,
    JAVA,
    source="review of users; a service that is moved to another topic and leaves records behind",
    truth=truth(
        "The only member subscribed to another topic; records arrive in the old one, "
        "which nobody reads.",
        "subscription_changed",
        "",
        r"add members or partitions",
        finds=r"(?i)subscri|nobody|not read|unread",
    ),
    bench=True,
)
def _left_behind(stage: Stage) -> None:
    other = stage.group.topic + "-other"
    stage.admin.ask("create_topic", topic=other, partitions=1)
    [alpha] = stage.settled("alpha", session_ms=45_000)
    alpha.tell("subscribe", topics=[other])
    time.sleep(4)
    for _ in range(6):
        stage.group.send(3)
        stage.advance(1_200)


@incident(
    "a new topic matches the pattern",
    CONFLUENT,
    source="confluentinc/librdkafka#2261; apache/kafka#5408 (KAFKA-7126)",
    truth=truth(
        "A topic was created that matches the pattern of the subscription.",
        "subscription_changed|subscription_changed/partitions_changed",
        "subscription_changed/*",
        r"crash|(?<!sessions )restarted",
    ),
)
def _pattern(stage: Stage) -> None:
    alpha, _ = stage.settled("alpha", "beta", **quick(CONFLUENT))
    alpha.ask("subscribe", topics=[f"^{stage.group.topic}.*"])
    time.sleep(3)
    stage.now()
    stage.admin.ask("create_topic", topic=stage.group.topic + "-new", partitions=2)
    time.sleep(6)


@incident(
    "another application uses the same group id",
    *_FOUR,
    source="IBM/sarama#2318: members that are assigned nothing they want",
    truth=truth(
        "A member that reads another topic joined the group.",
        "member_joined",
        "",
        r"crash|(?<!sessions )restarted|was away",
    ),
)
def _foreign(stage: Stage) -> None:
    [alpha] = stage.settled("alpha")
    own, other = stage.group.topic, stage.group.topic + "-other"
    stage.admin.ask("create_topic", topic=other, partitions=1)
    stage.group.topic = other
    stage.join("stranger")
    stage.group.topic = own
    time.sleep(5)
    assert alpha.assigned


@incident(
    "assignors that have nothing in common",
    CONFLUENT,
    source="confluentinc/confluent-kafka-go#605; "
    "open-telemetry/opentelemetry-collector-contrib#48658",
    truth=truth(
        "A member with cooperative-sticky alone tried to join a group of range, and was refused.",
        "requests_refused",
        "requests_refused/*",
        r"crash|(?<!sessions )restarted|paused",
    ),
)
def _mixed(stage: Stage) -> None:
    alpha, _ = stage.settled("alpha", "beta", partition__assignment__strategy="range")
    stage.join("gamma", partition__assignment__strategy="cooperative-sticky")
    time.sleep(8)
    assert alpha.assigned


@incident(
    "cooperative members are scaled out",
    CONFLUENT,
    FRANZ_GO,
    source="confluentinc/confluent-kafka-dotnet#1712",
    truth=truth(
        "gamma joined; others gave partitions up and rejoined, as cooperative assignors do.",
        "member_joined member_rejoined/partitions_revoked",
        "leader_rejoined/partitions_revoked",
        r"crash|(?<!sessions )restarted|Consumption stood still for",
    ),
)
def _cooperative(stage: Stage) -> None:
    how = {"partition__assignment__strategy": "cooperative-sticky"}
    members = stage.settled("alpha", "beta", **how)
    stage.more(members, "gamma", **how)


@incident(
    "a cooperative member is killed",
    CONFLUENT,
    FRANZ_GO,
    source="PostHog/posthog#34155",
    truth=truth(
        "beta was killed in a cooperative group.",
        "session_expired/crash_or_network",
        "member_rejoined/partitions_revoked leader_rejoined/partitions_revoked",
        r"partition\.assignment\.strategy",
    ),
)
def _cooperative_killed(stage: Stage) -> None:
    how = {"partition__assignment__strategy": "cooperative-sticky"}
    alpha, beta, gamma = stage.settled("alpha", "beta", "gamma", **how)
    beta.kill()
    stage.group.settle(alpha, gamma)


@incident(
    "more members than partitions",
    CONFLUENT,
    KAFKA_PYTHON,
    source="IBM/sarama#2318",
    truth=truth(
        "A seventh member joined a group of six partitions.",
        "member_joined",
        "",
        r"crash|hangs|cannot process",
    ),
)
def _idle_seventh(stage: Stage) -> None:
    members = stage.settled(*(f"member-{number}" for number in range(6)))
    stage.join("member-6")
    time.sleep(5)
    assert members


@incident(
    "group.max.size is met",
    CONFLUENT,
    KAFKA_PYTHON,
    source="KIP-389: a client that is refused",
    truth=truth(
        "A third member was refused, as the group may have two.",
        "requests_refused",
        "requests_refused/*",
        r"crash|(?<!sessions )restarted|paused",
    ),
    settings={"group.max.size": "2"},
)
def _full(stage: Stage) -> None:
    stage.settled("alpha", "beta")
    stage.join("gamma")
    time.sleep(6)


@incident(
    "the topic is deleted",
    CONFLUENT,
    KAFKA_PYTHON,
    JAVA,
    source="IBM/sarama#2073",
    truth=truth(
        "An administrator deleted the topic that the group reads.",
        "",
        "leader_rejoined/* subscription_changed/* member_rejoined/*",
        r"crash|(?<!sessions )restarted|paused",
    ),
)
def _deleted(stage: Stage) -> None:
    stage.settled("alpha", "beta", **quick(stage.group.library))
    # Some clients have it created again at once, so whoever waits until it is gone may wait long.
    stage.admin.tell("delete_topic", topic=stage.group.topic)
    time.sleep(6)
