"""Handles timers of a partition that have come due.

Source: `GroupMetadataManager.expireClassicGroupMemberHeartbeat`, `expirePendingSync`,
`tryCompleteInitialRebalanceElseSchedule`, `completeClassicGroupJoin`.
"""

from collections.abc import Callable, Mapping
from typing import Final

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
from groupkeeper.coordinator.scaling import asked_over, take_over, window_over
from groupkeeper.coordinator.seats import end_unexpected, reserve, seats_over
from groupkeeper.coordinator.step import Step
from groupkeeper.coordinator.steps import remove_quietly, take_step
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
    of_group = _OF_GROUP.get(timer.kind)
    if of_group is not None:
        of_group(group, step)
        return
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
        case TimerKind.ASKED:
            member = group.members[timer.member_id]
            _lose(group, member, asked_over(group, timer.member_id, step), step)
        case TimerKind.PENDING_MEMBER:
            give_up_pending(groups, timer, True, step)


def _go_on(group: Group, step: Step) -> None:
    """Do the next piece of work that takes several steps; does nothing if none is left."""
    if group.answers is not None:
        if go_on_answering(group, step):
            after_answers(group, step)
    elif group.rebalance is not None and group.rebalance.plan is not None:
        go_on_planning(group, step)
    else:
        go_on_preparing(group, step)


_OF_GROUP: Final[Mapping[TimerKind, Callable[[Group, Step], None]]] = {
    TimerKind.INITIAL_DELAY: delay_over,
    TimerKind.JOIN: complete,
    TimerKind.SYNC: sync_over,
    TimerKind.NEXT_PIECE: _go_on,
    TimerKind.SEATS: seats_over,
    TimerKind.WINDOW: window_over,
    TimerKind.STEP: take_step,
}
"""Timers of a group as a whole, and what they do."""


def _session_over(group: Group, member: Member, step: Step) -> None:
    """Remove the member, or reserve its seat; not if one of its requests waits: its session
    restarts with the answer.
    """
    if not member.waits:
        _lose(group, member, expired(member, step.deadlines.popped_due, step), step)


def end_session(group: Group, member: Member, step: Step) -> None:
    """Let the session of a member end now; no request of it may wait."""
    assert not member.waits
    forget_a_session(group, member, step)
    _lose(group, member, expired(member, step.now, step), step)


def _lose(group: Group, member: Member, cause: Cause, step: Step) -> None:
    if not (
        take_over(group, member, cause, step)
        or reserve(group, member, cause, step)
        or remove_quietly(group, member, cause, step)
    ):
        _remove(group, member, cause, step)


def _remove(group: Group, member: Member, cause: Cause, step: Step) -> None:
    remove(group, member, cause, step)
    end_unexpected(group, step)
    if group.state is GroupState.PREPARING_REBALANCE:
        add_cause(group, cause, step)
        complete_early(group, step)
    else:
        prepare(group, cause, step)
