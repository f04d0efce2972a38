"""Requests that name thousands of things are done in slices; small ones in one."""

from typing import Any

import pytest

from groupkeeper.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from groupkeeper.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from groupkeeper.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from groupkeeper.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from groupkeeper.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from groupkeeper.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from groupkeeper.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from groupkeeper.protocol.messages.list_config_resources import ListConfigResourcesRequest
from groupkeeper.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from groupkeeper.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from groupkeeper.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from groupkeeper.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from groupkeeper.refused_rows import ROWS_IN_A_SLICE
from groupkeeper.topics.slices import ITEMS, counts, each, each_within
from tests.support.slices import counted
from tests.topics.scene import Scene, batch

MANY = 5_000
NAMES = [f"name-{n}" for n in range(MANY)]


def requests(names: list[str]) -> dict[int, Any]:
    """By API key: requests that name all of these, most of which are not there."""
    return {
        0: ProduceRequest(
            acks=1,
            topic_data=[
                TopicProduceData(name=name, partition_data=[PartitionProduceData()])
                for name in names
            ],
        ),
        1: FetchRequest(
            topics=[FetchTopic(topic=name, partitions=[FetchPartition()]) for name in names]
        ),
        2: ListOffsetsRequest(
            topics=[
                ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(timestamp=-1)])
                for name in names
            ]
        ),
        3: MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=False,
        ),
        20: DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names]),
        23: OffsetForLeaderEpochRequest(
            topics=[
                OffsetForLeaderTopic(topic=name, partitions=[OffsetForLeaderPartition()])
                for name in names
            ]
        ),
        32: DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=2, resource_name=name) for name in names
            ]
        ),
        75: DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in names]),
        19: CreateTopicsRequest(topics=[CreatableTopic(name=name) for name in names], timeout_ms=0),
        21: DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(name=name, partitions=[DeleteRecordsPartition()])
                for name in names
            ]
        ),
        37: CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=name, count=3) for name in names], timeout_ms=0
        ),
    }


TIMED_OUT = {20, 37}
"""Requests whose timeout of 0 refuses all rows at once."""
VERSIONS = {0: 9, 1: 12, 2: 7, 3: 12, 19: 7, 20: 6, 21: 2, 23: 4, 32: 4, 37: 3, 75: 0}


@pytest.mark.parametrize("key", requests([]))
async def test_a_long_request_is_done_in_slices_and_a_short_one_in_one(scene, key):
    await scene.ask(VERSIONS[key], requests(NAMES)[key])
    assert scene.slices > MANY // (ROWS_IN_A_SLICE if key in TIMED_OUT else ITEMS)
    await scene.ask(VERSIONS[key], requests(["t"])[key])
    assert scene.slices == 1


class CountedTurns:
    """Does slices at once and counts them."""

    def __init__(self) -> None:
        self.slices = 0

    async def run(self, slices: Any) -> Any:
        result, count = counted(slices)
        self.slices += count
        return result


async def full(topics: int = 1_000) -> tuple[Scene, CountedTurns]:
    scene = Scene()
    turns = CountedTurns()
    for part in ("response_tasks", "admin", "catalog", "partitions"):
        holder = getattr(scene.topics, part)
        setattr(holder, "turns" if part == "response_tasks" else "_turns", turns)
    requested_topics = [
        CreatableTopic(name=f"topic-{n}", num_partitions=2, replication_factor=1)
        for n in range(topics)
    ]
    response = await scene.ask(7, CreateTopicsRequest(topics=requested_topics))
    assert {topic.error_code for topic in response.topics} == {0}
    return scene, turns


async def test_creating_and_deleting_topics_is_done_in_slices() -> None:
    scene, turns = await full(1_000)
    assert turns.slices > 4 * 1_000 // ITEMS
    turns.slices = 0
    states = [DeleteTopicState(name=f"topic-{n}") for n in range(1_000)]
    response = await scene.ask(6, DeleteTopicsRequest(topics=states, timeout_ms=1000))
    assert {topic.error_code for topic in response.responses} == {0}
    assert turns.slices > 4 * 1_000 // ITEMS


async def test_everything_is_told_in_slices() -> None:
    scene, _ = await full(1_000)
    response = await scene.ask(12, MetadataRequest(topics=None))
    assert len(response.topics) == 1_002
    assert scene.slices > 1_000 // ITEMS
    request = ListConfigResourcesRequest(resource_types=[2])
    listed = await scene.ask(1, request)
    assert len(listed.config_resources) == 1_002
    assert scene.slices > 1_000 // ITEMS


async def test_metadata_of_all_topics_shares_its_partitions() -> None:
    scene, _ = await full(3)
    one, other = [topic.partitions for topic in (await scene.metadata("topic-0", "topic-1")).topics]
    assert one == other
    assert one[0] is other[0]
    assert [partition.partition_index for partition in one] == [0, 1]


async def test_topics_that_name_no_partitions_take_slices_too(scene: Scene) -> None:
    topics = [ListOffsetsTopic(name=name) for name in NAMES]
    await scene.ask(7, ListOffsetsRequest(topics=topics))
    assert scene.slices > MANY // ITEMS


async def test_large_batches_take_slices(scene: Scene) -> None:
    data = [PartitionProduceData(records=batch("v" * 900_000)) for _ in range(8)]
    request = ProduceRequest(acks=1, topic_data=[TopicProduceData(name="t", partition_data=data)])
    await scene.produce("t", 0, batch("open"))
    await scene.ask(9, request)
    assert scene.slices > 4


def test_each_keeps_the_order() -> None:
    assert counted(each(range(3 * ITEMS), lambda n: -n)) == ([-n for n in range(3 * ITEMS)], 4)
    assert counted(each([], str)) == ([], 1)


def test_counts_are_in_the_order_of_the_first() -> None:
    assert counted(counts("banana", str.upper)) == ({"B": 1, "A": 3, "N": 2}, 1)
    assert counted(counts("ab" * ITEMS, str.upper))[1] == 3


def test_each_within_puts_groups_together() -> None:
    groups = {"a": range(ITEMS), "b": range(0), "c": range(2)}
    sums, slices = counted(
        each_within(groups, groups.__getitem__, lambda g, n: n, lambda g, all_: (g, sum(all_)))
    )
    assert sums == [("a", ITEMS * (ITEMS - 1) // 2), ("b", 0), ("c", 1)]
    assert slices == 2
