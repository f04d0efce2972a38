"""The join phase: a rebalance from its cause to the new generation.

`prepare` starts a join phase, or adds a cause to the one under way; `complete` ends it. The sync
phase that follows is in `coordinator.sync`.

Source: `GroupMetadataManager.prepareRebalance`, `maybePrepareRebalanceOrCompleteJoin`,
`tryCompleteInitialRebalanceElseSchedule`, `completeClassicGroupJoin`.
"""

from itertools import islice

from groupkeeper.coordinator.answers import (
    REMOVED_AT_ONCE,
    answer_joined,
    drop_answers,
    withdraw_plan,
)
from groupkeeper.coordinator.causes import Cause
from groupkeeper.coordinator.deadlines import Timer, TimerKind
from groupkeeper.coordinator.election import elect, resubscribe
from groupkeeper.coordinator.facts import (
    GroupEmptied,
    MemberRemoved,
    RebalanceAbandoned,
    RebalanceCauseAdded,
    RebalanceJoined,
    RebalanceStarted,
)
from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.coordinator.liveness import await_no_sync, gone, late, rhythm, seat_over
from groupkeeper.coordinator.member import Member
from groupkeeper.coordinator.records import group_key, group_value, seat_key
from groupkeeper.coordinator.replies import answer_join, answer_sync
from groupkeeper.coordinator.second_round import tell_for_seats
from groupkeeper.coordinator.soft_state import Expelled, Late, Rebalance
from groupkeeper.coordinator.standby import choose_active, choose_leader
from groupkeeper.coordinator.step import KeyValue, Step
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.group_events import CauseCode
from groupkeeper.protocol.mapped import mapped

MAX_GENERATION = 2**31 - 1
"""The largest generation that requests and records can carry."""

PROLONG_AT_LEAST_MS = 1_000
"""Shortest extension of a join phase without a JoinGroup: a timeout of 0 must not spin."""


def prepare(
    group: Group,
    cause: Cause,
    step: Step,
    error: ErrorCode = ErrorCode.REBALANCE_IN_PROGRESS,
    expelled: Expelled | None = None,
) -> None:
    """Start a join phase. If one is under way, add the cause, and end it if all have joined.

    Waiting SyncGroups are answered with `error`.
    """
    if group.state is GroupState.PREPARING_REBALANCE:
        add_cause(group, cause, step)
        complete_if_all_joined(group, step)
        return
    was = group.state
    if was is GroupState.COMPLETING_REBALANCE:
        withdraw_plan(group, error, step)
        step.note(RebalanceAbandoned(*group.fact_head, why="superseded"))
    if was is not GroupState.EMPTY:
        step.deadlines.cancel(Timer(TimerKind.SYNC, group.group_id))
        _forget_waits(group, step)
    group.pending_sync = {}
    group.rebalance = Rebalance(cause, step.now, expelled=expelled)
    if expelled is not None:
        step.deadlines.set(Timer(TimerKind.NEXT_PIECE, group.group_id), step.now)
    group.round += 1
    group.become(GroupState.PREPARING_REBALANCE, step.wall)
    wait = _start_delay(group, step) if was is GroupState.EMPTY else _start_join_timer(group, step)
    _note_started(group, was, wait, step)
    if wait:
        complete_if_all_joined(group, step)
    else:
        complete(group, step)


def _forget_waits(group: Group, step: Step) -> None:
    """Forget the newcomers that wait, and the members that are asked: all rejoin now."""
    if group.window is not None:
        group.window = None
        step.deadlines.cancel(Timer(TimerKind.WINDOW, group.group_id))
    if group.moves is not None:
        group.moves = None
        step.deadlines.cancel(Timer(TimerKind.STEP, group.group_id))
    if group.asked:
        for member_id in group.asked:
            step.deadlines.cancel(Timer(TimerKind.ASKED, group.group_id, member_id))
        group.asked = {}


