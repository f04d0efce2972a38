"""Members that come and go without a rebalance: newcomers that wait for others, and standbys that
take over from lost members. Which members get partitions in a rebalance is decided in
`coordinator.standby`.

A newcomer of a Stable group may be answered at once with the present generation, as a follower, and
gets an assignment without partitions: what a consumer sees that comes to more members than
partitions. A spare that takes over is *asked*: its next heartbeat is answered
REBALANCE_IN_PROGRESS, the JoinGroup that it sends then with the present generation, and its
SyncGroup with its new partitions. Apache Kafka does the same with classic members of a group of the
new protocol (KIP-848); no other member is told of it.
"""

from typing import Any, Final, NamedTuple

from groupkeeper.coordinator.causes import Cause
from groupkeeper.coordinator.deadlines import Timer, TimerKind
from groupkeeper.coordinator.election import resubscribe
from groupkeeper.coordinator.facts import (
    MemberJoined,
    PolicyRefused,
    RebalanceDeferred,
    StandbyActivated,
)
from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.coordinator.groups import note_created
from groupkeeper.coordinator.join_call import JoinCall, new_member
from groupkeeper.coordinator.liveness import answered, contacted, seat_over, session_timer
from groupkeeper.coordinator.member import Member, Protocols, metadata_for
from groupkeeper.coordinator.policy import (
    EXPECTED_IDS,
    MIN_INTERVAL,
    REMOTE_ASSIGNOR,
    STAND_BY,
    TARGET_SIZE,
    UNEXPECTED,
    WINDOW,
    Policy,
)
from groupkeeper.coordinator.rebalance import begin_generation, prepare, remove, write_group
from groupkeeper.coordinator.records import group_key, group_value, member_record, member_records
from groupkeeper.coordinator.replies import join_reply
from groupkeeper.coordinator.second_round import unplaced
from groupkeeper.coordinator.soft_state import AskState, Moves, ScaleWindow, added
from groupkeeper.coordinator.standby import (
    EMPTY_ASSIGNMENT,
    STREAMS,
    active_count,
    has_one_left,
    interval_end,
    is_too_large,
    planning_policy,
)
from groupkeeper.coordinator.step import Step, size_of
from groupkeeper.coordinator.steps import (
    ask,
    has_idle,
    has_rejoined,
    is_incomplete,
    is_watched,
    plan_step,
    stepping_policy,
    topics_differ,
)
from groupkeeper.coordinator.subscription import topics_of_all
from groupkeeper.protocol.embedded import with_owned
from groupkeeper.protocol.group_events import CauseCode

NAMED: Final = 20
"""How many expected members that are missing a cause names."""
PLANNING: Final = (EXPECTED_IDS, MIN_INTERVAL, WINDOW, TARGET_SIZE, REMOTE_ASSIGNOR)
"""Configs of policies that decide which members get partitions."""
SYNCS_MS: Final = 500
"""A newcomer has asked for its assignment by then, and need not be asked to rejoin right away."""
WINDOW_FACTOR: Final = 3
"""A window lasts at most so many times its length, however many newcomers come."""


class _Wait(NamedTuple):
    """Why a newcomer gets no partitions for now."""

    policy: str
    until: int | None
    """Monotonic; None for as long as enough other members are there."""


# -- newcomers -------------------------------------------------------------------------------------


def policy_for(group: Group, call: JoinCall) -> Policy | None:
    """Return the group's policy if it may decide what becomes of a newcomer, else None."""
    is_streams = any(each.name == STREAMS for each in call.protocols)
    return None if is_streams else planning_policy(group, call.request.protocol_type)


