"""SyncGroup: the leader sends all assignments, each member receives its own."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, since, struct
from groupkeeper.protocol.types import Array, Bytes, Int16, Int32, NullableString, String


@struct
class SyncGroupRequestAssignment:
    """The assignment of one member."""

    member_id: String = ""
    assignment: Bytes = b""
    """Its assignment, in the protocol's own format."""


@message(key=ApiKey.SYNC_GROUP, versions=(0, 5), flexible=4)
class SyncGroupRequest:
    """Requests the assignment.

    Version 3 adds static members (KIP-345), 5 the protocol, to be checked (KIP-559).
    """

    group_id: String = ""
    generation_id: Int32 = 0
    """Generation that the member joined."""
    member_id: String = ""
    group_instance_id: NullableString = since(3, default=None)
    protocol_type: NullableString = since(5, default=None)
    """Kind of the group, checked if not null."""
    protocol_name: NullableString = since(5, default=None)
    """The chosen protocol, checked if not null."""
    assignments: Array[SyncGroupRequestAssignment] = empty()
    """Assignments of all members, from the leader; else empty."""


@response_to(SyncGroupRequest)
class SyncGroupResponse:
    """The member's assignment; version 5 adds the protocol (KIP-559)."""

    throttle_time_ms: Int32 = since(1)
    error_code: Int16 = 0
    """0, REBALANCE_IN_PROGRESS if the member has to rejoin, or why it is refused."""
    protocol_type: NullableString = since(5, default=None)
    protocol_name: NullableString = since(5, default=None)
    """The chosen protocol; null on an error."""
    assignment: Bytes = b""
    """The member's assignment, in the protocol's own format; empty on an error."""
