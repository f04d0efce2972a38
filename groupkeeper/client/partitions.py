"""Looks up topics, partition leaders, and offsets by time, with one request per leader.

Source: Kafka's `ListOffsetsHandler` and `PartitionLeaderStrategy`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from groupkeeper.client.client import CallFailed, Client, Retries
from groupkeeper.client.coordinators import chunks
from groupkeeper.client.groups import Partition, by_topic
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from groupkeeper.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

LATEST, EARLIEST = -1, -2
"""Special timestamps of ListOffsets for the log end and log start offset."""
NO_SUCH_RECORD: Final = -1
"""Offset in responses when all records are older than the time."""
PARTITIONS_PER_REQUEST: Final = 1000
TOPICS_PER_REQUEST: Final = 1000
MOVING: Final = frozenset(
    {
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    }
)
"""Errors after which the leader of a partition is looked up again and the request is retried."""
_CONSUMER: Final = -1  # replica id of consumers

_Told = TypeVar("_Told")


async def describe_topics(client: Client, names: Iterable[str] | None = None) -> list[Any]:
    """Return the Metadata rows of topics (None: all) by name, without creating missing ones."""
    found = []
    for some in [None] if names is None else chunks(sorted(set(names)), TOPICS_PER_REQUEST):
        topics = None if some is None else [MetadataRequestTopic(name=name) for name in some]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        found += (await client.call(request)).topics
    return sorted(found, key=lambda each: each.name)


async def leaders_of(client: Client, topics: Iterable[str]) -> dict[Partition, int]:
    """Return the leader of each partition of some topics, without partitions that have none."""
    return leaders_in(await describe_topics(client, topics))


# Any: rows of Metadata.
def leaders_in(topics: Iterable[Any]) -> dict[Partition, int]:
    """Return the leader of each partition in Metadata rows, without partitions that have none."""
    return {
        (topic.name, each.partition_index): each.leader_id
        for topic in topics
        if not topic.error_code
        for each in topic.partitions
        if each.leader_id >= 0
    }


async def ask_leaders(
    leaders: Mapping[Partition, int],
    partitions: Iterable[Partition],
    ask: Callable[[int, list[Partition]], Awaitable[Mapping[Partition, _Told]]],
) -> dict[Partition, _Told]:
    """Call `ask` for each leader and merge the results, without partitions that have no leader."""
    by_leader: dict[int, list[Partition]] = {}
    for each in partitions:
        if each in leaders:
            by_leader.setdefault(leaders[each], []).append(each)
    answers = await asyncio.gather(*(ask(node, some) for node, some in by_leader.items()))
    return {partition: told for answer in answers for partition, told in answer.items()}


async def list_offsets(
    client: Client, partitions: Iterable[Partition], time_ms: int
) -> dict[Partition, int | None]:
    """Return the offset of the first record from a time on, or for LATEST or EARLIEST; if all
    records are older, NO_SUCH_RECORD.

    None for a partition that does not exist, has no leader until the client's timeout, or may not
    be described.
    """

    async def ask(node: int, some: list[Partition]) -> dict[Partition, tuple[int, int]]:
        return await ask_leader(client, node, some, time_ms)

    left = sorted(set(partitions))
    offsets: dict[Partition, int | None] = dict.fromkeys(left)
    retries = Retries(client.timeout_s)
    while left:
        leaders = await leaders_of(client, {topic for topic, _ in left})
        told = await ask_leaders(leaders, left, ask)
        offsets |= {each: offset for each, (error, offset) in told.items() if not error}
        left = [each for each, (error, _) in told.items() if error in MOVING]
        if not left or not await retries.pause():
            break
    return offsets


async def ask_leader(
    client: Client, node: int, partitions: Sequence[Partition], time_ms: int
) -> dict[Partition, tuple[int, int]]:
    """Return (error code, offset by time) of each partition, from their leader. Raises CallFailed,
    but for the errors in `MOVING`.
    """
    found: dict[Partition, tuple[int, int]] = {}
    for some in chunks(partitions, PARTITIONS_PER_REQUEST):
        topics = [
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(partition_index=each, timestamp=time_ms)
                    for each in numbers
                ],
            )
            for topic, numbers in by_topic(some).items()
        ]
        try:
            answer = await client.call(
                ListOffsetsRequest(replica_id=_CONSUMER, topics=topics), node=node
            )
        except CallFailed as failure:
            if failure.error not in MOVING:
                raise
            found |= dict.fromkeys(some, (failure.error, NO_SUCH_RECORD))
        else:
            found |= {
                (topic.name, each.partition_index): (each.error_code, each.offset)
                for topic in answer.topics
                for each in topic.partitions
            }
    return found
