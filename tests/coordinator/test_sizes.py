"""Very many members at once: no step does much more for each of them than look at it.

A step is one callback of the event loop, in which no other client is answered. Counted are the
lines that it executes; `python -m benchmarks.callbacks` measures the time.
"""

import gc
import sys
import tracemalloc
from collections.abc import Callable
from itertools import count

import pytest

from groupkeeper.coordinator.answers import PIECE_MEMBERS, REMOVED_AT_ONCE
from groupkeeper.coordinator.caller import Caller, Peer
from groupkeeper.coordinator.clients import READ_AT_ONCE as INDEXED_AT_ONCE
from groupkeeper.coordinator.config import GroupConfig
from groupkeeper.coordinator.deadlines import STALE_AT_ONCE, TimerKind
from groupkeeper.coordinator.facts import MemberRemoved, RebalanceCompleted, RebalanceJoined
from groupkeeper.coordinator.group import Group
from groupkeeper.coordinator.partition import Partition
from groupkeeper.coordinator.step import Step
from groupkeeper.coordinator.sync import READ_AT_ONCE
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.group_events import CauseCode
from groupkeeper.protocol.messages.describe_groups import DescribeGroupsRequest
from groupkeeper.protocol.messages.join_group import JoinGroupRequestProtocol
from groupkeeper.protocol.record_batch import encode_batch
from tests.support import invariants
from tests.support.requests import (
    SUBSCRIPTION,
    heartbeat,
    join_request,
    leave_request,
    sync_request,
)
from tests.support.scene import Scene
from tests.support.work import Work, counted, instructions

FEW, MANY = 4 * PIECE_MEMBERS, 12 * PIECE_MEMBERS
LINES = 3
"""How many lines more a step may take for each member: it is looked at a few times, in loops of one
line. To remove or answer it takes fifty and more."""
SESSION, REBALANCE = 30_000, 60_000


class Token:
    """The place of an answer, of which only the identity counts."""

    def answer(self, response: object) -> None:
        raise AssertionError("only a driver calls it")


