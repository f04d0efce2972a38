"""ListGroups (key 16): the groups this broker coordinates."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, since, struct
from groupkeeper.protocol.types import Array, Int16, Int32, String


@message(key=ApiKey.LIST_GROUPS, versions=(0, 5), flexible=3)
class ListGroupsRequest:
    """Lists groups; version 4 filters by state (KIP-518), 5 by type (KIP-848)."""

    states_filter: Array[String] = since(4)
    types_filter: Array[String] = since(5)


@struct
class ListedGroup:
    """A group in the list."""

    group_id: String = ""
    protocol_type: String = ""
    group_state: String = since(4)
    group_type: String = since(5)


@response_to(ListGroupsRequest)
class ListGroupsResponse:
    """The groups that pass the filters."""

    throttle_time_ms: Int32 = since(1)
    error_code: Int16 = 0
    groups: Array[ListedGroup] = empty()
