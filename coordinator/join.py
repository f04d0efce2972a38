"""JoinGroup: checks whether a member may join, and adds or updates it.

The checks are in Kafka's order, and the first that fails gives the error. Implements KIP-345
(static members, as in Kafka's code), KIP-389 (maximum group size), KIP-394 (join in two steps) and
KIP-814 (a leader that returns computes no assignments).

Source: `GroupMetadataManager.classicGroupJoinToClassicGroup`, `acceptJoiningMember`,
`classicGroupJoinNewMember`, `classicGroupJoinExistingMember`.
"""

from collections.abc import Mapping
from functools import lru_cache
from sys import intern
from typing import Final

from groupkeeper.coordinator.caller import Caller, ReplyTo
from groupkeeper.coordinator.causes import Cause
from groupkeeper.coordinator.config import (
    MAX_PENDING_MEMBERS,
    MAX_PROTOCOLS,
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    GroupConfig,
)
from groupkeeper.coordinator.deadlines import Timer, TimerKind
from groupkeeper.coordinator.election import accepts
from groupkeeper.coordinator.facts import (
    LimitName,
    MemberJoined,
    MemberRejoined,
    PendingMemberDropped,
)
from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.coordinator.groups import Groups, note_created, note_group_refused
from groupkeeper.coordinator.join_call import JoinCall, differences, new_member, park
from groupkeeper.coordinator.likely import COORDINATOR_STALLED
from groupkeeper.coordinator.liveness import contacted
from groupkeeper.coordinator.member import Member, PendingMember
from groupkeeper.coordinator.member_bytes import MEMBER_BYTES, bytes_of
from groupkeeper.coordinator.policy import REFUSE
from groupkeeper.coordinator.prolong import give_up
from groupkeeper.coordinator.rebalance import (
    add_cause,
    complete_early,
    complete_if_all_joined,
    drop_pending,
    prepare,
    remove,
)
from groupkeeper.coordinator.records import empty_group_record
from groupkeeper.coordinator.rejoin_cause import rejoin_cause
from groupkeeper.coordinator.replies import check_member, join_reply, note_limit, refused
from groupkeeper.coordinator.scaling import admit, answer_asked, policy_for
from groupkeeper.coordinator.seats import seat_for
from groupkeeper.coordinator.static_join import replace, replace_static_member
from groupkeeper.coordinator.step import Step, size_of
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.group_events import CauseCode
from groupkeeper.protocol.messages.join_group import JoinGroupRequest

UTF8_MOST: Final = 4
"""The most bytes of a UTF-8 character."""
EMPTY_RECORD_BYTES: Final = 200
"""Upper bound of a batch with the record of an Empty group, without its names."""


def join_error(request: JoinGroupRequest, version: int, config: GroupConfig) -> ErrorCode:
    """Return the error of a request that no group accepts. Rebalance timeouts have no bounds."""
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    session_ms = request.session_timeout_ms
    if config.min_session_timeout_ms <= session_ms <= config.max_session_timeout_ms:
        return ErrorCode.NONE
    return ErrorCode.INVALID_SESSION_TIMEOUT


def join(
    groups: Groups, request: JoinGroupRequest, caller: Caller, reply_to: ReplyTo, step: Step
) -> None:
    """Answer a JoinGroup, or let it wait for the end of the join phase."""
    call = JoinCall(request, caller, reply_to)
    member_id = request.member_id
    error = join_error(request, caller.api_version, step.config)
    if error:
        call.refuse(error, step, member_id)
        return
    group = groups.get(request.group_id)
    if group is None:
        if member_id:  # a member id never creates a group
            error = refused(None, request, "JoinGroup", ErrorCode.UNKNOWN_MEMBER_ID, caller, step)
            call.refuse(error, step, member_id)
            return
        if len(groups) >= step.config.max_groups:
            call.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE, step)
            note_group_refused(request.group_id, call.who(member_id), step)
            return
        group = groups.create_unused(request.group_id, call.who(""), step)
    was_used = bool(group.members)
    _join_group(group, call, step)
    if group.members and not was_used:
        groups.count_used(group.group_id)
    if len(step.pending) > MAX_PENDING_MEMBERS:
        give_up_pending(groups, next(iter(step.pending)), False, step)


