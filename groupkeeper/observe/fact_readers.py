"""Delivers the facts of groups to their readers: metrics, log lines and other subscribers.

Facts arrive here after they have passed the gate: they are durable, or need no records. Readers get
them soon afterwards, in separate turns, so that no reply waits for a reader and no reader can make
a partition fail. The facts of one partition are delivered in order.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Final

from groupkeeper.coordinator.facts import Fact, NotedFact
from groupkeeper.observe.logs import Logger
from groupkeeper.turns import TURN_S, Turns

FACTS_IN_A_SLICE: Final = 64
"""Facts delivered between two checks of the clock: a millisecond if each is a log line."""

_log = Logger("facts")


@dataclass(slots=True, frozen=True)
class Origin:
    """The partition that facts come from."""

    partition: int
    leader_epoch: int


Reader = Callable[[Origin, NotedFact], None]
"""Must not raise. An exception is logged and counted, and this reader misses the fact."""


class FactReaders:
    """The readers of one server, and the facts that are queued for them."""

    def __init__(self, turns: Turns, failures: Counter[tuple[str, ...]]) -> None:
        """`failures` counts the exceptions of readers under `("facts_not_read", <reader>)`."""
        self._turns = turns
        self._failures = failures
        self._readers: list[tuple[str, Reader, Container[type[Fact]] | None]] = []
        self._waiting: deque[tuple[Origin, Sequence[NotedFact]]] = deque()
        """Stays short: a turn delivers more facts than an iteration of the loop can produce."""

    def subscribe(
        self, name: str, reader: Reader, kinds: Container[type[Fact]] | None = None
    ) -> None:
        """Deliver every fact from now on to `reader`, or those of some kinds: readers that skip
        most facts are not called for them. The name is used in lines and as a label.
        """
        self._readers.append((name, reader, kinds))

    def tell(self, origin: Origin, facts: Sequence[NotedFact]) -> None:
        if not self._waiting:
            self._turns.first(self._go_on)
        self._waiting.append((origin, facts))

    def flush(self) -> None:
        """Deliver everything that is queued, before the process ends."""
        while self._waiting:
            self._tell_some()

    def _go_on(self) -> None:
        seconds = asyncio.get_running_loop().time
        deadline = seconds() + TURN_S
        while self._waiting:
            self._tell_some()
            if seconds() >= deadline:
                break
        if self._waiting:
            self._turns.first(self._go_on)

    def _tell_some(self) -> None:
        left = FACTS_IN_A_SLICE
        while self._waiting and left:
            origin, facts = self._waiting.popleft()
            if len(facts) > left:
                self._waiting.appendleft((origin, facts[left:]))
                facts = facts[:left]
            left -= len(facts)
            for name, reader, kinds in self._readers:
                for noted in facts:
                    if kinds is not None and type(noted.fact) not in kinds:
                        continue
                    try:
                        reader(origin, noted)
                    except Exception:  # noqa: BLE001  # must not fail other readers
                        self._not_read(name, noted)

    def _not_read(self, name: str, noted: NotedFact) -> None:
        self._failures["facts_not_read", name] += 1
        _log.exception("a fact was not read", reader=name, fact=type(noted.fact).__name__)
