"""Which members of a group get partitions: all, or as many as its policy says; the others stand by.

A standby is a member like any other, but the leader does not see it, and its assignment has no
partitions. Newcomers of a Stable group may be standbys for a while, until the next rebalance.
Standbys are soft state: after a load they are found again by their empty assignments.

Only for consumers whose assignors keep no data of their own in assignments: others could not know
why a member is missing.
"""

from functools import partial
from itertools import islice
from typing import Final

from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.coordinator.member import Member
from groupkeeper.coordinator.policy import FIRST, LONGEST, STAND_BY, STATIC, Policy
from groupkeeper.protocol.embedded import CONSUMER, count_assigned, has_user_data

EMPTY_ASSIGNMENT: Final = b"\0\0\0\0\0\0\xff\xff\xff\xff"
"""An Assignment of version 0 without topics and user data. Never no bytes at all: Java's consumer
cannot read these."""

STREAMS: Final = "stream"
"""What Kafka Streams calls its assignor. Streams ends with an error when an assignment has no data
of its own, so it has to be known before the first plan is seen."""

LOOKED_AT: Final = 100
"""How many assignments are searched for user data after a load."""


def planning_policy(group: Group, protocol_type: str | None = None) -> Policy | None:
    """Return the group's policy if it may decide which members get partitions, else None.
    `protocol_type`: of a newcomer, which counts if the group is Empty.
    """
    policy = group.policy
    if policy is None or not policy.plans or STREAMS in group.support:
        return None
    if group.state is GroupState.EMPTY:
        return policy if protocol_type == CONSUMER else None
    is_plain = group.protocol_type == CONSUMER and not group.has_user_data
    return policy if is_plain else None


def active_count(group: Group) -> int:
    """Return the number of members that get partitions; a seat counts."""
    return len(group.members) - len(group.standbys)


def has_one_left(group: Group) -> bool:
    """Return whether at most one member is there besides the lost ones that have seats."""
    return len(group.members) - len(group.seats) <= 1


def is_too_large(group: Group) -> bool:
    """Return whether more members get partitions than the policy says: so many are lost that one
    more had to lead.
    """
    policy = planning_policy(group)
    return policy is not None and 0 < policy.target_size < active_count(group)


def choose_active(group: Group) -> None:
    """Decide for the new generation which members stand by: those beyond the target size. Members
    that hold partitions come first, then those that stood by, then new ones; last those that have
    not joined, of which none can lead.
    """
    policy = planning_policy(group)
    most = 0 if policy is None else policy.target_size
    if group.rebalance is not None:
        group.rebalance.target_size = most
    before = group.standbys
    if before:
        group.standbys = {}
    only_expected = policy is not None and policy.expected and policy.unexpected == STAND_BY
    if not only_expected and (not most or len(group.members) <= most):
        return
    old_plan = group.old_plan or {}
    holders, new, away = [], [], []
    for member_id, member in group.members.items():
        if member_id in group.seats:
            continue
        held = old_plan.get(member_id, member.assignment)
        if member.awaiting_join is None:  # a static one that is offline
            away.append(member_id)
        elif held and count_assigned(held) != 0:
            holders.append(member_id)
        elif member_id not in before:
            new.append(member_id)
    waiting = [each for each in before if each in group.members and each not in away]
    # One may be a holder and have stood by: the plan in which it was to lose them was abandoned.
    ordered = [*dict.fromkeys([*holders, *waiting, *new, *away])]
    if policy is not None and only_expected:
        ordered, expected = _expected_first(group, policy, ordered)
        most = min(most or expected, expected) if expected else most or len(group.members)
    # A seat counts, but one that is alive has to lead.
    group.standbys = dict.fromkeys(ordered[max(most - len(group.seats), 1) :])
    group.changes += 1


def _expected_first(group: Group, policy: Policy, ordered: list[str]) -> tuple[list[str], int]:
    """Return the members with those that are expected first, and how many these are, with seats; 0
    if none of them has joined, as one has to lead.
    """
    expected = {
        each.member_id for each in group.members.values() if each.instance_id in policy.expected
    }
    if all(group.members[each].awaiting_join is None for each in expected):
        return ordered, 0
    first = [each for each in ordered if each in expected]
    rest = [each for each in ordered if each not in expected]
    return first + rest, len(first) + len(group.seats)


def look_for_user_data(group: Group) -> None:
    """After a load: find out whether the group's assignor keeps data of its own."""
    if group.policy is not None and group.policy.plans:
        some = islice(group.members.values(), LOOKED_AT)  # assignors do it for all members or none
        name = group.protocol_name
        group.has_user_data = any(has_user_data(m.assignment, m.metadata(name)) for m in some)


def hands_over(group: Group) -> bool:
    """Return whether members may get partitions without a rebalance."""
    policy = planning_policy(group)
    return policy is not None and bool(policy.target_size or policy.remote_assignor)


def find_standbys(group: Group) -> None:
    """After a load: the members without partitions that are beyond the target size stand by."""
    policy = planning_policy(group)
    spare = 0 if policy is None or not policy.target_size else len(group.members)
    spare -= policy.target_size if policy is not None else 0
    if spare > 0:
        idle = (
            each
            for each, member in group.members.items()
            if each not in group.seats and not count_assigned(member.assignment)
        )
        group.standbys = dict.fromkeys(islice(idle, spare))
        pass_lead_on(group)


def pass_lead_on(group: Group) -> None:
    """Let no standby lead a Stable group: a leader sees itself."""
    away = group.standbys.keys() | group.seats.keys()
    if group.leader_id in away:
        group.leader_id = next((e for e in group.members if e not in away), group.leader_id)


def interval_end(group: Group, policy: Policy) -> int:
    """Return when the least time since the start of the last rebalance is over, monotonic."""
    started = group.rebalance.started_ms if group.rebalance is not None else 0
    return started + policy.min_interval_ms if policy.min_interval_ms else 0


def choose_leader(group: Group) -> None:
    """Choose the leader of the new generation among the members that have joined and get
    partitions: the one of before, or the first, unless the policy prefers another one.
    """
    policy, leader = group.policy, group.members.get(group.leader_id or "")
    if policy is None and leader is not None and leader.awaiting_join is not None:
        return  # nobody stands by
    preference = FIRST if policy is None else policy.leader
    if preference == STATIC and leader is not None and leader.instance_id is None:
        static = (m for m in group.members.values() if m.instance_id is not None)
        leader = next(filter(partial(_may_lead, group), static), leader)
    elif preference == LONGEST:
        leader = None  # a member that restarted has moved to the end
    if leader is None or not _may_lead(group, leader):
        leader = next(filter(partial(_may_lead, group), group.members.values()))
    group.leader_id = leader.member_id


def _may_lead(group: Group, member: Member) -> bool:
    return member.awaiting_join is not None and member.member_id not in group.standbys
