"""Coordinators are asked what the log does not say: within limits, and whoever fails is told."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any, cast

import pytest

from groupkeeper.client import Client
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.message import Message
from groupkeeper.protocol.messages.describe_groups import DescribeGroupsRequest
from groupkeeper.protocol.messages.list_groups import ListGroupsRequest
from groupkeeper.protocol.placement import partition_of
from groupkeeper.topics.slices import ITEMS
from groupkeeper.watch import asking
from groupkeeper.watch.asking import (
    ASKS_PER_S,
    DENIED_MS,
    GROUPS_AT_ONCE,
    LIST_AGAIN_S,
    LIST_S,
    MEMBERS_AT_ONCE,
    NODES_S,
    UNKNOWN_MS,
    Asker,
)
from groupkeeper.watch.phases import IDS_SHOWN
from groupkeeper.watch.retries import TRIES_MOST
from tests.conftest import Lines
from tests.simulation.cluster import VirtualClock
from tests.support.requests import join_request
from tests.support.served import Served, settle
from tests.support.virtual_loop import VirtualLoop
from tests.watch.coordinators import CALL_S, Coordinators
from tests.watch.observed import Observed
from tests.watch.test_tail import virtual

Play = Callable[[Coordinators, Asker], Awaitable[None]]


@pytest.fixture
def observed(served: Served) -> Observed:
    return Observed(served)


def played(
    play: Play, leaders: dict[int, int] | None = None, loop: VirtualLoop | None = None
) -> Coordinators:
    """Ask while `play` runs."""
    loop = loop or VirtualLoop()
    there = leaders or {0: 0}

    async def run() -> Coordinators:
        clock = VirtualClock(loop)
        cluster = Coordinators(there, clock)
        asker = Asker(cast("Client", cluster), cluster.views, lambda: cluster.leaders, clock)
        running = asyncio.create_task(asker.run())
        try:
            await play(cluster, asker)
            assert not running.done() or running.result()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        return cluster

    return loop.run_until_complete(run())


def described(cluster: Coordinators) -> list[list[str]]:
    """The groups of each DescribeGroups."""
    return [request.groups for _, _, request in cluster.sent(DescribeGroupsRequest)]


# -- a rebalance under way -----------------------------------------------------------------------


def test_a_rebalance_under_way_is_shown_until_its_record_is_read(observed: Observed) -> None:
    served = observed.served
    ann, bea = served.client(), served.client()
    first, _ = settle(ann, "billing")
    observed.caught_up()
    bea.send(3, join_request("billing", ""))
    served.advance(3)
    [row] = observed.web.found("groups", state="PreparingRebalance")["groups"]
    assert (row["group"], row["members"]) == ("billing", 1)
    live = observed.web.found("groups", "billing")["live"]
    assert (live["state"], live["rebalance"]["phase"]) == ("PreparingRebalance", "join")
    assert 1_000 <= live["rebalance"]["since_ms"] <= 3_000
    assert (live["waiting_for"], live["phase_timer"]) == ([], None)
    assert (len(live["seen"]["came"]), live["seen"]["gone"]) == (1, [])
    joined = ann.join("billing", first)
    served.advance(2)
    live = observed.web.found("groups", "billing")["live"]
    assert (live["state"], live["rebalance"]["phase"]) == ("CompletingRebalance", "sync")
    leader = ann if joined.leader == first else bea
    bea.take()
    leader.sync(joined.leader, joined.generation_id, "billing", **{joined.leader: b"plan"})
    observed.caught_up()
    live = observed.web.found("groups", "billing")["live"]
    assert (live["state"], live["rebalance"], len(live["members"])) == ("Stable", None, 2)
    assert "seen" not in live


def test_a_member_that_is_gone_is_named_while_the_others_rejoin(observed: Observed) -> None:
    served = observed.served
    ann, bea = served.client(), served.client()
    first, _ = settle(ann, "billing")
    bea.send(3, join_request("billing", ""))
    served.advance(0.5)
    joined = ann.join("billing", first)
    second = bea.take().member_id
    leader = ann if joined.leader == first else bea
    leader.sync(joined.leader, joined.generation_id, "billing", **{joined.leader: b"plan"})
    observed.caught_up()
    assert bea.leave(second, group_id="billing") == 0
    served.advance(2)
    seen = observed.web.found("groups", "billing")["live"]["seen"]
    assert (seen["came"], seen["gone"]) == ([], [second])
    why = observed.web.found("groups", "billing", "why")["entries"][-1]
    assert (why["kind"], why["state"]) == ("live", "PreparingRebalance")


def test_a_rebalance_that_ends_unrecorded_is_not_shown_any_more() -> None:
    async def play(cluster: Coordinators, asker: Asker) -> None:
        cluster.put("g", "ann")
        group = cluster.views.of("g").peek("g")
        assert group is not None
        cluster.put("g", "ann", state="PreparingRebalance", recorded=False)
        await virtual(1.5 * LIST_S)
        assert group.state == "PreparingRebalance"
        assert group.state_timestamp_ms > 0
        cluster.put("g", "ann", recorded=False)
        await virtual(1.5 * LIST_S)
        assert (group.state, group.state_timestamp_ms) == ("Stable", 0)

    played(play)


def test_an_answer_that_is_older_than_the_record_does_not_count() -> None:
    async def play(cluster: Coordinators, asker: Asker) -> None:
        cluster.put("g", "ann")
        cluster.put("g", "ann", state="PreparingRebalance", recorded=False)
        await virtual(0.75 * CALL_S)
        assert len(cluster.sent(ListGroupsRequest)) == 1
        cluster.put("g", "ann", "bea")  # the record is read while the answer is on its way
        await virtual(0.5 * LIST_S)
        group = cluster.views.of("g").peek("g")
        assert group is not None
        assert group.state == "Stable"

    played(play)


def test_groups_that_a_node_does_not_coordinate_any_more_do_not_count() -> None:
    async def play(cluster: Coordinators, asker: Asker) -> None:
        cluster.put("g", "ann")
        cluster.put("g", "ann", state="PreparingRebalance", recorded=False)
        cluster.listed_by = 1
        await virtual(5)
        group = cluster.views.of("g").peek("g")
        assert group is not None
        assert group.state == "Stable"

    cluster = played(play, {partition_of("g", 2): 0, 1 - partition_of("g", 2): 1})
    assert {node for _, node, _ in cluster.sent(ListGroupsRequest)} == {0, 1}


def test_a_rebalance_is_not_shown_any_more_if_the_next_coordinator_knows_none() -> None:
    async def play(cluster: Coordinators, asker: Asker) -> None:
        cluster.put("g", "ann")
        cluster.put("g", "ann", state="PreparingRebalance", recorded=False)
        await virtual(1.5 * LIST_S)
        group = cluster.views.of("g").peek("g")
        assert group is not None
        assert group.state == "PreparingRebalance"
        cluster.put("g", "ann", recorded=False)
        cluster.leaders = {0: 1}
        cluster.down.add(0)
        await virtual(NODES_S + 2 * LIST_S)
        assert group.state == "Stable"

    played(play)


# -- limits --------------------------------------------------------------------------------------


def test_requests_are_limited_however_many_groups_there_are() -> None:
    async def play(cluster: Coordinators, asker: Asker) -> None:
        for number in range(2_000):
            cluster.put(f"g{number}", "ann")
            state = "PreparingRebalance" if number % 2 else "Stable"
            cluster.put(f"g{number}", "ann", state=state, recorded=False)
            asker.changed(f"g{number}")
        await virtual(20)
        assert len(cluster.calls) == asker.requests.sent
        times = [at for at, _, _ in cluster.calls]
        for start in range(19):
            some = [at for at in times if start <= at < start + 1]
            assert len(some) <= ASKS_PER_S + 1
        assert len(times) >= 20 * ASKS_PER_S - 5

    cluster = played(play, {number: number % 3 for number in range(6)})
    assert all(len(some) <= GROUPS_AT_ONCE for some in described(cluster))
    assert len(cluster.sent(ListGroupsRequest)) >= 20


def test_several_groups_are_described_at_once_the_last_one_that_changed_first() -> None:
    async def play(cluster: Coordinators, asker: Asker) -> None:
        for number in range(GROUPS_AT_ONCE + 5):
            cluster.put(f"g{number}", "ann")
            asker.changed(f"g{number}")
        asker.changed("g1")
        await virtual(3)

    first, second = described(played(play))
    assert first[:3] == ["g1", f"g{GROUPS_AT_ONCE + 4}", f"g{GROUPS_AT_ONCE + 3}"]
    assert len(first) == GROUPS_AT_ONCE
    assert second == ["g5", "g4", "g3", "g2", "g0"]


def test_what_does_not_fit_into_the_queue_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "QUEUE_MOST", 3)

    async def play(cluster: Coordinators, asker: Asker) -> None:
        for number in range(5):
            cluster.put(f"g{number}", "ann")
            asker.changed(f"g{number}")
        await virtual(3)
        assert asker.requests.dropped == 2

    assert described(played(play)) == [["g4", "g3", "g2"]]


def test_members_in_a_request_are_limited() -> None:
    async def play(cluster: Coordinators, asker: Asker) -> None:
        half = [f"m{number}" for number in range(MEMBERS_AT_ONCE // 2 + 1)]
        for name in ("one", "two"):
            cluster.put(name, *half)
            asker.changed(name)
        cluster.put("large", *half, *(f"n{each}" for each in half))
        asker.changed("large")
        await virtual(3)
        assert asker.requests.dropped == 1

    assert described(played(play)) == [["two"], ["one"]]


class Row:
    """A row of a response, which counts how often its id is read."""

    reads = 0

    def __init__(self, row: Any) -> None:
        self._row = row

    def __getattr__(self, name: str) -> object:
        Row.reads += name in ("group_id", "member_id")
        return getattr(self._row, name)


class ReadingLoop(VirtualLoop):
    """Notes the most ids that are read in an iteration."""

    most = 0

    def _run_once(self) -> None:
        Row.reads = 0
        super()._run_once()
        self.most = max(self.most, Row.reads)


def test_a_listing_of_very_many_groups_is_read_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, names = ReadingLoop(), [f"g{number}" for number in range(10 * ITEMS)]

    async def play(cluster: Coordinators, asker: Asker) -> None:
        listed = cluster.list
        monkeypatch.setattr(cluster, "list", lambda *asked: [Row(each) for each in listed(*asked)])
        for name in names:
            cluster.put(name, "ann")
            cluster.put(name, "ann", state="PreparingRebalance", recorded=False)
        await virtual(2 * LIST_S)
        groups = [cluster.views.of(name).peek(name) for name in names]
        assert {each and each.state for each in groups} == {"PreparingRebalance"}

    cluster = played(play, loop=loop)
    assert 0 < loop.most <= 2 * ITEMS
    assert cluster.in_slices == {ListGroupsRequest, DescribeGroupsRequest}


def test_a_description_of_very_many_members_is_read_in_slices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop, members = ReadingLoop(), [f"m{number}" for number in range(MEMBERS_AT_ONCE)]

    async def play(cluster: Coordinators, asker: Asker) -> None:
        rows = cluster.row

        def row(*asked: Any) -> Any:
            found = rows(*asked)
            found.members = [Row(each) for each in found.members]
            return found

        monkeypatch.setattr(cluster, "row", row)
        for name in ("g", "h"):
            cluster.put(name, "ann")
            cluster.put(name, *members, state="PreparingRebalance", recorded=False)
        await virtual(2 * LIST_S)
        for name in ("g", "h"):
            view: dict[str, Any] = {"group": name}
            cluster.views.of(name).phases.show(view)
            assert len(view["seen"]["came"]) == IDS_SHOWN

    played(play, loop=loop)
    assert 0 < loop.most <= 2 * ITEMS


# -- failures ------------------------------------------------------------------------------------


def test_a_node_that_does_not_answer_delays_no_other() -> None:
    async def play(cluster: Coordinators, asker: Asker) -> None:
        cluster.silent.add(0)
        await virtual(20)

    asked = [node for _, node, _ in played(play, {0: 0, 1: 1}).calls]
    assert asked.count(1) >= 15
    assert 2 <= asked.count(0) <= 5


def test_a_node_that_fails_is_asked_again_after_growing_pauses() -> None:
    async def play(cluster: Coordinators, asker: Asker) -> None:
        cluster.down.add(0)
        await virtual(60)
        failed = len(cluster.calls)
        assert asker.requests.failures == failed <= 8
        cluster.down.clear()
        await virtual(40)
        assert len(cluster.calls) >= failed + 5
        assert asker.requests.failures == failed

    played(play)


def test_groups_of_a_failed_request_are_described_when_the_node_answers() -> None:
    async def play(cluster: Coordinators, asker: Asker) -> None:
        cluster.put("g", "ann")
        cluster.down.add(0)
        asker.changed("g")
        await virtual(10)
        cluster.down.clear()
        cluster.calls.clear()
        await virtual(120)
        assert asker.requests.dropped == 0

    assert described(played(play)) == [["g"]]


@pytest.mark.parametrize(
    "error", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR]
)
def test_a_group_with_an_error_is_asked_about_again_after_growing_pauses(
    error: ErrorCode, lines: Lines
) -> None:
    async def play(cluster: Coordinators, asker: Asker) -> None:
        cluster.put("g", "ann")
        cluster.errors["g"] = error
        asker.changed("g")
        await virtual(600)
        times = [at for at, _, _ in cluster.sent(DescribeGroupsRequest)]
        pauses = [round(then - before) for before, then in pairwise(times)]
        assert pauses[:5] == [1, 2, 4, 8, 16]
        assert (len(pauses), max(pauses)) == (TRIES_MOST, 60)
        assert (asker.requests.failures, asker.requests.dropped) == (TRIES_MOST + 1, 1)
        cluster.errors.clear()
        asker.changed("g")  # its next record
        await virtual(600)
        assert len(described(cluster)) == TRIES_MOST + 2

    played(play)
    [told] = [each for each in lines() if each["event"] == "limit reached"]
    assert told["groups"] == "g"


def test_a_group_that_has_moved_is_asked_about_at_its_new_coordinator() -> None:
    async def play(cluster: Coordinators, asker: Asker) -> None:
        cluster.put("g", "ann")
        cluster.errors["g"] = ErrorCode.NOT_COORDINATOR
        asker.changed("g")
        await virtual(1)
        cluster.leaders, cluster.errors = {0: 1}, {}
        await virtual(2 * NODES_S)

    cluster = played(play)
    assert [node for _, node, _ in cluster.sent(DescribeGroupsRequest)] == [0, 1]


def test_groups_of_a_node_that_is_gone_are_described_by_the_next_one() -> None:
    async def play(cluster: Coordinators, asker: Asker) -> None:
        names = [f"g{number}" for number in range(GROUPS_AT_ONCE + 5)]
        for name in names:
            cluster.put(name, "ann")
        cluster.silent.add(0)
        for name in names:
            asker.changed(name)
        await virtual(7)  # one request was sent, and the others wait
        cluster.leaders = {0: 1}
        cluster.calls.clear()
        await virtual(4 * NODES_S)
        found = [
            each for _, node, some in cluster.sent(DescribeGroupsRequest) for each in some.groups
        ]
        assert sorted(found) == sorted(names)

    played(play)


def test_a_group_without_a_coordinator_is_described_when_it_has_one() -> None:
    async def play(cluster: Coordinators, asker: Asker) -> None:
        cluster.put("g", "ann")
        index = cluster.views.of("g").index
        cluster.leaders = {1 - index: 0}
        asker.changed("g")
        await virtual(2)
        assert described(cluster) == []
        cluster.leaders = {index: 0, 1 - index: 0}
        await virtual(5)

    assert described(played(play, {0: 0, 1: 0})) == [["g"]]


def test_requests_are_limited_if_all_fail() -> None:
    async def play(cluster: Coordinators, asker: Asker) -> None:
        for number in range(500):
            cluster.put(f"g{number}", "ann")
            cluster.put(f"g{number}", "ann", state="PreparingRebalance", recorded=False)
            cluster.errors[f"g{number}"] = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            asker.changed(f"g{number}")
        await virtual(60)

    cluster = played(play)
    assert len(cluster.calls) <= 60 * ASKS_PER_S + 1
    assert all(len(some) <= GROUPS_AT_ONCE for some in described(cluster))


def test_a_group_that_may_not_be_described_is_told_and_left_alone(lines: Lines) -> None:
    async def play(cluster: Coordinators, asker: Asker) -> None:
        cluster.put("g", "ann")
        cluster.denied.add("g")
        for _ in range(3):
            asker.changed("g")
            await virtual(2)
        assert len(described(cluster)) == 1
        assert asker.asked("g").sightings == ()
        await virtual(DENIED_MS / 1000)
        asker.changed("g")
        await virtual(2)
        assert len(described(cluster)) == 2

    played(play)
    told = [each for each in lines() if each["event"] == "groups may not be asked about"]
    assert "grant DESCRIBE on groups" in told[0]["why"]
    assert told[0]["groups"] == "g"


def test_a_group_of_another_protocol_is_not_asked_about_with_each_record() -> None:
    async def play(cluster: Coordinators, asker: Asker) -> None:
        cluster.put("g", "ann")
        cluster.newer.add("g")
        for _ in range(5):
            asker.changed("g")
            await virtual(2)
        assert len(described(cluster)) == 1
        assert asker.requests.failures == 0
        cluster.newer.clear()
        await virtual(UNKNOWN_MS / 1000)
        asker.changed("g")
        await virtual(2)
        assert len(described(cluster)) == 2

    played(play)


def test_a_node_without_a_filter_is_told_once_and_asked_again_after_a_while(lines: Lines) -> None:
    async def play(cluster: Coordinators, asker: Asker) -> None:
        cluster.is_old = True
        await virtual(10)
        cluster.put("g", "ann")
        asker.changed("g")
        await virtual(1)
        assert len(cluster.sent(ListGroupsRequest)) == 1
        await virtual(LIST_AGAIN_S)
        assert len(cluster.sent(ListGroupsRequest)) == 2
        assert asker.requests.failures == 2

    cluster = played(play)
    assert described(cluster) == [["g"]]
    told = [each for each in lines() if each["event"] == "rebalances under way are not seen"]
    assert len(told) == 1


def test_a_node_that_was_upgraded_lists_its_groups(lines: Lines) -> None:
    async def play(cluster: Coordinators, asker: Asker) -> None:
        cluster.is_old = True
        cluster.put("g", "ann")
        await virtual(10)
        cluster.is_old = False
        cluster.put("g", "ann", state="PreparingRebalance", recorded=False)
        await virtual(LIST_AGAIN_S)
        group = cluster.views.of("g").peek("g")
        assert group is not None
        assert group.state == "PreparingRebalance"
        cluster.calls.clear()
        await virtual(10 * LIST_S)
        assert len(cluster.sent(ListGroupsRequest)) >= 9
        cluster.is_old = True  # a downgrade
        await virtual(10 * LIST_S)

    played(play)
    told = [each for each in lines() if each["event"] == "rebalances under way are not seen"]
    assert len(told) == 2


def test_a_node_without_a_filter_that_comes_back_is_asked_at_once() -> None:
    async def play(cluster: Coordinators, asker: Asker) -> None:
        cluster.is_old = True
        await virtual(10)
        cluster.leaders = {0: 1}
        await virtual(2 * NODES_S)
        cluster.calls.clear()
        cluster.is_old, cluster.leaders = False, {0: 0}
        await virtual(2 * NODES_S)
        assert len(cluster.sent(ListGroupsRequest)) >= NODES_S

    played(play)


def test_nodes_that_come_are_asked_and_those_that_are_gone_are_not() -> None:
    async def play(cluster: Coordinators, asker: Asker) -> None:
        await virtual(6)
        cluster.leaders = {0: 1}
        await virtual(6)
        cluster.calls.clear()
        await virtual(5)

    assert {node for _, node, _ in played(play).calls} == {1}


def test_the_error_of_a_node_that_leaves_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(cluster: Coordinators, asker: Asker) -> None:
        call = cluster.call

        async def broken(request: Message, *, node: int) -> object:
            return 1 / node if node == 0 else await call(request, node=node)

        monkeypatch.setattr(cluster, "call", broken)
        await virtual(1)
        cluster.leaders = {0: 1}
        await virtual(2 * NODES_S)

    with pytest.raises(ZeroDivisionError):
        played(play)
