"""LeaveGroup: removes one or more members, at their own request or an operator's.

Entries are handled in order, each against the group as the earlier ones left it; one rebalance
follows for all of them (KIP-345). The results repeat the ids as they were sent.

Source: `GroupMetadataManager.classicGroupLeaveToClassicGroup`.
"""

from dataclasses import dataclass

from groupkeeper.coordinator.caller import Caller, ReplyTo
from groupkeeper.coordinator.causes import Cause, CauseCode, Who
from groupkeeper.coordinator.group import Group, GroupState, Member
from groupkeeper.coordinator.groups import Groups
from groupkeeper.coordinator.rebalance import drop_pending, prepare, remove
from groupkeeper.coordinator.replies import check_member
from groupkeeper.coordinator.step import Step
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)


@dataclass(slots=True)
class Leaving:
    """A LeaveGroup while its entries are handled."""

    caller: Caller
    several: bool
    cause: Cause | None = None
    """Of the first member that was removed: the cause of the rebalance."""

    def cause_for(self, member: Member, entry: MemberIdentity) -> Cause:
        """Whether the member left or was removed; only the sender's client id tells them apart."""
        itself = entry.member_id == member.member_id and not self.several
        same = itself and self.caller.peer.client_id == member.client_id
        code = CauseCode.MEMBER_LEFT if same else CauseCode.MEMBER_REMOVED_BY_ADMIN
        who = member.who if same else Who.calling(self.caller, entry.member_id, member.instance_id)
        return Cause(code, who, entry.reason)


def leave(
    groups: Groups, request: LeaveGroupRequest, caller: Caller, reply_to: ReplyTo, step: Step
) -> None:
    """Remove every entry that may be removed, then rebalance once."""
    if not request.group_id:
        refused = LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        step.reply(reply_to, refused)
        return
    entries = request.members
    if caller.api_version < 3:
        entries = [MemberIdentity(member_id=request.member_id)]
    leaving = Leaving(caller, len(entries) > 1)
    group = groups.get(request.group_id)
    results = [_remove_entry(group, entry, leaving, step) for entry in entries]
    if group is not None and leaving.cause is not None:
        if group.state is not GroupState.EMPTY:
            prepare(group, leaving.cause, step)
        groups.drop_unused(group, step)
    if caller.api_version < 3:
        response = LeaveGroupResponse(error_code=results[0].error_code)
    else:
        response = LeaveGroupResponse(members=results)
    step.reply(reply_to, response)


def _remove_entry(
    group: Group | None, entry: MemberIdentity, leaving: Leaving, step: Step
) -> MemberResponse:
    error = ErrorCode.UNKNOWN_MEMBER_ID
    if group is not None:
        error = _remove(group, entry, leaving, step)
    return MemberResponse(
        member_id=entry.member_id, group_instance_id=entry.group_instance_id, error_code=error
    )


def _remove(group: Group, entry: MemberIdentity, leaving: Leaving, step: Step) -> ErrorCode:
    member_id, instance_id = entry.member_id, entry.group_instance_id
    if member_id in group.pending:  # whatever the instance id, as in Kafka
        drop_pending(group, member_id, step)
        if leaving.cause is None:
            who = Who.calling(leaving.caller, member_id)
            leaving.cause = Cause(CauseCode.MEMBER_LEFT, who, entry.reason)
        return ErrorCode.NONE
    if instance_id in group.instances and not member_id:  # an operator names only the instance
        member_id = group.instances[instance_id]
    elif error := check_member(group, entry, "LeaveGroup", leaving.caller, step):
        return error
    member = group.members[member_id]
    cause = leaving.cause_for(member, entry)
    remove(group, member, cause, step)
    leaving.cause = leaving.cause or cause
    return ErrorCode.NONE
