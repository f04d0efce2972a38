"""A handler that is slow, but does not exceed max.poll.interval.ms, costs no rebalance.

That interval is measured by the client, in real time: no broker can make it shorter, so this test
takes as long as its orders do. Sessions are the broker's, and its time stands still meanwhile.
"""

import time

from examples.conftest import Gateway, Orders, Start
from groupkeeper.testing import Broker

INTERVAL_MS = 5_000
ONE_ORDER_S = 0.25
MANY = [f"order-{number}" for number in range(23)]
"""All of them take longer than the interval, and than librdkafka, which looks every half second."""


def test_many_slow_orders_are_one_generation(
    broker: Broker, gateway: Gateway, start: Start, orders: Orders
) -> None:
    group = broker.group("billing")
    gateway.on_charge = lambda: time.sleep(ONE_ORDER_S)
    # librdkafka wants a session that is no longer than the interval.
    start(max_poll_interval_ms=INTERVAL_MS, session_timeout_ms=INTERVAL_MS)
    group.wait_until(stable=True, members=1)
    broker.freeze()
    with group.no_rebalance():
        orders(*MANY)
        group.wait_until(committed={("orders", 0): len(MANY)}, timeout=60)
    assert gateway.charged == MANY
