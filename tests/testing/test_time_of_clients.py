"""What real clients see when time is moved. The times that it takes are printed (`pytest -rP`); the
bounds are for slow machines.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from groupkeeper.coordinator.facts import (
    MemberJoined,
    MemberRemoved,
    RebalanceJoined,
    RebalanceStarted,
)
from groupkeeper.testing import Broker
from tests.support.requests import join_request, sync_request
from tests.testing.members import Facts, beats, joined, members, until
from tests.testing.polling import (
    BEAT_MS,
    LIBRARIES,
    OnAiokafka,
    OnConfluent,
    OnKafkaPython,
    Polling,
    gathered,
)
from tests.testing.wired import dial

BOUND_S = 40.0
SUBSCRIPTION = b"\0\0\0\0\0\1\0\6orders\xff\xff\xff\xff"
"""To `orders`, in version 0, which all clients read."""


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 6}) as broker:
        yield broker


@contextmanager
def timed(what: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    took = time.perf_counter() - began
    print(f"{what}: {took * 1000:.0f} ms from advance() to what the client sees")
    assert took < BOUND_S


# -- a session -------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_silent_member_expires_alone(broker: Broker, library: type[Polling]) -> None:
    with gathered(broker, library, library) as (a, b):
        until(lambda: all(beats(broker, each) > 2 for each in members(broker)))
        facts = Facts(broker)
        broker.advance(600, timeout=BOUND_S)
        with timed("a session of 45 s"):
            broker.advance(45, silent=[b.client_id], timeout=BOUND_S)
            a.gets(*range(6))
        [removed] = facts.of(MemberRemoved)
        cause, first = removed.cause, facts.of(RebalanceStarted)[0].cause
        assert (first.code, first.who) == (cause.code, removed.who)
        assert removed.who.client_id == b.client_id
        assert (cause.code, cause.likely) == ("session_expired", "crash_or_network")
        assert cause.evidence["silent_ms"] == 45_000
        assert cause.evidence["connection"] == "open"
        interval_ms = cause.evidence["heartbeat_interval_ms"]
        assert BEAT_MS / 2 < interval_ms < 10_000
        assert cause.evidence["heartbeats"] == pytest.approx(600_000 / interval_ms, rel=0.1)
        until(lambda: bool(facts.of(MemberJoined)))  # its requests are let through: it hears of it


def test_who_is_gone_expires_without_being_named(broker: Broker) -> None:
    with gathered(broker, OnConfluent) as (stays,), dial(broker) as gone:
        request = join_request("g", session_timeout_ms=45_000)
        request.protocols[0].metadata = SUBSCRIPTION
        answer = gone.call(3, request)
        gone.call(5, sync_request(answer.member_id, answer.generation_id))
        stays.gets_some(3)
        gone.close()
        with timed("a session of 45 s"):
            broker.advance(45, timeout=BOUND_S)
            stays.gets(*range(6))


def test_live_members_stay_for_an_hour(broker: Broker) -> None:
    with gathered(broker, *LIBRARIES):
        facts, before = Facts(broker), members(broker)
        with timed("an hour in steps"):
            for _ in range(120):
                broker.advance(30, timeout=BOUND_S)
        broker.advance(3600, timeout=BOUND_S)
        time.sleep(4 * BEAT_MS / 1000)
        assert facts.of(RebalanceStarted) == facts.of(MemberRemoved) == []
        assert (members(broker), len(before)) == (before, 3)


def test_live_members_rejoin_before_the_time_goes_on(broker: Broker) -> None:
    """One hears of the rebalance only after its heartbeat interval."""
    slow = partial(OnKafkaPython, heartbeat_interval_ms=400)
    with gathered(broker, OnConfluent, OnAiokafka, slow) as (a, gone, b):
        facts = Facts(broker)
        broker.advance(3600, silent=[gone.client_id], timeout=60)  # of a busy machine
        removed = [(fact.who.client_id, fact.cause) for fact in facts.of(MemberRemoved)]
        assert [client_id for client_id, _ in removed] == [gone.client_id], removed
        # The silent one hears of it now, and may be back before the others have their partitions.
        first = facts.of(RebalanceJoined)[0]
        assert (len(first.joined), [who for who, *_ in first.missing]) == (2, [])
        assert (a.error, b.error) == (None, None)


# -- joins -----------------------------------------------------------------------------------------


def test_an_id_that_is_not_used_keeps_others_waiting_until_it_expires(broker: Broker) -> None:
    with gathered(broker, OnKafkaPython) as (first,), dial(broker) as client:
        knock = client.call(9, join_request("g", session_timeout_ms=30_000))
        assert knock.error_code == 79
        facts = Facts(broker)
        with OnConfluent(broker.bootstrap_servers) as second:
            until(lambda: bool(facts.of(MemberJoined)))
            assert len(second.assigned) == 1
            with timed("a pending id of 30 s"):
                broker.advance(30)
                second.gets_some(3)
            first.gets_some(3)


def test_the_wait_of_a_new_member_ends_after_five_minutes(broker: Broker) -> None:
    """A static member is away, and its session is long: a new one waits for it."""
    away_ms, facts = 1_800_000, Facts(broker)
    with dial(broker) as client:
        timeouts = {"session_timeout_ms": away_ms, "rebalance_timeout_ms": away_ms}
        joined(client, group_instance_id="i", **timeouts)
    with OnKafkaPython(broker.bootstrap_servers) as new:
        until(lambda: len(facts.of(MemberJoined)) == 2)
        with timed("five minutes"):
            broker.advance(300)
            until(lambda: len(facts.of(MemberJoined)) == 3)
        [removed] = facts.of(MemberRemoved)
        assert removed.cause.code == "join_timeout"
        assert removed.cause.evidence["waited_ms"] == 300_000
        with timed("its next wait"):
            broker.advance(299)
            assert len(facts.of(MemberRemoved)) == 1
            broker.advance(1_800)
            new.gets(*range(6))
