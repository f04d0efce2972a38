"""How each API says that the coordinator cannot answer at all: loading, closed, not ours, a bug.

Where the error goes differs: on top, on every group, or on every partition. Refusals that come
out of a decision are not here but with the decision.
"""

from typing import Any

from groupkeeper.coordinator.admin import ListOfGroups
from groupkeeper.coordinator.caller import Caller
from groupkeeper.coordinator.commit import PreparedCommit, commit_refused, spoil_commit
from groupkeeper.coordinator.replies import join_refused
from groupkeeper.coordinator.step import Response
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from groupkeeper.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from groupkeeper.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from groupkeeper.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from groupkeeper.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from groupkeeper.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from groupkeeper.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from groupkeeper.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from groupkeeper.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from groupkeeper.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def refuse(request: Any, caller: Caller, error: ErrorCode) -> Response:
    """The reply to a group request that no group will see."""
    match request:
        case JoinGroupRequest():
            away = error in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
            return join_refused(error, caller.api_version, "" if away else request.member_id)
        case SyncGroupRequest():
            return SyncGroupResponse(error_code=error)
        case HeartbeatRequest():
            # While loading a heartbeat is believed: nobody should rejoin because of a restart.
            loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return HeartbeatResponse(error_code=ErrorCode.NONE if loading else error)
        case LeaveGroupRequest():
            return LeaveGroupResponse(error_code=error)
        case OffsetCommitRequest():
            return commit_refused(request, error)
        case OffsetDeleteRequest():
            return OffsetDeleteResponse(error_code=error)
        case ListGroupsRequest() | ListOfGroups():
            return ListGroupsResponse(error_code=error)
    return _refuse_each(request, error)


def _refuse_each(request: Any, error: ErrorCode) -> Response:
    match request:
        case PreparedCommit():
            return request.refused(error)
        case OffsetFetchRequest():
            fetched = [
                OffsetFetchResponseGroup(group_id=g.group_id, error_code=error)
                for g in request.groups
            ]
            return OffsetFetchResponse(groups=fetched)
        case DescribeGroupsRequest():
            described = [DescribedGroup(group_id=g, error_code=error) for g in request.groups]
            return DescribeGroupsResponse(groups=described)
        case DeleteGroupsRequest():
            results = [
                DeletableGroupResult(group_id=g, error_code=error) for g in request.groups_names
            ]
            return DeleteGroupsResponse(results=results)
    raise TypeError(f"not a group request: {type(request).__name__}")


def spoil(response: Response, error: ErrorCode) -> Response:
    """Turn a reply that may not leave any more into a refusal of the same shape."""
    match response:
        case JoinGroupResponse():
            # Where the protocol type is given, or the name is null, the version is 7 or later.
            later = response.protocol_type is not None or response.protocol_name is None
            return join_refused(error, 7 if later else 0, response.member_id)
        case SyncGroupResponse() | HeartbeatResponse() | LeaveGroupResponse():
            return type(response)(error_code=error)
        case OffsetDeleteResponse() | ListGroupsResponse():
            return type(response)(error_code=error)
    return _spoil_each(response, error)


def _spoil_each(response: Response, error: ErrorCode) -> Response:
    match response:
        case OffsetCommitResponse():
            return spoil_commit(response, error)
        case OffsetFetchResponse():
            response.groups = [
                OffsetFetchResponseGroup(group_id=g.group_id, error_code=error)
                for g in response.groups
            ]
        case DescribeGroupsResponse():
            response.groups = [
                DescribedGroup(group_id=g.group_id, error_code=error) for g in response.groups
            ]
        case DeleteGroupsResponse():
            for result in response.results:
                result.error_code = error
        case _:
            raise TypeError(f"not a group response: {type(response).__name__}")
    return response
