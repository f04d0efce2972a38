"""What a test does to a group, and what real clients make of it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from groupkeeper.coordinator.facts import MemberFenced
from groupkeeper.testing import Broker, Group, RequestFailed, effects
from tests.support.requests import join_request
from tests.testing.members import Facts, beat, joined, members, until
from tests.testing.polling import LIBRARIES, OnConfluent, OnKafkaPython, Polling, gathered
from tests.testing.wired import dial


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 6}) as broker:
        yield broker


@contextmanager
def joins_held(broker: Broker, group: Group) -> Iterator[int]:
    """Hold JoinGroup requests to a stable group, and yield how many rounds it has had: the next
    round is the one that the block begins.

    kafka-python 3.0.12 may join again by itself soon after it was given partitions. Its round would
    be the next one, or what the block does would be one more cause of it.
    """
    while True:
        group.wait_until(stable=True)
        with broker.fault(effects.hold_joins(), group=group.id, may_miss=True):
            if group.state == "Stable":
                yield len(group.rounds)
                return


# -- expire ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", LIBRARIES)
def test_an_ended_session_rebalances_and_the_client_joins_anew(
    broker: Broker, library: type[Polling]
) -> None:
    group = broker.group("g")
    with gathered(broker, library, library) as (_, b):
        with joins_held(broker, group) as rounds:
            before = {each.member_id for each in group.members}
            group.expire(b.client_id)
        until(lambda: before - {each.member_id for each in group.members} != set())
        group.wait_until(stable=True, members=2, timeout=60)
        expired = group.rounds[rounds]
        assert (expired.cause, expired.who) == ("session_expired", b.client_id)
        assert expired.likely == "crash_or_network"
        assert expired.evidence["silent_ms"] == expired.evidence["session_timeout_ms"] == 45_000


def test_a_session_is_ended_by_each_name(broker: Broker) -> None:
    for name in ("i", "tester", None):
        with dial(broker) as client:
            member_id, _ = joined(client, group_instance_id="i")
            broker.group("g").expire(name or member_id)
            assert members(broker) == []


def test_a_session_does_not_end_while_a_request_waits(broker: Broker) -> None:
    with dial(broker) as slow, dial(broker) as other:
        joined(slow)
        other.send(3, join_request("g"))
        until(lambda: len(members(broker)) == 2)
        waiting = members(broker)[1]
        with pytest.raises(RequestFailed, match="cannot expire while its JoinGroup"):
            broker.group("g").expire(waiting)


# -- fence -----------------------------------------------------------------------------------------


def test_a_fenced_client_hears_of_it(broker: Broker) -> None:
    group = broker.group("g")
    with dial(broker) as client:
        member_id, generation = joined(client, group_instance_id="i")
        with group.no_rebalance():
            other_id = group.fence("i")
            assert beat(client, member_id, generation, instance_id="i") == 82
        assert [each.member_id for each in group.members] == [other_id]
        broker.advance(10)
        assert group.state == "Empty"
        assert group.rounds[-1].cause == "session_expired"


def test_librdkafka_ends_when_it_is_fenced(broker: Broker) -> None:
    with gathered(broker, partial(OnConfluent, group_instance_id="i")) as (client,):
        broker.group("g").fence("i")
        until(lambda: client.error is not None)
        assert "fenced" in str(client.error)


def test_kafka_python_is_fenced(broker: Broker) -> None:
    """3.0.12 only logs it, and polls on: a commit would raise."""
    with gathered(broker, partial(OnKafkaPython, group_instance_id="i")):
        facts, [member] = Facts(broker), members(broker)
        broker.group("g").fence("i")
        until(lambda: bool(facts.of(MemberFenced)))
        assert facts.of(MemberFenced)[0].who.member == member


def test_a_restarted_client_takes_its_instance_id_back(broker: Broker) -> None:
    group, static = broker.group("g"), partial(OnConfluent, group_instance_id="i")
    with gathered(broker, static):
        other_id = group.fence("i")
    with group.no_rebalance(), gathered(broker, static):
        [member] = group.members
        assert member.member_id != other_id


def test_only_a_stable_group_is_fenced(broker: Broker) -> None:
    with dial(broker) as client, dial(broker) as other:
        joined(client, group_instance_id="i")
        other.send(3, join_request("g"))
        until(lambda: len(members(broker)) == 2)
        with pytest.raises(RequestFailed, match="'g' is PreparingRebalance: fence"):
            broker.group("g").fence("i")


# -- rebalance -------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_forced_rebalance_says_so_and_clients_rejoin(
    broker: Broker, library: type[Polling]
) -> None:
    group = broker.group("g")
    with gathered(broker, library, library):
        with joins_held(broker, group) as rounds:
            generation = group.generation
            group.rebalance("a new version")
        now = group.wait_until(stable=True, generation=generation + 1, timeout=60)
        assert len(now.members) == 2
        forced = now.rounds[rounds]
        assert (forced.cause, forced.reason) == ("operator", "a new version")
        assert "An operator forced it: groupkeeper.testing" in forced.text


async def test_in_a_coroutine() -> None:
    async with Broker(topics={"orders": 6}) as broker:
        group = broker.group("g")
        with pytest.raises(RequestFailed, match="does not exist"):
            await group.rebalance()
        with pytest.raises(RequestFailed, match="does not exist"):
            await group.fence("i")
        with pytest.raises(RequestFailed, match="does not exist"):
            await group.expire("i")


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("act", "line"),
    [
        (lambda group: group.expire("x"), "group 'g' has no member 'x'; members: none"),
        (lambda group: group.fence("x"), "group 'g' has no member 'x'; members: none"),
        (lambda group: group.rebalance(), "group 'g' has no members to rebalance"),
    ],
)
def test_who_is_not_there_is_told(broker: Broker, act: Callable[[object], None], line: str) -> None:
    broker.commit("g", {("orders", 0): 7})
    with pytest.raises(RequestFailed, match=f"^{line}"):
        act(broker.group("g"))
