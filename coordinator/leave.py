"""LeaveGroup: removes one or more members, at their own request or an operator's.

Entries are handled in order, each against the group as the earlier ones left it; one rebalance
follows for all of them (KIP-345). The results repeat the ids as they were sent. The seat of a
member that leaves may be reserved, and that of a lost one is given up (`coordinator.seats`).

Source: `GroupMetadataManager.classicGroupLeaveToClassicGroup`.
"""

from dataclasses import dataclass

from groupkeeper.coordinator.caller import Caller, ReplyTo
from groupkeeper.coordinator.causes import Cause, Who
from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.coordinator.groups import Groups
from groupkeeper.coordinator.likely import SHUTDOWN, left, missed_poll
from groupkeeper.coordinator.liveness import heard_at
from groupkeeper.coordinator.member import Member
from groupkeeper.coordinator.rebalance import drop_pending, prepare, remove
from groupkeeper.coordinator.replies import check_member
from groupkeeper.coordinator.scaling import take_over
from groupkeeper.coordinator.seats import end_unexpected, reserve
from groupkeeper.coordinator.step import Step
from groupkeeper.coordinator.steps import remove_quietly
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.group_events import CauseCode
from groupkeeper.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)


@dataclass(slots=True)
class Leaving:
    """A LeaveGroup request whose entries are being handled."""

    caller: Caller
    several: bool
    by_id: bool = False
    """The current entry names a member id."""
    cause: Cause | None = None
    """Cause of the rebalance: that of the first member removed."""

    def cause_for(self, group: Group, member: Member, reason: str | None, step: Step) -> Cause:
        """Return the cause of the removal of a member that an entry names."""
        if not self._is_itself(member):
            remover = Who.calling(self.caller, "")
            silent_ms = step.now - heard_at(group, member, step)
            evidence = {"silent_ms": silent_ms, "session_timeout_ms": member.session_timeout_ms}
            return Cause(CauseCode.MEMBER_REMOVED_BY_ADMIN, remover, reason, evidence=evidence)
        idle_ms = step.now - member.committed_ms if member.committed_ms >= 0 else None
        likely, evidence = left(reason, idle_ms, member.rebalance_timeout_ms)
        quiet_ms = step.now - max(member.committed_ms, member.beats_since_ms)
        missed = missed_poll(reason, quiet_ms, member.rebalance_timeout_ms)
        rolling = group.history().leave(step.now, member.instance_id, self.caller.peer, missed)
        if likely in (None, SHUTDOWN) and rolling[0]:
            likely, evidence = rolling
        evidence["session_timeout_ms"] = member.session_timeout_ms
        return Cause(CauseCode.MEMBER_LEFT, member.who, reason, likely, evidence)

    def _is_itself(self, member: Member) -> bool:
        """Return whether the member left itself, or was removed by another client. A member leaves
        by its member id and alone, on its own connection; or, as a client may open a new
        connection, with its client id, unless the old connection is open and has another host, or
        was the one for heartbeats.
        """
        peer, known = self.caller.peer, member.peer
        if self.several or not self.by_id:
            return False
        own = known is not None and known.link is peer.link
        other_open = known is not None and not known.link.closed and not own
        if known is not None and other_open and (known.host != peer.host or member.beats):
            return False
        return own or peer.client_id == member.client_id


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
    if group is not None and leaving.cause is not None and group.state is not GroupState.EMPTY:
        end_unexpected(group, step)
        prepare(group, leaving.cause, step)
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
    elif member_id not in group.seats:
        error = check_member(group, entry, "LeaveGroup", leaving.caller, step)
        if error:
            return error
    member = group.members[member_id]
    leaving.by_id = entry.member_id == member_id
    cause = leaving.cause_for(group, member, entry.reason, step)
    if take_over(group, member, cause, step):
        return ErrorCode.NONE
    if member_id not in group.seats and reserve(group, member, cause, step):
        return ErrorCode.NONE
    if remove_quietly(group, member, cause, step):
        return ErrorCode.NONE
    remove(group, member, cause, step)
    leaving.cause = leaving.cause or cause
    return ErrorCode.NONE
