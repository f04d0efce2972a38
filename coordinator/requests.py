"""What is wrong with a request by itself, whoever coordinates its group and whatever is in it.

Kafka looks at this before it asks whether it is the group's coordinator at all, so it holds while a
partition is loading, too. Not here: anything that depends on a group.
"""

from typing import Any

from groupkeeper.coordinator.admin import ListOfGroups
from groupkeeper.coordinator.config import GroupConfig
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.delete_groups import DeleteGroupsRequest
from groupkeeper.protocol.messages.describe_groups import DescribeGroupsRequest
from groupkeeper.protocol.messages.heartbeat import HeartbeatRequest
from groupkeeper.protocol.messages.join_group import JoinGroupRequest
from groupkeeper.protocol.messages.leave_group import LeaveGroupRequest
from groupkeeper.protocol.messages.list_groups import ListGroupsRequest
from groupkeeper.protocol.messages.offset_delete import OffsetDeleteRequest
from groupkeeper.protocol.messages.offset_fetch import OffsetFetchRequest
from groupkeeper.protocol.messages.sync_group import SyncGroupRequest


def flaw_of(request: Any, version: int, config: GroupConfig) -> ErrorCode:
    """The first flaw of any group request; NONE for most.

    An empty group id is a flaw only here: commits, fetches and descriptions take it like any other.
    """
    match request:
        case JoinGroupRequest():
            return join_flaw(request, config)
        case SyncGroupRequest():
            return sync_flaw(request, version)
        case HeartbeatRequest() | LeaveGroupRequest() | OffsetDeleteRequest():
            return ErrorCode.NONE if request.group_id else ErrorCode.INVALID_GROUP_ID
    return ErrorCode.NONE


def join_flaw(request: JoinGroupRequest, config: GroupConfig) -> ErrorCode:
    """The rebalance timeout has no bounds, as in Kafka."""
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    session_ms = request.session_timeout_ms
    if config.min_session_timeout_ms <= session_ms <= config.max_session_timeout_ms:
        return ErrorCode.NONE
    return ErrorCode.INVALID_SESSION_TIMEOUT


def sync_flaw(request: SyncGroupRequest, version: int) -> ErrorCode:
    """Protocol type and name are mandatory from v5 (KIP-559)."""
    if version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE if request.group_id else ErrorCode.INVALID_GROUP_ID


def group_of(request: Any) -> str | None:
    """The id of the group that a request is for; None when it is for several or all."""
    match request:
        case DescribeGroupsRequest() | DeleteGroupsRequest() | OffsetFetchRequest():
            return None
        case ListGroupsRequest() | ListOfGroups():
            return None
    group_id: str = request.group_id
    return group_id
