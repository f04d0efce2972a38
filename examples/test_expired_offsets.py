"""The service was down for longer than offsets are kept, and begins where it has to."""

from examples.conftest import Gateway, Orders, Start
from groupkeeper.testing import Broker

DAY_S = 24 * 60 * 60


def test_orders_that_came_while_the_offsets_expired_are_charged(
    broker: Broker, gateway: Gateway, start: Start, orders: Orders
) -> None:
    group = broker.group("billing")
    orders("a", "b")
    service = start()
    group.wait_until(committed={("orders", 0): 2})
    service.stop()
    orders("c")
    broker.advance(seconds=8 * DAY_S)  # offsets.retention.minutes is a week
    assert not group.exists
    start()
    group.wait_until(committed={("orders", 0): 3})
    assert gateway.charged == ["a", "b", "c"]
