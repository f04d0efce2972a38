"""SyncGroup: the leader hands in the assignments, and every member gets its own.

Followers wait until the leader's SyncGroup comes, or the group's sync timer ends the phase. The
record with the assignments is written here, and no assignment leaves before it is durable.

Source: `GroupMetadataManager.classicGroupSyncToClassicGroup`, `expirePendingSync`.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Final

from groupkeeper.coordinator.answers import PIECE_MEMBERS, REMOVED_AT_ONCE, answer_assigned
from groupkeeper.coordinator.caller import Caller, ReplyTo
from groupkeeper.coordinator.causes import Cause, Who
from groupkeeper.coordinator.config import GroupConfig
from groupkeeper.coordinator.deadlines import Timer, TimerKind
from groupkeeper.coordinator.facts import RebalanceCompleted
from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.coordinator.groups import Groups
from groupkeeper.coordinator.liveness import answered, await_no_sync, contacted, late
from groupkeeper.coordinator.member import Member
from groupkeeper.coordinator.member_bytes import COPIES
from groupkeeper.coordinator.rebalance import prepare, remove, write_group
from groupkeeper.coordinator.records import group_key, group_value, member_record
from groupkeeper.coordinator.replies import (
    answer_sync,
    check_member,
    note_limit,
    refused,
    sync_reply,
)
from groupkeeper.coordinator.scaling import follow_policy, note_refused
from groupkeeper.coordinator.second_round import partitions_in
from groupkeeper.coordinator.soft_state import AskState, Expelled, Late, Plan
from groupkeeper.coordinator.standby import EMPTY_ASSIGNMENT, planning_policy
from groupkeeper.coordinator.step import Step, size_of
from groupkeeper.coordinator.steps import is_releasing, plan_step, share_of
from groupkeeper.protocol.embedded import CONSUMER, assignment_of, has_user_data
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.group_events import CauseCode
from groupkeeper.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

READ_AT_ONCE: Final = 1_000
"""How many of the leader's assignments one step reads."""
METADATA_OF: Final = 8
"""Number of members whose metadata goes into the fact of a completed rebalance."""


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
    await_no_sync(group, member, step)
    if group.state is GroupState.STABLE:
        reply = sync_reply(group, member)
        if group.asked:
            _asked_synced(group, member, reply, step)
        step.reply(reply_to, reply)
        contacted(group, member, caller.peer, step)
        answered(member, step)
        return
    contacted(group, member, caller.peer, step)
    answer_sync(member, ErrorCode.REBALANCE_IN_PROGRESS, step)  # to its earlier SyncGroup
    group.park_sync(member, reply_to)
    if member.member_id == group.leader_id:
        _assign(group, request, caller, step)


def _asked_synced(group: Group, member: Member, reply: SyncGroupResponse, step: Step) -> None:
    """Note that a member that was asked gets its assignment."""
    if member.member_id in group.asked:
        reply.assignment = share_of(group, member)
        releases = is_releasing(group, member)
        if releases and group.asked[member.member_id] is AskState.ASKED:
            return  # an earlier JoinGroup's: it still has to rejoin
        group.asked[member.member_id] = AskState.SYNCED
        if not releases:
            step.deadlines.cancel(Timer(TimerKind.ASKED, group.group_id, member.member_id))


def sync_error(request: SyncGroupRequest, version: int, config: GroupConfig) -> ErrorCode:
    """Return the error of a request that no group accepts. KIP-559: v5 names the protocol."""
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
    elected = group.protocol_name  # None in the first join phase: any name is right
    if elected is not None and request.protocol_name not in (None, elected):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    if group.members[request.member_id].awaiting_join is not None:  # it guessed the generation
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _assign(group: Group, request: SyncGroupRequest, caller: Caller, step: Step) -> None:
    """Store and write the leader's assignments, and answer all members that wait.

    Members without an assignment get an empty one; unknown member ids are ignored. Making the
    record of a very large group takes several steps, and the sync phase lasts until the last one.
    All steps but the first come after the last answer to a JoinGroup.
    """
    assert group.rebalance is not None
    members = [*group.members.values()]
    group.rebalance.plan = Plan(caller, request.assignments[::-1], members[::-1])
    go_on_planning(group, step)


