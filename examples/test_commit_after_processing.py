"""My consumer commits after processing, and survives a rebalance."""

from examples.conftest import Gateway, Orders, Start
from groupkeeper.testing import Broker


def test_an_order_is_committed_after_it_was_charged(
    broker: Broker, gateway: Gateway, start: Start, orders: Orders
) -> None:
    orders("a", "b")
    hold = gateway.hold("b")
    start()
    gateway.wait_for_begin("b")
    assert gateway.charged == ["a"]
    assert broker.committed("billing") == {("orders", 0): 1}
    hold.set()
    broker.group("billing").wait_until(committed={("orders", 0): 2})


def test_a_second_member_takes_over_what_is_left(
    broker: Broker, gateway: Gateway, start: Start, orders: Orders
) -> None:
    group = broker.group("billing")
    orders("a", "b", "c", partition=0)
    orders("d", "e", "f", partition=1)
    hold = gateway.hold("a")
    start()
    gateway.wait_for_begin("a")
    start()
    group.wait_until(state="PreparingRebalance")
    hold.set()
    group.wait_until(stable=True, members=2, lag=0)
    assert sorted(gateway.charged) == ["a", "b", "c", "d", "e", "f"]
    assert [each.cause for each in group.rounds].count("member_joined") == 2
