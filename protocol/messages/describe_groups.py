"""DescribeGroups: state, members and assignments of groups.

From version 6 on a group that does not exist is an error (KIP-1043).
"""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, since, struct
from groupkeeper.protocol.messages.metadata import AUTHORIZED_OPERATIONS_OMITTED
from groupkeeper.protocol.types import Array, Boolean, Bytes, Int16, Int32, NullableString, String


@message(key=ApiKey.DESCRIBE_GROUPS, versions=(0, 6), flexible=5)
class DescribeGroupsRequest:
    """Names the groups; version 3 adds authorized operations (KIP-430)."""

    groups: Array[String] = empty()
    include_authorized_operations: Boolean = since(3)
    """Whether to tell what the client may do to each group."""


@struct
class DescribedGroupMember:
    """A member; version 4 adds its instance id (KIP-345)."""

    member_id: String = ""
    group_instance_id: NullableString = since(4, default=None)
    client_id: String = ""
    """Client id that the member joined with."""
    client_host: String = ""
    """Address that the member joined from."""
    member_metadata: Bytes = b""
    """Its subscription in the chosen protocol; empty unless the group is Stable."""
    member_assignment: Bytes = b""
    """Its assignment; empty unless the group is Stable."""


@struct
class DescribedGroup:
    """The description of one group."""

    error_code: Int16 = 0
    error_message: NullableString = since(6, default=None)
    group_id: String = ""
    group_state: String = ""
    """Name of the state, such as Stable; empty on an error."""
    protocol_type: String = ""
    """Kind of group, `consumer` for consumers; empty without members or offsets."""
    protocol_data: String = ""
    """Name of the chosen protocol; empty unless the group is Stable."""
    members: Array[DescribedGroupMember] = empty()
    authorized_operations: Int32 = since(3, default=AUTHORIZED_OPERATIONS_OMITTED)
    """Bits of the operations that the client is allowed; -2^31 if they were not asked for."""


@response_to(DescribeGroupsRequest)
class DescribeGroupsResponse:
    """The descriptions of the groups."""

    throttle_time_ms: Int32 = since(1)
    groups: Array[DescribedGroup] = empty()