class Crowd:
    """One group of very many members, in a partition of its own."""

    def __init__(self, members: int, static: bool = False) -> None:
        self.members, self.static = members, static
        numbers = count()
        self.partition = Partition(
            GroupConfig(message_max_bytes=1 << 24), lambda prefix: f"{prefix}-{next(numbers)}"
        )
        for _ in self.partition.restore():
            pass
        self.now = 1_000
        self.partition.activate(self.now, self.now)
        self.answers: list = []
        self.facts: list = []
        self.log: list = []
        """The records that were written."""
        self.peer = Peer("crowd", "/127.0.0.1")

    @property
    def group(self) -> Group:
        return self.partition.groups["g"]

    def ask(self, request: object, version: int = 3) -> None:
        caller, at = Caller(version, self.peer), (self.now, self.now)
        self._settle(self.partition.handle(request, caller, Token(), at))

    def work_of(self, request: object, version: int = 3) -> int:
        """The same, and the instructions of the step."""
        caller, at = Caller(version, self.peer), (self.now, self.now)
        step, count = instructions(self.partition.handle, request, caller, Token(), at)
        self._settle(step)
        return count

    def work_until(self, state: str) -> int:
        """Take the steps of deadlines until the group is in the state: the instructions of the last
        one.
        """
        count = 0
        while self.group.state != state:
            count = self.work_of_next()
        return count

    def work_of_next(self) -> int:
        """Take the step of the next deadline; its instructions."""
        self.now = max(self.now, self.partition.next_deadline() or 0)
        step, count = instructions(self.partition.advance, self.now, self.now)
        self._settle(step)
        return count

    def _settle(self, step: Step) -> None:
        self.answers += step.replies
        self.facts += [noted.fact for noted in step.told]
        while (unwritten := self.partition.take()) is not None:
            self.log += unwritten.records
            replies, facts = self.partition.written(unwritten, (self.now, self.now))
            self.answers += replies
            self.facts += [noted.fact for noted in facts]

    def ring(self) -> None:
        """Take the step of the next deadline."""
        self._ring_at(self.partition.next_deadline() or 0)

    def _ring_at(self, due: int) -> None:
        self.now = max(self.now, due)
        self._settle(self.partition.advance(self.now, self.now))

    def advance(self, ms: int) -> None:
        until = self.now + ms
        while (due := self.partition.next_deadline()) is not None and due <= until:
            self._ring_at(due)
        self.now = until

    def load(self) -> Partition:
        """What was written, in a partition whose sessions have not started."""
        self.partition = Partition(GroupConfig(message_max_bytes=1 << 24), str)
        self.partition.replay(encode_batch(0, 0, 0, self.log))
        for _ in self.partition.restore():
            pass
        return self.partition

    def knock(self) -> None:
        """All send JoinGroup."""
        for number in range(self.members):
            instance = f"i{number}" if self.static else None
            times = {"session_timeout_ms": SESSION, "rebalance_timeout_ms": REBALANCE}
            request = join_request(group_instance_id=instance, **times)
            self.ask(request, 5 if self.static else 3)

    def join(self) -> None:
        """All join, and the join phase ends."""
        self.knock()
        self.advance(6_001)
        assert self.group.state == "CompletingRebalance"

    def ask_to_sync(self, share: bytes = b"share") -> int:
        """All send SyncGroup, the leader last; the instructions of that step."""
        leader, others = self.group.leader_id or "", list(self.group.members)
        others.remove(leader)
        for each in others:
            self.ask(sync_request(each, self.group.generation))
        plan = dict.fromkeys([leader, *others], share)
        return self.work_of(sync_request(leader, self.group.generation, plan=plan))

    def sync(self, share: bytes = b"share") -> None:
        """All send SyncGroup, and are answered."""
        self.ask_to_sync(share)
        self.advance(1)
        assert self.group.state == "Stable"

    def beat(self) -> None:
        for each in list(self.group.members):
            self.ask(heartbeat(each, self.group.generation))

    def rejoin(self, *members: str) -> None:
        times = {"session_timeout_ms": SESSION, "rebalance_timeout_ms": REBALANCE}
        for each in members:
            self.ask(join_request("g", each, **times))

    def live(self, ms: int) -> None:
        """Time goes by, with heartbeats."""
        for _ in range(ms // 20_000):
            self.advance(20_000)
            self.beat()


def join_and_sync(crowd: Crowd) -> None:
    crowd.join()
    crowd.sync()


def join_times_out(crowd: Crowd) -> None:
    join_and_sync(crowd)
    crowd.rejoin(crowd.group.leader_id or "")
    crowd.live(REBALANCE)
    crowd.advance(1_000)
    assert len(crowd.group.members) == 1


def all_rejoin(crowd: Crowd) -> None:
    join_and_sync(crowd)
    leader, *others = crowd.group.members
    crowd.rejoin(leader, *others)
    crowd.advance(1)
    assert (crowd.group.state, crowd.group.generation) == ("CompletingRebalance", 2)


def sync_times_out(crowd: Crowd) -> None:
    crowd.join()
    crowd.live(REBALANCE)
    crowd.advance(1_000)
    assert not crowd.group.members


def another_joins_before_the_assignments(crowd: Crowd) -> None:
    crowd.join()
    for each in list(crowd.group.members):
        if each != crowd.group.leader_id:
            crowd.ask(sync_request(each, 1))
    crowd.rejoin("")
    crowd.advance(1)
    assert crowd.group.state == "PreparingRebalance"


def sessions_end(crowd: Crowd) -> None:
    join_and_sync(crowd)
    crowd.advance(SESSION + 1)
    assert crowd.group.state == "Empty"


def described(crowd: Crowd) -> None:
    join_and_sync(crowd)
    crowd.ask(DescribeGroupsRequest(groups=["g"]), 5)
    [group] = crowd.answers[-1][1].groups
    assert len(group.members) == crowd.members


SITUATIONS = (
    join_and_sync,
    described,
    join_times_out,
    all_rejoin,
    sync_times_out,
    another_joins_before_the_assignments,
    sessions_end,
)


def longest(situation: Callable[[Crowd], None], members: int) -> Work:
    crowd = Crowd(members)
    with counted(crowd.partition) as work:
        situation(crowd)
    for _ in range(4 * members // STALE_AT_ONCE + 1):
        crowd.partition.next_deadline()
    invariants.check(crowd.partition, sum(m.waits for m in crowd.group.members.values()))
    return work


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda each: each.__name__)
def test_no_step_takes_many_lines_for_each_member(situation: Callable[[Crowd], None]) -> None:
    few, many = longest(situation, FEW), longest(situation, MANY)
    assert many.longest - few.longest <= LINES * (MANY - FEW), many.name


def longest_of_load(members: int) -> Work:
    crowd = Crowd(members)
    join_and_sync(crowd)
    partition = crowd.load()
    left = partition.group_ids()
    with counted(partition) as work:
        while left:
            partition.start_sessions(left, 0, 0)
    sessions = [each for each in partition.deadlines.due if each.kind is TimerKind.SESSION]
    assert len(sessions) == members
    return work


def test_no_slice_of_a_load_takes_many_lines_for_each_member() -> None:
    few, many = longest_of_load(FEW), longest_of_load(MANY)
    assert many.longest - few.longest <= LINES * (MANY - FEW), many.name


# -- the steps that decide -----------------------------------------------------------------------


def end_of_join_phase(crowd: Crowd) -> int:
    crowd.knock()
    return crowd.work_until("CompletingRebalance")


def storing_of_assignments(crowd: Crowd) -> int:
    crowd.join()
    crowd.ask_to_sync()
    return crowd.work_until("Stable")


def rejoin_of_leader(crowd: Crowd) -> int:
    join_and_sync(crowd)
    leader = crowd.group.leader_id or ""
    instance = crowd.group.members[leader].instance_id
    times = {"session_timeout_ms": SESSION, "rebalance_timeout_ms": REBALANCE}
    request = join_request("g", leader, group_instance_id=instance, **times)
    count = crowd.work_of(request, 5 if crowd.static else 3)
    assert crowd.group.state == "PreparingRebalance"
    return count


def end_of_sync_phase(crowd: Crowd) -> int:
    crowd.join()
    for _ in range(REBALANCE // 20_000 - 1):
        crowd.advance(20_000)
        crowd.beat()
    return crowd.work_until("PreparingRebalance")


def answer_to_leader(crowd: Crowd) -> int:
    crowd.knock()
    crowd.work_until("CompletingRebalance")
    crowd.answers.clear()
    count = crowd.work_of_next()
    [(_, response)] = crowd.answers
    assert len(response.members) == crowd.members
    return count


def return_of_static_member_after_load(crowd: Crowd) -> int:
    join_and_sync(crowd)
    left = crowd.load().group_ids()
    while left:
        crowd.partition.start_sessions(left, crowd.now, crowd.now)
    crowd.partition.activate(crowd.now, crowd.now)
    count = crowd.work_of(join_request(group_instance_id="i7", session_timeout_ms=SESSION), 5)
    assert crowd.group.instances["i7"] == "i7"
    assert crowd.group.state == "Stable"
    return count


def description(crowd: Crowd) -> int:
    join_and_sync(crowd)
    return crowd.work_of(DescribeGroupsRequest(groups=["g"]), 5)


MOST_INSTRUCTIONS = (
    (end_of_join_phase, False, 1),
    (end_of_join_phase, True, 9),  # the fact has their instance ids
    (storing_of_assignments, False, 9),
    (storing_of_assignments, True, 9),
    (rejoin_of_leader, False, 23),
    (rejoin_of_leader, True, 23),
    (end_of_sync_phase, False, 7),
    (return_of_static_member_after_load, True, 1),
    (description, False, 1),
    (description, True, 1),
    (answer_to_leader, False, 1),
)
"""How many instructions a step may take for each member, the most that it takes now on Python 3.11.
A call of a function takes ten and more, and a step that answers or removes a member some hundred.
"""
LATER_PYTHONS = 1 if sys.version_info >= (3, 12) else 0
"""Their compiler makes one instruction more of some of these loops."""


@pytest.mark.parametrize(("step", "static", "most"), MOST_INSTRUCTIONS)
def test_a_step_that_decides_about_all_members_hardly_looks_at_each(
    step: Callable[[Crowd], int], static: bool, most: int
) -> None:
    few, many = step(Crowd(FEW, static)), step(Crowd(MANY, static))
    assert many - few <= (most + LATER_PYTHONS) * (MANY - FEW)


def joins_anew_after_a_load(crowd: Crowd) -> int:
    """Clients that do not know their ids any more; most of the members are still connected."""
    join_and_sync(crowd)
    crowd.load()
    left = ["g"]
    while left:
        crowd.partition.start_sessions(left, crowd.now, crowd.now)
    crowd.partition.activate(crowd.now, crowd.now)
    crowd.beat()
    crowd.peer = Peer("crowd", "/127.0.0.1")
    times = {"session_timeout_ms": SESSION, "rebalance_timeout_ms": REBALANCE}
    crowd.ask(join_request(**times))
    return max(crowd.work_of(join_request(**times)) for _ in range(5))


def test_a_join_after_a_load_looks_at_few_members() -> None:
    few, many = (joins_anew_after_a_load(Crowd(members * INDEXED_AT_ONCE)) for members in (3, 6))
    assert many - few <= INDEXED_AT_ONCE


def test_a_group_whose_member_left_takes_little_memory() -> None:
    """It stays until its offsets expire; a dict keeps its size when its keys are removed."""
    crowd, groups = Crowd(0), [f"g{number}" for number in range(500)]
    tracemalloc.start()
    try:
        for group in groups:
            crowd.ask(join_request(group, group_instance_id="i", session_timeout_ms=SESSION), 5)
        crowd.advance(2 * SESSION)
        kept = sum(
            trace.size
            for trace in tracemalloc.take_snapshot().traces
            if trace.traceback[0].filename.endswith(("coordinator/group.py", "subscription.py"))
        )
    finally:
        tracemalloc.stop()
    assert {group.state for group in crowd.partition.groups.values()} == {"Empty"}
    assert kept < 500 * len(groups)


def test_the_assignments_of_a_leader_are_read_in_several_steps() -> None:
    few, many = Crowd(MANY), Crowd(2 * MANY)
    few.join()
    many.join()
    assert READ_AT_ONCE < MANY
    assert many.ask_to_sync() - few.ask_to_sync() <= MANY


def test_a_description_makes_no_object_for_each_member() -> None:
    crowd = Crowd(FEW)
    join_and_sync(crowd)
    gc.disable()
    try:
        before = gc.get_count()[0]
        crowd.ask(DescribeGroupsRequest(groups=["g"]), 5)
        made = gc.get_count()[0] - before
    finally:
        gc.enable()
    assert made < FEW


# -- between two of these steps ------------------------------------------------------------------


def test_every_member_is_answered_once_with_the_generation_and_the_leader_first() -> None:
    crowd = Crowd(FEW)
    crowd.join()
    generations = [response.generation_id for _, response in crowd.answers]
    assert generations == [1] * FEW
    assert len({id(token) for token, _ in crowd.answers}) == FEW
    assert [len(response.members) for _, response in crowd.answers] == [FEW] + [0] * (FEW - 1)
    [fact] = [each for each in crowd.facts if isinstance(each, RebalanceJoined)]
    assert (fact.members, len(fact.joined)) == (FEW, FEW)
    crowd.answers.clear()
    crowd.sync()
    assert [response.assignment for _, response in crowd.answers] == [b"share"] * FEW
    [completed] = [each for each in crowd.facts if isinstance(each, RebalanceCompleted)]
    assert len(completed.assignments) == FEW


def test_an_answer_about_all_members_shows_one_moment_whenever_its_rows_are_made() -> None:
    crowd = Crowd(FEW, static=True)
    crowd.join()
    joined = crowd.answers[0][1].members
    crowd.sync()
    crowd.ask(DescribeGroupsRequest(groups=["g"]), 5)
    [described] = crowd.answers[-1][1].groups
    before = list(joined), list(described.members)
    assert {each.member_assignment for each in described.members} == {b"share"}
    assert {each.member_metadata for each in described.members} == {SUBSCRIPTION}
    first, last = crowd.group.members["i0-0"], list(crowd.group.members)[-1]
    returned = join_request(group_instance_id="i0", session_timeout_ms=SESSION)
    returned.protocols = [JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION + b"x")]
    crowd.ask(returned, 5)
    crowd.ask(leave_request(last, group_id="g"), 4)
    for each in list(crowd.group.members.values()):
        times = {"session_timeout_ms": SESSION, "rebalance_timeout_ms": REBALANCE}
        again = join_request("g", each.member_id, group_instance_id=each.instance_id, **times)
        again.protocols = returned.protocols
        crowd.ask(again, 5)
    crowd.advance(1)
    crowd.sync(b"another")
    assert first.member_id not in [each.member_id for each in described.members]
    assert len(crowd.group.members) == FEW - 1
    assert (list(joined), list(described.members)) == before


def test_of_a_repeated_member_the_last_assignment_counts_however_many_there_are() -> None:
    crowd = Crowd(FEW)
    crowd.join()
    leader, generation = crowd.group.leader_id or "", crowd.group.generation
    request = sync_request(leader, generation, plan=dict.fromkeys(crowd.group.members, b"1"))
    more = sync_request(leader, generation, plan={f"x{at}": b"2" for at in range(READ_AT_ONCE)})
    last = sync_request(leader, generation, plan={leader: b"3"})
    request.assignments += more.assignments + last.assignments
    crowd.ask(request)
    crowd.advance(1)
    shares = {each.member_id: each.assignment for each in crowd.group.members.values()}
    assert shares == dict.fromkeys(crowd.group.members, b"1") | {leader: b"3"}


def answered_leader() -> Crowd:
    """The join phase is over, and the leader is answered, but none of the others."""
    crowd = Crowd(FEW)
    crowd.knock()
    while not crowd.answers:
        crowd.ring()
    [(_, response)] = crowd.answers
    assert response.leader == crowd.group.leader_id
    return crowd


def assign(crowd: Crowd) -> None:
    """The leader sends assignments."""
    plan = dict.fromkeys(crowd.group.members, b"share")
    crowd.ask(sync_request(crowd.group.leader_id or "", 1, plan=plan))


def test_early_assignments_wait_until_all_are_answered_about_the_join_phase() -> None:
    crowd = answered_leader()
    assign(crowd)
    assert len(crowd.answers) == 1
    crowd.advance(1)
    assert crowd.group.state == "Stable"
    joins = crowd.answers[:FEW]
    assert [response.generation_id for _, response in joins] == [1] * FEW
    assert [response.assignment for _, response in crowd.answers[FEW:]] == [b"share"]
    for each in crowd.group.members:
        crowd.ask(sync_request(each, 1))
    assert [response.assignment for _, response in crowd.answers[FEW + 1 :]] == [b"share"] * FEW


def test_early_assignments_of_a_superseded_generation_are_dropped() -> None:
    crowd = answered_leader()
    assign(crowd)
    crowd.rejoin("")
    crowd.advance(1)
    assert crowd.group.state == "PreparingRebalance"
    [(_, refused)] = crowd.answers[1:]
    assert refused.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert not any(each.assignment for each in crowd.group.members.values())
    crowd.rejoin(crowd.group.leader_id or "")
    crowd.advance(1)
    assert (crowd.group.state, crowd.group.generation) == ("CompletingRebalance", 2)
    assert [response.generation_id for _, response in crowd.answers[2:]] == [2] * (FEW + 1)


def test_a_leader_that_leaves_early_is_followed_by_another_one() -> None:
    crowd = answered_leader()
    first = crowd.group.leader_id or ""
    assign(crowd)
    crowd.ask(leave_request(first, group_id="g"), 4)
    crowd.advance(1)
    assert (crowd.group.state, crowd.group.generation) == ("CompletingRebalance", 2)
    assert crowd.group.leader_id not in (None, first)
    crowd.answers.clear()
    crowd.sync()
    assert [response.assignment for _, response in crowd.answers] == [b"share"] * (FEW - 1)


def test_one_that_is_not_answered_yet_joins_the_next_generation() -> None:
    crowd = Crowd(FEW)
    for _ in range(FEW):
        crowd.ask(join_request(session_timeout_ms=SESSION, rebalance_timeout_ms=REBALANCE))
    while crowd.group.answers is None:
        crowd.ring()
    crowd.ask(leave_request(next(iter(crowd.group.members)), group_id="g"), 4)
    assert crowd.group.state == "PreparingRebalance"
    told = {r.member_id for _, r in crowd.answers if getattr(r, "generation_id", 0) == 1}
    crowd.rejoin(*[each for each in crowd.group.members if each in told])
    crowd.advance(1)
    assert (crowd.group.state, crowd.group.generation) == ("CompletingRebalance", 2)
    assert crowd.group.joined_count == 0


def test_one_that_rejoins_while_the_late_ones_are_removed_stays() -> None:
    crowd = Crowd(FEW)
    join_and_sync(crowd)
    leader, *_, last = crowd.group.members
    crowd.rejoin(leader)
    crowd.live(REBALANCE - 20_000)
    crowd.advance(19_000)
    crowd.beat()
    while len(crowd.group.members) == FEW:
        crowd.ring()
    assert len(crowd.group.members) == FEW - REMOVED_AT_ONCE
    crowd.rejoin(last)
    crowd.advance(1_000)
    assert list(crowd.group.members) == [leader, last]
    joined = [each for each in crowd.facts if isinstance(each, RebalanceJoined)][-1]
    assert (joined.ended_by, len(joined.missing)) == ("timeout", FEW - 2)
    removed = [each for each in crowd.facts if isinstance(each, MemberRemoved)]
    assert {each.cause.evidence["rebalance_timeout_ms"] for each in removed} == {REBALANCE}


def nobody_syncs() -> Crowd:
    """The sync phase is over, and the first of those that did not sync are removed."""
    crowd = Crowd(FEW)
    crowd.join()
    crowd.live(REBALANCE - 20_000)
    crowd.advance(19_000)
    crowd.beat()
    while len(crowd.group.members) == FEW:
        crowd.ring()
    return crowd


def test_the_leader_cannot_assign_while_those_that_did_not_sync_are_removed() -> None:
    crowd = nobody_syncs()
    others = list(crowd.group.members)
    assert crowd.group.state == "PreparingRebalance"
    crowd.ask(sync_request(crowd.group.leader_id or "", 1, plan=dict.fromkeys(others, b"share")))
    assert crowd.answers[-1][1].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    crowd.advance(1_000)
    assert crowd.group.state == "Empty"


def test_one_that_joins_while_those_that_did_not_sync_are_removed_saves_none_of_them() -> None:
    crowd = nobody_syncs()
    last = list(crowd.group.members)[-1]
    crowd.ask(join_request(session_timeout_ms=SESSION, rebalance_timeout_ms=REBALANCE))
    crowd.rejoin(last)
    crowd.advance(1_000)
    removed = [each for each in crowd.facts if isinstance(each, MemberRemoved)]
    assert {each.cause.code for each in removed} == {CauseCode.SYNC_TIMEOUT}
    assert len(removed) == FEW
    assert len(crowd.group.members) == 1
    assert crowd.group.rebalance is not None
    assert crowd.group.rebalance.cause.code == CauseCode.SYNC_TIMEOUT


def superseded() -> Scene:
    """A first generation of many, superseded when some are answered. Another member was removed."""
    scene = Scene()
    for name in NAMES:
        scene.join(name, session=1_000_000, rebalance=300_000)
    while scene.group.answers is None or len(scene.group.answers.left) == len(NAMES):
        scene.now = scene.partition.next_deadline() or 0
        scene.ring()
    scene.force_rebalance()
    return scene


NAMES = [f"p{number}" for number in range(5 * PIECE_MEMBERS // 2)]


def test_members_of_a_superseded_generation_are_new_no_longer() -> None:
    scene = superseded()
    scene.advance(295_000)
    assert len(scene.group.members) == len(NAMES)
    assert not scene.noted(MemberRemoved)


def test_the_subscription_of_a_superseded_generation_is_known() -> None:
    scene = superseded()
    scene.advance(5)
    assert scene.group.state == "PreparingRebalance"
    assert scene.delete_offsets("other").outcome == "NONE"


def test_a_group_that_all_leave_while_some_are_not_answered_is_empty() -> None:
    scene = Scene()
    scene.form(*NAMES)
    scene.force_rebalance()
    for name in NAMES:
        scene.knock(name)
    scene.advance(0)
    scene.sync_all(*NAMES)
    while scene.group.answers is None:
        scene.ring()
    assert scene.leave(*NAMES).outcome == "NONE"
    assert scene.group.state == "Empty"
    assert scene.delete().outcome == "NONE"


def test_a_phase_that_all_have_joined_ends_with_the_last_answer_about_the_one_before() -> None:
    scene = Scene()
    scene.form(*NAMES)
    scene.force_rebalance()
    for name in NAMES:
        scene.knock(name)
    scene.force_rebalance()
    assert scene.group.all_joined
    assert scene.group.answers is not None
    scene.advance(0)
    assert scene.group.state == "CompletingRebalance"
    assert scene.noted(RebalanceJoined)[-1].ended_by == "all_joined"


def test_a_closed_partition_refuses_those_that_were_not_answered_yet() -> None:
    crowd = Crowd(FEW)
    for _ in range(FEW):
        crowd.ask(join_request(session_timeout_ms=SESSION, rebalance_timeout_ms=REBALANCE))
    while crowd.group.answers is None:
        crowd.ring()
    answered = len(crowd.answers)
    assert len(crowd.partition.close()) == FEW - answered > 0
