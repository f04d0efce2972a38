"""Ends of logs and times of records, from nodes that lead, lead no longer, or send little."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from groupkeeper.client import CallFailed, Client
from groupkeeper.client.groups import GroupDescription
from groupkeeper.client.lag import MOST_TURNS, places_of
from groupkeeper.client.partitions import EARLIEST, LATEST, list_offsets
from groupkeeper.client.record_times import MOST_FETCHES, PARTITIONS_PER_FETCH, record_times
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from groupkeeper.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from groupkeeper.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from groupkeeper.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from groupkeeper.protocol.record_batch import encode_batch
from tests.client.stub import StubNode, cluster

LOG_APPEND_TIME, DELETE_HORIZON = 0x08, 0x40


def led_by(nodes: list[StubNode], *leaders: int) -> Callable[[Any], MetadataResponse]:
    """Metadata of the topic `t`, whose partitions have these leaders."""

    def answer(asked: Any) -> MetadataResponse:
        brokers = [
            MetadataResponseBroker(node_id=each.node_id, host="127.0.0.1", port=each.port)
            for each in nodes
        ]
        partitions = [
            MetadataResponsePartition(partition_index=index, leader_id=leader)
            for index, leader in enumerate(leaders)
        ]
        topics = [
            MetadataResponseTopic(name=each.name, partitions=partitions)
            if each.name == "t"
            else MetadataResponseTopic(
                name=each.name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            for each in asked.topics or []
        ]
        return MetadataResponse(brokers=brokers, topics=topics)

    return answer


def leading(*leaders: int) -> StubNode:
    """Node 1, in whose metadata the partitions of `t` have these leaders."""
    node = StubNode(1)
    node.answers["Metadata"] = led_by([node], *leaders)
    return node


def offsets(offset: int, *errors: int) -> Callable[[Any], ListOffsetsResponse]:
    """Every partition is at this offset, after answers in which partition 0 has these errors."""
    left = list(errors)

    def answer(asked: Any) -> ListOffsetsResponse:
        error = left.pop(0) if left else 0
        parts = [
            ListOffsetsPartitionResponse(
                partition_index=each.partition_index,
                offset=offset,
                error_code=0 if each.partition_index else error,
            )
            for each in asked.topics[0].partitions
        ]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=parts)])

    return answer


def batch(time_ms: int, value: bytes = b"", attributes: int = 0, max_ms: int = 0) -> bytes:
    data = bytearray(encode_batch(0, 0, time_ms, [(None, value)]))
    data[21:23] = attributes.to_bytes(2, "big")
    data[35:43] = (max_ms or time_ms).to_bytes(8, "big", signed=True)
    return bytes(data)


def sends(batches: dict[int, bytes]) -> Callable[[Any], FetchResponse]:
    """As a broker does: the first batch whatever its size, others only if they fit."""

    def answer(asked: Any) -> FetchResponse:
        parts, room = [], asked.max_bytes
        for each in asked.topics[0].partitions:
            data = batches.get(each.partition, b"")
            fits = len(data) <= min(each.partition_max_bytes, room)
            is_first = not any(part.records for part in parts)
            if not (fits or is_first):
                data = b""
            room -= len(data)
            parts.append(PartitionData(partition_index=each.partition, records=data))
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=parts)])

    return answer


async def test_each_leader_is_asked_once() -> None:
    one, two = StubNode(1), StubNode(2)
    for node, offset in ((one, 10), (two, 20)):
        node.answers["Metadata"] = led_by([one, two], 1, 2, 1)
        node.answers["ListOffsets"] = offsets(offset)
    async with cluster(one, two) as bootstrap, Client(bootstrap) as client:
        found = await list_offsets(client, [("t", each) for each in range(3)], LATEST)
    assert found == {("t", 0): 10, ("t", 1): 20, ("t", 2): 10}
    assert [name for name, _ in two.asked].count("ListOffsets") == 1


async def test_partitions_without_a_leader_or_a_topic_are_unknown_at_once() -> None:
    node = leading(1, -1)
    node.answers["ListOffsets"] = offsets(5)
    wanted = [("t", 0), ("t", 1), ("t", 9), ("u", 0)]
    async with cluster(node) as bootstrap, Client(bootstrap) as client:
        found = await list_offsets(client, wanted, EARLIEST)
    assert found == {("t", 0): 5, ("t", 1): None, ("t", 9): None, ("u", 0): None}


async def test_a_leader_that_moved_is_looked_up_again() -> None:
    node = leading(1, 1)
    node.answers["ListOffsets"] = offsets(5, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    async with cluster(node) as bootstrap, Client(bootstrap) as client:
        assert await list_offsets(client, [("t", 0), ("t", 1)], LATEST) == {
            ("t", 0): 5,
            ("t", 1): 5,
        }
    assert [name for name, _ in node.asked].count("ListOffsets") == 2


async def test_a_partition_that_may_not_be_seen_is_unknown() -> None:
    node = leading(1)
    node.answers["ListOffsets"] = offsets(5, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    async with cluster(node) as bootstrap, Client(bootstrap) as client:
        assert await list_offsets(client, [("t", 0)], LATEST) == {("t", 0): None}


async def test_a_node_that_stays_away_is_unknown_after_the_timeout() -> None:
    one, two = StubNode(1), StubNode(2)
    one.answers["Metadata"] = led_by([one, two], 1, 2)
    one.answers["ListOffsets"] = offsets(5)
    async with cluster(one, two) as bootstrap, Client(bootstrap, request_timeout_ms=1000) as client:
        await two.stop()
        found = await list_offsets(client, [("t", 0), ("t", 1)], LATEST)
    assert found == {("t", 0): 5, ("t", 1): None}


async def test_a_node_that_has_no_list_offsets_is_an_error() -> None:
    node = StubNode(1, {"ListOffsets": None})
    node.answers["Metadata"] = led_by([node], 1)
    async with cluster(node) as bootstrap, Client(bootstrap) as client:
        with pytest.raises(CallFailed, match="UNSUPPORTED_VERSION"):
            await list_offsets(client, [("t", 0)], LATEST)


@pytest.mark.parametrize(
    ("data", "time"),
    [
        (batch(1000, max_ms=5000), 1000),
        (batch(1000, max_ms=5000, attributes=LOG_APPEND_TIME), 5000),
        (batch(1000, max_ms=5000, attributes=DELETE_HORIZON), 5000),
        (batch(-1), None),
        (b"\0" * 80, None),
        (b"", None),
    ],
)
async def test_the_time_of_a_batch(data: bytes, time: int | None) -> None:
    node = leading(1)
    node.answers["Fetch"] = sends({0: data})
    async with cluster(node) as bootstrap, Client(bootstrap) as client:
        assert await record_times(client, {("t", 0): 5}, Counter()) == {("t", 0): time}


async def test_batches_that_do_not_fit_are_asked_for_with_more_room() -> None:
    node = leading(*[1] * 6)
    large, huge = b"x" * 20_000, b"x" * 3_000_000
    batches = {each: batch(each + 1, large) for each in range(4)}
    batches |= {each: batch(each + 1, huge) for each in (4, 5)}
    node.answers["Fetch"] = sends(batches)
    async with cluster(node) as bootstrap, Client(bootstrap) as client:
        found = await record_times(client, {("t", each): 0 for each in range(6)}, Counter())
    assert found == {("t", each): each + 1 for each in range(6)}
    assert [name for name, _ in node.asked].count("Fetch") <= 6


async def test_the_number_of_fetches_has_a_limit() -> None:
    node = StubNode(1)
    count = PARTITIONS_PER_FETCH * (MOST_FETCHES + 1)
    node.answers["Metadata"] = led_by([node], *[1] * count)
    node.answers["Fetch"] = sends({each: batch(7) for each in range(count)})
    async with cluster(node) as bootstrap, Client(bootstrap) as client:
        found = await record_times(client, {("t", each): 0 for each in range(count)}, Counter())
    assert [name for name, _ in node.asked].count("Fetch") == MOST_FETCHES
    assert [*found.values()].count(None) == PARTITIONS_PER_FETCH


async def test_groups_share_what_is_looked_at_and_have_a_limit() -> None:
    """Each group has an offset of its own, but the first two."""
    node = leading(1)
    node.answers["ListOffsets"] = offsets(1000)
    node.answers["Fetch"] = sends({0: batch(7000)})

    def committed(asked: Any) -> OffsetFetchResponse:
        return OffsetFetchResponse(
            groups=[
                OffsetFetchResponseGroup(
                    group_id=each.group_id,
                    topics=[
                        OffsetFetchResponseTopics(
                            name="t",
                            partitions=[
                                OffsetFetchResponsePartitions(
                                    committed_offset=max(1, int(each.group_id))
                                )
                            ],
                        )
                    ],
                )
                for each in asked.groups
            ]
        )

    node.answers["OffsetFetch"] = committed
    names = [str(number) for number in range(MOST_TURNS + 3)]
    groups = {each: GroupDescription(each, 1, "Empty", "", "", []) for each in names}
    async with cluster(node) as bootstrap, Client(bootstrap) as client:
        places = await places_of(client, groups, now_ms=10_000)
    seconds = [each[0].lag_seconds for each in places.values()]
    assert seconds == [3.0] * (MOST_TURNS + 1) + [None] * 2
    assert [name for name, _ in node.asked].count("Fetch") == MOST_TURNS


async def test_an_offset_before_the_log_has_the_time_of_its_start() -> None:
    node = leading(1)
    node.answers["ListOffsets"] = offsets(40)

    def answer(asked: Any) -> FetchResponse:
        offset = asked.topics[0].partitions[0].fetch_offset
        part = (
            PartitionData(records=batch(7))
            if offset == 40
            else PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
        )
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[part])])

    node.answers["Fetch"] = answer
    async with cluster(node) as bootstrap, Client(bootstrap) as client:
        assert await record_times(client, {("t", 0): 5}, Counter()) == {("t", 0): 7}


async def test_records_that_may_not_be_read_have_no_time() -> None:
    node = leading(1)
    part = PartitionData(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    node.answers["Fetch"] = lambda _: FetchResponse(
        responses=[FetchableTopicResponse(topic="t", partitions=[part])]
    )
    async with cluster(node) as bootstrap, Client(bootstrap) as client:
        assert await record_times(client, {("t", 0): 5}, Counter()) == {("t", 0): None}