def _note_started(group: Group, was: GroupState, wait: int, step: Step) -> None:
    rebalance, expected = group.rebalance, list(group.members)
    assert rebalance is not None
    if group.joined_count:
        waits = {each for each, m in group.members.items() if m.awaiting_join is not None}
        rebalance.arrivals = {each: 0 for each in expected if each in waits}
        expected = [each for each in expected if each not in waits]
    if rebalance.expelled is not None:
        removed = set(rebalance.expelled.left)
        expected = [each for each in expected if each not in removed]
    if group.seats:
        expected = [each for each in expected if each not in group.seats]
    fact = RebalanceStarted(
        *group.fact_head,
        cause=rebalance.cause,
        from_state=was,
        members=len(group.members),
        expected=expected,
        deadline_ms=wait,
    )
    step.note(fact)


def add_cause(group: Group, cause: Cause, step: Step) -> None:
    """Note another cause of the join phase under way; the first one stays the rebalance's."""
    step.note(RebalanceCauseAdded(*group.fact_head, cause=cause))


def complete_if_all_joined(group: Group, step: Step) -> None:
    """End the join phase if all have joined, but not during an initial delay."""
    if group.rebalance is not None and not group.rebalance.initial_delay:
        complete_early(group, step)


def complete_early(group: Group, step: Step) -> None:
    """End the join phase if all have joined, after the removal of a member or a pending id. Ends an
    initial delay as well, as in Kafka 4.
    """
    if group.state is not GroupState.PREPARING_REBALANCE or not group.all_joined:
        return
    if not group.members or not _in_pieces(group):  # otherwise the last piece ends it
        complete(group, step)


def go_on_preparing(group: Group, step: Step) -> None:
    """Do the next piece of work that keeps a join phase from ending: remove the next members that
    did not sync, or end the phase if nothing else is left.
    """
    rebalance = group.rebalance
    if rebalance is None:
        return
    expelled = rebalance.expelled
    if expelled is not None:
        for member_id in reversed(expelled.left[-REMOVED_AT_ONCE:]):
            member = group.members.get(member_id)
            if member is not None:
                remove(group, member, late(group, member, expelled.phase, step), step)
        del expelled.left[-REMOVED_AT_ONCE:]
        if expelled.left:
            step.deadlines.set(Timer(TimerKind.NEXT_PIECE, group.group_id), step.now)
            return
        rebalance.expelled = None
    complete_if_all_joined(group, step)


def after_answers(group: Group, step: Step) -> None:
    """Continue the work that had to wait for the last answers about the previous phase."""
    rebalance = group.rebalance
    if rebalance is not None and (rebalance.expelled is not None or rebalance.plan is not None):
        step.deadlines.set(Timer(TimerKind.NEXT_PIECE, group.group_id), step.now)
    else:
        complete_if_all_joined(group, step)


def _in_pieces(group: Group) -> bool:
    """Return whether members of the previous phase have yet to be answered or removed."""
    expelled = group.rebalance.expelled if group.rebalance is not None else None
    return group.answers is not None or expelled is not None


def _start_join_timer(group: Group, step: Step, at_least_ms: int = 0) -> int:
    """Start the join timer; return its duration in ms. 0 is legal, and means not to wait."""
    wait = max(group.rebalance_timeout_ms, at_least_ms)
    step.deadlines.set(Timer(TimerKind.JOIN, group.group_id), step.now + wait)
    return wait


# -- the initial delay (KIP-134) -----------------------------------------------------------------


def _start_delay(group: Group, step: Step) -> int:
    """Wait for more members after Empty, so that N starting members cost one rebalance, not N.

    Returns the longest duration of the join phase, in ms.
    """
    delay = step.config.initial_rebalance_delay_ms
    rebalance = group.rebalance
    assert rebalance is not None
    if delay <= 0:
        return 0
    rebalance.initial_delay = True
    rebalance.delay_ms = delay
    rebalance.delay_left_ms = max(group.rebalance_timeout_ms - delay, 0)
    step.deadlines.set(Timer(TimerKind.INITIAL_DELAY, group.group_id), step.now + delay)
    return max(delay, group.rebalance_timeout_ms)


