"""Real clients read on while coordinators and leaders move and nodes stop: nothing is lost."""

from collections.abc import Callable
from typing import Any, Final

import pytest

from groupkeeper.testing import Broker
from tests.testing.polling import LIBRARIES, OnAiokafka, OnConfluent, OnKafkaPython, Polling

SETTINGS: Final[dict[type[Polling], dict[str, Any]]] = {
    OnKafkaPython: {"retry_backoff_ms": 20, "poll_s": 0.5},  # shorter ones may lose a join
    OnAiokafka: {"retry_backoff_ms": 20, "request_timeout_ms": 5_000},
    OnConfluent: {
        "retry_backoff_ms": 20,
        "reconnect_backoff_ms": 20,
        "topic_metadata_refresh_fast_interval_ms": 20,
    },
}


def _send(broker: Broker, what: str) -> set[bytes]:
    """A record to each partition."""
    values = {f"{what}-{partition}".encode() for partition in range(3)}
    for value in values:
        broker.produce("orders", value, partition=int(value[-1:]))
    return values


def _move_coordinator(broker: Broker) -> None:
    broker.move_coordinator("g", to=(broker.coordinator("g") + 1) % 3)


def _stop_the_coordinator(broker: Broker) -> None:
    broker.node(broker.coordinator("g")).stop()


def _move_leaders(broker: Broker) -> None:
    for partition in range(3):
        broker.move_leader("orders", partition, to=(partition + 1) % 3)


@pytest.mark.parametrize("change", [_move_coordinator, _stop_the_coordinator, _move_leaders])
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_consumer_reads_on(library: type[Polling], change: Callable[[Broker], None]) -> None:
    with Broker({"orders": 3}, brokers=3) as broker:
        with library(broker.bootstrap_servers, **SETTINGS[library]) as consumer:
            consumer.reads(_send(broker, "before"))
            change(broker)
            consumer.reads(_send(broker, "after"))
        assert broker.committed("g") == {("orders", each): 2 for each in range(3)}
