"""Assignments by the server, a few partitions at a time (Design III): no rebalance stops a group.

In a Stable group the server compares what members hold with a target (`coordinator.uniform`).
Partitions without an owner are given away at once. A member with too many is asked to rejoin
(`coordinator.scaling`), and has released what it is to give when it does: a consumer of an eager
protocol revokes everything before it sends JoinGroup; one of a cooperative protocol says what it
owns, and rejoins once more when it has revoked. Only then does the group's record name another
owner, who is asked in turn. So a partition is never in two assignments, whatever happens between.

The same timer watches the topics of groups whose leaders assign, if their policy says so.

The targets and what is under way are soft state: after a load the next step begins with what the
members hold. The assignments of leaders, in the rebalances that remain, are taken as they are.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from groupkeeper.coordinator.causes import Cause
from groupkeeper.coordinator.deadlines import Timer, TimerKind
from groupkeeper.coordinator.election import resubscribe
from groupkeeper.coordinator.facts import AssignmentChanged
from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.coordinator.member import Member
from groupkeeper.coordinator.policy import Policy
from groupkeeper.coordinator.rebalance import prepare, remove, write_group
from groupkeeper.coordinator.records import group_key, group_value, member_record, member_records
from groupkeeper.coordinator.soft_state import AskState, Moves, added
from groupkeeper.coordinator.standby import has_one_left, pass_lead_on, planning_policy
from groupkeeper.coordinator.step import Step, size_of
from groupkeeper.coordinator.subscription import subscribe_alike
from groupkeeper.coordinator.uniform import Place, uniform
from groupkeeper.protocol.embedded import CONSUMER, assignment_of, owned_of, read_assigned
from groupkeeper.protocol.group_events import CauseCode

CHECK_MS: Final = 2_000
"""How often the server looks whether topics have more partitions."""


def stepping_policy(group: Group) -> Policy | None:
    """Return the policy of a Stable group if the server assigns: all members subscribe to the same
    topics. Else None.
    """
    policy = planning_policy(group)
    if policy is None or not policy.remote_assignor or group.state is not GroupState.STABLE:
        return None
    moves = group.moves = group.moves or Moves()
    if moves.is_alike is None:
        name = group.protocol_name
        resubscribe(group)  # members have gone since
        moves.is_alike = subscribe_alike(each.metadata(name) for each in group.members.values())
    return policy if moves.is_alike else None


def _timer(group: Group) -> Timer:
    return Timer(TimerKind.STEP, group.group_id)


def is_watched(group: Group) -> bool:
    """Return whether the server looks at the topics of the group, which is one of consumers."""
    policy = group.policy
    is_on = policy is not None and policy.watch and group.protocol_type == CONSUMER
    return is_on and group.subscription is not None


def plan_step(group: Group, step: Step, in_ms: int = 0) -> None:
    """Look at the group's assignments soon, if the server assigns, or watches topics."""
    is_on = stepping_policy(group) is not None or is_watched(group)
    if is_on and group.state is GroupState.STABLE:
        moves = group.moves = group.moves or Moves()
        if moves.counts is None:
            is_loaded = group.rebalance is None and group.planned_generation == group.generation
            moves.counts = _assigned(group) if is_loaded else _counts(group, step)
        step.deadlines.set(_timer(group), step.now + in_ms)


def _counts(group: Group, step: Step) -> tuple[int, ...]:
    return tuple(step.partition_counts.get(each, 0) for each in sorted(group.subscription or ()))


def _assigned(group: Group) -> tuple[int, ...]:
    """Return how many partitions of each topic members have: after a load all that is known of what
    the topics were when the last plan was made.
    """
    places = _all_of(_places_in(each.assignment) for each in group.members.values())
    counts = Counter(topic for topic, _ in places)
    return tuple(counts[each] for each in sorted(group.subscription or ()))


def remove_quietly(group: Group, member: Member, cause: Cause, step: Step) -> bool:
    """Remove a member without a rebalance: the others get its partitions. Returns False if the
    server does not assign, or no other member is there that could have them.
    """
    if (
        group.state is not GroupState.STABLE
        or has_one_left(group)
        or stepping_policy(group) is None
    ):
        return False
    policy = group.policy
    takes_over = group.standbys and policy is not None and policy.target_size
    if takes_over or all(each is member for each in _active(group)):
        return False  # standbys get nothing without a rebalance
    group.member_records.pop(member.member_id, None)
    group.assign(member, b"")
    remove(group, member, cause, step)
    pass_lead_on(group)
    plan_step(group, step)
    return True


# -- a step ----------------------------------------------------------------------------------------


