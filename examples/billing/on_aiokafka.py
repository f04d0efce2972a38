"""The service with aiokafka."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import IllegalStateError, KafkaError

from examples.billing.orders import (
    DEAD_LETTERS,
    GROUP,
    TOPIC,
    Ledger,
    Order,
    UnreadableError,
    parse,
)

log = logging.getLogger(__name__)


class Billing:
    """Charges orders until `stop`: each at least once, and `ledger` makes that once."""

    def __init__(
        self,
        servers: str,
        ledger: Ledger,
        charge: Callable[[Order], None],
        instance_id: str | None = None,
        **options: Any,
    ) -> None:
        """`instance_id` lasts over restarts. `options` are aiokafka's."""
        self._servers = servers
        self._ledger = ledger
        self._charge = charge
        self._options = {**options, "group_instance_id": instance_id}
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()

    def run(self) -> None:
        """Consume until `stop` is called."""
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._run())

    def stop(self) -> None:
        """From any thread: end after the order that is being charged."""
        self._loop.call_soon_threadsafe(self._stopping.set)

    async def _run(self) -> None:
        self._consumer = AIOKafkaConsumer(
            TOPIC,
            bootstrap_servers=self._servers,
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **self._options,
        )
        self._producer = AIOKafkaProducer(bootstrap_servers=self._servers)
        async with self._producer, self._consumer:
            while not self._stopping.is_set():
                # One at a time: max_poll_interval_ms then limits one order, not hundreds.
                found = await self._consumer.getmany(timeout_ms=50, max_records=1)
                for records in found.values():
                    for record in records:
                        await self._handle(record.value)
                        await self._commit(record)

    async def _handle(self, value: bytes | None) -> None:
        try:
            order = parse(value)
        except UnreadableError:
            await self._producer.send_and_wait(DEAD_LETTERS, value)
        else:
            await asyncio.to_thread(self._ledger.charge_once, order, self._charge)

    async def _commit(self, record: Any) -> None:
        place = TopicPartition(record.topic, record.partition)
        try:
            await asyncio.wait_for(self._consumer.commit({place: record.offset + 1}), 20)
        except (KafkaError, IllegalStateError, TimeoutError) as error:
            # The next commit covers it. If its partition is another member's now, it comes again
            # there, and the ledger knows it.
            log.warning("order is charged but not committed: %s", error)