def delay_over(group: Group, step: Step) -> None:
    """Extend the delay while members keep joining, up to the first member's rebalance timeout."""
    rebalance = group.rebalance
    assert rebalance is not None
    if not rebalance.newcomers or rebalance.delay_left_ms <= 0:
        complete(group, step)
        return
    rebalance.newcomers = False
    elapsed = rebalance.delay_ms
    rebalance.delay_ms = min(step.config.initial_rebalance_delay_ms, rebalance.delay_left_ms)
    rebalance.delay_left_ms = max(rebalance.delay_left_ms - elapsed, 0)
    timer = Timer(TimerKind.INITIAL_DELAY, group.group_id)
    step.deadlines.set(timer, step.now + rebalance.delay_ms)


# -- the end of the join phase -------------------------------------------------------------------


def complete(group: Group, step: Step) -> None:
    """End the join phase: all joined, or time is up. The phase lasts some more steps while very
    many members have to be removed, or have no answer about the previous phase yet.
    """
    rebalance = group.rebalance
    assert rebalance is not None
    step.deadlines.cancel(Timer(TimerKind.JOIN, group.group_id))
    if rebalance.initial_delay:
        step.deadlines.cancel(Timer(TimerKind.INITIAL_DELAY, group.group_id))
        rebalance.initial_delay = False
    if not group.members:  # no member is left to answer or remove
        rebalance.expelled = None
        drop_answers(group, step)
    if _in_pieces(group) or not _drop_late_members(group, rebalance, step):
        step.deadlines.set(Timer(TimerKind.JOIN, group.group_id), step.now + 1)
        return
    phase, rebalance.late = rebalance.late, None
    if not group.members:
        empty(group, step)
    elif not group.joined_count:
        # Only static members that are offline are left; they stay until their sessions expire.
        _start_join_timer(group, step, PROLONG_AT_LEAST_MS)
    else:
        _next_generation(group, phase, step)


def _drop_late_members(group: Group, rebalance: Rebalance, step: Step) -> bool:
    """Remove dynamic members that did not rejoin; static members stay (KIP-345), and so do seats
    while a member is left besides them. Returns False if more of them are left than one step
    removes; these may rejoin until the next step.
    """
    is_deserted = bool(group.seats) and group.is_deserted
    if rebalance.late is None:
        if group.all_joined and not is_deserted:
            return True
        code, longest_ms = CauseCode.JOIN_TIMEOUT, group.rebalance_timeout_ms
        rebalance.late = Late(code, rebalance.started_ms, longest_ms)
    absent = (
        member
        for member in group.members.values()
        if is_deserted
        or (
            member.awaiting_join is None
            and member.instance_id is None
            and member.member_id not in group.seats
        )
    )
    found = list(islice(absent, REMOVED_AT_ONCE + 1))
    last_removal = group.last_removal
    for member in found[:REMOVED_AT_ONCE]:
        seat = group.seats.get(member.member_id)
        cause = late(group, member, rebalance.late, step)
        if seat is not None:
            cause = seat_over(member, seat, step)
        remove(group, member, cause, step)
        rebalance.late.removed.append(member.member_id)
    if is_deserted and last_removal is not None:  # that of the last living member is the cause
        group.last_removal = last_removal
    return len(found) <= REMOVED_AT_ONCE


def begin_generation(group: Group) -> None:
    """Raise the generation, with Java's overflow: 2^31-1 is followed by -2^31.

    Source: `ClassicGroup.initNextGeneration`.
    """
    group.generation += 1
    if group.generation > MAX_GENERATION:
        group.generation = -MAX_GENERATION - 1


def empty(group: Group, step: Step) -> None:
    """Become Empty. The generation rises and the protocol type stays."""
    cause = group.last_removal
    assert cause is not None
    begin_generation(group)
    group.protocol_name = None
    group.leader_id = None
    resubscribe(group)
    group.forget_old_plan()
    drop_answers(group, step)
    step.deadlines.cancel(Timer(TimerKind.SEATS, group.group_id))
    group.recent = group.recent and group.recent.of_empty()
    group.outsider = None
    group.become(GroupState.EMPTY, step.wall)
    write_group(group, (group_key(group.group_id), group_value(group, (), None)), step)
    head = group.group_id, group.generation, group.state, group.round
    step.note(RebalanceAbandoned(*head, why="emptied"))
    step.note(GroupEmptied(*head, cause=cause))


