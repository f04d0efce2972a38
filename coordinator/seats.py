"""Seats: places of lost members that are kept for a while, with their partitions.

A member whose session ends, or that leaves, may keep its place if the group's policy says so. It
stays in the group as a static member does that is offline: no other member is told, and leaders
assign to it. Its id is unknown for its own requests, it is never chosen as leader, and no join
phase waits for it. A client that comes back takes the seat under a new id and gets its assignment
without a rebalance (`coordinator.static_join`). All seats of a group end together, with the one
that was reserved first, so that they cost one rebalance; with the last living member they end at
once.

Incremental cooperative rebalancing calls this a delayed rebalance (Design II); workers of Kafka
Connect do it themselves (KIP-415). A seat is a record of its own beside the group's, so that
reserving one takes few bytes in a large group.
"""

from itertools import islice
from typing import Final

from groupkeeper.coordinator.answers import REMOVED_AT_ONCE
from groupkeeper.coordinator.caller import Peer
from groupkeeper.coordinator.causes import Cause
from groupkeeper.coordinator.deadlines import Timer, TimerKind
from groupkeeper.coordinator.facts import SeatReserved
from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.coordinator.join_call import JoinCall
from groupkeeper.coordinator.liveness import await_no_sync, gone, rhythm, seat_over, session_timer
from groupkeeper.coordinator.member import Member
from groupkeeper.coordinator.policy import ANY, BY_CLIENT_AND_HOST, LOST, RESERVED, Policy
from groupkeeper.coordinator.rebalance import add_cause, complete_early, prepare, remove
from groupkeeper.coordinator.records import seat_key, seat_value
from groupkeeper.coordinator.replies import answer_join, answer_sync
from groupkeeper.coordinator.second_round import unplaced
from groupkeeper.coordinator.soft_state import Seat, added
from groupkeeper.coordinator.standby import has_one_left, interval_end
from groupkeeper.coordinator.step import Step
from groupkeeper.coordinator.steps import forget_ask, plan_step, remove_quietly, stepping_policy
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.group_events import CauseCode

AFTER_LOAD_MS: Final = 10_000
"""Seats last at least so long after a load, or a stall: no client could come back meanwhile."""


def _timer(group: Group) -> Timer:
    return Timer(TimerKind.SEATS, group.group_id)


def _grace_ms(group: Group) -> int:
    return group.policy.grace_ms if group.policy is not None else 0


# -- a member is lost ------------------------------------------------------------------------------


def reserve(group: Group, member: Member, cause: Cause, step: Step) -> bool:
    """Reserve the seat of a member that would be removed for this cause. Returns False if it has to
    be removed: the policy does not reserve it, it holds nothing, the leader is just assigning to
    it, or no living member would be left.
    """
    policy, is_awaited = group.policy, group.state is GroupState.COMPLETING_REBALANCE
    if policy is None or is_awaited or not member.assignment:
        return False
    keep_ms = _keep_ms(group, member, cause, policy, step)
    if keep_ms <= 0 or has_one_left(group) or member.member_id in group.standbys:
        return False
    _reserve(group, member, cause, keep_ms, step)
    if group.state is GroupState.PREPARING_REBALANCE:
        complete_early(group, step)
    else:
        place_the_rest(group, member, step)
    return True


def place_the_rest(group: Group, member: Member, step: Step) -> bool:
    """Start the rebalance that a lost member of a Stable group cannot ask for, if the last plan
    took partitions from it that nobody has. Returns whether that was so.
    """
    if stepping_policy(group) is not None:  # the server gives them away
        plan_step(group, step)
        return False
    revoked = unplaced(group, member)
    if revoked:
        prepare(group, Cause(CauseCode.SEAT_REVOKED, evidence={"revoked": revoked}), step)
    return bool(revoked)


def _keep_ms(group: Group, member: Member, cause: Cause, policy: Policy, step: Step) -> int:
    """Return for how long the member's seat is reserved; 0 or less for not at all."""
    keep_ms = 0
    if policy.reserves(cause.code):
        grace_ms = 0 if _is_back(group, member, cause, step) else policy.grace_ms
        keep_ms = max(grace_ms, interval_end(group, policy) - step.now)
    if cause.code in RESERVED and not _is_last_to_go(group, member, policy):
        keep_ms = max(keep_ms, policy.expected_wait_ms)
    return keep_ms


def _is_back(group: Group, member: Member, cause: Cause, step: Step) -> bool:
    """Return whether a client of the same name has joined since the member was heard of last. It
    probably is the same one, whose old connection was not closed when it came: its machine was
    lost. Nobody else will come back.
    """
    policy = group.policy
    assert policy is not None and group.clients is not None, "kept while the group has a policy"
    if cause.code is not CauseCode.SESSION_EXPIRED or policy.seat_match == ANY:
        return False
    host = member.client_host if policy.seat_match == BY_CLIENT_AND_HOST else ""
    heard_ms = step.now - cause.evidence["silent_ms"]
    return group.clients.has_newer((member.client_id, host), heard_ms)


def _is_last_to_go(group: Group, member: Member, policy: Policy) -> bool:
    """Return whether no other static member is to go, too, that is not expected any more: these
    cost one rebalance together, with the last one.
    """
    expected = policy.expected
    if not expected or member.instance_id is None or member.instance_id in expected:
        return True
    leaving = group.instances.keys() - expected - {member.instance_id}
    return all(group.instances[each] in group.seats for each in leaving)


