"""The return of a member under a new id: of a static member (JoinGroup without a member id, with a
known instance id), or to a seat that was reserved (`coordinator.seats`).

KIP-345 as Kafka implements it: the member continues under a new id, and the old id is fenced at
once. In a Stable group this costs no rebalance while the elected protocol stays the same; in
CompletingRebalance it always does, because the leader may be assigning to the old id (KAFKA-9801).
A member that returns with the id it holds is an ordinary rejoin and not handled here.

A seat is taken over in the same way, and a dynamic one by a client without an instance id, which
also has to subscribe to the same topics; its old id is unknown then.

Source: `GroupMetadataManager.classicGroupJoinNewStaticMember`,
`updateStaticMemberThenRebalanceOrCompleteJoin`.
"""

from typing import Any

from groupkeeper.coordinator.causes import Cause
from groupkeeper.coordinator.deadlines import Timer, TimerKind
from groupkeeper.coordinator.election import would_elect
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
from groupkeeper.coordinator.member import Member, metadata_for
from groupkeeper.coordinator.rebalance import complete_if_all_joined, prepare, write_group
from groupkeeper.coordinator.records import group_key, group_value, member_records, returned_record
from groupkeeper.coordinator.replies import (
    answer_join,
    answer_sync,
    join_refused,
    join_reply,
    joined_protocol,
    offered_as_held,
)
from groupkeeper.coordinator.second_round import unplaced
from groupkeeper.coordinator.stalls import evidence_of
from groupkeeper.coordinator.standby import active_count, is_too_large
from groupkeeper.coordinator.step import Step, size_of
from groupkeeper.coordinator.subscription import topics_of_all
from groupkeeper.protocol.embedded import CONSUMER, count_assigned
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.group_events import CauseCode
from groupkeeper.protocol.messages.join_group import JoinGroupResponse


def replace_static_member(group: Group, call: JoinCall, step: Step) -> None:
    """Give the member that holds the instance id a new id, and rebalance if that is needed."""
    instance_id = call.request.group_instance_id or ""
    member = group.members[group.instances[instance_id]]
    replace(group, member, step.new_member_id(instance_id), call, step)


def replace(group: Group, member: Member, new_id: str, call: JoinCall, step: Step) -> None:
    """Let the client that joins continue as `member`, under a new id; rebalance if needed."""
    stable = group.state is GroupState.STABLE
    if stable and _fits(group, member, call):
        _keep_generation(group, member, new_id, call, step)
        return
    replaced = _replaced(group, member, False, call, step)
    cause = call.cause(_code_of(group, member), new_id)
    revoked = unplaced(group, member) if stable and group.policy is not None else 0
    _fence_and_rename(group, member, new_id, call, step)
    cause.likely, cause.evidence = replaced.likely, replaced.evidence
    if revoked:
        cause = Cause(CauseCode.SEAT_REVOKED, member.who, evidence={"revoked": revoked})
    elif stable and is_too_large(group):  # one of those that have partitions has to stand by
        cause = Cause(CauseCode.POLICY_CHANGED, evidence={"active": active_count(group)})
    _note(group, member, replaced, step)
    park(group, member, call, step)
    if member.instance_id is None and group.state is GroupState.PREPARING_REBALANCE:
        complete_if_all_joined(group, step)  # a rejoin like any other
    else:
        prepare(group, cause, step)


def _fits(group: Group, member: Member, call: JoinCall) -> bool:
    """Return whether the assignment of the member is right for the client. For a static member the
    protocol decides, as in Kafka, unless the group has a policy: then nothing may be left over.
    """
    name = group.protocol_name
    if would_elect(group, member, call.protocols) != name:
        return False
    if group.policy is not None and (unplaced(group, member) or is_too_large(group)):
        return False
    if member.instance_id is not None and member.member_id not in group.seats:
        return True
    if group.protocol_type != CONSUMER:
        return not _is_known_leader(group, member)
    offered = metadata_for(name, call.protocols)
    return topics_of_all([member.metadata(name)]) == topics_of_all([offered])


def _is_known_leader(group: Group, member: Member) -> bool:
    """Return whether others know the member as their leader: workers of Connect do, by its id."""
    return group.protocol_type != CONSUMER and member.member_id == group.leader_id


def _code_of(group: Group, member: Member) -> CauseCode:
    """Return the code of the rebalance that the return starts."""
    stable = group.state is GroupState.STABLE
    if member.instance_id is None:
        changed = stable and not _is_known_leader(group, member)
        return CauseCode.SUBSCRIPTION_CHANGED if changed else CauseCode.MEMBER_JOINED
    if stable:
        return CauseCode.STATIC_MEMBER_RETURNED_CHANGED
    return CauseCode.STATIC_MEMBER_RETURNED_UNREADY


def _client_of(member: Member, call: JoinCall) -> tuple[str, str] | None:
    """Return client id and host to store for the member. None: as before, as of static members."""
    peer = call.caller.peer
    return (peer.client_id, peer.host) if member.instance_id is None else None


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
    if group.moves is not None:  # a static one may subscribe to other topics
        group.moves.is_alike = None
    group.member_records = records
    write_group(group, record, step)
    response = join_reply(group, member, call.caller.api_version)
    if led and group.moves is not None and group.moves.has_moved:
        # franz-go compares the assignments with a plan of its own, and would force a rebalance.
        response.leader, response.members = "", []
    elif led:
        _tell_leader(response, old_id, call.caller.api_version)
        if member.instance_id is None and response.skip_assignment:
            response.members = offered_as_held(group)
    step.reply(call.reply_to, response)
    _note(group, member, replaced, step)


def _replaced(
    group: Group, member: Member, quick: bool, call: JoinCall, step: Step
) -> MemberReplaced:
    """Make the fact, with the fields that are known before the member has its new id."""
    away_ms = step.now - heard_at(group, member, step)
    likely, evidence = _guessed(group, member, away_ms, call, step)
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


def _guessed(group: Group, member: Member, away_ms: int, call: JoinCall, step: Step) -> Guess:
    likely: str | None = None
    evidence: dict[str, Any] = {}
    if member.instance_id is not None:
        ran = runs(away_ms, heartbeat_interval(member, step.now - away_ms))
        old = Holder(member.member_id, member.peer, ran)
        likely, evidence = group.history().replace(
            step.now, member.instance_id, old, call.caller.peer
        )
    if likely is None:
        likely, evidence = _of_stall(step.now - away_ms, member, step)
    seat = group.seats.get(member.member_id)
    if seat is not None:
        evidence |= {"reserved_ms": step.now - seat.since_ms, "lost_by": str(seat.code)}
    elif member.instance_id is None:
        evidence |= {"reserved_ms": 0, "connection": "closed"}
    if seat is not None or member.instance_id is None:
        evidence["partitions"] = count_assigned(member.assignment)
    return likely, evidence


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
    old_id, error = member.member_id, ErrorCode.FENCED_INSTANCE_ID
    if member.instance_id is None:
        error = ErrorCode.UNKNOWN_MEMBER_ID
    answer_join(group, member, error, step, old_id)
    answer_sync(member, error, step)
    step.deadlines.cancel(Timer(TimerKind.ASKED, group.group_id, old_id))
    step.deadlines.cancel(Timer(TimerKind.SESSION, group.group_id, old_id))
    if member.is_new:
        step.deadlines.cancel(Timer(TimerKind.NEW_MEMBER, group.group_id, old_id))
        member.is_new = False
    group.rename(member, new_id, _client_of(member, call))
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
        member, new_id, call.protocols, call.timeouts, group.protocol_name, _client_of(member, call)
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