def admit(group: Group, call: JoinCall, member_id: str, cause: Cause, step: Step) -> bool:
    """Let a newcomer of a Stable group in without a rebalance and without partitions, if the policy
    says so. Returns False if it has to join as in Kafka.
    """
    policy = policy_for(group, call)
    if policy is None:
        return False
    is_first = group.state is GroupState.EMPTY and not group.pending
    if not is_first and not (group.state is GroupState.STABLE and _subscribes_alike(group, call)):
        return False
    wait = _wait_of(group, policy, call, step)
    if wait is None or (is_first and wait.policy != EXPECTED_IDS):
        return False
    if is_first:
        _open(group, call, step)
    _let_in(group, call, new_member(call, member_id, step), cause, wait, step)
    return True


def _open(group: Group, call: JoinCall, step: Step) -> None:
    """Make an Empty group Stable without a plan: nobody has partitions until all are there."""
    note_created(group, call.who(""), step)
    group.protocol_type = call.request.protocol_type
    group.protocol_name = call.protocols[0].name
    begin_generation(group)
    for state in (
        GroupState.PREPARING_REBALANCE,
        GroupState.COMPLETING_REBALANCE,
        GroupState.STABLE,
    ):
        group.become(state, step.wall)


def _let_in(
    group: Group, call: JoinCall, member: Member, cause: Cause, wait: _Wait, step: Step
) -> None:
    member_id = member.member_id
    member.is_new, member.assignment = False, EMPTY_ASSIGNMENT
    group.add(member)
    if wait.policy == REMOTE_ASSIGNOR:
        plan_step(group, step, SYNCS_MS)
    else:
        group.standbys = added(group.standbys, member_id, None)
    if group.member_records:
        group.member_records[member_id] = member_record(member, group.protocol_name)
    answered(member, step)
    step.deadlines.set(session_timer(group, member), step.now + member.session_timeout_ms)
    if len(group.members) == 1:
        resubscribe(group)
    reply = join_reply(group, member, call.caller.api_version)
    if len(group.standbys) == len(group.members):  # nobody leads: there is nothing to assign
        reply.leader, reply.members = "", []
    step.reply(call.reply_to, reply)
    step.note(MemberJoined(*group.fact_head, member.who, cause, call.timeouts))
    if wait.until is not None:
        window = group.window = group.window or ScaleWindow(step.now)
        window.newcomers += 1
        step.deadlines.set(Timer(TimerKind.WINDOW, group.group_id), wait.until)
    for_ms = None if wait.until is None else wait.until - step.now
    fact = RebalanceDeferred(
        *group.fact_head, who=member.who, cause=cause, policy=wait.policy, for_ms=for_ms
    )
    step.note(fact)
    if wait.policy == TARGET_SIZE:
        _take_a_seat(group, member, step)


def _take_a_seat(group: Group, spare: Member, step: Step) -> None:
    """Give a newcomer beyond the target size the partitions of the member that was lost first."""
    lost_id, seat = next(iter(group.seats.items()), ("", None))
    lost = group.members.get(lost_id)
    if is_too_large(group):
        return
    if seat is not None and lost is not None and _are_alike(group, lost, spare):
        _hand_over(group, lost, spare, seat_over(lost, seat, step), step)


def _subscribes_alike(group: Group, call: JoinCall) -> bool:
    """Return whether the newcomer could have the partitions of any member."""
    name = group.protocol_name
    if all(each.name != name for each in call.protocols):
        return False
    return topics_of_all([metadata_for(name, call.protocols)]) == group.subscription


def _wait_of(group: Group, policy: Policy, call: JoinCall, step: Step) -> _Wait | None:
    since = group.window.since_ms if group.window is not None else step.now
    if policy.expected and call.request.group_instance_id not in policy.expected:
        if policy.unexpected == STAND_BY:
            return _Wait(UNEXPECTED, None)
    elif policy.expected:
        missing = policy.expected - group.instances.keys() - {call.request.group_instance_id or ""}
        if missing:
            return _Wait(EXPECTED_IDS, max(since + policy.expected_wait_ms, step.now))
        if group.window is not None:
            return _Wait(EXPECTED_IDS, step.now)
    if policy.target_size and active_count(group) >= policy.target_size:
        return _Wait(TARGET_SIZE, None)
    if stepping_policy(group):
        return _Wait(REMOTE_ASSIGNOR, None)
    interval_ends = interval_end(group, policy)
    most = since + WINDOW_FACTOR * policy.window_ms
    window_ends = min(step.now + policy.window_ms, most)
    ends = max(interval_ends, window_ends)
    if ends <= step.now:
        return None
    return _Wait(WINDOW if window_ends >= interval_ends else MIN_INTERVAL, ends)


