"""ListGroups: the groups that this broker coordinates."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, since, struct
from groupkeeper.protocol.types import Array, Int16, Int32, String


@message(key=ApiKey.LIST_GROUPS, versions=(0, 5), flexible=3)
class ListGroupsRequest:
    """Lists groups; version 4 filters by state (KIP-518), 5 by type (KIP-848)."""

    states_filter: Array[String] = since(4)
    """States to list, in any case of letters; empty lists all."""
    types_filter: Array[String] = since(5)
    """Group types to list, such as `classic`; empty lists all."""


@struct
class ListedGroup:
    """One group."""

    group_id: String = ""
    protocol_type: String = ""
    """Kind of group, `consumer` for consumers; empty if it has none."""
    group_state: String = since(4)
    """Name of the state, such as Stable."""
    group_type: String = since(5)
    """Type of the group, such as `classic`."""


@response_to(ListGroupsRequest)
class ListGroupsResponse:
    """The groups that pass the filters."""

    throttle_time_ms: Int32 = since(1)
    error_code: Int16 = 0
    groups: Array[ListedGroup] = empty()
    """Groups that pass the filters."""