def _join_group(group: Group, call: JoinCall, step: Step) -> None:
    member_id = call.request.member_id
    is_refused = group.policy is not None and _is_refused(group, call)
    if is_refused or not _has_room(group, call, step):
        _turn_away(group, call, step.config.max_size, step)
        return
    error, limit, most = _admission_error(group, call, step.config)
    if error:
        call.refuse(error, step, member_id)
        if limit:
            note_limit(group, limit, most, call.who(member_id), step)
        return
    if member_id:
        _join_with_id(group, call, step)
        return
    _join_without_id(group, call, step)


def _admission_error(
    group: Group, call: JoinCall, config: GroupConfig
) -> tuple[ErrorCode, LimitName | None, int]:
    """Return why the group refuses the request: the error, and the name and value of the limit that
    it exceeds, if there is one.
    """
    request, total = call.request, group.member_bytes.total
    if len(request.protocols) > MAX_PROTOCOLS:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "max_protocols", MAX_PROTOCOLS
    if not accepts(group, request.protocol_type, request.protocols):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL, None, 0
    metadata, size = _growth(call, _known(group, request))
    if group.metadata_bytes + metadata > (most := config.max_metadata_bytes):
        return ErrorCode.UNKNOWN_SERVER_ERROR, "max_metadata_bytes", most
    if not _fits(group, request.protocol_type, most := config.message_max_bytes):
        return ErrorCode.UNKNOWN_SERVER_ERROR, "message_max_bytes", most
    if not group.member_bytes.may_join(size):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE, "max_member_bytes", total.most
    return ErrorCode.NONE, None, 0


def _fits(group: Group, protocol_type: str, most: int) -> bool:
    """Return whether the record of the Empty group fits into a batch: it is written when the last
    member leaves, which cannot be refused.
    """
    characters = len(group.group_id) + len(protocol_type)
    if characters * UTF8_MOST + EMPTY_RECORD_BYTES <= most:  # nearly always
        return True
    return size_of([empty_group_record(group.group_id, protocol_type)]) <= most


def _known(group: Group, request: JoinGroupRequest) -> Member | None:
    """Return the member that sent the request or is replaced by its sender."""
    known = group.instances.get(request.group_instance_id or "", request.member_id)
    return group.members.get(known)


def _growth(call: JoinCall, member: Member | None) -> tuple[int, int]:
    """Return by how many bytes the metadata of the group's members would grow, and all their data.
    The request replaces the protocols of `member`.
    """
    request = call.request
    metadata, size = bytes_of(request.protocols)
    if member is not None:
        metadata_before, before = bytes_of(member.protocols)
        return metadata - metadata_before, size - before
    names = len(request.group_instance_id or "") + len(call.caller.peer.client_id)
    return metadata, MEMBER_BYTES + names + size


def _has_room(group: Group, call: JoinCall, step: Step) -> bool:
    """Return whether the group has room (KIP-389). In a join phase, the first `max_size` members
    that join have room, whether they are new or not. A seat is room for the client that takes it.
    """
    max_size, member_id = step.config.max_size, call.request.member_id
    if len(group.members) < max_size or group.state is GroupState.EMPTY:
        return True
    member = group.members.get(member_id)
    if group.state is GroupState.PREPARING_REBALANCE:
        waiting = member is not None and member.awaiting_join is not None
        has_room = waiting or group.joined_count + len(group.seats) < max_size
    else:
        has_room = member is not None
    return has_room or (member is None and seat_for(group, call) is not None)