def end_unexpected(group: Group, step: Step) -> None:
    """Let the seats end at once if they are those of members that were to go, and all have gone."""
    policy = group.policy
    if policy is None or not policy.expected or not group.seats:
        return
    lost = [group.members[each].instance_id for each in group.seats]
    if all(each is not None and each not in policy.expected for each in lost):
        for seat in group.seats.values():
            seat.ends_ms = step.now
        step.deadlines.set(_timer(group), step.now)


def _reserve(group: Group, member: Member, cause: Cause, keep_ms: int, step: Step) -> None:
    member_id = member.member_id
    member.heard_ms = step.now - cause.evidence.get("silent_ms", 0)
    answer_join(group, member, ErrorCode.UNKNOWN_MEMBER_ID, step)
    answer_sync(member, ErrorCode.UNKNOWN_MEMBER_ID, step)
    step.deadlines.cancel(session_timer(group, member))
    forget_ask(group, member, step)
    gone(group, member, cause, step)
    seat = Seat(step.now, step.wall, cause.code, step.now + keep_ms)
    if not group.seats:
        step.deadlines.set(_timer(group), seat.ends_ms)
    group.seats = added(group.seats, member_id, seat)
    group.changes += 1
    await_no_sync(group, member, step)
    step.append(seat_key(group.group_id, member_id), seat_value(seat))
    fact = SeatReserved(
        *group.fact_head,
        who=member.who,
        cause=cause,
        assignment=member.assignment,
        until_ms=_left_ms(group, step),
        rhythm=rhythm(member),
    )
    step.note(fact)


def _left_ms(group: Group, step: Step) -> int:
    """Return how long the seats of the group last from now on."""
    return max(0, step.deadlines.due.get(_timer(group), step.now) - step.now)


# -- a client comes back ---------------------------------------------------------------------------


def seat_for(group: Group, call: JoinCall) -> Member | None:
    """Return the dynamic member that the client, which joins without an instance id, may continue
    as: a lost one that matches, or one whose process ended a moment ago, if it is the only member
    with this client id and host, and its connection is closed.
    """
    policy, peer = group.policy, call.caller.peer
    if policy is None or call.request.group_instance_id is not None:
        return None
    oldest = None
    for member_id in group.seats:
        member = group.members[member_id]
        if member.instance_id is not None:
            continue
        is_same_host = policy.seat_match != BY_CLIENT_AND_HOST or member.client_host == peer.host
        if member.client_id == peer.client_id and is_same_host:
            return member
        oldest = oldest or member
    if policy.seat_match == ANY:
        return oldest
    is_early = policy.grace_ms > 0 and LOST in policy.reserve_on
    return _ended_now(group, peer) if is_early else None


def _ended_now(group: Group, peer: Peer) -> Member | None:
    assert group.clients is not None, "kept while the group has a policy"
    member_id = group.clients.only_one((peer.client_id, peer.host))
    member = group.members.get(member_id or "")
    if member is None or member.peer is None or not member.peer.link.closed:
        return None
    return member


# -- nobody comes back -----------------------------------------------------------------------------


def seats_over(group: Group, step: Step) -> None:
    """End the seats of the group if the first one is over: remove the members, and rebalance. Very
    many take several steps.
    """
    first = next(iter(group.seats.values()), None)
    if first is None:
        return
    if first.ends_ms > step.now and not group.is_deserted:  # the first of before was taken
        step.deadlines.set(_timer(group), first.ends_ms)
        return
    ended = [
        (group.members[member_id], seat)
        for member_id, seat in islice(group.seats.items(), REMOVED_AT_ONCE)
    ]
    causes = [seat_over(member, seat, step) for member, seat in ended]
    is_quiet = False
    for (member, _), cause in zip(ended, causes, strict=True):
        is_quiet = remove_quietly(group, member, cause, step)
        if not is_quiet:
            remove(group, member, cause, step)
    if group.seats:
        step.deadlines.set(_timer(group), step.now)
    if is_quiet:
        return
    if group.state is GroupState.PREPARING_REBALANCE:
        add_cause(group, causes[0], step)
        complete_early(group, step)
    else:
        prepare(group, causes[0], step)


def restart_seats(group: Group, step: Step) -> None:
    """Start the timer of the seats after a load: what is left of their time by the wall clock.
    Without a living member they last only until clients had time to come back: those that were
    about to join, when the coordinator ended, are in no record.
    """
    for member_id, seat in group.seats.items():
        seat.since_ms = step.now - max(0, step.wall - seat.since_wall_ms)
        seat.ends_ms = max(seat.since_ms + _grace_ms(group), step.now + AFTER_LOAD_MS)
        group.members[member_id].heard_ms = seat.since_ms
    first = next(iter(group.seats.values()), None)
    if first is not None:
        alone_ms = step.now + AFTER_LOAD_MS
        step.deadlines.set(_timer(group), alone_ms if group.is_deserted else first.ends_ms)
    for member_id in () if group.is_deserted else group.seats:
        if place_the_rest(group, group.members[member_id], step):
            break


def policy_changed(group: Group, step: Step) -> None:
    """Let the seats end when the new policy says so."""
    for seat in group.seats.values():
        seat.ends_ms = max(step.now, seat.since_ms + _grace_ms(group))
    first = next(iter(group.seats.values()), None)
    if first is not None:
        step.deadlines.set(_timer(group), first.ends_ms)
