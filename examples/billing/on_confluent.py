"""The service with confluent-kafka."""

import logging
import threading
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer

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
        """`instance_id` lasts over restarts. `options` are librdkafka's, with underscores."""
        self._ledger = ledger
        self._charge = charge
        self._stopping = threading.Event()
        self._producer = Producer({"bootstrap.servers": servers})
        settings: dict[str, Any] = {
            "bootstrap.servers": servers,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **{name.replace("_", "."): value for name, value in options.items()},
        }
        if instance_id is not None:
            settings["group.instance.id"] = instance_id
        self._consumer = Consumer(settings)
        self._consumer.subscribe([TOPIC])

    def run(self) -> None:
        """Consume until `stop` is called."""
        try:
            while not self._stopping.is_set():
                # One at a time: max.poll.interval.ms then limits one order, not hundreds.
                for message in self._consumer.consume(1, 0.05):
                    if message.error():
                        log.warning("poll failed: %s", message.error())
                        continue
                    self._handle(message.value())
                    self._commit(message)
        finally:
            self._consumer.close()
            self._producer.close()

    def stop(self) -> None:
        """From any thread: end after the order that is being charged."""
        self._stopping.set()

    def _handle(self, value: bytes | None) -> None:
        try:
            order = parse(value)
        except UnreadableError:
            self._producer.produce(DEAD_LETTERS, value)
            self._producer.flush(10)
        else:
            self._ledger.charge_once(order, self._charge)

    def _commit(self, message: Message) -> None:
        try:
            self._consumer.commit(message, asynchronous=False)
        except KafkaException as error:
            # The next commit covers it. If its partition is another member's now, it comes again
            # there, and the ledger knows it.
            log.warning("order is charged but not committed: %s", error)
