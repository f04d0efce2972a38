"""The return of a static member: JoinGroup without a member id, with a known instance id.

KIP-345 as Kafka implements it: the member continues under a new id, and the old id is fenced at
once. In a Stable group this costs no rebalance while the elected protocol stays the same; in
CompletingRebalance it always does, because the leader may be assigning to the old id (KAFKA-9801).
A member that returns with the id it holds is an ordinary rejoin and not handled here.

Source: `GroupMetadataManager.classicGroupJoinNewStaticMember`,
`updateStaticMemberThenRebalanceOrCompleteJoin`.
"""

from groupkeeper.coordinator.deadlines import Timer, TimerKind
from groupkeeper.coordinator.facts import MemberReplaced
from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.coordinator.join_call import JoinCall, park
from groupkeeper.coordinator.likely import COORDINATOR_STALLED, Guess, Holder, runs
from groupkeeper.coordinator.liveness import (
    answered,
    came_back,
    heard_at,
    heartbeat_interval,
    rhythm,
)
from groupkeeper.coordinator.member import Member
from groupkeeper.coordinator.rebalance import prepare
from groupkeeper.coordinator.records import group_key, group_value, member_records, returned_record
from groupkeeper.coordinator.replies import (
    answer_join,
    answer_sync,
    join_refused,
    join_reply,
    joined_protocol,
)
from groupkeeper.coordinator.stalls import evidence_of
from groupkeeper.coordinator.step import Step, size_of
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.group_events import CauseCode
from groupkeeper.protocol.messages.join_group import JoinGroupResponse


def replace_static_member(group: Group, call: JoinCall, step: Step) -> None:
    """Give the member a new id, and rebalance if that is needed."""
    instance_id = call.request.group_instance_id or ""
    member = group.members[group.instances[instance_id]]
    new_id = step.new_member_id(instance_id)
    stable = group.state is GroupState.STABLE
    if stable and group.would_elect(member, call.protocols) == group.protocol_name:
        _keep_generation(group, member, new_id, call, step)
        return
    replaced = _replaced(group, member, False, call, step)
    _fence_and_rename(group, member, new_id, call, step)
    code = CauseCode.STATIC_MEMBER_RETURNED_UNREADY
    if stable:
        code = CauseCode.STATIC_MEMBER_RETURNED_CHANGED
    cause = call.cause(code, new_id)
    cause.likely, cause.evidence = replaced.likely, replaced.evidence
    _note(group, member, replaced, step)
    park(group, member, call, step)
    prepare(group, cause, step)


def _keep_generation(group: Group, member: Member, new_id: str, call: JoinCall, step: Step) -> None:
    """Write the new id and answer at the current generation; the other members notice nothing."""
    old_id, led = member.member_id, group.leader_id == member.member_id
    records = _records_with(group, member, new_id, call)
    leader = new_id if led else group.leader_id
    value = group_value(group, list(records.values()), leader)
    record = group_key(group.group_id), value
    if size_of([record]) > step.config.message_max_bytes:
        step.reply(call.reply_to, _too_large(group, call))
        return
    replaced = _replaced(group, member, True, call, step)
    _fence_and_rename(group, member, new_id, call, step)
    group.update(member, call.protocols, call.timeouts)
    group.member_records = records
    step.append(*record)
    response = join_reply(group, member, call.caller.api_version)
    if led:
        _tell_leader(response, old_id, call.caller.api_version)
    step.reply(call.reply_to, response)
    _note(group, member, replaced, step)


def _replaced(
    group: Group, member: Member, quick: bool, call: JoinCall, step: Step
) -> MemberReplaced:
    """Make the fact, with the fields that are known before the member has its new id."""
    away_ms = step.now - heard_at(group, member, step)
    instance, peer = member.instance_id or "", call.caller.peer
    ran = runs(away_ms, heartbeat_interval(member, step.now - away_ms))
    old = Holder(member.member_id, member.peer, ran)
    likely, evidence = group.history().replace(step.now, instance, old, peer)
    if likely is None:
        likely, evidence = _of_stall(step.now - away_ms, member, step)
    return MemberReplaced(
        *group.fact_head,
        who=member.who,
        old_member=member.member_id,
        quick=quick,
        away_ms=away_ms,
        likely=likely,
        evidence=evidence,
        timeouts=call.timeouts,
        rhythm=rhythm(member),
    )


def _of_stall(heard_ms: int, member: Member, step: Step) -> Guess:
    """Guess that the client gave its membership up, as the coordinator did not answer it."""
    stall = step.stalls.since(heard_ms, step.now)
    if stall is None or stall.duration_ms < member.session_timeout_ms:
        return None, {}
    return COORDINATOR_STALLED, evidence_of(stall, step.now)


def _note(group: Group, member: Member, replaced: MemberReplaced, step: Step) -> None:
    replaced.who = member.who
    step.note(replaced)


def _fence_and_rename(
    group: Group, member: Member, new_id: str, call: JoinCall, step: Step
) -> None:
    """Fence the old id, and refuse its parked requests."""
    old_id = member.member_id
    answer_join(group, member, ErrorCode.FENCED_INSTANCE_ID, step, old_id)
    answer_sync(member, ErrorCode.FENCED_INSTANCE_ID, step)
    step.deadlines.cancel(Timer(TimerKind.SESSION, group.group_id, old_id))
    if member.is_new:
        step.deadlines.cancel(Timer(TimerKind.NEW_MEMBER, group.group_id, old_id))
        member.is_new = False
    group.rename(member, new_id)
    came_back(group, old_id, step)
    member.peer, member.committed_ms = call.caller.peer, -1
    answered(member, step)
    member.beats_before = member.gap_ms = member.longest_gap_ms = 0
    # The first session has the old timeout; the request's holds from the next heartbeat on.
    timer = Timer(TimerKind.SESSION, group.group_id, new_id)
    step.deadlines.set(timer, step.now + member.session_timeout_ms)


def _records_with(group: Group, member: Member, new_id: str, call: JoinCall) -> dict[str, bytes]:
    """Return the members of the next group record: as before, except for this one.

    To be called before anything changes: a record that is too large must change nothing.
    """
    records = dict(group.member_records) or member_records(group)
    del records[member.member_id]
    records[new_id] = returned_record(
        member, new_id, call.protocols, call.timeouts, group.protocol_name
    )
    return records


def _tell_leader(response: JoinGroupResponse, old_id: str, version: int) -> None:
    """Answer a returning leader, which stays the leader, but must not compute assignments.

    From v9 on the reply says so (KIP-814). For older clients the reply contains the leader's *old*
    id, and no members.
    """
    if version >= 9:
        response.skip_assignment = True
    else:
        response.leader = old_id
        response.members = []


def _too_large(group: Group, call: JoinCall) -> JoinGroupResponse:
    """Answer as Kafka does when the group record exceeds the largest message (KAFKA-10284)."""
    error, version = ErrorCode.UNKNOWN_SERVER_ERROR, call.caller.api_version
    response = join_refused(error, version)
    response.generation_id = group.generation
    response.protocol_type = group.protocol_type if version >= 7 else None
    response.protocol_name = joined_protocol(group, version)
    response.leader = group.leader_id or ""
    return response