def take_step(group: Group, step: Step) -> None:
    """Give partitions without an owner to members, and ask members to release some."""
    policy, moves = stepping_policy(group), group.moves
    if moves is None or group.state is not GroupState.STABLE or group.subscription is None:
        return
    before, moves.counts = moves.counts, _counts(group, step)
    if policy is None:
        if is_watched(group) and before != moves.counts:
            _topics_changed(group, before or (), step)
        elif is_watched(group):
            step.deadlines.set(_timer(group), step.now + CHECK_MS)
        return
    if (before, moves.settled) == (moves.counts, group.changes):  # nearly always
        step.deadlines.set(_timer(group), step.now + CHECK_MS)
        return
    _move(group, moves, policy, step)


def topics_differ(group: Group, step: Step) -> bool:
    """Return whether a topic has another number of partitions than when it was looked at last."""
    return group.moves is None or group.moves.counts != _counts(group, step)


def is_incomplete(group: Group, step: Step) -> bool:
    """Return whether members have more or fewer partitions of a topic than it has, if it exists."""
    pairs = zip(_assigned(group), _counts(group, step), strict=True)
    return any(count and has != count for has, count in pairs)


def _topics_changed(group: Group, before: tuple[int, ...], step: Step) -> None:
    now = _counts(group, step)
    changed = [
        (topic, then, count)
        for topic, then, count in zip(sorted(group.subscription or ()), before, now, strict=False)
        if then != count
    ]
    topic, then, count = next(iter(changed), ("", 0, 0))
    evidence = {"topic": topic, "partitions_before": then, "partitions_now": count}
    prepare(group, Cause(CauseCode.TOPICS_CHANGED, evidence=evidence), step)


def _move(group: Group, moves: Moves, policy: Policy, step: Step) -> None:
    held, places = _held(group), _places(group, step)
    _await_releases(group, moves, held, places, step)
    target = uniform(held, places)
    _give(group, held, target, step)
    if not moves.releasing and not group.asked:
        wait_ms = moves.began_ms + policy.step_interval_ms - step.now
        if moves.began_ms and wait_ms > 0:
            step.deadlines.set(_timer(group), step.now + wait_ms)
            return
        _ask_donors(group, held, target, policy, step)
        if not group.asked:
            moves.settled = group.changes
    step.deadlines.set(_timer(group), step.now + CHECK_MS)


def _active(group: Group) -> Iterable[Member]:
    """The members that get partitions from the server."""
    for member in group.members.values():
        if member.member_id not in group.seats and member.member_id not in group.standbys:
            yield member


def has_idle(group: Group) -> bool:
    """Return whether a member waits for partitions of the server."""
    return any(not _places_in(each.assignment) for each in _active(group))


def _places_in(assignment: bytes) -> list[Place]:
    topics = read_assigned(assignment) or {} if assignment else {}
    return [(topic, number) for topic, numbers in topics.items() for number in numbers]


def _held(group: Group) -> dict[str, list[Place]]:
    return {each.member_id: _places_in(each.assignment) for each in _active(group)}


def _places(group: Group, step: Step) -> list[Place]:
    """Return the partitions of the group's topics, without those of lost members."""
    reserved = {
        place for each in group.seats for place in _places_in(group.members[each].assignment)
    }
    counts = step.partition_counts
    places = [
        (topic, number)
        for topic in sorted(group.subscription or ())
        for number in range(counts.get(topic, 0))
    ]
    return [each for each in places if each not in reserved] if reserved else places


def _await_releases(
    group: Group, moves: Moves, held: dict[str, list[Place]], places: list[Place], step: Step
) -> None:
    """Let members release first what the last plan took from them, and gave to nobody: a leader's
    plan, of an incremental assignor. They have it until they rejoin.
    """
    free = {*places} - _all_of(held.values())
    for member in group.members.values() if free else ():
        if member.member_id in group.seats:
            continue
        has_still = owned_of(member.metadata(group.protocol_name)) & free
        if has_still and member.member_id not in moves.releasing:
            moves.releasing[member.member_id] = has_still
            ask(group, member, step)


def _all_of(shares: Iterable[Iterable[Place]]) -> set[Place]:
    return {place for share in shares for place in share}


def _give(
    group: Group, held: dict[str, list[Place]], target: dict[str, list[Place]], step: Step
) -> None:
    """Give partitions that nobody has to those whose target has them, in one record."""
    assert group.moves is not None
    owned = _all_of(held.values()) | _all_of(group.moves.releasing.values())
    changed: dict[str, list[Place]] = {}
    for member_id, places in target.items():
        free = [each for each in places if each not in owned]
        if free:
            changed[member_id] = held[member_id] + free
    if changed and _store(group, changed, step):
        held |= changed
        for member_id in changed:
            ask(group, group.members[member_id], step)


