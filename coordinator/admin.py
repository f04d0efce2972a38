"""DescribeGroups and ListGroups.

A group that does not exist is `Dead`: without an error up to v5, with one from v6 on (KIP-1043).
Access is checked before the core is asked.

Source: `GroupMetadataManager.describeGroups` and `listGroups`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

from groupkeeper.coordinator.caller import Caller, ReplyTo
from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.coordinator.groups import Groups
from groupkeeper.coordinator.member import metadata_for
from groupkeeper.coordinator.step import Step
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.mapped import mapped
from groupkeeper.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from groupkeeper.protocol.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from groupkeeper.protocol.wire import cut_text

CLASSIC = "classic"

GROUP_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
"""READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS: every operation on a group (KIP-430,
KIP-848), as long as no access control refuses any."""

_UNKNOWN_IS_AN_ERROR_SINCE = 6


def describe(
    groups: Groups, request: DescribeGroupsRequest, caller: Caller, reply_to: ReplyTo, step: Step
) -> None:
    """Describe the state, protocol and members of groups; protocol data only of a Stable group.

    A repeated id is answered each time, as in Kafka, but described once: it takes a byte or two in
    the request, and the description of a large group takes a thousand times that.
    """
    version = caller.api_version
    described = {each: _describe(groups, each, version) for each in dict.fromkeys(request.groups)}
    if request.include_authorized_operations:
        for group in described.values():
            if not group.error_code:
                group.authorized_operations = GROUP_OPERATIONS
    answer = [described[group_id] for group_id in request.groups]
    step.reply(reply_to, DescribeGroupsResponse(groups=answer))


def _describe(groups: Groups, group_id: str, version: int) -> DescribedGroup:
    if group_id in groups.deletions:
        loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return DescribedGroup(group_id=group_id, error_code=loading)
    group = groups.get(group_id)
    if group is None:
        dead = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD)
        if version >= _UNKNOWN_IS_AN_ERROR_SINCE:
            dead.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            dead.error_message = cut_text(f"Group {group_id} not found.")
        return dead
    stable = group.state is GroupState.STABLE
    protocol = group.protocol_name if stable else None
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=protocol or "",
        members=_describe_members(group, protocol),
    )


def _describe_members(group: Group, protocol: str | None) -> list[DescribedGroupMember]:
    """Describe all members as they are now; rows are made while the answer is encoded."""
    members = group.members.values()
    columns = [list(map(each, members)) for each in _FIELDS]
    return mapped(partial(_row, protocol), list(group.members), *columns)


_FIELDS = [
    attrgetter(name)
    # Outside Stable the assignments are the previous ones, as in Kafka's newer coordinator.
    for name in ("instance_id", "client_id", "client_host", "assignment", "protocols")
]


def _row(protocol: str | None, member_id: str, *fields: Any) -> DescribedGroupMember:
    instance_id, client_id, client_host, assignment, protocols = fields
    return DescribedGroupMember(
        member_id=member_id,
        group_instance_id=instance_id,
        client_id=client_id,
        client_host=client_host,
        member_metadata=metadata_for(protocol, protocols),
        member_assignment=assignment,
    )


@dataclass(slots=True)
class ListOfGroups:
    """List some groups of a partition; groups that no longer exist are left out."""

    request: ListGroupsRequest
    group_ids: Sequence[str]


def list_groups(
    groups: Groups, request: ListGroupsRequest, caller: Caller, reply_to: ReplyTo, step: Step
) -> None:
    """List the partition's groups (KIP-518).

    Filters ignore case, the state filter also white space around a name; an unknown name matches no
    group.
    """
    list_some(groups, ListOfGroups(request, list(groups)), caller, reply_to, step)


def list_some(
    groups: Groups, some: ListOfGroups, caller: Caller, reply_to: ReplyTo, step: Step
) -> None:
    """List some of the partition's groups in their current state."""
    states = {state.strip().lower() for state in some.request.states_filter}
    types = {kind.lower() for kind in some.request.types_filter}
    present = (groups[group_id] for group_id in some.group_ids if group_id in groups)
    listed = [
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type,
            group_state=group.state,
            group_type=CLASSIC,
        )
        for group in present
        if (not states or group.state.lower() in states) and (not types or CLASSIC in types)
    ]
    step.reply(reply_to, ListGroupsResponse(groups=listed))
