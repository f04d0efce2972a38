"""Knows which settings the clients of a group have, and what each client software calls them.

Looked up in Kafka 4.1 (ConsumerConfig, DistributedConfig, StreamsConfig), librdkafka 2.16,
kafka-python 3.0, aiokafka 0.14 and franz-go 1.22.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from groupkeeper.history.fields import Part
from groupkeeper.protocol.embedded import CONNECT, CONSUMER

SESSION: Final = "session.timeout.ms"
HEARTBEAT: Final = "heartbeat.interval.ms"
POLL_INTERVAL: Final = "max.poll.interval.ms"
POLL_RECORDS: Final = "max.poll.records"
INSTANCE: Final = "group.instance.id"
STRATEGY: Final = "partition.assignment.strategy"
LARGEST_SESSION: Final = "group.max.session.timeout.ms"
SMALLEST_SESSION: Final = "group.min.session.timeout.ms"
LARGEST_GROUP: Final = "group.max.size"
LARGEST_RECORD: Final = "message.max.bytes"
GRACE: Final = "classic.scheduled.rebalance.max.delay.ms"
RESERVE_ON: Final = "classic.reserve.on"

COOPERATIVE: Final = "cooperative-sticky"
"""Name that all clients give this assignor in JoinGroup, and librdkafka in its configuration."""

OF_COORDINATOR: Final = frozenset(
    {LARGEST_SESSION, SMALLEST_SESSION, LARGEST_GROUP, LARGEST_RECORD}
)
OF_GROUP: Final = frozenset({GRACE, RESERVE_ON})
"""Configs of a group at the coordinator, whatever its clients are (docs/policies.md)."""
OF_CONSUMERS: Final = frozenset(
    {SESSION, HEARTBEAT, POLL_INTERVAL, POLL_RECORDS, INSTANCE, STRATEGY}
)
STREAMS: Final = "stream"
"""Name of the protocol of Kafka Streams, whose protocol type is that of consumers."""


@dataclass(frozen=True, slots=True, eq=False)
class ClientSoftware:
    """A client library: how it spells settings, and which of them it lacks."""

    title: str
    spelling: Mapping[str, str]
    """Kafka's name -> its own, where they differ."""
    lacks: frozenset[str] = frozenset()
    cooperative: str | None = None
    """How its configuration spells the assignor `COOPERATIVE`; None if it has none."""
    needs_longer_poll: bool = False
    """Whether it refuses to start if max.poll.interval.ms is less than session.timeout.ms."""


def _underscored(*names: str) -> dict[str, str]:
    return {name: name.replace(".", "_") for name in names}


_NAMES: Final = (SESSION, HEARTBEAT, POLL_INTERVAL, POLL_RECORDS, INSTANCE, STRATEGY)
JAVA: Final = ClientSoftware(
    "Kafka's Java client",
    {},
    cooperative="org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
)
LIBRDKAFKA: Final = ClientSoftware(
    "librdkafka", {}, frozenset({POLL_RECORDS}), cooperative=COOPERATIVE, needs_longer_poll=True
)
KAFKA_PYTHON: Final = ClientSoftware(
    "kafka-python", _underscored(*_NAMES), cooperative="CooperativeStickyAssignor"
)
AIOKAFKA: Final = ClientSoftware("aiokafka", _underscored(*_NAMES))
FRANZ_GO: Final = ClientSoftware(
    "franz-go",
    {
        SESSION: "SessionTimeout",
        HEARTBEAT: "HeartbeatInterval",
        INSTANCE: "InstanceID",
        POLL_INTERVAL: "RebalanceTimeout",
        STRATEGY: "Balancers",
    },
    frozenset({POLL_RECORDS}),
    cooperative="CooperativeStickyBalancer",
)
SARAMA: Final = ClientSoftware(
    "sarama",
    {
        SESSION: "Consumer.Group.Session.Timeout",
        HEARTBEAT: "Consumer.Group.Heartbeat.Interval",
        INSTANCE: "Consumer.Group.InstanceId",
        POLL_INTERVAL: "Consumer.Group.Rebalance.Timeout",
        STRATEGY: "Consumer.Group.Rebalance.GroupStrategies",
    },
    frozenset({POLL_RECORDS}),
)
_BY_NAME: Final[Mapping[str, ClientSoftware]] = {
    "apache-kafka-java": JAVA,
    "librdkafka": LIBRDKAFKA,
    "kafka-python": KAFKA_PYTHON,
    "kgo": FRANZ_GO,
    "sarama": SARAMA,
}
_BY_CLIENT_ID: Final[Mapping[str, ClientSoftware]] = {
    "aiokafka-": AIOKAFKA,
    "kafka-python-": KAFKA_PYTHON,
    "rdkafka": LIBRDKAFKA,
}
"""Beginning of a default client id -> the client, for those that do not name their software."""


def software_of_client(who: Part) -> ClientSoftware | None:
    """Return the client library of a member; None if it is unknown."""
    software = who.get("software") or {}
    name, version = str(software.get("name") or ""), str(software.get("version") or "")
    if "rdkafka" in version:  # confluent-kafka-python and others that are built on it
        return LIBRDKAFKA
    if name:
        return _BY_NAME.get(name)
    client_id = str(who.get("client_id") or "")
    found = (each for start, each in _BY_CLIENT_ID.items() if client_id.startswith(start))
    return next(found, None)


def lacking(key: str, protocol_type: str | None, protocol: str | None) -> str:
    """Return why members of this type have no such setting; empty if they have it."""
    if key in OF_GROUP and protocol_type == CONNECT:
        return "Kafka Connect keeps the tasks of a lost worker itself (KIP-415)"
    if key in OF_COORDINATOR or (protocol_type == CONSUMER and protocol != STREAMS):
        return ""
    if protocol_type == CONSUMER:
        return f"Kafka Streams sets {STRATEGY} itself" if key == STRATEGY else ""
    if protocol_type == CONNECT:
        return "" if key in (SESSION, HEARTBEAT) else f"Kafka Connect has no {key}"
    return "whether its members are consumers is not known"


def spellings(key: str, clients: Iterable[ClientSoftware]) -> list[str]:
    """Return how clients spell a setting where they do not use Kafka's name."""
    return [f"{each.spelling[key]} in {each.title}" for each in clients if key in each.spelling]
