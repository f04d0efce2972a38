"""All groups of one partition: a request finds its handler, a timer its group.

Not here: durability and life cycle, which are ``coordinator.partition``'s.
"""

from collections.abc import Callable
from typing import Any

from groupkeeper.coordinator.admin import ListOfGroups, describe, list_groups, list_some
from groupkeeper.coordinator.caller import Caller
from groupkeeper.coordinator.causes import Cause, CauseCode
from groupkeeper.coordinator.commit import PreparedCommit, commit, commit_prepared
from groupkeeper.coordinator.deadlines import Timer, TimerKind
from groupkeeper.coordinator.deletion import PIECE_PAUSE_MS, delete_groups, go_on_deleting
from groupkeeper.coordinator.expiry import expire_offsets
from groupkeeper.coordinator.group import Group, GroupState, Member
from groupkeeper.coordinator.groups import Groups
from groupkeeper.coordinator.heartbeat import heartbeat
from groupkeeper.coordinator.join import give_up_pending, join
from groupkeeper.coordinator.leave import leave
from groupkeeper.coordinator.offsets import delete, fetch
from groupkeeper.coordinator.rebalance import (
    add_cause,
    complete,
    complete_early,
    delay_over,
    prepare,
    remove,
)
from groupkeeper.coordinator.step import ReplyTo, Step
from groupkeeper.coordinator.sync import sync, sync_over
from groupkeeper.protocol.messages.delete_groups import DeleteGroupsRequest
from groupkeeper.protocol.messages.describe_groups import DescribeGroupsRequest
from groupkeeper.protocol.messages.heartbeat import HeartbeatRequest
from groupkeeper.protocol.messages.join_group import JoinGroupRequest
from groupkeeper.protocol.messages.leave_group import LeaveGroupRequest
from groupkeeper.protocol.messages.list_groups import ListGroupsRequest
from groupkeeper.protocol.messages.offset_commit import OffsetCommitRequest
from groupkeeper.protocol.messages.offset_delete import OffsetDeleteRequest
from groupkeeper.protocol.messages.offset_fetch import OffsetFetchRequest
from groupkeeper.protocol.messages.sync_group import SyncGroupRequest

HANDLERS: dict[type, Callable[[Groups, Any, Caller, ReplyTo, Step], None]] = {
    JoinGroupRequest: join,
    SyncGroupRequest: sync,
    HeartbeatRequest: heartbeat,
    LeaveGroupRequest: leave,
    OffsetCommitRequest: commit,
    OffsetFetchRequest: fetch,
    OffsetDeleteRequest: delete,
    DescribeGroupsRequest: describe,
    ListGroupsRequest: list_groups,
    DeleteGroupsRequest: delete_groups,
}
"""What clients ask."""

PARTIAL_HANDLERS: dict[type, Callable[[Groups, Any, Caller, ReplyTo, Step], None]] = {
    PreparedCommit: commit_prepared,
    ListOfGroups: list_some,
}
"""What becomes of requests that are too large for one step."""


def expire(groups: Groups, timer: Timer, step: Step) -> None:
    """A timer has come due."""
    if timer.kind is TimerKind.OFFSET_EXPIRY:
        is_over = expire_offsets(groups, step)
        interval = step.config.offsets_retention_check_interval_ms
        step.deadlines.set(timer, step.now + (interval if is_over else PIECE_PAUSE_MS))
        return
    if timer.kind is TimerKind.GROUP_DELETION:
        go_on_deleting(groups, timer, step)
        return
    group = groups[timer.group_id]
    match timer.kind:
        case TimerKind.SESSION:
            _session_over(group, group.members[timer.member_id], step)
        case TimerKind.NEW_MEMBER:
            member = group.members[timer.member_id]
            _remove(group, member, Cause(CauseCode.JOIN_TIMEOUT, member.who), step)
        case TimerKind.PENDING_MEMBER:
            give_up_pending(groups, timer, True, step)
        case TimerKind.INITIAL_DELAY:
            delay_over(group, step)
        case TimerKind.JOIN:
            complete(group, step)
        case TimerKind.SYNC:
            sync_over(group, step)


def _session_over(group: Group, member: Member, step: Step) -> None:
    """Not while a request of the member waits: the session runs anew when that is answered."""
    if not member.waits:
        _remove(group, member, Cause(CauseCode.SESSION_EXPIRED, member.who), step)


def _remove(group: Group, member: Member, cause: Cause, step: Step) -> None:
    remove(group, member, cause, step)
    if group.state is GroupState.PREPARING_REBALANCE:
        add_cause(group, cause, step)
        complete_early(group, step)
    else:
        prepare(group, cause, step)