def window_over(group: Group, step: Step) -> None:
    """Start the rebalance in which the newcomers get partitions."""
    window, group.window = group.window, None
    if window is None or group.state is not GroupState.STABLE:
        return
    code, policy = CauseCode.WINDOW_OVER, group.policy
    evidence: dict[str, Any] = {
        "newcomers": window.newcomers,
        "waited_ms": step.now - window.since_ms,
    }
    if policy is not None and policy.expected:
        missing = sorted(policy.expected - group.instances.keys())
        code = CauseCode.EXPECTED_MISSING if missing else CauseCode.EXPECTED_COMPLETE
        evidence |= {"missing": missing[:NAMED], "count": len(missing)} if missing else {}
    prepare(group, Cause(code, evidence=evidence), step)


# -- spares ----------------------------------------------------------------------------------------


def take_over(group: Group, lost: Member, cause: Cause, step: Step) -> bool:
    """Remove a member of a Stable group for this cause without a rebalance: a standby gets its
    partitions, or it had none. Returns False if a rebalance is needed.
    """
    if group.state is not GroupState.STABLE or has_one_left(group) or lost.member_id in group.seats:
        return False
    if lost.member_id in group.standbys:
        if unplaced(group, lost):  # it stood by since the last plan, and has not rejoined
            return False
        group.member_records.pop(lost.member_id, None)
        remove(group, lost, cause, step)
        return True
    policy = planning_policy(group)
    if policy is None or not policy.target_size or active_count(group) > policy.target_size:
        return False
    spare = None if unplaced(group, lost) else _spare_for(group, lost)
    if spare is None or not _hand_over(group, lost, spare, cause, step):
        return False
    ask(group, spare, step)
    return True


def _spare_for(group: Group, lost: Member) -> Member | None:
    """Return the standby that waits longest and subscribes to the same topics."""
    for member_id in group.standbys:
        if _are_alike(group, lost, group.members[member_id]):
            return group.members[member_id]
    return None


def _are_alike(group: Group, one: Member, other: Member) -> bool:
    """Return whether two members subscribe to the same topics."""
    name = group.protocol_name
    return topics_of_all([one.metadata(name)]) == topics_of_all([other.metadata(name)])


def _hand_over(group: Group, lost: Member, spare: Member, cause: Cause, step: Step) -> bool:
    """Write the group's record with the new owner. False: the record is too large."""
    share = lost.assignment
    records = dict(group.member_records) or member_records(group)
    records.pop(lost.member_id, None)
    records[spare.member_id] = member_record(spare, group.protocol_name, share)
    leader = group.leader_id
    if leader == lost.member_id:
        others = (each for each in group.members if each != leader and each not in group.standbys)
        leader = next(others, spare.member_id)
    record = group_key(group.group_id), group_value(group, list(records.values()), leader)
    if size_of([record]) > step.config.message_max_bytes:
        return False
    group.assign(lost, b"")
    remove(group, lost, cause, step)
    group.assign(spare, share)
    del group.standbys[spare.member_id]
    group.leader_id, group.member_records = leader, records
    group.moves = group.moves or Moves()
    group.moves.has_moved = True
    write_group(group, record, step)
    fact = StandbyActivated(
        *group.fact_head,
        who=spare.who,
        old_member=lost.member_id,
        cause=cause,
        assignment=share,
        silent_ms=cause.evidence.get("silent_ms", 0),
    )
    step.note(fact)
    return True


# -- asking a member -------------------------------------------------------------------------------