def write_group(group: Group, record: KeyValue, step: Step) -> None:
    """Write the group's record, and behind it the deletions of the seats that it no longer has. Not
    before: a member without the record of its seat would be a living one after a crash, while the
    seat of a member that the group does not have is none.
    """
    step.append(*record)
    if group.freed_seats:
        for member_id in group.freed_seats:
            step.append(seat_key(group.group_id, member_id), None)
        group.freed_seats.clear()
    group.is_stored = True


def _next_generation(group: Group, phase: Late | None, step: Step) -> None:
    """Begin the sync phase. `phase`: the join phase, if its time was up before all had joined."""
    if group.policy is not None or group.standbys:
        choose_active(group)
    choose_leader(group)
    removed, ended_by = (phase.removed, "timeout") if phase is not None else ((), "all_joined")
    missing: list[tuple[str, str | None, bool]] = [(each, None, True) for each in removed]
    if group.joined_count + len(group.seats) < len(group.members):
        away = (m for m in group.members.values() if m.awaiting_join is None)
        away = (m for m in away if m.member_id not in group.seats)  # lost ones cannot rejoin
        missing += [(m.member_id, m.instance_id, False) for m in away]
    begin_generation(group)
    group.protocol_name = elect(group)
    if group.seats:
        tell_for_seats(group)
    group.become(GroupState.COMPLETING_REBALANCE, step.wall)
    group.pending_sync = dict.fromkeys(list(group.members))  # of a dict it takes more memory
    for member_id in group.seats:
        del group.pending_sync[member_id]
    sync_by = step.now + group.rebalance_timeout_ms
    step.deadlines.set(Timer(TimerKind.SYNC, group.group_id), sync_by)
    _note_joined(group, missing, ended_by, step)
    answer_joined(group, step)


def _note_joined(
    group: Group, missing: list[tuple[str, str | None, bool]], ended_by: str, step: Step
) -> None:
    rebalance = group.rebalance
    assert rebalance is not None
    rebalance.joined_ms = step.now
    instances = {member_id: instance for instance, member_id in group.instances.items()}
    arrivals = list(rebalance.arrivals), list(rebalance.arrivals.values())
    fact = RebalanceJoined(
        *group.fact_head,
        leader=group.leader_id or "",
        protocol_type=group.protocol_type,
        protocol=group.protocol_name or "",
        members=len(group.members),
        duration_ms=step.now - rebalance.started_ms,
        joined=mapped(lambda each, after_ms: (each, instances.get(each), after_ms), *arrivals),
        missing=missing,
        ended_by=ended_by,
    )
    step.note(fact)


# -- members -------------------------------------------------------------------------------------


def remove(group: Group, member: Member, cause: Cause, step: Step) -> None:
    """Remove a member and answer its parked requests. Does not start a rebalance."""
    answer_join(group, member, ErrorCode.UNKNOWN_MEMBER_ID, step)
    answer_sync(member, ErrorCode.UNKNOWN_MEMBER_ID, step)
    step.deadlines.cancel(Timer(TimerKind.SESSION, group.group_id, member.member_id))
    if member.is_new:
        step.deadlines.cancel(Timer(TimerKind.NEW_MEMBER, group.group_id, member.member_id))
    if member.member_id in group.asked:
        step.deadlines.cancel(Timer(TimerKind.ASKED, group.group_id, member.member_id))
    await_no_sync(group, member, step)  # a removal need not begin another rebalance
    group.remove(member)
    group.last_removal = cause
    step.note(MemberRemoved(*group.fact_head, who=member.who, cause=cause, rhythm=rhythm(member)))
    gone(group, member, cause, step)


def drop_pending(group: Group, member_id: str, step: Step) -> None:
    """Stop waiting for an id that was handed out (KIP-394)."""
    del group.pending[member_id]
    timer = Timer(TimerKind.PENDING_MEMBER, group.group_id, member_id)
    step.deadlines.cancel(timer)
    step.pending.pop(timer, None)
