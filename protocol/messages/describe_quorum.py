"""DescribeQuorum: the nodes that keep the cluster's metadata (KIP-595).

Version 1 adds times (KIP-836), 2 directories, nodes and messages (KIP-853).
"""

from groupkeeper.protocol.message import empty, response_to, since, struct
from groupkeeper.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from groupkeeper.protocol.types import (
    Array,
    Int16,
    Int32,
    Int64,
    NullableString,
    String,
    UInt16,
    Uuid,
)

__all__ = ["DescribeQuorumRequest", "DescribeQuorumResponse"]


@struct
class ReplicaState:
    """One node that has the log."""

    replica_id: Int32 = 0
    """Id of the node."""
    replica_directory_id: Uuid = since(2)
    """Directory of the log; zero if unknown."""
    log_end_offset: Int64 = 0
    """Where its log ends; -1 if unknown."""
    last_fetch_timestamp: Int64 = since(1, default=-1)
    """Epoch milliseconds of its last fetch; -1 for the leader."""
    last_caught_up_timestamp: Int64 = since(1, default=-1)
    """Epoch milliseconds at which it had everything; -1 if unknown."""


@struct
class PartitionData:
    """The quorum of one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = since(2)
    leader_id: Int32 = 0
    """Node that leads; -1 if unknown."""
    leader_epoch: Int32 = 0
    """Epoch of the leader."""
    high_watermark: Int64 = 0
    """The offset after the last record that is safe."""
    current_voters: Array[ReplicaState] = empty()
    """Nodes that vote."""
    observers: Array[ReplicaState] = empty()
    """Nodes that only follow."""


@struct
class TopicData:
    """Partitions of one topic."""

    topic_name: String = ""
    partitions: Array[PartitionData] = empty()


@struct
class Listener:
    """An address of a node."""

    name: String = since(2)
    """Name of the listener."""
    host: String = since(2)
    port: UInt16 = since(2)


@struct
class Node:
    """A node of the quorum."""

    node_id: Int32 = since(2)
    listeners: Array[Listener] = since(2)
    """Its listeners."""


@response_to(DescribeQuorumRequest)
class DescribeQuorumResponse:
    """The quorums."""

    error_code: Int16 = 0
    error_message: NullableString = since(2)
    topics: Array[TopicData] = empty()
    nodes: Array[Node] = since(2)
    """The nodes of the quorums."""
