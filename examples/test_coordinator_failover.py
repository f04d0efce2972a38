"""The group's coordinator goes away, and another broker takes its place."""

from collections.abc import Iterator

import pytest

from examples.billing.orders import DEAD_LETTERS, TOPIC
from examples.conftest import Gateway, Orders, Start
from groupkeeper.testing import Broker


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={TOPIC: 2, DEAD_LETTERS: 1}, brokers=3) as broker:
        yield broker


def test_a_failover_costs_no_rebalance_and_no_order(
    broker: Broker, gateway: Gateway, start: Start, orders: Orders
) -> None:
    group = broker.group("billing")
    orders("a", "b")
    hold = gateway.hold("a")
    start()
    gateway.wait_for_begin("a")
    with group.no_rebalance():
        broker.node(broker.coordinator("billing")).stop()
        hold.set()
        group.wait_until(committed={("orders", 0): 2}, timeout=60)
    assert gateway.charged == ["a", "b"]


def test_a_failover_that_is_longer_than_the_session_costs_a_rebalance_and_no_order(
    broker: Broker, gateway: Gateway, start: Start, orders: Orders
) -> None:
    group = broker.group("billing")
    orders("a", "b")
    hold = gateway.hold("a")
    start()
    gateway.wait_for_begin("a")
    broker.node(broker.coordinator("billing")).stop()
    broker.advance(seconds=60, all=True)
    hold.set()  # the coordinator refuses the commit, because it does not know the member any more
    group.wait_until(committed={("orders", 0): 2}, timeout=60)
    assert gateway.charged == ["a", "b"]
