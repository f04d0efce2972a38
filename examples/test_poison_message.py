"""A record that cannot be read goes to another topic, and those behind it are processed."""

from examples.conftest import Gateway, Orders, Start
from groupkeeper.testing import Broker


def test_a_record_that_is_no_order_holds_up_nothing(
    broker: Broker, gateway: Gateway, start: Start, orders: Orders
) -> None:
    orders("a")
    broker.produce("orders", "{ this is no order", partition=0)
    orders("b")
    start()
    broker.group("billing").wait_until(committed={("orders", 0): 3})
    assert gateway.charged == ["a", "b"]
    assert [each.value for each in broker.records("orders.dead")] == [b"{ this is no order"]