def answer_asked(group: Group, member: Member, call: JoinCall, step: Step) -> bool:
    """Answer the JoinGroup of a member that was asked. Returns False if it has to be handled as any
    other: it was not asked, or subscribes to other topics than before.
    """
    name = group.protocol_name
    is_asked = member.member_id in group.asked
    if group.state is not GroupState.STABLE or not (
        is_asked or stepping_policy(group) or _wants_nothing_new(group, member, call, step)
    ):
        return False
    leads = member.member_id == group.leader_id
    if is_asked and leads and not stepping_policy(group) and is_incomplete(group, step):
        return False  # only a plan of it gives the rest away
    before, after = member.metadata(name), metadata_for(name, call.protocols)
    if topics_of_all([before]) != topics_of_all([after]):
        return False
    contacted(group, member, call.caller.peer, step)
    group.update(member, call.protocols, call.timeouts)
    if is_asked:
        has_rejoined(group, member, after, step)
        group.asked[member.member_id] = AskState.JOINED
    else:  # a leader that wants a rebalance: the server looks instead
        plan_step(group, step)
    reply = join_reply(group, member, call.caller.api_version)
    if leads:  # it must not assign
        reply.leader, reply.members = "", []
    step.reply(call.reply_to, reply)
    return True


def _wants_nothing_new(group: Group, member: Member, call: JoinCall, step: Step) -> bool:
    """Return whether a leader rejoins with the metadata that it had, and the server, which watches
    the topics, knows that they are what they were (KAFKA-7728), and that no partition is left over,
    of which the leader may not have known before.
    """
    if member.member_id != group.leader_id or not is_watched(group) or topics_differ(group, step):
        return False
    is_same = _without_owned(member.protocols) == _without_owned(call.protocols)
    return is_same and not is_incomplete(group, step)


def _without_owned(protocols: Protocols) -> list[tuple[str, bytes]]:
    """Return the protocols as a consumer offers them that holds nothing."""
    return [(each.name, with_owned(each.metadata, EMPTY_ASSIGNMENT, -1)) for each in protocols]


def asked_over(group: Group, member_id: str, step: Step) -> Cause:
    """Return the cause to remove a member that was asked and did not take its partitions."""
    member = group.members[member_id]
    waited = {"waited_ms": max(member.rebalance_timeout_ms, member.session_timeout_ms)}
    return Cause(CauseCode.JOIN_TIMEOUT, member.who, evidence=waited)


# -- the policy itself -----------------------------------------------------------------------------


def note_refused(group: Group, step: Step) -> None:
    """Note that the group's assignor keeps data of its own, so that its policies do nothing."""
    policy = group.policy
    if policy is not None and policy.plans and planning_policy(group) is None:
        names = [name for name in PLANNING if name in policy.on()]
        step.note(PolicyRefused(*group.fact_head, policies=names, protocol=group.protocol_name))


def follow_policy(group: Group, step: Step, was_served: bool = False) -> None:
    """Rebalance a Stable group if a changed policy gives more or fewer members partitions, or if
    newcomers need not wait any more. `was_served`: the server assigned until now.
    """
    if group.state is not GroupState.STABLE:
        return
    plan_step(group, step)
    policy = planning_policy(group)
    waits = policy is not None and (policy.window_ms or policy.min_interval_ms or policy.expected)
    is_complete = policy is None or policy.expected <= group.instances.keys()
    if group.window is not None and (not waits or (policy and policy.expected and is_complete)):
        step.deadlines.set(Timer(TimerKind.WINDOW, group.group_id), step.now)
        return
    most = policy.target_size if policy is not None else 0
    waiting = group.window.newcomers if group.window is not None else 0
    wanted = min(most or len(group.members), len(group.members))
    is_left = was_served and not stepping_policy(group) and has_idle(group)
    if is_left or active_count(group) + waiting < wanted or active_count(group) > wanted:
        evidence = {"active": active_count(group), "wanted": wanted}
        prepare(group, Cause(CauseCode.POLICY_CHANGED, evidence=evidence), step)
