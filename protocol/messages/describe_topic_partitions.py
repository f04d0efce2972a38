"""DescribeTopicPartitions: topics and their partitions, one page at a time (KIP-966)."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, struct
from groupkeeper.protocol.messages.metadata import AUTHORIZED_OPERATIONS_OMITTED
from groupkeeper.protocol.types import (
    Array,
    Boolean,
    Int16,
    Int32,
    NullableArray,
    NullableString,
    NullableStruct,
    String,
    Uuid,
)


@struct
class TopicRequest:
    """A topic to describe."""

    name: String = ""


@struct
class Cursor:
    """The first partition of a page."""

    topic_name: String = ""
    """Topic with which the page begins."""
    partition_index: Int32 = 0
    """Its first partition on the page."""


@message(key=ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions=(0, 0), flexible=0)
class DescribeTopicPartitionsRequest:
    """Requests one page of topics."""

    topics: Array[TopicRequest] = empty()
    """Topics to describe; empty asks for all."""
    response_partition_limit: Int32 = 2000
    """Partitions on one page at most."""
    cursor: NullableStruct[Cursor] = None
    """Where the page begins; null begins with the first topic."""


@struct
class DescribeTopicPartitionsResponsePartition:
    """A partition, with its eligible leader replicas (KIP-966)."""

    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = -1
    """Epoch of the leader; -1 if unknown."""
    replica_nodes: Array[Int32] = empty()
    isr_nodes: Array[Int32] = empty()
    eligible_leader_replicas: NullableArray[Int32] = None
    """Brokers out of sync that may still lead; null if not tracked."""
    last_known_elr: NullableArray[Int32] = None
    """Brokers that were eligible last; null if not tracked."""
    offline_replicas: Array[Int32] = empty()


@struct
class DescribeTopicPartitionsResponseTopic:
    """A topic and its partitions on this page."""

    error_code: Int16 = 0
    name: NullableString = ""
    topic_id: Uuid = bytes(16)
    """Id of the topic; zero if it does not exist."""
    is_internal: Boolean = False
    partitions: Array[DescribeTopicPartitionsResponsePartition] = empty()
    """Partitions of the topic that are on the page."""
    topic_authorized_operations: Int32 = AUTHORIZED_OPERATIONS_OMITTED


@response_to(DescribeTopicPartitionsRequest)
class DescribeTopicPartitionsResponse:
    """One page, and the start of the next one."""

    throttle_time_ms: Int32 = 0
    topics: Array[DescribeTopicPartitionsResponseTopic] = empty()
    next_cursor: NullableStruct[Cursor] = None
    """Where the next page begins; null on the last one."""
