"""DescribeQuorum: this node alone keeps the cluster's metadata, which is the catalog of topics.

Source: Kafka's `KafkaRaftClient.handleDescribeQuorumRequest`; KIP-595, KIP-836, KIP-853.
"""

from typing import Final

from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo
from groupkeeper.node import Node
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages import describe_quorum as told
from groupkeeper.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from groupkeeper.topics.slices import each_within
from groupkeeper.topics.topics import Topics
from groupkeeper.turns import Slices

METADATA_TOPIC: Final = "__cluster_metadata"
_NOT_HERE: Final = "This server does not host this topic-partition."


class DescribeQuorumHandler:
    """Answers DescribeQuorum."""

    def __init__(self, topics: Topics, node: Node) -> None:
        self._catalog = topics.catalog
        self._wall_ms = topics.wall_ms
        self._node = node

    def handle(
        self, request: DescribeQuorumRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[told.DescribeQuorumResponse]:
        """Return the quorum, if the request names its partition and no other, as in Kafka."""
        asked = request.topics
        is_one = len(asked) == 1 and len(asked[0].partitions) == 1
        if is_one and asked[0].topic_name == METADATA_TOPIC:
            (partition,) = asked[0].partitions
            if partition.partition_index == 0:
                return self._quorum(caller.peer.listener)
        topics = yield from each_within(
            asked,
            lambda topic: topic.partitions,
            lambda topic, partition: told.PartitionData(
                partition_index=partition.partition_index,
                error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                error_message=_NOT_HERE,
            ),
            lambda topic, parts: told.TopicData(topic_name=topic.topic_name, partitions=parts),
        )
        return told.DescribeQuorumResponse(topics=topics)

    def _quorum(self, listener_name: str) -> told.DescribeQuorumResponse:
        now, end, node_id = self._wall_ms(), self._catalog.end_offset, self._node.node_id
        voter = told.ReplicaState(
            replica_id=node_id,
            log_end_offset=end,
            last_fetch_timestamp=now,
            last_caught_up_timestamp=now,
        )
        partition = told.PartitionData(
            leader_id=node_id,
            leader_epoch=self._catalog.leader_epoch,
            high_watermark=end,
            current_voters=[voter],
        )
        host, port = self._node.address(listener_name)
        listener = told.Listener(name=listener_name, host=host, port=port)
        return told.DescribeQuorumResponse(
            topics=[told.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
            nodes=[told.Node(node_id=node_id, listeners=[listener])],
        )
