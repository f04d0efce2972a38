"""Static members (KIP-345) are restarted one after the other, and no partition moves."""

from examples.conftest import Orders, Start
from groupkeeper.testing import Broker


def test_a_rolling_restart_moves_nothing(broker: Broker, start: Start, orders: Orders) -> None:
    group = broker.group("billing")
    services = {name: start(instance_id=name) for name in ("billing-0", "billing-1")}
    orders("a", partition=0)
    orders("b", partition=1)
    both = {("orders", 0): 1, ("orders", 1): 1}
    before = group.wait_until(stable=True, members=2, committed=both).members
    with group.no_rebalance():
        for name, service in services.items():
            service.stop()
            start(instance_id=name)
        orders("c", partition=0)
        orders("d", partition=1)
        after = group.wait_until(committed={("orders", 0): 2, ("orders", 1): 2}).members
    owned = {each.instance_id: each.partitions for each in before}
    assert {each.instance_id: each.partitions for each in after} == owned
