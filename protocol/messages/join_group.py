"""JoinGroup (key 11): become or stay a member; answered when the whole group has joined."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, nullable_since, response_to, since, struct
from groupkeeper.protocol.types import Array, Boolean, Bytes, Int16, Int32, NullableString, String


@struct
class JoinGroupRequestProtocol:
    """An assignment strategy the member can use, and its subscription in that strategy's form."""

    name: String = ""
    metadata: Bytes = b""


@message(key=ApiKey.JOIN_GROUP, versions=(0, 9), flexible=6)
class JoinGroupRequest:
    """Joins a group. Version 5 brings static members (KIP-345), 8 the reason (KIP-800)."""

    group_id: String = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Int32 = since(1, default=-1)
    member_id: String = ""
    group_instance_id: NullableString = since(5, default=None)
    protocol_type: String = ""
    protocols: Array[JoinGroupRequestProtocol] = empty()
    reason: NullableString = since(8, default=None)


@struct
class JoinGroupResponseMember:
    """A member and its subscription, told to the leader only."""

    member_id: String = ""
    group_instance_id: NullableString = since(5, default=None)
    metadata: Bytes = b""


@response_to(JoinGroupRequest)
class JoinGroupResponse:
    """The new generation.

    Version 7 tells the protocol type (KIP-559), 9 lets the leader keep the assignment (KIP-814).
    """

    throttle_time_ms: Int32 = since(2)
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: NullableString = since(7, default=None)
    protocol_name: NullableString = nullable_since(7, default="")
    leader: String = ""
    skip_assignment: Boolean = since(9)
    member_id: String = ""
    members: Array[JoinGroupResponseMember] = empty()