def go_on_planning(group: Group, step: Step) -> None:
    """Read the next assignments, or make the next records. In the end, store or refuse the plan."""
    assert group.rebalance is not None and group.rebalance.plan is not None
    plan = group.rebalance.plan
    if plan.unread:
        some = plan.unread[: -READ_AT_ONCE - 1 : -1]
        plan.shares |= {each.member_id: each.assignment for each in some}
        del plan.unread[-READ_AT_ONCE:]
        if plan.unread:
            step.deadlines.set(Timer(TimerKind.NEXT_PIECE, group.group_id), step.now)
            return
    if plan.left and plan.size <= step.config.message_max_bytes:
        members = reversed(plan.left[-PIECE_MEMBERS:])
        is_plain = group.policy is None and not (group.standbys or group.rebalance.withheld)
        add = _add_to_plan if is_plain else _add_by_policy
        plan.pieces.append(b"".join([add(plan, group, each) for each in members]))
        del plan.left[-PIECE_MEMBERS:]
        if len(group.members) > PIECE_MEMBERS:  # storing the plan takes another step
            step.deadlines.set(Timer(TimerKind.NEXT_PIECE, group.group_id), step.now)
            return
    group.rebalance.plan = None
    _store_plan(group, plan, step)


def _add_to_plan(plan: Plan, group: Group, member: Member) -> bytes:
    """Add the member's part of the group's record to the plan."""
    member_id, before = member.member_id, member.assignment
    share = plan.shares.get(member_id, b"")
    plan.records[member_id] = record = member_record(member, group.protocol_name, share)
    plan.size += len(record)
    plan.growth += COPIES * (len(share) - len(before))
    plan.given.append(share)
    plan.assignments.append((member_id, member.instance_id, share))
    if before:
        plan.previous[member_id] = before
    return record


def _add_by_policy(plan: Plan, group: Group, member: Member) -> bytes:
    """Add the member's part, with the assignment that the policy leaves it, and note what policies
    need to know of it.
    """
    member_id = member.member_id
    share = plan.shares.get(member_id, b"")
    if member_id in group.standbys:
        share = EMPTY_ASSIGNMENT
    elif group.rebalance is not None and group.rebalance.withheld:
        share = _without(group.rebalance.withheld, share)
    plan.shares[member_id] = share
    if group.policy is not None and group.protocol_type == CONSUMER:
        metadata = member.metadata(group.protocol_name)
        plan.has_user_data = plan.has_user_data or has_user_data(share, metadata)
        if group.seats:
            _look_at_seats(plan, group, member, share)
    return _add_to_plan(plan, group, member)


def _without(withheld: set[tuple[str, int]], share: bytes) -> bytes:
    """Return the share without partitions that members have which the leader did not see."""
    given = partitions_in(share)
    return share if given.isdisjoint(withheld) else assignment_of(sorted(given - withheld))


def _look_at_seats(plan: Plan, group: Group, member: Member, share: bytes) -> None:
    """Note which partitions are given to a member, and which are taken from the seat of one."""
    given = partitions_in(share)
    plan.taken |= given
    if member.member_id in group.seats:
        before = (group.old_plan or {}).get(member.member_id, member.assignment)
        plan.revoked |= partitions_in(before) - given


