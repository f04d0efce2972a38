"""Time that is moved or stands still, seen from raw connections."""

import math
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from groupkeeper.coordinator.facts import (
    MemberJoined,
    MemberRemoved,
    OffsetsCommitted,
    OffsetsRemoved,
    RebalanceStarted,
)
from groupkeeper.testing import Broker, BrokerDown, RequestFailed, effects
from tests.support.requests import commit_request, join_request
from tests.support.wire import Client
from tests.testing.members import Facts, beat, joined, members, until
from tests.testing.wired import commit, committed, dial

WEEK_S = 7 * 24 * 3600
PLACE = ("orders", 0)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 1}) as broker:
        yield broker


@pytest.fixture
def client(broker: Broker) -> Iterator[Client]:
    with dial(broker) as client:
        yield client


# -- expiry ----------------------------------------------------------------------------------------


def test_offsets_expire_with_the_first_check_after_their_retention(
    broker: Broker, client: Client
) -> None:
    commit(client, {PLACE: 7})
    broker.advance(WEEK_S - 1)
    assert committed(client) == {PLACE: 7}
    broker.advance(601)
    assert committed(client) == {}


def test_checks_of_offsets_that_remove_nothing_take_no_time() -> None:
    """There are 52,560 in a year."""
    with Broker(topics={"orders": 1}, settings={"offsets.retention.minutes": 2**31 - 1}) as broker:
        for number in range(20):
            broker.commit(f"g{number}", {("orders", 0): 7})
        with dial(broker) as client:
            member_id, generation = joined(client)
            began = time.process_time()
            broker.advance(365 * 24 * 3600)
            assert time.process_time() - began < 3
            assert beat(client, member_id, generation) == 0
        assert broker.committed("g19") == {("orders", 0): 7}


def test_an_offset_with_a_retention_of_its_own_expires_with_the_first_check_after(
    broker: Broker, client: Client
) -> None:
    facts = Facts(broker)
    commit(client, {PLACE: 7})
    request = commit_request({("orders", 0): 7}, "own")
    request.retention_time_ms = 90 * 60_000 + 1
    assert client.call(4, request).topics[0].partitions[0].error_code == 0
    broker.advance(2 * WEEK_S)
    [(began, _), *_] = facts.noted(OffsetsCommitted)
    own, other = facts.noted(OffsetsRemoved)
    assert [fact.group for _, fact in (own, other)] == ["own", "g"]
    assert (own[0] - began) / 60_000 == pytest.approx(100, abs=0.5)
    assert (other[0] - began) / 60_000 == pytest.approx(WEEK_S / 60 + 10, abs=0.5)


def test_checks_are_made_when_a_member_has_left_its_group_on_the_way(broker: Broker) -> None:
    """Its offset has a retention of its own, and waits only for the group to be empty."""
    facts = Facts(broker)
    with dial(broker) as client:
        member_id, generation = joined(client, session_timeout_ms=1_500_000)
        request = commit_request({("orders", 0): 7}, "g", member_id, generation)
        request.retention_time_ms = 1
        assert client.call(4, request).topics[0].partitions[0].error_code == 0
    broker.advance(24 * 3600)
    [(began, _)] = facts.noted(OffsetsCommitted)
    [(removed, _)] = facts.noted(OffsetsRemoved)
    assert (removed - began) / 60_000 == pytest.approx(30, abs=0.5)


def test_a_member_whose_connection_is_closed_expires_by_itself(broker: Broker) -> None:
    with dial(broker) as client:
        joined(client, session_timeout_ms=45_000)
    broker.freeze()
    broker.advance(44)
    assert len(members(broker)) == 1
    broker.advance(1)
    assert members(broker) == []


def test_a_member_that_is_heard_of_stays(broker: Broker, client: Client) -> None:
    member_id, generation = joined(client)
    broker.advance(3600)
    assert beat(client, member_id, generation) == 0


def test_a_member_is_silent_under_each_of_its_names(broker: Broker, client: Client) -> None:
    for name in ("tester", "i", None):
        member_id, _ = joined(client, group_instance_id="i")
        broker.advance(10, silent=[name or member_id])
        assert members(broker) == []
    joined(client, group_instance_id="i")
    broker.advance(10, silent="i")
    assert members(broker) == []


def test_everybody_is_silent(broker: Broker, client: Client) -> None:
    with dial(broker) as other:
        joined(client)
        joined(other, "other")
        broker.advance(10, all=True)
    assert members(broker) == members(broker, "other") == []


