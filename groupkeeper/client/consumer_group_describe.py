"""ConsumerGroupDescribe messages, for groups of the new protocol (KIP-848), which DescribeGroups
reports as missing.

They are defined here because `protocol` has only the APIs that the server implements.
"""

from typing import Final, cast

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, since, struct
from groupkeeper.protocol.messages.metadata import AUTHORIZED_OPERATIONS_OMITTED
from groupkeeper.protocol.types import (
    Array,
    Boolean,
    Int8,
    Int16,
    Int32,
    Nested,
    NullableString,
    String,
    Uuid,
)

_KEY: Final = cast(ApiKey, 69)


@message(key=_KEY, versions=(0, 1), flexible=0)
class ConsumerGroupDescribeRequest:
    """Requests descriptions of groups; version 1 adds the type of members."""

    group_ids: Array[String] = empty()
    """Groups to describe."""
    include_authorized_operations: Boolean = False
    """Whether to include the operations that the client is allowed on each group."""


@struct
class AssignedTopic:
    """Partitions of one topic."""

    topic_id: Uuid = bytes(16)
    """Id of the topic."""
    topic_name: String = ""
    """Name of the topic."""
    partitions: Array[Int32] = empty()
    """Partitions of the topic, from 0."""


@struct
class ConsumerAssignment:
    """An assignment of a member."""

    topic_partitions: Array[AssignedTopic] = empty()
    """Partitions by topic."""


@struct
class ConsumerGroupMember:
    """A member of a group."""

    member_id: String = ""
    """Id of the member."""
    instance_id: NullableString = None
    """Group instance id of the member; null for a dynamic member."""
    rack_id: NullableString = None
    """Rack of the member; null if unknown."""
    member_epoch: Int32 = 0
    """Current epoch of the member."""
    client_id: String = ""
    """Client id of the member."""
    client_host: String = ""
    """Host of the member."""
    subscribed_topic_names: Array[String] = empty()
    """Names of the subscribed topics."""
    subscribed_topic_regex: NullableString = None
    """Regular expression of the subscription; null without one."""
    assignment: Nested[ConsumerAssignment] = since(0)
    """Current assignment."""
    target_assignment: Nested[ConsumerAssignment] = since(0)
    """Target assignment."""
    member_type: Int8 = since(1, default=-1)
    """0 for a classic member, 1 for a member of the new protocol; -1 if unknown."""


@struct
class DescribedConsumerGroup:
    """The description of a group."""

    error_code: Int16 = 0
    """Error code of the group; 0 without an error."""
    error_message: NullableString = None
    """Error message; null without an error."""
    group_id: String = ""
    """Id of the group."""
    group_state: String = ""
    """State of the group."""
    group_epoch: Int32 = 0
    """Epoch of the group, which increases with each change of subscriptions."""
    assignment_epoch: Int32 = 0
    """Epoch of the target assignment."""
    assignor_name: String = ""
    """Name of the server-side assignor."""
    members: Array[ConsumerGroupMember] = empty()
    """Members of the group."""
    authorized_operations: Int32 = AUTHORIZED_OPERATIONS_OMITTED
    """Bit field of the client's allowed operations; -2^31 if it was not requested."""


@response_to(ConsumerGroupDescribeRequest)
class ConsumerGroupDescribeResponse:
    """The descriptions of the groups."""

    throttle_time_ms: Int32 = 0
    """Milliseconds for which the client is throttled by a quota; 0 if it is not."""
    groups: Array[DescribedConsumerGroup] = empty()
    """One description for each requested group."""
