"""DescribeGroups (key 15): state, members and assignments of groups.

From version 6 on a group that does not exist is an error (KIP-1043).
"""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, since, struct
from groupkeeper.protocol.messages.metadata import AUTHORIZED_OPERATIONS_OMITTED
from groupkeeper.protocol.types import Array, Boolean, Bytes, Int16, Int32, NullableString, String


@message(key=ApiKey.DESCRIBE_GROUPS, versions=(0, 6), flexible=5)
class DescribeGroupsRequest:
    """Names the groups; version 3 can ask what the client may do (KIP-430)."""

    groups: Array[String] = empty()
    include_authorized_operations: Boolean = since(3)


@struct
class DescribedGroupMember:
    """A member; version 4 tells its instance id (KIP-345)."""

    member_id: String = ""
    group_instance_id: NullableString = since(4, default=None)
    client_id: String = ""
    client_host: String = ""
    member_metadata: Bytes = b""
    member_assignment: Bytes = b""


@struct
class DescribedGroup:
    """A group; `protocol_data` is the name of the chosen protocol."""

    error_code: Int16 = 0
    error_message: NullableString = since(6, default=None)
    group_id: String = ""
    group_state: String = ""
    protocol_type: String = ""
    protocol_data: String = ""
    members: Array[DescribedGroupMember] = empty()
    authorized_operations: Int32 = since(3, default=AUTHORIZED_OPERATIONS_OMITTED)


@response_to(DescribeGroupsRequest)
class DescribeGroupsResponse:
    """One description for each group asked for."""

    throttle_time_ms: Int32 = since(1)
    groups: Array[DescribedGroup] = empty()
