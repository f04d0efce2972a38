"""Reads the timestamps of records by offset, to the accuracy of a batch, from batch headers.

Brokers send whole batches, so one batch per partition is fetched, within limits. Source: Kafka's
`ReplicaManager.readFromLog` (the first batch of a response is sent whatever its size, others only
if they fit).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from groupkeeper.client.client import CallFailed, Client
from groupkeeper.client.coordinators import chunks
from groupkeeper.client.groups import Partition, by_topic
from groupkeeper.client.partitions import EARLIEST, ask_leaders, leaders_of, list_offsets
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from groupkeeper.protocol.record_batch import HEADER_SIZE, CorruptBatch, read_header

PARTITIONS_PER_FETCH: Final = 64
PARTITION_BYTES: Final = 16 * 1024
"""Initial fetch size: the default `batch.size` of producers."""
RESPONSE_BYTES: Final = 1024 * 1024
MOST_FETCHES: Final = 256
"""Maximum requests to one node; with responses of `RESPONSE_BYTES`, about 256 MiB."""
NO_TIME: Final = -1


async def record_times(
    client: Client, offsets: Mapping[Partition, int], spent: Counter[int]
) -> dict[Partition, int | None]:
    """Return the time (Unix ms) of the batch that contains each partition's offset, or of the first
    batch if the offset is below the log start. None if there is no such record, if it has no time,
    cannot be read or is older than magic 2, and beyond the limits.

    `spent` counts requests by node, to share the limits between calls.
    """
    times: dict[Partition, int | None] = dict.fromkeys(offsets)
    leaders = await leaders_of(client, {topic for topic, _ in offsets})
    found = await _fetch(client, leaders, offsets, spent)
    times |= {each: _time_of(told) for each, told in found.items()}
    gone = [
        each for each, told in found.items() if told.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    ]
    if gone:
        starts = await list_offsets(client, gone, EARLIEST)
        later = {each: start for each, start in starts.items() if start is not None}
        again = await _fetch(client, leaders, later, spent)
        times |= {each: _time_of(told) for each, told in again.items()}
    return times


def _time_of(told: PartitionData) -> int | None:
    if told.error_code or not told.records:
        return None
    try:
        header = read_header(told.records)
    except CorruptBatch:
        return None
    # The base timestamp may be a delete horizon; with LogAppendTime it is the producer's.
    is_base = header.delete_horizon_ms is None and not header.is_log_append_time
    time = header.base_timestamp if is_base else header.max_timestamp
    return None if time == NO_TIME else time


async def _fetch(
    client: Client,
    leaders: Mapping[Partition, int],
    offsets: Mapping[Partition, int],
    spent: Counter[int],
) -> dict[Partition, PartitionData]:
    async def ask(node: int, some: list[Partition]) -> dict[Partition, PartitionData]:
        try:
            wanted = {each: offsets[each] for each in some}
            return await _fetch_from(client, node, wanted, spent)
        except CallFailed as failure:
            if failure.error is ErrorCode.UNSUPPORTED_VERSION:
                raise
            return {}

    return await ask_leaders(leaders, offsets, ask)


async def _fetch_from(
    client: Client, node: int, offsets: Mapping[Partition, int], spent: Counter[int]
) -> dict[Partition, PartitionData]:
    """Fetch one batch per partition. Partitions whose batch did not fit are retried with a larger
    size; each response has at least one batch, so every round makes progress.
    """
    found: dict[Partition, PartitionData] = {}
    left, size = [*offsets], PARTITION_BYTES
    while left:
        unanswered = len(left)
        for some in chunks(left, PARTITIONS_PER_FETCH):
            if spent[node] >= MOST_FETCHES:
                return found
            spent[node] += 1
            request = _request(some, offsets, size)
            answer = await client.call(request, node=node)
            found |= {
                (topic.topic, each.partition_index): _head(each)
                for topic in answer.responses
                for each in topic.partitions
                if each.error_code or each.records
            }
        left = [each for each in left if each not in found]
        if len(left) == unanswered:
            break
        size = min(8 * size, RESPONSE_BYTES)
    return found


def _request(
    some: Iterable[Partition], offsets: Mapping[Partition, int], size: int
) -> FetchRequest:
    topics = [
        FetchTopic(
            topic=topic,
            partitions=[
                FetchPartition(
                    partition=each, fetch_offset=offsets[topic, each], partition_max_bytes=size
                )
                for each in numbers
            ],
        )
        for topic, numbers in by_topic(some).items()
    ]
    return FetchRequest(max_bytes=RESPONSE_BYTES, topics=topics)


def _head(told: PartitionData) -> PartitionData:
    """Drop the records after the first batch header, which are not needed."""
    if told.records:
        told.records = bytes(told.records[:HEADER_SIZE])
    return told