def _ask_donors(
    group: Group,
    held: dict[str, list[Place]],
    target: dict[str, list[Place]],
    policy: Policy,
    step: Step,
) -> None:
    assert group.moves is not None
    room = policy.step_partitions or sum(map(len, held.values()))
    for member_id, places in held.items():
        wanted = set(target[member_id])
        give = [each for each in places if each not in wanted][:room]
        if give:
            room -= len(give)
            group.moves.releasing[member_id] = set(give)
            ask(group, group.members[member_id], step)
    if group.moves.releasing:
        group.moves.began_ms = step.now


def _store(group: Group, changed: dict[str, list[Place]], step: Step) -> bool:
    """Write the group's record with these assignments. False: it would be too large."""
    shares = {each: assignment_of(places) for each, places in changed.items()}
    records = dict(group.member_records) or member_records(group)
    name = group.protocol_name
    for member_id, share in shares.items():
        records[member_id] = member_record(group.members[member_id], name, share)
    value = group_value(group, list(records.values()), group.leader_id)
    record = group_key(group.group_id), value
    if size_of([record]) > step.config.message_max_bytes:
        return False
    for member_id, share in shares.items():
        group.assign(group.members[member_id], share)
    group.member_records = records
    if group.moves is not None:
        group.moves.has_moved = True
    write_group(group, record, step)
    members = [(group.members[each], share) for each, share in shares.items()]
    assignments = [(m.member_id, m.instance_id, share) for m, share in members]
    step.note(AssignmentChanged(*group.fact_head, assignments=assignments))
    return True


def ask(group: Group, member: Member, step: Step) -> None:
    """Let the member rejoin, to get the assignment that it has now."""
    group.asked = added(group.asked, member.member_id, AskState.ASKED)
    group.changes += 1
    ends = step.now + max(member.rebalance_timeout_ms, member.session_timeout_ms)
    step.deadlines.set(Timer(TimerKind.ASKED, group.group_id, member.member_id), ends)


def forget_ask(group: Group, member: Member, step: Step) -> None:
    """Ask the member for nothing: it is lost."""
    if member.member_id in group.asked:
        del group.asked[member.member_id]
        step.deadlines.cancel(Timer(TimerKind.ASKED, group.group_id, member.member_id))
    if group.moves is not None:
        group.moves.releasing.pop(member.member_id, None)


# -- what members do -------------------------------------------------------------------------------


def is_releasing(group: Group, member: Member) -> bool:
    """Return whether the member has yet to release partitions, so that it will rejoin."""
    return group.moves is not None and member.member_id in group.moves.releasing


def has_rejoined(group: Group, member: Member, metadata: bytes, step: Step) -> None:
    """Take what a member that was asked has released when it sent this metadata, and give it to
    others.
    """
    moves = group.moves
    if moves is None or member.member_id not in moves.releasing:
        return
    owned = owned_of(metadata)
    asked = moves.releasing[member.member_id]
    released = asked - owned
    if not released:
        return
    asked -= released
    if not asked:
        del moves.releasing[member.member_id]
    held = _held(group)
    changed: dict[str, list[Place]] = {}
    if member.member_id in held:  # else it stands by
        held[member.member_id] = [e for e in held[member.member_id] if e not in released]
        changed[member.member_id] = held[member.member_id]
    target = uniform(held, _places(group, step))
    others = {place for each, places in held.items() for place in places}
    for member_id, places in target.items():
        more = [each for each in places if each in released and each not in others]
        if more and member_id != member.member_id:
            changed[member_id] = held[member_id] + more
    if changed and _store(group, changed, step):
        for member_id in changed.keys() - {member.member_id}:
            ask(group, group.members[member_id], step)
    plan_step(group, step, CHECK_MS)


def share_of(group: Group, member: Member) -> bytes:
    """Return the assignment that the member is told: without what it has to release."""
    if group.moves is None or member.member_id not in group.moves.releasing:
        return member.assignment
    asked = group.moves.releasing[member.member_id]
    return assignment_of([each for each in _places_in(member.assignment) if each not in asked])


def is_settled(group: Group, step: Step) -> None:
    """A member that was asked is at rest again: go on when nothing is under way."""
    policy = stepping_policy(group)
    if policy is not None and group.moves is not None and not group.asked:
        wait_ms = group.moves.began_ms + policy.step_interval_ms - step.now
        plan_step(group, step, max(0, wait_ms))
