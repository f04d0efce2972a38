"""40 MB from the producers of all libraries as they are by default, over fifty partitions.

Such a producer has several requests of many hundred kilobytes under way at once. What is delivered
by its own account is there, once.
"""

import uuid
from typing import NamedTuple

import pytest

from tests.clients.libraries import (
    AIOKAFKA,
    CONFLUENT,
    KAFKA_PYTHON_3,
    KAFKA_PYTHON_202,
    KAFKA_PYTHON_233,
    Library,
)
from tests.clients.process import ANSWER_SECONDS, Worker
from tests.clients.scene import Workers

SECONDS = ANSWER_SECONDS - 10


class Load(NamedTuple):
    """What is produced: so many records of so many bytes, to a topic of so many partitions."""

    library: Library
    records: int
    size: int
    partitions: int = 50


# kafka-python computes checksums in Python, a second for 10 MB: 40 MB in one version are enough.
LOADS = [
    Load(KAFKA_PYTHON_202, 2_000, 5_000),
    Load(KAFKA_PYTHON_233, 2_000, 5_000),
    Load(KAFKA_PYTHON_3, 8_000, 5_000),
    Load(AIOKAFKA, 8_000, 5_000),
    Load(CONFLUENT, 40_000, 1_000),
    Load(CONFLUENT, 600, 10_000, partitions=1),
]


def told(load: Load) -> str:
    return f"{load.library.name}-{load.records}x{load.size}-{load.partitions}"


@pytest.mark.parametrize("load", LOADS, ids=told)
def test_everything_is_delivered_once(load: Load, workers: Workers, observer: Worker) -> None:
    library, records, size, partitions = load
    if library.unusable:
        pytest.skip(library.unusable)
    topic = f"topic-{uuid.uuid4().hex[:12]}"
    observer.ask("create_topic", topic=topic, partitions=partitions)
    client = workers.start(library)
    delivered = client.ask("load", topic=topic, count=records, size=size, seconds=SECONDS)
    assert delivered == records, f"in {SECONDS:.0f} s"
    # librdkafka reads it: checksums cost kafka-python as much time again.
    reader = workers.start(CONFLUENT)
    everything = [[topic, number] for number in range(partitions)]
    found = reader.ask("tally", partitions=everything, count=records, seconds=SECONDS)
    assert found == {"records": records, "different": records, "bytes": records * size}
