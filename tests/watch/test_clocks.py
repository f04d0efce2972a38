"""Steps of clocks: those of the observer change nothing that is shown, and no evidence is wrong."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from groupkeeper.client import Client as KafkaClient
from groupkeeper.watch import phases
from groupkeeper.watch.asking import LIST_S, Asker
from tests.support.requests import join_request
from tests.support.served import Client, Served, settle
from tests.support.virtual_loop import VirtualLoop
from tests.watch.clocks import SteppedClock
from tests.watch.coordinators import CALL_S, Coordinators
from tests.watch.observed import Observed
from tests.watch.test_evidence import pair, synced
from tests.watch.test_tail import virtual

HOUR_MS = 3_600_000

Play = Callable[[Coordinators, Asker, SteppedClock], Awaitable[None]]


@pytest.fixture
def observed(served: Served) -> Observed:
    return Observed(served)


def clock_of(observed: Observed) -> SteppedClock:
    return cast("SteppedClock", observed.server.clock)


def played(play: Play) -> None:
    """Ask one coordinator while `play` runs."""
    loop = VirtualLoop()

    async def run() -> None:
        clock = SteppedClock(loop)
        cluster = Coordinators({0: 0}, clock)
        asker = Asker(cast("KafkaClient", cluster), cluster.views, lambda: cluster.leaders, clock)
        running = asyncio.create_task(asker.run())
        try:
            await play(cluster, asker, clock)
            assert not running.done() or running.result()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    loop.run_until_complete(run())


def state_of(cluster: Coordinators, group_id: str) -> str:
    group = cluster.views.of(group_id).peek(group_id)
    assert group is not None
    return str(group.state)


def passed(observed: Observed, seconds: int, *members: tuple[Client, str]) -> None:
    """Let time pass while members of generation 2 send heartbeats, and the clocks of the
    coordinator and the observer are compared: another group commits.
    """
    served = observed.served
    other = served.client()
    for number in range(seconds):
        assert other.commit(number, "other") == 0
        for client, member_id in members:
            assert client.beat(member_id, 2, "billing") == 0
        served.advance(1)


# -- rebalances under way ------------------------------------------------------------------------


@pytest.mark.parametrize("by_ms", [-HOUR_MS, HOUR_MS])
def test_a_rebalance_is_shown_after_the_clock_was_set(by_ms: int) -> None:
    async def play(cluster: Coordinators, asker: Asker, clock: SteppedClock) -> None:
        cluster.put("g", "ann")
        await virtual(1)
        clock.set_by_ms = by_ms
        cluster.put("g", "ann", state="PreparingRebalance", recorded=False)
        await virtual(1.5 * LIST_S)
        assert state_of(cluster, "g") == "PreparingRebalance"

    played(play)


@pytest.mark.parametrize("by_ms", [-HOUR_MS, HOUR_MS])
def test_an_answer_that_is_older_than_the_record_does_not_count_if_the_clock_is_set(
    by_ms: int,
) -> None:
    async def play(cluster: Coordinators, asker: Asker, clock: SteppedClock) -> None:
        cluster.put("g", "ann")
        cluster.put("g", "ann", state="PreparingRebalance", recorded=False)
        await virtual(0.75 * CALL_S)
        clock.set_by_ms = by_ms
        cluster.put("g", "ann", "bea")  # the record is read while the answer is on its way
        await virtual(0.5 * LIST_S)
        assert state_of(cluster, "g") == "Stable"

    played(play)


@pytest.mark.parametrize("by_ms", [-HOUR_MS, HOUR_MS])
def test_how_long_a_rebalance_takes_does_not_change_when_the_clock_is_set(
    by_ms: int, observed: Observed
) -> None:
    served = observed.served
    settle(served.client(), "billing")
    observed.caught_up()
    served.client().send(3, join_request("billing", ""))
    served.advance(2)
    clock_of(observed).set_by_ms = by_ms
    served.advance(1)
    live = observed.web.found("groups", "billing")["live"]
    assert 1_500 <= live["rebalance"]["since_ms"] <= 3_100


def test_an_old_answer_does_not_count_if_the_time_of_the_record_is_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(phases, "RENEWED_MOST", 1)

    async def play(cluster: Coordinators, asker: Asker, clock: SteppedClock) -> None:
        cluster.put("g", "ann")
        cluster.put("g", "ann", state="PreparingRebalance", recorded=False)
        await virtual(0.75 * CALL_S)
        cluster.put("g", "ann", "bea")  # the record is read while the answer is on its way
        await virtual(0.1 * CALL_S)
        cluster.put("h", "cid")
        await virtual(0.5 * LIST_S)
        assert state_of(cluster, "g") == "Stable"
        cluster.put("g", "ann", state="PreparingRebalance", recorded=False)
        await virtual(1.5 * LIST_S)
        assert state_of(cluster, "g") == "PreparingRebalance"

    played(play)


# -- evidence ------------------------------------------------------------------------------------


@pytest.mark.parametrize("by_ms", [3_000, -3_000, HOUR_MS, -HOUR_MS])
def test_the_bounds_of_a_start_are_right_after_the_clock_was_set(
    by_ms: int, observed: Observed
) -> None:
    ann, bea, first, second = pair(observed)
    served = observed.served
    passed(observed, 3, (ann, first), (bea, second))
    clock_of(observed).set_by_ms = by_ms
    passed(observed, 6, (ann, first), (bea, second))
    began_ms = served.server.clock.wall()
    bea.leave(second, group_id="billing")
    served.advance(4)
    synced(ann, ann.join("billing", first))
    observed.caught_up()
    found = observed.web.found("groups", "billing", "rounds")["rounds"][-1]
    assert began_ms - 1_500 <= found["not_before_ms"] <= began_ms
    assert began_ms <= found["first_seen_ms"] <= began_ms + 1_500


@pytest.mark.parametrize("by_ms", [3_000, -3_000])
def test_no_bound_is_wrong_if_the_clock_is_set_in_a_rebalance(
    by_ms: int, observed: Observed
) -> None:
    ann, bea, first, second = pair(observed)
    served = observed.served
    passed(observed, 3, (ann, first), (bea, second))
    began_ms = served.server.clock.wall()
    bea.leave(second, group_id="billing")
    served.advance(2)
    clock_of(observed).set_by_ms = by_ms
    passed(observed, 2)
    served.advance(2)
    synced(ann, ann.join("billing", first))
    observed.caught_up()
    found = observed.web.found("groups", "billing", "rounds")["rounds"][-1]
    assert found["cause"]["code"] == "member_left"
    assert (found["not_before_ms"] or began_ms) <= began_ms
    assert (found["first_seen_ms"] or began_ms) >= began_ms
