"""ConsumerGroupDescribe: groups of the new protocol (KIP-848), of which DescribeGroups says that
they are not there.

Only the client has it, so it is not one of the APIs of `protocol`: what is there is served.
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
    """Asks for groups; version 1 adds the type of members."""

    group_ids: Array[String] = empty()
    """Groups to describe."""
    include_authorized_operations: Boolean = False
    """Whether to tell what the client may do to each group."""


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
    """What is assigned to a member."""

    topic_partitions: Array[AssignedTopic] = empty()
    """Partitions by topic."""


@struct
class ConsumerGroupMember:
    """A member of a group."""

    member_id: String = ""
    """Id of the member."""
    instance_id: NullableString = None
    """Its group instance id; null if it is dynamic."""
    rack_id: NullableString = None
    """Rack of the member; null if unknown."""
    member_epoch: Int32 = 0
    """Epoch that the member has reached."""
    client_id: String = ""
    """Client id of the member."""
    client_host: String = ""
    """Host of the member."""
    subscribed_topic_names: Array[String] = empty()
    """Topics that it is subscribed to by name."""
    subscribed_topic_regex: NullableString = None
    """Regex that it is subscribed to; null without one."""
    assignment: Nested[ConsumerAssignment] = since(0)
    """What it has."""
    target_assignment: Nested[ConsumerAssignment] = since(0)
    """What it is to have."""
    member_type: Int8 = since(1, default=-1)
    """0 for a member of the classic protocol, 1 for one of the new; -1 if unknown."""


@struct
class DescribedConsumerGroup:
    """A group."""

    error_code: Int16 = 0
    """0, or why the group was not described."""
    error_message: NullableString = None
    """The error in words; null without an error."""
    group_id: String = ""
    """Id of the group."""
    group_state: String = ""
    """State of the group."""
    group_epoch: Int32 = 0
    """Epoch of the group, which rises with its subscriptions."""
    assignment_epoch: Int32 = 0
    """Epoch of the target assignment."""
    assignor_name: String = ""
    """Assignor of the coordinator."""
    members: Array[ConsumerGroupMember] = empty()
    """Its members."""
    authorized_operations: Int32 = AUTHORIZED_OPERATIONS_OMITTED
    """Bits of the operations that the client is allowed; -2^31 if they were not asked for."""


@response_to(ConsumerGroupDescribeRequest)
class ConsumerGroupDescribeResponse:
    """The groups."""

    throttle_time_ms: Int32 = 0
    """Milliseconds for which a quota throttles the client; 0 if none does."""
    groups: Array[DescribedConsumerGroup] = empty()
    """One description for each group."""
