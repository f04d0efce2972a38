"""SyncGroup: the leader hands in the assignments, and every member gets its own.

Followers wait for the leader without a timer of their own. The record with the assignments is
written here, and no assignment leaves before it is durable.

Source: `GroupMetadataManager.classicGroupSyncToClassicGroup`, `expirePendingSync`.
"""

from groupkeeper.coordinator.caller import Caller, ReplyTo
from groupkeeper.coordinator.causes import Cause, CauseCode, Who
from groupkeeper.coordinator.config import GroupConfig
from groupkeeper.coordinator.deadlines import Timer, TimerKind
from groupkeeper.coordinator.facts import RebalanceCompleted
from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.coordinator.groups import Groups
from groupkeeper.coordinator.liveness import answered, contacted, late, restart_session
from groupkeeper.coordinator.member import Member
from groupkeeper.coordinator.member_bytes import COPIES
from groupkeeper.coordinator.rebalance import prepare, remove, withdraw_plan
from groupkeeper.coordinator.records import group_key, group_value, member_record
from groupkeeper.coordinator.replies import (
    answer_sync,
    check_member,
    note_limit,
    refused,
    sync_reply,
)
from groupkeeper.coordinator.step import Step, size_of
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def sync(
    groups: Groups, request: SyncGroupRequest, caller: Caller, reply_to: ReplyTo, step: Step
) -> None:
    """Answer a SyncGroup, or let it wait for the leader's."""
    group = groups.get(request.group_id)
    error = sync_error(request, caller.api_version, step.config)
    error = error or _check(group, request, caller, step)
    if error or group is None:
        step.reply(reply_to, SyncGroupResponse(error_code=error))
        return
    member = group.members[request.member_id]
    _arrived(group, member, step)
    if group.state is GroupState.STABLE:
        step.reply(reply_to, sync_reply(group, member))
        contacted(group, member, caller.peer, step)
        answered(member, step)
        return
    contacted(group, member, caller.peer, step)
    answer_sync(member, ErrorCode.REBALANCE_IN_PROGRESS, step)  # an earlier one of its own
    group.park_sync(member, reply_to)
    if member.member_id == group.leader_id:
        _assign(group, request, caller, step)


def sync_error(request: SyncGroupRequest, version: int, config: GroupConfig) -> ErrorCode:
    """The error of the request by itself. From v5 it names its protocol (KIP-559)."""
    if version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE if request.group_id else ErrorCode.INVALID_GROUP_ID


def _check(group: Group | None, request: SyncGroupRequest, caller: Caller, step: Step) -> ErrorCode:
    if group is None:
        return refused(None, request, "SyncGroup", ErrorCode.UNKNOWN_MEMBER_ID, caller, step)
    error = check_member(group, request, "SyncGroup", caller, step)
    if error:
        return error
    if request.generation_id != group.generation:
        return refused(group, request, "SyncGroup", ErrorCode.ILLEGAL_GENERATION, caller, step)
    if request.protocol_type not in (None, group.protocol_type):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    elected = group.protocol_name  # None in the first join phase: nothing to disagree with
    if elected is not None and request.protocol_name not in (None, elected):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _arrived(group: Group, member: Member, step: Step) -> None:
    """Cancel the sync timer when every member has synced; the leader's SyncGroup does not."""
    if member.member_id in group.pending_sync:
        del group.pending_sync[member.member_id]
        if not group.pending_sync:
            step.deadlines.cancel(Timer(TimerKind.SYNC, group.group_id))


def _assign(group: Group, request: SyncGroupRequest, caller: Caller, step: Step) -> None:
    """Store and write the leader's assignments, and answer all members that wait.

    Members without an assignment get an empty one; unknown member ids are ignored.
    """
    plan = {each.member_id: each.assignment for each in request.assignments}
    records = {
        m.member_id: member_record(m, group.protocol_name, plan.get(m.member_id, b""))
        for m in group.members.values()
    }
    # The record has the time when the join phase ended, as in Kafka.
    record = group_key(group.group_id), group_value(group, list(records.values()))
    if size_of([record]) > step.config.message_max_bytes:
        most = step.config.message_max_bytes
        _refuse_plan(group, ErrorCode.UNKNOWN_SERVER_ERROR, most, step)
        return
    if not group.member_bytes.may_assign(_growth(group, plan)):
        who = Who.calling(caller, request.member_id, request.group_instance_id)
        most = group.member_bytes.total.most_planned
        note_limit(group, "MAX_PLANNED_BYTES", most, who, step)
        _refuse_plan(group, ErrorCode.COORDINATOR_NOT_AVAILABLE, most, step)
        return
    previous = {m.member_id: m.assignment for m in group.members.values() if m.assignment}
    previous = (group.old_plan or {}) | previous
    for member in group.members.values():
        group.assign(member, plan.get(member.member_id, b""))
    group.forget_old_plan()
    group.become(GroupState.STABLE, step.wall)
    group.member_records = records
    step.append(*record)
    group.is_stored = True
    for member in group.members.values():
        if member.awaiting_sync is not None:
            step.reply(member.awaiting_sync, sync_reply(group, member))
            member.awaiting_sync = None
            restart_session(group, member, step, waited=True)
    _note_completed(group, previous, step)


def _note_completed(group: Group, previous: dict[str, bytes], step: Step) -> None:
    rebalance, members = group.rebalance, group.members.values()
    assert rebalance is not None
    fact = RebalanceCompleted(
        group.group_id,
        group.generation,
        group.state,
        group.round,
        members=len(members),
        duration_ms=step.now - rebalance.started_ms,
        leader_ms=step.now - rebalance.joined_ms,
        protocol_type=group.protocol_type,
        protocol=group.protocol_name or "",
        assignments=[(m.member_id, m.instance_id, m.assignment) for m in members],
        previous=previous,
        arrivals=rebalance.arrivals,
    )
    rebalance.arrivals = {}
    step.note(fact)


def _growth(group: Group, plan: dict[str, bytes]) -> int:
    """How many more bytes the members take with these assignments."""
    before = sum(len(member.assignment) for member in group.members.values())
    return COPIES * (sum(len(plan.get(each, b"")) for each in group.members) - before)


def _refuse_plan(group: Group, error: ErrorCode, most: int, step: Step) -> None:
    """The assignments are too large for a message or the memory: refuse, and rebalance again."""
    withdraw_plan(group, error, step)
    leader = group.members[group.leader_id or ""]
    prepare(group, Cause(CauseCode.ASSIGNMENT_LOST, leader.who, evidence={"limit": most}), step)


def sync_over(group: Group, step: Step) -> None:
    """Remove the members that joined and did not sync in time, also static ones (KAFKA-12890)."""
    absent = [group.members[member_id] for member_id in group.pending_sync]
    assert absent, "the timer ends with the last SyncGroup"
    assert group.rebalance is not None
    began, code = group.rebalance.joined_ms, CauseCode.SYNC_TIMEOUT
    causes = [late(group, member, code, began, step) for member in absent]
    for member, cause in zip(absent, causes, strict=True):
        remove(group, member, cause, step)
    prepare(group, causes[0], step)
