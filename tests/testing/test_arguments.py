"""What a test may pass to its broker: mistakes are one line at once."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from groupkeeper.protocol.messages.list_groups import ListGroupsRequest
from groupkeeper.testing import Broker, RequestFailed, WrongArgument, effects
from tests.testing.wired import dial


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 1}) as made:
        yield made


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"topics": ["orders"]}, "topics= is a dict such as"),
        ({"topics": "orders"}, "topics= is a dict such as"),
        ({"topics": {"orders": "6"}}, "the number of partitions of 'orders' is a whole number"),
        ({"topics": {"orders": 1.5}}, "the number of partitions of 'orders' is a whole number"),
        ({"topics": {3: 1}}, "a topic's name is a str, not 3"),
        ({"settings": ["a=b"]}, "settings= is a dict"),
        ({"topics": {"orders": -1}}, "the number of partitions of 'orders' is 1 or more, not -1"),
        ({"topics": {"orders": 0}}, "is 1 or more, not 0"),
        ({"data": ""}, "data= is empty: name a directory"),
        ({"data": b"here"}, "data= is a directory, not b'here'"),
        ({"brokers": "3"}, "brokers= is a whole number, not '3'"),
    ],
)
def test_of_a_broker(given: dict[str, Any], line: str) -> None:
    with pytest.raises((TypeError, ValueError), match=line):
        Broker(**given)


@pytest.mark.parametrize(
    ("wanted", "line"),
    [
        ({"members": "3"}, "members= is a whole number, not '3'"),
        ({"members": -1}, "members= is 0 or more, not -1"),
        ({"lag": "0"}, "lag= is a whole number"),
        ({"stable": "yes"}, "stable= is True or False"),
        ({"exists": None}, "exists= is True or False"),
        ({"state": None}, "state= is a str"),
        ({"rounds": [1]}, "rounds= is a whole number"),
        ({"committed": {"orders": 3}}, "'orders' is not a .topic, partition. pair"),
        ({"committed": {("orders", 0): "3"}}, "the offset of orders-0 is a whole number"),
        ({"assigned": ["orders"]}, "assigned= is a dict such as"),
        ({"assigned": {"orders": "01"}}, "the partitions of 'orders' are a list"),
        ({"assigned": {"orders": (each for each in (0, 1))}}, "are a list"),
        ({"assigned": {"a": {"orders": ["0"]}}}, "a partition of 'orders' is a whole number"),
        ({"exists": False, "timeout": "5"}, "timeout is a number"),
        ({"exists": False, "timeout": float("nan")}, "timeout is a finite number, not nan"),
    ],
)
def test_of_a_wait(broker: Broker, wanted: dict[str, Any], line: str) -> None:
    with pytest.raises((TypeError, ValueError), match=line):
        broker.group("g").wait_until(**wanted)


@pytest.mark.parametrize(
    ("when", "line"),
    [
        ({"group": 3}, "group= is a str, not 3"),
        ({"topic": b"orders"}, "topic= is a str"),
        ({"partition": "0"}, "partition= is a whole number"),
        ({"client_id": 5}, "client_id= is a str"),
        ({"api": 8}, "api= is a name or a list of names, not 8"),
        ({"api": [8]}, "a name of api= is a str, not 8"),
        ({"api": []}, "api= is empty: leave it out for all APIs"),
        ({"group": "g\ud800"}, "group= contains a lone surrogate"),
        ({"nth": 1.5}, "nth= is a whole number"),
        ({"times": "1"}, "times= is a whole number"),
        ({"probability": "0.5"}, "probability= is a number"),
        ({"versions": 3}, "give the first and the last version"),
        ({"versions": ("a", "b")}, "give the first and the last version"),
    ],
)
def test_of_a_fault(broker: Broker, when: dict[str, Any], line: str) -> None:
    with pytest.raises((TypeError, ValueError), match=line):
        broker.fault(effects.close(), **when)


@pytest.mark.parametrize(
    "make",
    [
        lambda: effects.truncated("x"),  # type: ignore[arg-type]
        lambda: effects.damaged(count=0.5),  # type: ignore[arg-type]
        lambda: effects.damaged(seed="x"),  # type: ignore[arg-type]
        lambda: effects.slow_reading(1.5),  # type: ignore[arg-type]
        lambda: effects.wrong_coordinator(port="x"),  # type: ignore[arg-type]
        lambda: effects.delay(float("nan")),
        lambda: effects.delay(1e30),
        lambda: effects.throttle(2**40),
        lambda: effects.loading("1"),  # type: ignore[arg-type]  # a test may
    ],
)
def test_of_an_effect(make: Callable[[], object]) -> None:
    with pytest.raises(
        (TypeError, ValueError), match=r"= is an? (finite |whole )?(number|integer)|or less|at most"
    ):
        make()


@pytest.mark.parametrize("code", [3, None])
def test_of_an_error(code: Any) -> None:
    with pytest.raises(TypeError, match="code= is a str, not"):
        effects.error(code)


def test_whether_a_request_is_handled_is_a_flag() -> None:
    for make in (effects.drop, effects.close):
        with pytest.raises(TypeError, match="handled= is True or False, not 'no'"):
            make(handled="no")  # type: ignore[arg-type]


def test_of_a_wait_for_a_rule(broker: Broker) -> None:
    with broker.fault(effects.close(), may_miss=True) as rule:
        with pytest.raises(TypeError, match="hits= is a whole number, not '1'"):
            rule.wait("1")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="timeout is a number, not '1'"):
            rule.wait(timeout="1")  # type: ignore[arg-type]


LONE = "a\ud800"
"""No UTF-8 encodes half of a pair of surrogates."""


@pytest.mark.parametrize(
    "do",
    [
        lambda broker: broker.produce("orders", LONE),
        lambda broker: broker.produce("orders", "a", key=LONE),
        lambda broker: broker.produce("orders", "a", headers={LONE: "a"}),
        lambda broker: broker.produce("orders", "a", headers={"a": LONE}),
        lambda broker: broker.produce_many("orders", [LONE]),
        lambda broker: broker.produce(LONE, "a"),
        lambda broker: broker.records(LONE),
        lambda broker: broker.create_topic(LONE),
        lambda broker: broker.commit("g", {(LONE, 0): 1}),
        lambda broker: broker.commit(LONE, {("orders", 0): 1}),
        lambda broker: broker.committed(LONE),
        lambda broker: broker.group(LONE),
        lambda broker: broker.group("g").rebalance(LONE),
        lambda broker: broker.group("g").fence(LONE),
        lambda broker: broker.timeline(LONE),
        lambda broker: broker.coordinator(LONE),
        lambda broker: broker.move_coordinator(LONE, to=0),
        lambda broker: broker.transcript(clients=LONE),
    ],
)
def test_a_lone_surrogate_is_no_text(broker: Broker, do: Callable[[Broker], object]) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]* contains a lone surrogate, invalid in UTF-8"):
        do(broker)
    assert broker.logs == []


@pytest.mark.parametrize(
    ("do", "line"),
    [
        (lambda broker: broker.node("a"), "a node's id is a whole number, not 'a'"),
        (lambda broker: broker.move_coordinator("g", to="a"), "a node's id is a whole number"),
        (lambda broker: broker.advance(1, silent=3), "silent= is a name or a list of names"),
        (lambda broker: broker.advance(1, silent=[3]), "a name of silent= is a str, not 3"),
        (lambda broker: broker.advance(1, timeout="x"), "timeout is a number, not 'x'"),
        (lambda broker: broker.commit("g", {("orders", 0): None}), "offset of orders-0 is a whole"),
        (lambda broker: broker.commit("g", {("orders", 0): -1}), "is 0 or more, not -1"),
        (lambda broker: broker.commit("g", {("orders", 0): 2**63}), "or less"),
        (lambda broker: broker.produce("orders", "a", timestamp_ms=2**63), "or less"),
        (lambda broker: broker.produce("orders", "a", timestamp_ms="now"), "a whole number"),
        (lambda broker: broker.produce("orders", "a", partition="0"), "a whole number, not '0'"),
        (lambda broker: broker.produce("orders", "a", headers="xy"), "a .name, value. pair"),
        (lambda broker: broker.produce("orders", "a", headers={1: "a"}), "a .name, value. pair"),
        (lambda broker: broker.records("orders", "0"), "a whole number, not '0'"),
        (lambda broker: broker.commit("g", {"orders": 1}), "'orders' is not a .topic"),
        (lambda broker: broker.commit(None, {("orders", 0): 1}), "a group's id is a str"),
        (lambda broker: broker.committed(None), "a group's id is a str"),
        (lambda broker: broker.group(None), "a group's id is a str"),
        (lambda broker: broker.create_topic("new", "3"), "a whole number, not '3'"),
        (lambda broker: broker.produce_many("orders", "abc"), "not a str"),
        (lambda broker: broker.produce_many("orders", {"k": "v"}), "not a dict"),
        (lambda broker: broker.produce_many("orders", [("a", "b", "c")]), "a .key, value. pair"),
    ],
)
def test_of_what_is_there(broker: Broker, do: Callable[[Any], object], line: str) -> None:
    with pytest.raises((TypeError, ValueError), match=line):
        do(broker)
    assert broker.logs == []


@pytest.mark.parametrize(
    ("chosen", "line"),
    [
        ({"apis": ["Foo"]}, "'Foo': no such API"),
        ({"apis": "Fetc"}, "did you mean 'Fetch'?"),
        ({"apis": 1}, "apis= is a name or a list of names, not 1"),
        ({"clients": [1]}, "a name of clients= is a str, not 1"),
    ],
)
def test_of_a_transcript(broker: Broker, chosen: dict[str, Any], line: str) -> None:
    with pytest.raises((TypeError, WrongArgument), match=line):
        broker.transcript(**chosen)


def test_one_name_is_enough_for_a_transcript(broker: Broker) -> None:
    with dial(broker) as client:
        client.call(4, ListGroupsRequest())
    assert "ListGroups v4" in broker.transcript(apis="ListGroups")
    assert broker.transcript(apis="Fetch") == ""
    assert broker.transcript(clients="nobody") == ""


def test_numbers_may_be_configs(broker: Broker) -> None:
    broker.create_topic("new", configs={"retention.ms": 1000})  # type: ignore[dict-item]  # is said


def test_a_wait_without_time_looks_once(broker: Broker) -> None:
    assert broker.group("g").wait_until(exists=False, timeout=0).state == "Dead"
    assert broker.group("g").wait_until(exists=False, timeout=float("inf")).state == "Dead"


def test_a_broker_that_runs_is_not_started_again(broker: Broker) -> None:
    with pytest.raises(RequestFailed, match="is already running"):
        broker.start()
    broker.commit("g", {("orders", 0): 1})
    broker.advance(8 * 24 * 3600)
    assert not broker.group("g").exists
