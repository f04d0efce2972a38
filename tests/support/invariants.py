"""What must hold of a partition after every step, whatever was asked of it."""

from collections import Counter

from groupkeeper.coordinator.deadlines import Timer, TimerKind
from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.coordinator.member import Member
from groupkeeper.coordinator.partition import Partition, PartitionState
from groupkeeper.coordinator.soft_state import AskState
from groupkeeper.protocol.embedded import count_assigned

ALL_TO_ALL = {TimerKind.JOIN, TimerKind.INITIAL_DELAY}


def check(partition: Partition, open_requests: int) -> None:
    """`open_requests`: how many were handed in and have not been answered."""
    tokens = held_by_all(partition)
    assert open_requests == tokens + partition.gate.parked, "accepted - answered = tokens held"
    assert partition.gate.durable <= partition.gate.taken <= partition.gate.appended
    due, expiry = partition.deadlines.due, Timer(TimerKind.OFFSET_EXPIRY)
    earliest = min(due.values(), default=None)
    while (bound := partition.next_deadline()) != earliest:  # behind very many stale entries
        if bound is None:
            assert not partition.gate.clear, "a timer runs, and is not told"
            break
        assert earliest is None or bound < earliest
    if partition.state is PartitionState.ACTIVE:
        assert expiry in due
    else:
        assert not due
        assert not partition.groups or partition.state is PartitionState.LOADING
    sizes = [m.size for group in partition.groups.values() for m in group.members.values()]
    old = [
        len(plan) for group in partition.groups.values() for plan in (group.old_plan or {}).values()
    ]
    assert partition.groups.member_bytes.used == sum(sizes) + sum(old)
    for group_id, group in partition.groups.items():
        assert group.group_id == group_id
        _check_group(group)
        _check_timers(group, partition.deadlines.due)
    _check_no_stray_timers(partition)


def held_by_all(partition: Partition) -> int:
    """Reply tokens in members, and of groups that are being deleted."""
    deletions = {id(each) for each in partition.groups.deletions.values()}
    return len(deletions) + sum(held(group) for group in partition.groups.values())


def held(group: Group) -> int:
    """Reply tokens in the group's members."""
    members = group.members.values()
    return sum((m.awaiting_join is not None) + (m.awaiting_sync is not None) for m in members)


def _check_group(group: Group) -> None:
    members, state = group.members, group.state
    assert state is not GroupState.DEAD
    assert not (state is GroupState.EMPTY and members)
    assert members or state in (GroupState.EMPTY, GroupState.PREPARING_REBALANCE)
    assert group.leader_id in members if members else group.leader_id is None
    static = {m.instance_id: i for i, m in members.items() if m.instance_id is not None}
    assert group.instances == static
    assert group.joined_count == sum(m.awaiting_join is not None for m in members.values())
    assert group.named_bytes == sum(m.named_bytes for m in members.values())
    timeouts = [m.rebalance_timeout_ms for m in members.values()]
    assert group.rebalance_timeout_ms == max([0, *timeouts])
    names = Counter(p.name for m in members.values() for p in m.protocols)
    assert group.support == dict(names)
    assert not members.keys() & group.pending.keys()
    assert group.pending_sync.keys() <= members.keys() - group.seats.keys()
    _check_seats(group)
    if group.returning is not None:
        assert group.returning.unheard
        assert group.returning.unheard.keys() <= members.keys() - group.seats.keys()
    assert members or group.pending or not group.old_plan
    assert group.rebalance is None or group.rebalance.arrivals.keys() <= members.keys()
    assert all(group.offsets.values()), "no topic without an offset"
    if state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        assert names[group.protocol_name or ""] == len(members)
    if state is GroupState.PREPARING_REBALANCE:
        delayed = group.rebalance is not None and group.rebalance.initial_delay
        ends = delayed or group.answers is not None or _expels(group) or group.is_deserted
        assert ends or not group.all_joined, "over when nobody is waited for"
    unanswered = set() if group.answers is None else {each.member_id for each in group.answers.left}
    for member_id, member in members.items():
        assert member.member_id == member_id
        _check_member(group, member, member_id in unanswered)


