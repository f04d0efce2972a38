"""A test broker over the raw wire."""

import select
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from groupkeeper.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from groupkeeper.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from groupkeeper.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from groupkeeper.testing import Broker
from tests.support.raw_batches import Written, raw_batch
from tests.support.raw_member import address
from tests.support.requests import Places, commit_request, fetch_request
from tests.support.wire import Client, connect


def dial(broker: Broker) -> Client:
    return connect(address(broker))


def hears_nothing(client: Client, seconds: float = 0.05) -> bool:
    """Whether no byte comes for so long.

    A client's own timeout would be one for all its calls: also for those that are answered, as late
    as a busy machine makes them.
    """
    return not select.select([client.socket], [], [], seconds)[0]


@contextmanager
def wired(**arguments: Any) -> Iterator[tuple[Broker, Client]]:
    """A broker with `orders` (3 partitions) and `payments` (1), and a connection to it."""
    with Broker(topics={"orders": 3, "payments": 1}, **arguments) as broker, dial(broker) as client:
        yield broker, client


def commit(client: Client, places: Places, group: str = "g") -> dict[tuple[str, int], int]:
    """The error codes of a commit, in the order of the answer."""
    answer = client.call(8, commit_request(places, group))
    return {
        (topic.name, each.partition_index): each.error_code
        for topic in answer.topics
        for each in topic.partitions
    }


def committed(client: Client, group: str = "g") -> Places:
    [found] = client.call(8, fetch_request(group)).groups
    return {
        (topic.name, each.partition_index): each.committed_offset
        for topic in found.topics
        for each in topic.partitions
    }


def produce_request(places: list[tuple[str, int]], acks: int = -1) -> ProduceRequest:
    """Up to version 12: one record for each partition."""
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                name=topic,
                partition_data=[
                    PartitionProduceData(index=index, records=raw_batch(0, [Written(b"k")]))
                    for name, index in places
                    if name == topic
                ],
            )
            for topic in dict.fromkeys(name for name, _ in places)
        ],
    )


def ends(client: Client) -> dict[int, int]:
    """The next offset of each partition of `orders`; -1 where that is an error."""
    partitions = [ListOffsetsPartition(partition_index=at, timestamp=-1) for at in range(3)]
    topics = [ListOffsetsTopic(name="orders", partitions=partitions)]
    answer = client.call(5, ListOffsetsRequest(replica_id=-1, topics=topics))
    return {each.partition_index: each.offset for each in answer.topics[0].partitions}


def metadata_request(*topics: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in topics])