def _store_plan(group: Group, plan: Plan, step: Step) -> None:
    # The record has the time when the join phase ended, as in Kafka.
    value = group_value(group, plan.pieces, group.leader_id, len(plan.records))
    record = group_key(group.group_id), value
    most = step.config.message_max_bytes
    if size_of([record]) > most:
        _refuse_plan(group, ErrorCode.UNKNOWN_SERVER_ERROR, most, step)
        return
    if not group.member_bytes.may_assign(plan.growth):
        leader = group.members[group.leader_id or ""]
        who = Who.calling(plan.caller, leader.member_id, leader.instance_id)
        most = group.member_bytes.total.most_planned
        note_limit(group, "max_planned_bytes", most, who, step)
        _refuse_plan(group, ErrorCode.COORDINATOR_NOT_AVAILABLE, most, step)
        return
    if group.old_plan:
        plan.previous = group.old_plan | plan.previous
    group.assign_all(plan.given, plan.growth)
    group.forget_old_plan()
    group.become(GroupState.STABLE, step.wall)
    group.member_records = plan.records
    write_group(group, record, step)
    group.planned_generation, group.has_user_data = group.generation, plan.has_user_data
    answer_assigned(group, step)
    _note_completed(group, plan, step)
    if group.policy is not None or (group.rebalance and group.rebalance.target_size):
        _follow_policy(group, plan, step)


def _follow_policy(group: Group, plan: Plan, step: Step) -> None:
    """Do after a plan what the policy says, or what it said when all had joined."""
    note_refused(group, step)
    most = planning.target_size if (planning := planning_policy(group)) is not None else 0
    if group.rebalance is not None and group.rebalance.target_size != most:
        follow_policy(group, step)  # it was changed since all had joined
    plan_step(group, step)
    revoked = len(plan.revoked - plan.taken)
    if revoked:
        # A cooperative leader gives them to others in the next rebalance, which the member that had
        # them asks for; a lost one cannot.
        cause = Cause(CauseCode.SEAT_REVOKED, evidence={"revoked": revoked})
        prepare(group, cause, step)


def _note_completed(group: Group, plan: Plan, step: Step) -> None:
    rebalance = group.rebalance
    assert rebalance is not None
    fact = RebalanceCompleted(
        group.group_id,
        group.generation,
        group.state,
        group.round,
        members=len(group.members),
        duration_ms=step.now - rebalance.started_ms,
        leader_ms=step.now - rebalance.joined_ms,
        protocol_type=group.protocol_type,
        protocol=group.protocol_name or "",
        assignments=plan.assignments,
        previous=plan.previous,
        arrivals=rebalance.arrivals,
        metadata=_metadata_of_some(group, plan.previous, rebalance.arrivals),
    )
    rebalance.arrivals = {}
    step.note(fact)


def _metadata_of_some(
    group: Group, previous: Mapping[str, bytes], arrivals: Mapping[str, int]
) -> dict[str, bytes]:
    """Return the metadata of the first members that had an assignment before and rejoined: whether
    they kept their partitions meanwhile is the same for all members of a protocol.
    """
    rejoined = (each for each, share in previous.items() if share and each in arrivals)
    return {
        each: offered.metadata
        for each in islice(rejoined, METADATA_OF)
        for offered in group.members[each].protocols
        if offered.name == group.protocol_name
    }


def _refuse_plan(group: Group, error: ErrorCode, most: int, step: Step) -> None:
    """Refuse assignments that are too large for a message or for memory, and rebalance again."""
    leader = group.members[group.leader_id or ""]
    cause = Cause(CauseCode.ASSIGNMENT_LOST, leader.who, evidence={"limit": most})
    prepare(group, cause, step, error)


def sync_over(group: Group, step: Step) -> None:
    """Remove the members that joined and did not sync in time, also static ones (KAFKA-12890), and
    rebalance. If very many are absent, most of them are removed during the next join phase.
    """
    rebalance, members = group.rebalance, group.members
    assert rebalance is not None and group.pending_sync, "the timer ends with the last SyncGroup"
    rebalance.plan = None
    phase = Late(CauseCode.SYNC_TIMEOUT, rebalance.joined_ms, group.rebalance_timeout_ms)
    absent = list(group.pending_sync)
    first = [members[each] for each in absent[:REMOVED_AT_ONCE]]
    causes = [late(group, member, phase, step) for member in first]
    for member, cause in zip(first, causes, strict=True):
        remove(group, member, cause, step)
    left = absent[REMOVED_AT_ONCE:][::-1]
    prepare(group, causes[0], step, expelled=Expelled(phase, left) if left else None)
