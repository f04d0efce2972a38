"""What the service does with an order; no Kafka here."""

import json
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

TOPIC = "orders"
DEAD_LETTERS = "orders.dead"
GROUP = "billing"


class Order(NamedTuple):
    """An order, as its record's value says in JSON."""

    id: str
    cents: int


class UnreadableError(ValueError):
    """The value of a record is no order."""


def parse(value: bytes | None) -> Order:
    """Raises UnreadableError."""
    try:
        fields = json.loads(value or b"")
        return Order(str(fields["id"]), int(fields["cents"]))
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableError(f"no order: {value!r}") from error


class Ledger:
    """Which orders have been charged; in a real service a table with the order as its key."""

    def __init__(self) -> None:
        self._charged: set[str] = set()
        self._rows: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def charge_once(self, order: Order, charge: Callable[[Order], None]) -> None:
        """Charge an order unless it was: a record may come again, also to another consumer while
        this one is charging.
        """
        with self._rows[order.id]:
            if order.id in self._charged:
                return
            charge(order)
            self._charged.add(order.id)
