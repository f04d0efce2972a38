"""Heartbeat: keeps a member alive and tells it whether to rejoin.

Repeated heartbeats of a Stable group take a short cut: `Beat` keeps the group, member and timer of
a heartbeat, and is valid while the group does not change.

Source: `GroupMetadataManager.classicGroupHeartbeat`, `rescheduleClassicGroupMemberHeartbeat`.
"""

from dataclasses import dataclass

from groupkeeper.coordinator.caller import Caller, ReplyTo
from groupkeeper.coordinator.deadlines import Timer, TimerKind
from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.coordinator.groups import Groups
from groupkeeper.coordinator.liveness import heard
from groupkeeper.coordinator.member import Member
from groupkeeper.coordinator.replies import check_member, refused
from groupkeeper.coordinator.soft_state import AskState
from groupkeeper.coordinator.step import Step
from groupkeeper.coordinator.steps import is_releasing, is_settled
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def heartbeat(
    groups: Groups, request: HeartbeatRequest, caller: Caller, reply_to: ReplyTo, step: Step
) -> None:
    """Restart the session; answers REBALANCE_IN_PROGRESS in the join phase, and only there."""
    group = groups.get(request.group_id)
    error = _check(group, request, caller, step)
    if group is not None and not error:
        member = group.members[request.member_id]
        if member.heard_ms != step.now:  # else time stands still: it tells nothing of their rate
            member.beats += 1
            member.gap_ms = max(member.gap_ms, step.now - member.beat_ms)
            member.beat_ms = step.now
        heard(group, member, caller.peer, step)
        is_asked = group.asked and _is_asked(group, member, step)
        if is_asked or group.state is GroupState.PREPARING_REBALANCE:
            error = ErrorCode.REBALANCE_IN_PROGRESS
    step.reply(reply_to, HeartbeatResponse(error_code=error))


def _is_asked(group: Group, member: Member, step: Step) -> bool:
    """Return whether the member has to rejoin to get other partitions (`coordinator.scaling`)."""
    state = group.asked.get(member.member_id)
    if state is AskState.SYNCED and not is_releasing(group, member):  # at rest again
        del group.asked[member.member_id]
        group.changes += 1
        is_settled(group, step)
    return state is AskState.ASKED


def _check(group: Group | None, request: HeartbeatRequest, caller: Caller, step: Step) -> ErrorCode:
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None:
        return refused(None, request, "Heartbeat", ErrorCode.UNKNOWN_MEMBER_ID, caller, step)
    error = check_member(group, request, "Heartbeat", caller, step)
    if not error and request.generation_id != group.generation:
        return refused(group, request, "Heartbeat", ErrorCode.ILLEGAL_GENERATION, caller, step)
    return error


@dataclass(slots=True, eq=False)
class Beat:
    """An accepted heartbeat, resolved; valid while `group.changes` equals `changes`."""

    group: Group
    member: Member
    changes: int
    timer: Timer
    session_timeout_ms: int


def steady_beat(groups: Groups, request: HeartbeatRequest) -> Beat | None:
    """Return the short cut for a request that was just answered NONE, or None."""
    group = groups.get(request.group_id)
    if group is None or group.state is GroupState.PREPARING_REBALANCE:
        return None
    member = group.members.get(request.member_id)
    if member is None or request.generation_id != group.generation:
        return None
    # While a request of it waits, its session timer may have expired without effect.
    if member.member_id in group.asked:
        return None
    if member.waits or request.group_instance_id not in (None, member.instance_id):
        return None
    timer = Timer(TimerKind.SESSION, group.group_id, member.member_id)
    return Beat(group, member, group.changes, timer, member.session_timeout_ms)
