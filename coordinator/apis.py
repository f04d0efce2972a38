"""The group APIs: one row per request that a partition handles.

A row names the handler, the errors of a request by itself, and the shape of a refusal. A new group
API is a message, a handler and a row here; how its partition is found is the application's.

Source: `GroupCoordinatorService`, which checks a request before the coordinator's state, and the
`getErrorResponse` of each request class.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar

from groupkeeper.coordinator.admin import ListOfGroups, describe, list_groups, list_some
from groupkeeper.coordinator.caller import Caller, ReplyTo
from groupkeeper.coordinator.commit import (
    PreparedCommit,
    commit,
    commit_prepared,
    commit_refused,
    spoil_commit,
)
from groupkeeper.coordinator.config import GroupConfig
from groupkeeper.coordinator.deletion import delete_groups
from groupkeeper.coordinator.group_configs import GroupConfigsRequest, describe_or_set_configs
from groupkeeper.coordinator.groups import Groups
from groupkeeper.coordinator.heartbeat import heartbeat
from groupkeeper.coordinator.join import join, join_error
from groupkeeper.coordinator.leave import leave
from groupkeeper.coordinator.offsets import delete, fetch
from groupkeeper.coordinator.replies import join_refused
from groupkeeper.coordinator.step import GroupConfigs, GroupResponse, Step
from groupkeeper.coordinator.sync import sync, sync_error
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

GroupRequest: TypeAlias = (
    JoinGroupRequest
    | SyncGroupRequest
    | HeartbeatRequest
    | LeaveGroupRequest
    | OffsetCommitRequest
    | PreparedCommit
    | OffsetFetchRequest
    | OffsetDeleteRequest
    | DescribeGroupsRequest
    | ListGroupsRequest
    | ListOfGroups
    | DeleteGroupsRequest
    | GroupConfigsRequest
)
"""Everything a partition handles: the requests of clients, and the pieces of large ones."""

Req = TypeVar("Req")
Resp = TypeVar("Resp")


@dataclass(frozen=True, slots=True)
class GroupApi(Generic[Req, Resp]):
    """One row of `GROUP_APIS`."""

    request: type[Req]
    response: Callable[..., Resp]
    """The class of the response."""
    handle: Callable[[Groups, Req, Caller, ReplyTo, Step], None]
    """Decides the request, and answers through the step, now or later."""
    error_in: Callable[[Req, int, GroupConfig], ErrorCode] = lambda *_: ErrorCode.NONE
    """The error of a request in its version, whatever the state of the group. Kafka checks it
    before checking whether this node coordinates the group, so it is answered while a partition is
    loading, too."""
    refuse: Callable[[Req, Caller, ErrorCode], Resp] | None = None
    """Makes the reply to a request that reaches no group. None: the response has one error code at
    its top."""
    spoil: Callable[[Resp, ErrorCode], Resp] | None = None
    """Turns a reply that must not leave any more into a refusal. None: as `refuse`."""
    for_one_group: bool = True
    """The request has a `group_id`; others name several groups, or none."""


def _group_id_error(
    request: HeartbeatRequest | LeaveGroupRequest | OffsetDeleteRequest,
    version: int,
    config: GroupConfig,
) -> ErrorCode:
    """Commits, fetches and descriptions take an empty group id like any other."""
    return ErrorCode.NONE if request.group_id else ErrorCode.INVALID_GROUP_ID


# -- refusals that do not only have an error at the top ------------------------------------------


def _refuse_join(request: JoinGroupRequest, caller: Caller, error: ErrorCode) -> JoinGroupResponse:
    away = error in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
    return join_refused(error, caller.api_version, "" if away else request.member_id)


def _spoil_join(response: JoinGroupResponse, error: ErrorCode) -> JoinGroupResponse:
    # Where the protocol type is given, or the name is null, the version is 7 or later.
    later = response.protocol_type is not None or response.protocol_name is None
    return join_refused(error, 7 if later else 0, response.member_id)


def _refuse_heartbeat(
    request: HeartbeatRequest, caller: Caller, error: ErrorCode
) -> HeartbeatResponse:
    """Accept heartbeats while loading, so that no member rejoins because of a restart."""
    loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if loading else error)


def _refuse_fetch(
    about: OffsetFetchRequest | OffsetFetchResponse, error: ErrorCode
) -> OffsetFetchResponse:
    groups = [OffsetFetchResponseGroup(group_id=g.group_id, error_code=error) for g in about.groups]
    return OffsetFetchResponse(groups=groups)


def _refuse_describe(groups: list[str], error: ErrorCode) -> DescribeGroupsResponse:
    described = [DescribedGroup(group_id=each, error_code=error) for each in groups]
    return DescribeGroupsResponse(groups=described)


def _refuse_delete(groups: list[str], error: ErrorCode) -> DeleteGroupsResponse:
    results = [DeletableGroupResult(group_id=each, error_code=error) for each in groups]
    return DeleteGroupsResponse(results=results)


_ROWS: tuple[GroupApi[Any, Any], ...] = (
    GroupApi(
        JoinGroupRequest,
        JoinGroupResponse,
        join,
        error_in=join_error,
        refuse=_refuse_join,
        spoil=_spoil_join,
    ),
    GroupApi(SyncGroupRequest, SyncGroupResponse, sync, error_in=sync_error),
    GroupApi(
        HeartbeatRequest,
        HeartbeatResponse,
        heartbeat,
        error_in=_group_id_error,
        refuse=_refuse_heartbeat,
    ),
    GroupApi(LeaveGroupRequest, LeaveGroupResponse, leave, error_in=_group_id_error),
    GroupApi(
        OffsetCommitRequest,
        OffsetCommitResponse,
        commit,
        refuse=lambda request, _, error: commit_refused(request, error),
        spoil=spoil_commit,
    ),
    GroupApi(
        PreparedCommit,
        OffsetCommitResponse,
        commit_prepared,
        refuse=lambda request, _, error: request.refused(error),
        spoil=spoil_commit,
    ),
    GroupApi(
        OffsetFetchRequest,
        OffsetFetchResponse,
        fetch,
        refuse=lambda request, _, error: _refuse_fetch(request, error),
        spoil=_refuse_fetch,
        for_one_group=False,
    ),
    GroupApi(OffsetDeleteRequest, OffsetDeleteResponse, delete, error_in=_group_id_error),
    GroupApi(
        DescribeGroupsRequest,
        DescribeGroupsResponse,
        describe,
        refuse=lambda request, _, error: _refuse_describe(request.groups, error),
        spoil=lambda reply, error: _refuse_describe([g.group_id for g in reply.groups], error),
        for_one_group=False,
    ),
    GroupApi(ListGroupsRequest, ListGroupsResponse, list_groups, for_one_group=False),
    GroupApi(ListOfGroups, ListGroupsResponse, list_some, for_one_group=False),
    GroupApi(
        DeleteGroupsRequest,
        DeleteGroupsResponse,
        delete_groups,
        refuse=lambda request, _, error: _refuse_delete(request.groups_names, error),
        spoil=lambda reply, error: _refuse_delete([r.group_id for r in reply.results], error),
        for_one_group=False,
    ),
    GroupApi(GroupConfigsRequest, GroupConfigs, describe_or_set_configs, for_one_group=False),
)

GROUP_APIS: Final[dict[type, GroupApi[Any, Any]]] = {row.request: row for row in _ROWS}
"""Request class to row."""

_BY_RESPONSE: Final = {row.response: row for row in _ROWS}


def refuse(request: GroupRequest, caller: Caller, error: ErrorCode) -> GroupResponse:
    """Make the reply to a group request that reaches no group: loading, closed, not ours, a bug."""
    api: GroupApi[Any, GroupResponse] = GROUP_APIS[type(request)]
    return api.refuse(request, caller, error) if api.refuse else api.response(error_code=error)


def spoil(response: GroupResponse, error: ErrorCode) -> GroupResponse:
    """Turn a reply that may not leave any more into a refusal of the same shape."""
    api: GroupApi[Any, GroupResponse] = _BY_RESPONSE[type(response)]
    return api.spoil(response, error) if api.spoil else api.response(error_code=error)
