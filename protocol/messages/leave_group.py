"""LeaveGroup: removes a member, from version 3 on several at once (KIP-345)."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import message, response_to, since, struct, until
from groupkeeper.protocol.types import Array, Int16, Int32, NullableString, String


@struct
class MemberIdentity:
    """A member to remove, by member id or instance id; version 5 adds the reason (KIP-800)."""

    member_id: String = since(3)
    """Id of the member; may be empty if the instance id is given."""
    group_instance_id: NullableString = since(3, default=None)
    reason: NullableString = since(5, default=None)
    """Why the member leaves, for logs; null if it does not say."""


@message(key=ApiKey.LEAVE_GROUP, versions=(0, 5), flexible=4)
class LeaveGroupRequest:
    """Removes `member_id` up to version 2, `members` from 3 on."""

    group_id: String = ""
    member_id: String = until(2)
    members: Array[MemberIdentity] = since(3)


@struct
class MemberResponse:
    """The result for one member."""

    member_id: String = since(3)
    group_instance_id: NullableString = since(3, default="")
    error_code: Int16 = since(3)


@response_to(LeaveGroupRequest)
class LeaveGroupResponse:
    """An error for the whole request and, from version 3 on, one for each member."""

    throttle_time_ms: Int32 = since(1)
    error_code: Int16 = 0
    members: Array[MemberResponse] = since(3)