def test_expiries_happen_in_order_each_at_its_time(broker: Broker) -> None:
    facts, ids = Facts(broker), list[str]()
    broker.freeze()
    for seconds in (30, 10, 20):
        with dial(broker) as client:
            ids.append(joined(client, f"g{seconds}", session_timeout_ms=seconds * 1000)[0])
    began = facts.noted(RebalanceStarted)[-1][0]
    broker.advance(60)
    removed = facts.noted(MemberRemoved)
    assert [fact.who.member for _, fact in removed] == [ids[1], ids[2], ids[0]]
    assert [at - began for at, _ in removed] == [10_000, 20_000, 30_000]


def test_requests_of_a_silent_member_wait_until_the_time_is_reached(
    broker: Broker, client: Client
) -> None:
    """As those of a process that is cut off."""
    facts = Facts(broker)
    member_id, generation = joined(client, session_timeout_ms=10_000)
    with dial(broker) as slow, dial(broker) as other:
        joined(slow, "slow")
        other.send(3, join_request("slow"))
        until(lambda: len(facts.of(MemberJoined)) == 3)
        done: list[int] = []

        def advance() -> None:
            broker.advance(60, silent=[member_id], timeout=0.5)

        thread = threading.Thread(target=advance)
        thread.start()
        until(lambda: member_id in broker._bench.presence._silent or not thread.is_alive())
        done.append(beat(client, member_id, generation))
        thread.join()
    assert done == [25]


def test_a_pending_id_expires(broker: Broker, client: Client) -> None:
    knock = client.call(9, join_request("g", session_timeout_ms=30_000))
    broker.advance(30)
    assert client.call(9, join_request("g", knock.member_id)).error_code == 25


def test_records_are_deleted_after_their_retention(broker: Broker) -> None:
    broker.produce("orders", "old")
    broker.advance(WEEK_S - 3600)
    assert len(broker.records("orders")) == 1
    broker.advance(2 * 3600)
    assert broker.records("orders") == []


# -- who has to answer -----------------------------------------------------------------------------


def test_a_member_that_does_not_answer_in_time_is_treated_by_the_rules(broker: Broker) -> None:
    facts = Facts(broker)
    with dial(broker) as slow, dial(broker) as other:
        slow_id, generation = joined(slow, rebalance_timeout_ms=60_000)
        beat(slow, slow_id, generation)
        other.send(3, join_request("g", rebalance_timeout_ms=60_000))
        until(lambda: len(facts.of(MemberJoined)) == 2)
        began = time.monotonic()
        broker.advance(61, timeout=0.2)
        assert 0.2 <= time.monotonic() - began < 60
        assert other.take().error_code == 0
    [removed] = facts.of(MemberRemoved)
    assert (removed.who.member, removed.cause.code) == (slow_id, "join_timeout")
    assert removed.cause.likely == "slow_member"
    assert removed.cause.evidence["waited_ms"] == pytest.approx(60_000, abs=5_000)


def test_time_does_not_wait_for_members_whose_joins_are_held(
    broker: Broker, client: Client
) -> None:
    timeouts = {"session_timeout_ms": 45_000, "rebalance_timeout_ms": 60_000}
    member_id, generation = joined(client, **timeouts)
    beat(client, member_id, generation)
    broker.group("g").rebalance()
    with broker.fault(effects.hold_joins(), group="g") as rule:
        client.send(3, join_request("g", member_id, **timeouts))
        rule.wait()
        began = time.monotonic()
        broker.advance(50, timeout=60)
        assert time.monotonic() - began < 30
        assert members(broker) == [member_id]
    assert client.take().generation_id == generation + 1


# -- time that stands still ------------------------------------------------------------------------


def test_nobody_expires_while_time_stands_still(broker: Broker, client: Client) -> None:
    broker.freeze()
    joined(client, session_timeout_ms=300)
    time.sleep(0.5)
    assert len(members(broker)) == 1
    broker.resume()
    until(lambda: members(broker) == [])


def test_time_that_stands_still_is_moved_and_stands_again(broker: Broker, client: Client) -> None:
    facts = Facts(broker)
    broker.freeze()
    broker.freeze()
    commit(client, {PLACE: 7})
    broker.advance(3600)
    commit(client, {PLACE: 7})
    time.sleep(0.01)
    commit(client, {PLACE: 7})
    broker.resume()
    broker.resume()
    [first, second, third] = [at for at, _ in facts.noted(OffsetsCommitted)]
    assert (second - first, third - second) == (3_600_000, 0)


def test_time_that_runs_runs_on_from_where_it_was_moved_to(broker: Broker, client: Client) -> None:
    facts = Facts(broker)
    commit(client, {PLACE: 7})
    broker.advance(3600)
    time.sleep(0.05)
    commit(client, {PLACE: 7})
    [first, second] = [at for at, _ in facts.noted(OffsetsCommitted)]
    assert 3_600_050 <= second - first < 3_660_000
    assert first == pytest.approx(time.time() * 1000, abs=60_000)


# -- a broker that does not run --------------------------------------------------------------------


