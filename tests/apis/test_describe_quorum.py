"""DescribeQuorum: one node, whose log of metadata is the catalog."""

import pytest

from groupkeeper.protocol.messages.describe_quorum_request import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from tests.topics.scene import NOW, Scene


def asked(*topics: tuple[str, int]) -> DescribeQuorumRequest:
    return DescribeQuorumRequest(
        topics=[
            TopicData(topic_name=name, partitions=[PartitionData(partition_index=index)])
            for name, index in topics
        ]
    )


async def test_this_node_is_the_only_voter(scene: Scene) -> None:
    before = scene.topics.catalog.end_offset
    await scene.create("another")
    response = await scene.ask(2, asked(("__cluster_metadata", 0)))
    [partition] = response.topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (0, 7)
    assert partition.high_watermark > before > 0
    [voter] = partition.current_voters
    assert (voter.replica_id, voter.log_end_offset) == (7, partition.high_watermark)
    assert voter.last_caught_up_timestamp == NOW
    [listener] = response.nodes[0].listeners
    assert (listener.host, listener.port) == ("broker.example", 9092)


@pytest.mark.parametrize(
    "topics", [[("t", 0)], [("__cluster_metadata", 1)], [("t", 0), ("__cluster_metadata", 0)]]
)
async def test_there_is_no_other_quorum(scene: Scene, topics: list[tuple[str, int]]) -> None:
    response = await scene.ask(2, asked(*topics))
    codes = [partition.error_code for topic in response.topics for partition in topic.partitions]
    assert codes == [3] * len(topics)
    assert response.nodes == []
