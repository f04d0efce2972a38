"""The client libraries that are driven, and what each can do: a table, no code of theirs.

A test that names a feature with `@pytest.mark.needs` runs for the libraries that have it.
"""

import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Library:
    """One version of one client.

    `name` is also its requirement file, `script` its worker, `can` holds the features that not
    all have. Fencing: heartbeats and commits carry the instance id, so that a fenced member hears
    of it; in a poll: the heartbeat's error comes out there.
    """

    name: str
    script: str
    can: frozenset[str] = frozenset()
    unusable: str | None = None


KAFKA_PYTHON_202 = Library(
    name="kafka-python-2.0.2",
    script="on_kafka_python.py",
    can=frozenset({"delete groups"}),
    unusable=(
        "kafka-python 2.0.2 cannot be imported on Python 3.12 and later"
        if sys.version_info >= (3, 12)
        else None
    ),
)
KAFKA_PYTHON_233 = Library(
    name="kafka-python-2.3.3",
    script="on_kafka_python.py",
    can=KAFKA_PYTHON_202.can | {"static members", "fencing", "fencing in poll", "idempotence"},
)
KAFKA_PYTHON_3 = Library(
    name="kafka-python-3.0.12",
    script="on_kafka_python_3.py",
    can=frozenset(
        {
            "static members",
            "fencing",
            "idempotence",
            "own member id",
            "describe instances",
            "delete groups",
            "alter offsets",
            "delete offsets",
            "remove members",
        }
    ),
)
AIOKAFKA = Library(
    name="aiokafka-0.14", script="on_aiokafka.py", can=frozenset({"static members", "idempotence"})
)
CONFLUENT = Library(
    name="confluent-kafka-2.16",
    script="on_confluent.py",
    can=frozenset(
        {
            "static members",
            "fencing",
            "fencing in poll",
            "idempotence",
            "own member id",
            "describe instances",
            "delete groups",
            "alter offsets",
        }
    ),
)
LIBRARIES = (KAFKA_PYTHON_202, KAFKA_PYTHON_233, KAFKA_PYTHON_3, AIOKAFKA, CONFLUENT)
