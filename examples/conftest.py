"""What the examples share: a broker, and the service in the client library that a test asks for."""

import json
import logging
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest

from examples.billing.orders import DEAD_LETTERS, TOPIC, Ledger, Order
from groupkeeper.testing import Broker

QUICK = {
    "on_kafka_python": {"heartbeat_interval_ms": 50, "retry_backoff_ms": 20},
    "on_aiokafka": {"heartbeat_interval_ms": 50, "retry_backoff_ms": 20},
    "on_confluent": {"heartbeat_interval_ms": 50, "retry_backoff_ms": 20},
}
"""A member hears of a rebalance by its next heartbeat: in production after 3 s at most."""
SETTINGS = {
    "group.min.session.timeout.ms": 1_000,
    "log.retention.ms": -1,  # records outlive offsets, however far a test moves the time
}
TIMEOUT_S = 60.0


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={TOPIC: 2, DEAD_LETTERS: 1}, settings=SETTINGS) as broker:
        yield broker


class Gateway:
    """Stands for the provider that charges cards. A test may hold it up, or let it fail."""

    def __init__(self) -> None:
        self.charged: list[str] = []
        """Ids of orders, as often as they were charged."""
        self.changed = threading.Condition()
        self.on_charge: Callable[[], None] = lambda: None
        """Called by each charge."""
        self._held: dict[str, threading.Event] = {}
        self._begun: set[str] = set()

    def __call__(self, order: Order) -> None:
        with self.changed:
            self._begun.add(order.id)
            self.changed.notify_all()
            held = self._held.get(order.id)
        if held is not None:
            held.wait(TIMEOUT_S)
        self.on_charge()
        with self.changed:
            self.charged.append(order.id)
            self.changed.notify_all()

    def hold(self, order_id: str) -> threading.Event:
        """Let the charge of this order take until the event is set."""
        return self._held.setdefault(order_id, threading.Event())

    def wait_for_begin(self, order_id: str) -> None:
        """Wait until the charge of an order has begun."""
        with self.changed:
            assert self.changed.wait_for(lambda: order_id in self._begun, TIMEOUT_S)

    def let_all_go(self) -> None:
        for held in self._held.values():
            held.set()


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    gateway = Gateway()
    yield gateway
    gateway.let_all_go()


class Running:
    """The service on a thread."""

    def __init__(self, service: Any) -> None:
        self.service = service
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.service.run()
        except BaseException as error:  # raised by `stop`
            self.error = error
            logging.getLogger("examples").exception("the service has ended")

    def stop(self) -> None:
        """Stop in good order, and raise what ended it."""
        if self._thread.is_alive():
            self.service.stop()
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive(), "the service does not stop"
        if self.error is not None:
            raise self.error


Start = Callable[..., Running]
Orders = Callable[..., None]


@pytest.fixture(params=["on_kafka_python", "on_aiokafka", "on_confluent"])
def start(request: pytest.FixtureRequest, broker: Broker, gateway: Gateway) -> Iterator[Start]:
    """Start the service, with a ledger that all share; in each client library."""
    library = import_module(f"examples.billing.{request.param}")
    ledger = Ledger()
    started: list[Running] = []

    def start(**options: Any) -> Running:
        service = library.Billing(
            broker.bootstrap_servers, ledger, gateway, **{**QUICK[request.param], **options}
        )
        started.append(Running(service))
        return started[-1]

    yield start
    gateway.let_all_go()
    for running in started:
        if running.error is None:
            running.stop()


@pytest.fixture
def orders(broker: Broker) -> Orders:
    """Produce orders with these ids to a partition."""

    def orders(*ids: str, partition: int = 0) -> None:
        values = [json.dumps({"id": each, "cents": 500}) for each in ids]
        broker.produce_many(TOPIC, values, partition=partition)

    return orders
