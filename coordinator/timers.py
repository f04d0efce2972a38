"""Handles timers of a partition that have come due.

Source: `GroupMetadataManager.expireClassicGroupMemberHeartbeat`, `expirePendingSync`,
`tryCompleteInitialRebalanceElseSchedule`, `completeClassicGroupJoin`.
"""

from groupkeeper.coordinator.answers import go_on_answering
from groupkeeper.coordinator.causes import Cause
from groupkeeper.coordinator.config import NEW_MEMBER_JOIN_TIMEOUT_MS
from groupkeeper.coordinator.deadlines import Timer, TimerKind
from groupkeeper.coordinator.deletion import PIECE_PAUSE_MS, go_on_deleting
from groupkeeper.coordinator.expiry import expire_offsets
from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.coordinator.groups import Groups
from groupkeeper.coordinator.join import give_up_pending
from groupkeeper.coordinator.liveness import expired, forget_a_session
from groupkeeper.coordinator.member import Member
from groupkeeper.coordinator.rebalance import (
    add_cause,
    after_answers,
    complete,
    complete_early,
    delay_over,
    go_on_preparing,
    prepare,
    remove,
)
from groupkeeper.coordinator.step import Step
from groupkeeper.coordinator.sync import go_on_planning, sync_over
from groupkeeper.protocol.group_events import CauseCode


def expire(groups: Groups, timer: Timer, step: Step) -> None:
    """Handle a timer that has come due."""
    if timer.kind is TimerKind.OFFSET_EXPIRY:
        step.stalls.tidy(step.now)
        is_over = expire_offsets(groups, step)
        interval = step.config.offsets_retention_check_interval_ms
        step.deadlines.set(timer, step.now + (interval if is_over else PIECE_PAUSE_MS))
        return
    group = groups[timer.group_id]
    match timer.kind:
        case TimerKind.GROUP_DELETION:
            go_on_deleting(groups, timer, step)
        case TimerKind.SESSION:
            _session_over(group, group.members[timer.member_id], step)
        case TimerKind.NEW_MEMBER:
            member = group.members[timer.member_id]
            waited = {"waited_ms": NEW_MEMBER_JOIN_TIMEOUT_MS}
            cause = Cause(CauseCode.JOIN_TIMEOUT, member.who, evidence=waited)
            _remove(group, member, cause, step)
        case TimerKind.PENDING_MEMBER:
            give_up_pending(groups, timer, True, step)
        case TimerKind.INITIAL_DELAY:
            delay_over(group, step)
        case TimerKind.JOIN:
            complete(group, step)
        case TimerKind.SYNC:
            sync_over(group, step)
        case TimerKind.NEXT_PIECE:
            _go_on(group, step)


def _go_on(group: Group, step: Step) -> None:
    """Do the next piece of work that takes several steps; does nothing if none is left."""
    if group.answers is not None:
        if go_on_answering(group, step):
            after_answers(group, step)
    elif group.rebalance is not None and group.rebalance.plan is not None:
        go_on_planning(group, step)
    else:
        go_on_preparing(group, step)


def _session_over(group: Group, member: Member, step: Step) -> None:
    """Remove the member, unless one of its requests waits: its session restarts with the answer."""
    if not member.waits:
        _remove(group, member, expired(member, step.deadlines.popped_due, step), step)


def end_session(group: Group, member: Member, step: Step) -> None:
    """Remove a member as at the end of its session; no request of it may wait."""
    assert not member.waits
    forget_a_session(group, member, step)
    _remove(group, member, expired(member, step.now, step), step)


def _remove(group: Group, member: Member, cause: Cause, step: Step) -> None:
    remove(group, member, cause, step)
    if group.state is GroupState.PREPARING_REBALANCE:
        add_cause(group, cause, step)
        complete_early(group, step)
    else:
        prepare(group, cause, step)
