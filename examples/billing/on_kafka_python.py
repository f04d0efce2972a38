"""The service with kafka-python."""

import logging
import threading
from collections.abc import Callable
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

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
        """`instance_id` lasts over restarts. `options` are kafka-python's."""
        self._ledger = ledger
        self._charge = charge
        self._stopping = threading.Event()
        self._producer = KafkaProducer(bootstrap_servers=servers)
        self._consumer = KafkaConsumer(
            bootstrap_servers=servers,
            group_id=GROUP,
            group_instance_id=instance_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **options,
        )
        self._consumer.subscribe([TOPIC])
        # Before the first poll: else it joins twice, and 3.0.12 may lose the second assignment.
        self._consumer.topics()

    def run(self) -> None:
        """Consume until `stop` is called."""
        try:
            while not self._stopping.is_set():
                # One at a time: max.poll.interval.ms then limits one order, not 500.
                for record in self._poll():
                    self._handle(record.value)
                    self._commit(record)
        finally:
            self._consumer.close(autocommit=False)
            self._producer.close()

    def stop(self) -> None:
        """From any thread: end after the order that is being charged."""
        self._stopping.set()

    def _poll(self) -> list[Any]:
        try:
            polled = self._consumer.poll(timeout_ms=200, max_records=1)
        except KafkaError as error:
            if not error.retriable:
                raise
            log.warning("poll failed: %s", error)  # as while a broker goes away
            return []
        return [record for records in polled.values() for record in records]

    def _handle(self, value: bytes | None) -> None:
        try:
            order = parse(value)
        except UnreadableError:
            self._producer.send(DEAD_LETTERS, value).get(10)
        else:
            self._ledger.charge_once(order, self._charge)

    def _commit(self, record: Any) -> None:
        place = TopicPartition(record.topic, record.partition)
        try:
            offsets = {place: OffsetAndMetadata(record.offset + 1, "", -1)}
            self._consumer.commit(offsets, timeout_ms=20_000)
        except KafkaError as error:
            # The next commit covers it. If its partition is another member's now, it comes again
            # there, and the ledger knows it.
            log.warning("order is charged but not committed: %s", error)
