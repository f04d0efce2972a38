"""ConsumerGroupHeartbeat: the one request of a member under the consumer protocol (KIP-848)."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, since, struct
from groupkeeper.protocol.types import (
    Array,
    Int16,
    Int32,
    NullableArray,
    NullableString,
    NullableStruct,
    String,
    Uuid,
)


@struct
class TopicPartitions:
    """Partitions of one topic."""

    topic_id: Uuid = bytes(16)
    partitions: Array[Int32] = empty()
    """Numbers of partitions, from 0."""


@message(key=ApiKey.CONSUMER_GROUP_HEARTBEAT, versions=(0, 1), flexible=0)
class ConsumerGroupHeartbeatRequest:
    """Joins, stays or leaves. In version 1 the member makes its own id (KIP-1082)."""

    group_id: String = ""
    member_id: String = ""
    """Id of the member; in version 0 empty to get one."""
    member_epoch: Int32 = 0
    """Epoch that the member is in; 0 joins, -1 leaves, -2 leaves as a static member."""
    instance_id: NullableString = None
    """`group.instance.id`; null for a dynamic member, or if it is as before."""
    rack_id: NullableString = None
    """Rack of the consumer; null without one, or if it is as before."""
    rebalance_timeout_ms: Int32 = -1
    """How long to wait for the member to give partitions back; -1 if it is as before."""
    subscribed_topic_names: NullableArray[String] = None
    """Topics that the member subscribes to; null if they are as before."""
    subscribed_topic_regex: NullableString = since(1, default=None)
    """Pattern of topics that it subscribes to; null without one, or if it is as before."""
    server_assignor: NullableString = None
    """Assignor that it asks for; null for any, or if it is as before."""
    topic_partitions: NullableArray[TopicPartitions] = None
    """Partitions that it owns; null if they are as before."""


@struct
class Assignment:
    """The partitions that a member may consume from now on."""

    topic_partitions: Array[TopicPartitions] = empty()
    """Partitions by topic."""


@response_to(ConsumerGroupHeartbeatRequest)
class ConsumerGroupHeartbeatResponse:
    """An error, or the member's epoch and perhaps a new assignment."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    """The error in words; null without an error, or without words."""
    member_id: NullableString = None
    """Id of the member; null on an error."""
    member_epoch: Int32 = 0
    """Epoch of the member."""
    heartbeat_interval_ms: Int32 = 0
    """Milliseconds after which to send the next one."""
    assignment: NullableStruct[Assignment] = None
    """New assignment; null if it is as before."""
