"""DescribeTopicPartitions (key 75): topics and their partitions, a page at a time (KIP-966)."""

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
    """A topic asked for."""

    name: String = ""


@struct
class Cursor:
    """The first partition of a page."""

    topic_name: String = ""
    partition_index: Int32 = 0


@message(key=ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions=(0, 0), flexible=0)
class DescribeTopicPartitionsRequest:
    """Asks for some topics, for all with an empty list; from `cursor` on, if there is one."""

    topics: Array[TopicRequest] = empty()
    response_partition_limit: Int32 = 2000
    cursor: NullableStruct[Cursor] = None


@struct
class DescribeTopicPartitionsResponsePartition:
    """A partition; replicas that may lead although they are not in sync are told apart."""

    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = -1
    replica_nodes: Array[Int32] = empty()
    isr_nodes: Array[Int32] = empty()
    eligible_leader_replicas: NullableArray[Int32] = None
    last_known_elr: NullableArray[Int32] = None
    offline_replicas: Array[Int32] = empty()


@struct
class DescribeTopicPartitionsResponseTopic:
    """A topic with those of its partitions that are on this page."""

    error_code: Int16 = 0
    name: NullableString = ""
    topic_id: Uuid = bytes(16)
    is_internal: Boolean = False
    partitions: Array[DescribeTopicPartitionsResponsePartition] = empty()
    topic_authorized_operations: Int32 = AUTHORIZED_OPERATIONS_OMITTED


@response_to(DescribeTopicPartitionsRequest)
class DescribeTopicPartitionsResponse:
    """A page, and where the next one begins."""

    throttle_time_ms: Int32 = 0
    topics: Array[DescribeTopicPartitionsResponseTopic] = empty()
    next_cursor: NullableStruct[Cursor] = None
