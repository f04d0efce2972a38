"""Which requests a rule matches, how it is counted, and that it must have fired."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from groupkeeper.protocol.messages.list_groups import ListGroupsRequest
from groupkeeper.testing import Broker, BrokerDown, RuleNeverFired, WrongArgument, effects
from tests.support.requests import heartbeat
from tests.support.wire import Client, connect
from tests.testing.wired import commit, dial, wired


def _beats(client: Client, count: int, group: str = "g") -> list[bool]:
    """Which heartbeats the rule has answered: the group exists nowhere."""
    answers = [client.call(4, heartbeat("m", 1, group, "i")) for _ in range(count)]
    return [each.error_code == 15 for each in answers]


HIT = effects.error("COORDINATOR_NOT_AVAILABLE")


@pytest.mark.parametrize(
    ("when", "hits"),
    [
        ({}, [1, 1, 1, 1, 1]),
        ({"times": 2}, [1, 1, 0, 0, 0]),
        ({"nth": 2}, [0, 1, 0, 0, 0]),
        ({"nth": 2, "times": 3}, [0, 1, 1, 1, 0]),
        ({"probability": 0.5, "seed": 1}, [1, 0, 0, 1, 1]),
        ({"probability": 0.5, "seed": 2}, [0, 0, 1, 1, 0]),
        ({"probability": 0, "may_miss": True}, [0, 0, 0, 0, 0]),
        ({"group": "g", "member": "m"}, [1, 1, 1, 1, 1]),
        ({"member": "i"}, [1, 1, 1, 1, 1]),
        ({"member": "n", "may_miss": True}, [0, 0, 0, 0, 0]),
        ({"group": "h", "may_miss": True}, [0, 0, 0, 0, 0]),
        ({"versions": (3, 4)}, [1, 1, 1, 1, 1]),
        ({"versions": (0, 3), "may_miss": True}, [0, 0, 0, 0, 0]),
        ({"client_id": "tester"}, [1, 1, 1, 1, 1]),
        ({"client_id": "other", "may_miss": True}, [0, 0, 0, 0, 0]),
        ({"api": ("JoinGroup", "Heartbeat")}, [1, 1, 1, 1, 1]),
        ({"api": ("JoinGroup", "SyncGroup"), "may_miss": True}, [0, 0, 0, 0, 0]),
    ],
)
def test_a_rule_fires_for_what_it_names(when: Any, hits: list[int]) -> None:
    with wired() as (broker, client):
        rule = broker.fault(HIT, **when)
        assert _beats(client, 5) == list(map(bool, hits))
        assert rule.hits == sum(hits)


def test_the_first_rule_that_matches_has_the_request() -> None:
    with wired() as (broker, client):
        first = broker.fault(effects.error("NOT_COORDINATOR"), api="Heartbeat", times=1)
        second = broker.fault(HIT, group="g")
        assert list(broker.faults) == [first, second]
        assert (len(broker.faults), first in broker.faults) == (2, True)
        assert _beats(client, 2) == [False, True]
        assert (first.hits, second.hits) == (1, 1)


def test_a_removed_rule_does_nothing() -> None:
    with wired() as (broker, client):
        with broker.fault(HIT) as rule:
            assert _beats(client, 1) == [True]
        rule.remove()
        assert _beats(client, 1) == [False]
        assert (list(broker.faults), rule.hits) == ([], 1)


def test_rules_outlive_a_crash_and_not_a_reset() -> None:
    with Broker() as broker:
        broker.fault(HIT)
        broker.restart()
        with dial(broker) as client:
            assert _beats(client, 1) == [True]
        broker.fault(HIT, api="ListGroups")
        broker.reset()
        with dial(broker) as client:
            assert _beats(client, 1) == [False]


def test_waiting_for_a_hit_ends_with_it() -> None:
    with wired() as (broker, client):
        rule = broker.fault(HIT, api="Heartbeat")
        beats = threading.Timer(0.05, _beats, (client, 2))
        beats.start()
        rule.wait(hits=2)
        assert rule.hits == 2
        beats.join()
        with pytest.raises(TimeoutError, match=r"api='Heartbeat'\) fired 2 times in 0.01 s, not 3"):
            rule.wait(hits=3, timeout=0.01)


async def test_waiting_in_a_coroutine() -> None:
    async with Broker() as broker:
        rule = await broker.fault(HIT, api="Heartbeat", group="g")
        host, port = broker.bootstrap_servers.split(":")

        def beat() -> None:
            with connect((host, int(port))) as client:
                _beats(client, 1)

        await asyncio.gather(rule.fired(), asyncio.to_thread(beat))
        await rule.fired()
        assert list(broker.faults) == [rule]
        with pytest.raises(TimeoutError, match="fired 1 times"):
            await rule.fired(hits=2, timeout=0.01)


# -- rules that never fire -------------------------------------------------------------------------


def test_a_rule_that_never_fired_fails_the_test() -> None:
    def beat_twice() -> None:
        with wired() as (broker, client):
            broker.fault(HIT, api="Heartbeat", nth=3)
            _beats(client, 2)

    with pytest.raises(RuleNeverFired) as failure:
        beat_twice()
    assert str(failure.value) == (
        "fault(error(code='COORDINATOR_NOT_AVAILABLE'), api='Heartbeat', nth=3) never fired "
        "(2 requests matched); may_miss=True would allow that"
    )


def test_removing_it_does_not_help() -> None:
    with pytest.raises(RuleNeverFired), Broker() as broker:
        broker.fault(HIT).remove()


def test_the_end_of_a_rule_s_own_block_says_it_first() -> None:
    with Broker() as broker, pytest.raises(RuleNeverFired), broker.fault(HIT):
        pass


def test_what_failed_before_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError), Broker() as broker, broker.fault(HIT):
        raise ZeroDivisionError


async def test_in_a_coroutine_too() -> None:
    with pytest.raises(RuleNeverFired):
        async with Broker() as broker:
            await broker.fault(HIT)


def test_a_rule_may_miss() -> None:
    with Broker() as broker:
        broker.fault(HIT, may_miss=True)
        broker.check_faults()


# -- wrong arguments -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: {"api": "OfsetCommit"}, "no such API; did you mean 'OffsetCommit'"),
        (lambda: {"api": "offsetcommit"}, "did you mean 'OffsetCommit'"),
        (lambda: {"gruop": "g"}, r"no such argument of fault\(\); did you mean 'group'"),
        (lambda: {"api": "Heartbeat", "topic": "t"}, "Heartbeat has no topic: leave out topic="),
        (lambda: {"api": ("Fetch", "ListGroups"), "topic": "t"}, "ListGroups has no topic"),
        (lambda: {"probability": 2}, "probability=2 is not between 0 and 1"),
        (lambda: {"nth": 0}, "nth=0: must be 1 or more"),
        (lambda: {"versions": (3, 2)}, r"versions=\(3, 2\): give the first and the last"),
        (lambda: {"effect": effects.error("NOT_CORDINATOR")}, "did you mean 'NOT_COORDINATOR'"),
        (lambda: {"effect": effects.error("NONE")}, "'NONE': no such error"),
        (lambda: {"effect": effects.drop}, "is not an effect of groupkeeper.testing.effects"),
        (lambda: {"effect": effects.delay(0)}, "seconds=0: must be more than 0"),
        (lambda: {"effect": effects.truncated(1)}, "keep=1 must be at least 0"),
        (lambda: {"effect": effects.lose_plan(), "api": "Fetch"}, "applies to SyncGroup, not to F"),
        (lambda: {"effect": effects.disk_full(), "group": "g"}, "leave out all conditions"),
        (lambda: {"effect": effects.stale_metadata(), "partition": 1}, "leave out partition="),
    ],
)
def test_a_wrong_argument_is_told_in_one_line(make: Callable[[], Any], words: str) -> None:
    with Broker() as broker, pytest.raises(WrongArgument, match=words) as failure:
        broker.fault(**({"effect": HIT} | make()))
    assert "\n" not in str(failure.value)


def test_stale_metadata_needs_a_broker_that_runs() -> None:
    with pytest.raises(BrokerDown):
        Broker().fault(effects.stale_metadata())


def test_an_error_without_anything_to_have_it_is_no_hit() -> None:
    with wired() as (broker, client):
        broker.fault(effects.error("NOT_COORDINATOR"), api="OffsetCommit", may_miss=True)
        assert commit(client, {}) == {}
        assert client.call(4, ListGroupsRequest()).error_code == 0
        assert not next(iter(broker.faults)).hits
