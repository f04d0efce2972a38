"""DescribeQuorum: one node, whose log of metadata is the catalog."""

from groupkeeper.protocol.messages.describe_quorum_request import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from tests.topics.scene import NOW, Scene


async def test_this_node_is_the_only_voter(scene: Scene) -> None:
    before = scene.topics.catalog.end_offset
    await scene.create("another")
    topic = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData()])
    response = await scene.ask(2, DescribeQuorumRequest(topics=[topic]))
    [partition] = response.topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (0, 7)
    assert partition.high_watermark > before > 0
    [voter] = partition.current_voters
    assert (voter.replica_id, voter.log_end_offset) == (7, partition.high_watermark)
    assert voter.last_caught_up_timestamp == NOW
    [listener] = response.nodes[0].listeners
    assert (listener.host, listener.port) == ("broker.example", 9092)
