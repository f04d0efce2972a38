"""SyncGroup (key 14): the leader hands in everybody's assignment, each member receives its own."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, since, struct
from groupkeeper.protocol.types import Array, Bytes, Int16, Int32, NullableString, String


@struct
class SyncGroupRequestAssignment:
    """What one member is to have."""

    member_id: String = ""
    assignment: Bytes = b""


@message(key=ApiKey.SYNC_GROUP, versions=(0, 5), flexible=4)
class SyncGroupRequest:
    """Asks for the assignment.

    Version 3 brings static members (KIP-345), 5 names the protocol to be checked (KIP-559).
    """

    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: NullableString = since(3, default=None)
    protocol_type: NullableString = since(5, default=None)
    protocol_name: NullableString = since(5, default=None)
    assignments: Array[SyncGroupRequestAssignment] = empty()


@response_to(SyncGroupRequest)
class SyncGroupResponse:
    """The member's assignment; version 5 names the protocol (KIP-559)."""

    throttle_time_ms: Int32 = since(1)
    error_code: Int16 = 0
    protocol_type: NullableString = since(5, default=None)
    protocol_name: NullableString = since(5, default=None)
    assignment: Bytes = b""