def _is_refused(group: Group, call: JoinCall) -> bool:
    """Return whether the policy refuses the sender as a newcomer that is not expected."""
    policy, request = group.policy, call.request
    if policy is None or policy.unexpected != REFUSE or not policy.expected:
        return False
    if policy_for(group, call) is None:
        return False
    return request.member_id not in group.members and (
        request.group_instance_id not in policy.expected | group.instances.keys()
    )


def _turn_away(group: Group, call: JoinCall, max_size: int, step: Step) -> None:
    """Refuse a JoinGroup of a full group, or of a newcomer that is not expected, and remove its
    sender if it is a member or pending.
    """
    member_id, error = call.request.member_id, ErrorCode.GROUP_MAX_SIZE_REACHED
    if member_id in group.members:
        cause = call.cause(CauseCode.GROUP_SHRUNK, member_id)
        cause.evidence = {"limit": max_size}
        remove(group, group.members[member_id], cause, step)
        add_cause(group, cause, step)
    else:
        refused(group, call.request, "JoinGroup", error, call.caller, step)
    if member_id in group.pending:
        drop_pending(group, member_id, step)
    call.refuse(error, step)
    complete_if_all_joined(group, step)


# -- without a member id: a new member, or a static member that restarted ------------------------


def _join_without_id(group: Group, call: JoinCall, step: Step) -> None:
    request, caller = call.request, call.caller
    instance_id = request.group_instance_id
    if instance_id is not None:
        if instance_id in group.instances:
            replace_static_member(group, call, step)
            return
        new_id = step.new_member_id(instance_id)
        cause = call.cause(CauseCode.STATIC_MEMBER_JOINED, new_id)
        cause.evidence = _how_long_a_restart_may_take(call.timeouts[0])
        _admit_or_add(group, call, new_id, cause, step)
        return
    new_id = step.new_member_id(caller.peer.client_id)
    if caller.api_version >= 4:  # KIP-394: hand out an id, with which the client joins
        pending = PendingMember(call.who(new_id), request.session_timeout_ms)
        group.pending[new_id] = pending
        timer = Timer(TimerKind.PENDING_MEMBER, group.group_id, new_id)
        step.deadlines.set(timer, step.now + request.session_timeout_ms)
        step.pending[timer] = None
        call.refuse(ErrorCode.MEMBER_ID_REQUIRED, step, new_id)
        return
    _take_or_add(group, call, new_id, step)


def _take_or_add(group: Group, call: JoinCall, member_id: str, step: Step) -> None:
    """Give a dynamic newcomer the seat of a lost member that matches, or add it."""
    lost = None if group.policy is None else seat_for(group, call)
    if lost is None:
        cause = call.cause(CauseCode.MEMBER_JOINED, member_id)
        _admit_or_add(group, call, member_id, cause, step)
    else:
        replace(group, lost, member_id, call, step)


def _admit_or_add(group: Group, call: JoinCall, member_id: str, cause: Cause, step: Step) -> None:
    """Let a newcomer in without partitions, if the group's policy says so, or add it."""
    if group.policy is None or not admit(group, call, member_id, cause, step):
        _add(group, call, member_id, cause, step)


@lru_cache(maxsize=256)
def _how_long_a_restart_may_take(session_timeout_ms: int) -> Mapping[str, int]:
    """Return evidence that thousands of causes have in common."""
    return {"session_timeout_ms": session_timeout_ms}


