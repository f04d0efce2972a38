"""DeleteGroups: deletes empty groups and their offsets (KIP-229)."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, struct
from groupkeeper.protocol.types import Array, Int16, Int32, String


@message(key=ApiKey.DELETE_GROUPS, versions=(0, 2), flexible=2)
class DeleteGroupsRequest:
    """Names the groups to delete."""

    groups_names: Array[String] = empty()
    """Ids of the groups to delete."""


@struct
class DeletableGroupResult:
    """The result for one group."""

    group_id: String = ""
    error_code: Int16 = 0


@response_to(DeleteGroupsRequest)
class DeleteGroupsResponse:
    """One result for each group."""

    throttle_time_ms: Int32 = 0
    results: Array[DeletableGroupResult] = empty()