@pytest.mark.parametrize("data", [None, "disk"])
def test_time_goes_by_while_the_broker_does_not_run(data: str | None, tmp_path: Path) -> None:
    with Broker(topics={"orders": 1}, data=data and tmp_path / data) as broker:
        with dial(broker) as client:
            commit(client, {PLACE: 7})
        broker.crash()
        broker.freeze()
        broker.advance(WEEK_S)
        broker.restart()
        with dial(broker) as client:
            assert committed(client) == {PLACE: 7}
            broker.advance(600)
            assert committed(client) == {}


def test_members_of_a_broker_that_was_restarted_have_time_to_come_back(broker: Broker) -> None:
    with dial(broker) as client:
        member_id, generation = joined(client)
    broker.restart()
    with dial(broker) as client:
        timer = threading.Timer(0.1, lambda: beat(client, member_id, generation))
        timer.start()
        broker.advance(3600, timeout=60)
        timer.join()
        assert members(broker) == [member_id]


def test_members_that_do_not_come_back_to_a_restarted_broker_expire(broker: Broker) -> None:
    with dial(broker) as client:
        joined(client, session_timeout_ms=600_000)
        broker.restart()
    broker.advance(500, timeout=0.1)  # much real time may pass as well
    assert len(members(broker)) == 1
    broker.advance(100, timeout=0.1)
    assert members(broker) == []


def test_who_waits_for_a_time_hears_that_the_broker_has_ended(broker: Broker) -> None:
    facts = Facts(broker)
    with dial(broker) as slow, dial(broker) as other:
        joined(slow)
        other.send(3, join_request("g"))
        until(lambda: len(facts.of(MemberJoined)) == 2)
        timer = threading.Timer(0.1, broker.crash)
        timer.start()
        with pytest.raises(BrokerDown):
            broker.advance(10, timeout=10)
        timer.join()
    broker.restart()
    broker.advance(1, timeout=0)


def test_a_broker_that_is_reset_has_the_machines_time(broker: Broker) -> None:
    broker.advance(3600)
    broker.freeze()
    broker.reset()
    with dial(broker) as client:
        facts = Facts(broker)
        joined(client, session_timeout_ms=1_000)
        [(at, _)] = facts.noted(MemberJoined)
        assert at == pytest.approx(time.time() * 1000, abs=10_000)
        until(lambda: members(broker) == [])


# -- arguments -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "error", "line"),
    [
        (-1, ValueError, r"takes 0 to 31622400 seconds \(a year\), not -1"),
        (math.nan, ValueError, "not nan"),
        (math.inf, ValueError, "not inf"),
        (1e9, ValueError, "not 1000000000.0"),
        ("45", TypeError, "a number of seconds, not '45'"),
        (True, TypeError, "not True"),
    ],
)
def test_wrong_times_are_refused(
    broker: Broker, seconds: Any, error: type[Exception], line: str
) -> None:
    with pytest.raises(error, match=line):
        broker.advance(seconds)


def test_a_wrong_name_is_refused_before_anything_happens(broker: Broker, client: Client) -> None:
    with pytest.raises(RequestFailed, match="'x', not a member: there are no members"):
        broker.advance(10, silent=["x"])
    member_id, generation = joined(client)
    with pytest.raises(RequestFailed, match=f"'x', not a member: {member_id}, tester"):
        broker.advance(10, silent=["tester", "x"])
    assert beat(client, member_id, generation) == 0


def test_members_of_a_broker_that_does_not_run_cannot_be_named(broker: Broker) -> None:
    broker.crash()
    with pytest.raises(BrokerDown, match="is not running"):
        broker.advance(10, all=True)


async def test_in_a_coroutine() -> None:
    async with Broker(topics={"orders": 1}) as broker:
        await broker.freeze()
        await broker.advance(10)
        await broker.resume()


async def test_time_that_blocks_an_event_loop_says_so(broker: Broker, client: Client) -> None:
    member_id, generation = joined(client)
    beat(client, member_id, generation)
    broker.group("g").rebalance()
    with pytest.warns(RuntimeWarning, match=rf"{member_id}.*await broker\.aio\.advance") as told:
        broker.advance(5, timeout=0.1)
    assert told[0].filename == __file__


def test_time_may_be_changed_while_the_server_ends(broker: Broker) -> None:
    """A fault has crashed it: its thread may not have ended."""
    running = broker._bench.running
    running.loop.call_soon_threadsafe(running.loop.set_debug, True)  # notices other threads
    broker.commit("g", {("orders", 0): 1})
    running.has_died = True  # as a fault says on the loop, before it ends
    broker.freeze()
    broker.advance(60)
    broker.resume()
    running.has_died = False
    assert broker.committed("g") == {("orders", 0): 1}
