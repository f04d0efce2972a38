"""An order that was charged but not committed comes again, and is charged once.

Between the charge and its commit the consumer stalls for so long that its session ends, as when its
process was stopped, or its host lost the network: for the group it has crashed. Another one takes
over, and gets the same order.
"""

from examples.conftest import Gateway, Orders, Start
from groupkeeper.testing import Broker


def test_an_order_whose_commit_came_too_late_is_charged_once(
    broker: Broker, gateway: Gateway, start: Start, orders: Orders
) -> None:
    group = broker.group("billing")
    orders("a")
    hold = gateway.hold("a")
    start()
    gateway.wait_for_begin("a")
    broker.advance(seconds=60, all=True)
    assert group.state == "Empty"
    start()
    group.wait_until(stable=True)
    hold.set()
    group.wait_until(stable=True, members=2, committed={("orders", 0): 1})
    assert gateway.charged == ["a"]
