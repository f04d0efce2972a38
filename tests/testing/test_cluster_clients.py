"""Real clients read on while coordinators and leaders move and nodes stop: nothing is lost."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Protocol

import aiokafka
import confluent_kafka
import kafka
import pytest

from groupkeeper.testing import Broker

TOPICS = {"orders": 3}
READ_S = 10


class Reader(Protocol):
    """A consumer of the group `billing`."""

    def poll(self) -> list[bytes]:
        """The next values, if there are any soon; their offsets are committed."""

    def close(self) -> None: ...


class KafkaPython:
    def __init__(self, servers: str) -> None:
        self._consumer = kafka.KafkaConsumer(
            "orders",
            bootstrap_servers=servers,
            group_id="billing",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=50,
            retry_backoff_ms=20,
        )

    def poll(self) -> list[bytes]:
        found = self._consumer.poll(timeout_ms=500)  # shorter ones may lose a join
        if found:
            self._consumer.commit()
        return [record.value for records in found.values() for record in records]

    def close(self) -> None:
        self._consumer.close()


class AioKafka:
    def __init__(self, servers: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._start(servers))

    async def _start(self, servers: str) -> None:
        self._consumer = aiokafka.AIOKafkaConsumer(
            "orders",
            bootstrap_servers=servers,
            group_id="billing",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=50,
            retry_backoff_ms=20,
            request_timeout_ms=5_000,
        )
        await self._consumer.start()

    def poll(self) -> list[bytes]:
        return self._loop.run_until_complete(self._poll())

    async def _poll(self) -> list[bytes]:
        found = await self._consumer.getmany(timeout_ms=50)
        if found:
            await self._consumer.commit()
        return [record.value for records in found.values() for record in records]

    def close(self) -> None:
        self._loop.run_until_complete(self._stop())
        self._loop.close()

    async def _stop(self) -> None:
        try:
            await self._consumer.stop()
        except asyncio.CancelledError:
            # aiokafka cancels its own fetches, and raises that if one of them waits to be tried
            # again. It has left the group before; only its connections are still open.
            await self._consumer._client.close()


class Confluent:
    def __init__(self, servers: str) -> None:
        config: dict[str, Any] = {
            "bootstrap.servers": servers,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 50,
            "retry.backoff.ms": 20,
            "reconnect.backoff.ms": 20,
            "topic.metadata.refresh.fast.interval.ms": 20,
            "log_level": 0,
        }
        self._consumer = confluent_kafka.Consumer(config)
        self._consumer.subscribe(["orders"])

    def poll(self) -> list[bytes]:
        messages = self._consumer.consume(100, 0.05)
        values = [message.value() for message in messages if message.error() is None]
        if values:
            self._consumer.commit(asynchronous=False)
        return values

    def close(self) -> None:
        self._consumer.close()


READERS = (KafkaPython, AioKafka, Confluent)


def _read(reader: Reader, wanted: set[bytes]) -> None:
    """Read until all of these have come."""
    deadline = time.monotonic() + READ_S
    while wanted:
        assert time.monotonic() < deadline, f"never came: {sorted(wanted)}"
        wanted -= {*reader.poll()}


def _send(broker: Broker, what: str) -> set[bytes]:
    """A record to each partition."""
    values = {f"{what}-{partition}".encode() for partition in range(3)}
    for value in values:
        broker.produce("orders", value, partition=int(value[-1:]))
    return values


def _move_coordinator(broker: Broker) -> None:
    broker.move_coordinator("billing", to=(broker.coordinator("billing") + 1) % 3)


def _stop_the_coordinator(broker: Broker) -> None:
    broker.node(broker.coordinator("billing")).stop()


def _move_leaders(broker: Broker) -> None:
    for partition in range(3):
        broker.move_leader("orders", partition, to=(partition + 1) % 3)


@pytest.mark.parametrize("change", [_move_coordinator, _stop_the_coordinator, _move_leaders])
@pytest.mark.parametrize("client", READERS)
def test_a_consumer_reads_on(client: Callable[[str], Reader], change: Any) -> None:
    with Broker(TOPICS, brokers=3) as broker:
        reader = client(broker.bootstrap_servers)
        try:
            _read(reader, _send(broker, "before"))
            change(broker)
            _read(reader, _send(broker, "after"))
        finally:
            reader.close()
        assert broker.committed("billing") == {("orders", each): 2 for each in range(3)}