def _check_seats(group: Group) -> None:
    lost = [group.members[each] for each in group.seats]
    assert not any(member.waits or member.is_new for member in lost)
    just_loaded = group.round == 0  # those that were joining are in no record
    assert not group.is_deserted or just_loaded or group.state is GroupState.PREPARING_REBALANCE
    if group.state is GroupState.COMPLETING_REBALANCE:
        assert group.leader_id not in group.seats, "a lost member cannot assign"
    standbys = group.standbys.keys()
    assert standbys <= group.members.keys() - group.seats.keys()
    releasing = set() if group.moves is None else group.moves.releasing.keys()
    assert group.asked.keys() <= group.members.keys() - group.seats.keys()
    assert releasing <= group.asked.keys()
    assert not group.asked or group.state is GroupState.STABLE
    if group.state is GroupState.STABLE:
        assert not any(count_assigned(group.members[each].assignment) for each in standbys)
    if group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE) and group.members:
        nobody_leads = len(standbys) == len(group.members) - len(group.seats)
        has_plan = group.planned_generation == group.generation  # of a leader
        leads = group.leader_id not in standbys
        assert nobody_leads or leads or not has_plan, "it does not see itself"
    assert (group.clients is None) == (group.policy is None)
    if group.clients is not None:
        for member in group.members.values():
            alike = [
                each.member_id
                for each in group.members.values()
                if each.instance_id is None
                and (each.client_id, each.client_host) == (member.client_id, member.client_host)
            ]
            only = group.clients.only_one((member.client_id, member.client_host))
            assert only == (alike[0] if len(alike) == 1 else None)


def _expels(group: Group) -> bool:
    return group.rebalance is not None and group.rebalance.expelled is not None


def _check_member(group: Group, member: Member, unanswered: bool) -> None:
    names = [p.name for p in member.protocols]
    assert len(names) == len(set(names)) > 0
    if member.awaiting_join is not None or member.is_new:
        assert group.state is GroupState.PREPARING_REBALANCE or (
            unanswered and group.state is GroupState.COMPLETING_REBALANCE
        )
    if member.awaiting_sync is not None:
        assert unanswered or group.state is GroupState.COMPLETING_REBALANCE
        assert member.member_id not in group.pending_sync


def _check_timers(group: Group, due: dict[Timer, int]) -> None:
    def runs(kind: TimerKind, member_id: str = "") -> bool:
        return Timer(kind, group.group_id, member_id) in due

    preparing = group.state is GroupState.PREPARING_REBALANCE
    assert sum(map(runs, sorted(ALL_TO_ALL))) == preparing
    assert runs(TimerKind.SYNC) == bool(group.pending_sync)
    planned = group.rebalance is not None and group.rebalance.plan is not None
    assert runs(TimerKind.NEXT_PIECE) or not (planned or group.answers or _expels(group))
    for member_id, member in group.members.items():
        is_lost = member_id in group.seats
        assert member.waits or is_lost != runs(TimerKind.SESSION, member_id)
        assert runs(TimerKind.NEW_MEMBER, member_id) == member.is_new
    assert runs(TimerKind.SEATS) or not group.seats
    for member_id in group.pending:
        assert runs(TimerKind.PENDING_MEMBER, member_id)


def _check_no_stray_timers(partition: Partition) -> None:
    for kind, group_id, member_id in partition.deadlines.due:
        if kind is TimerKind.OFFSET_EXPIRY:
            continue
        group = partition.groups[group_id]
        if kind is TimerKind.GROUP_DELETION:
            assert group_id in partition.groups.deletions
        elif kind is TimerKind.PENDING_MEMBER:
            assert member_id in group.pending
        elif kind in (TimerKind.SESSION, TimerKind.NEW_MEMBER):
            assert member_id in group.members
        elif kind is TimerKind.ASKED:
            releases = group.moves is not None and member_id in group.moves.releasing
            assert releases or group.asked[member_id] is not AskState.SYNCED
        else:
            assert not member_id
            assert kind is not TimerKind.SEATS or group.members or group.pending
