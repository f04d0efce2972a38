"""The clients that policies are played with: libraries, each with one way to assign."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.clients.libraries import AIOKAFKA, CONFLUENT, KAFKA_PYTHON_3, KAFKA_PYTHON_233, Library
from tests.truth.foreign import FRANZ_GO, JAVA, KAFKAJS, OLDER_JAVA, SARAMA
from tests.truth.incidents.connect import CONNECT, STREAMS

COOPERATIVE: Final = "cooperative-sticky"
_OF_JAVA: Final = "org.apache.kafka.clients.consumer."


@dataclass(frozen=True, slots=True)
class Client:
    """`settings`: of its members, under Kafka's names."""

    library: Library
    way: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.library.name} {self.way}".strip()


def _with(library: Library, way: str, strategy: str) -> Client:
    return Client(library, way, {"partition.assignment.strategy": strategy})


CONSUMERS: Final = (
    Client(KAFKA_PYTHON_233),
    Client(KAFKA_PYTHON_3),
    Client(AIOKAFKA),
    _with(CONFLUENT, "range", "range"),
    _with(CONFLUENT, COOPERATIVE, COOPERATIVE),
    _with(OLDER_JAVA, "range", f"{_OF_JAVA}RangeAssignor"),
    _with(OLDER_JAVA, COOPERATIVE, f"{_OF_JAVA}CooperativeStickyAssignor"),
    _with(JAVA, "range", f"{_OF_JAVA}RangeAssignor"),
    _with(JAVA, COOPERATIVE, f"{_OF_JAVA}CooperativeStickyAssignor"),
    Client(FRANZ_GO, "range"),
    _with(FRANZ_GO, COOPERATIVE, COOPERATIVE),
    Client(SARAMA),
    Client(KAFKAJS),
)
STICKY: Final = _with(JAVA, "sticky", f"{_OF_JAVA}StickyAssignor")
"""Only where it matters how partitions are shared."""
PROGRAMS: Final = (Client(STREAMS), Client(CONNECT))
CLIENTS: Final = (*CONSUMERS, STICKY, *PROGRAMS)