def _add(group: Group, call: JoinCall, member_id: str, cause: Cause, step: Step) -> None:
    request, caller = call.request, call.caller
    if group.state is GroupState.EMPTY:
        if not group.was_used:
            note_created(group, call.who(""), step)
        group.protocol_type = intern(request.protocol_type)
    elif group.rebalance is not None and group.rebalance.initial_delay:
        group.rebalance.newcomers = True
    timeouts = call.timeouts
    stalled = give_up(group, caller.peer, timeouts[0], step)
    member = new_member(call, member_id, step)
    group.add(member)
    group.park_join(member, call.reply_to, caller.api_version, step.now)
    if stalled is not None:
        cause.likely, cause.evidence = COORDINATOR_STALLED, {**cause.evidence, **stalled}
    elif group.recent is not None:
        guess = group.recent.join(step.now, member.instance_id, caller.peer)
        cause.likely, cause.evidence = guess[0], {**cause.evidence, **guess[1]}
    step.note(MemberJoined(*group.fact_head, member.who, cause, timeouts))
    prepare(group, cause, step)
    if member.awaiting_join is not None:
        # A session could expire during the first join phase, so a longer timer stands in for it.
        timer = Timer(TimerKind.NEW_MEMBER, group.group_id, member_id)
        step.deadlines.set(timer, step.now + NEW_MEMBER_JOIN_TIMEOUT_MS)


# -- with a member id ----------------------------------------------------------------------------


def _join_with_id(group: Group, call: JoinCall, step: Step) -> None:
    request = call.request
    member_id, instance_id = request.member_id, request.group_instance_id
    if member_id in group.pending:
        if instance_id is not None:  # static members never get a pending id
            call.refuse(ErrorCode.UNKNOWN_SERVER_ERROR, step)
            return
        drop_pending(group, member_id, step)
        _take_or_add(group, call, member_id, step)
        return
    error = check_member(group, request, "JoinGroup", call.caller, step)
    if error:
        call.refuse(error, step, member_id)
        return
    _rejoin(group, group.members[member_id], call, step)


def _rejoin(group: Group, member: Member, call: JoinCall, step: Step) -> None:
    changed = member.protocols != call.protocols
    preparing = group.state is GroupState.PREPARING_REBALANCE
    timeouts = member.session_timeout_ms, member.rebalance_timeout_ms
    if changed or not preparing or timeouts != call.timeouts:
        differs = tuple(differences(member, call))
        step.note(MemberRejoined(*group.fact_head, member.who, differs, call.timeouts))
    if not preparing and group.policy is not None and answer_asked(group, member, call, step):
        return
    if preparing:
        cause = rejoin_cause(group, member, call, step) if changed else None
        park(group, member, call, step)
        if cause is not None and cause.code is CauseCode.SUBSCRIPTION_CHANGED:
            add_cause(group, cause, step)
        complete_if_all_joined(group, step)
        return
    leads = member.member_id == group.leader_id
    if not changed and (group.state is GroupState.COMPLETING_REBALANCE or not leads):
        # Repeat an answer that was lost. In Stable, only a leader that rejoins starts a rebalance.
        contacted(group, member, call.caller.peer, step)
        step.reply(call.reply_to, join_reply(group, member, call.caller.api_version))
        return
    cause = rejoin_cause(group, member, call, step)
    park(group, member, call, step)
    prepare(group, cause, step)


# -- ids that were handed out --------------------------------------------------------------------


def give_up_pending(groups: Groups, timer: Timer, expired: bool, step: Step) -> None:
    """Drop a pending id (KIP-394), and end the join phase if nothing else is awaited. `expired`:
    its session timeout has passed; otherwise pending ids exceed their limit.

    Source: `GroupMetadataManager.removePendingMemberAndUpdateClassicGroup`.
    """
    group, member_id = groups[timer.group_id], timer.member_id
    pending = group.pending[member_id]
    drop_pending(group, member_id, step)
    evidence, who = {"session_timeout_ms": pending.session_timeout_ms}, pending.who
    if not expired:
        evidence["limit"] = MAX_PENDING_MEMBERS
    cause = Cause(CauseCode.PENDING_MEMBER_EXPIRED, who, evidence=evidence)
    head, of_used = group.fact_head, group.was_used
    step.note(PendingMemberDropped(*head, who=who, cause=cause, expired=expired, of_used=of_used))
    if not expired:
        note_limit(group, "max_pending_members", MAX_PENDING_MEMBERS, who, step)
    complete_early(group, step)
