"""Who is told what happened to groups: metrics, log lines, whoever subscribes.

What arrives here has passed the gate: it is durable, or nothing had to be written for it. Readers
are told soon, in turns of their own, so that no answer waits for them and none of them can fail a
partition. Facts of one partition come in their order.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from groupkeeper.coordinator.facts import NotedFact
from groupkeeper.observe.logs import Logger
from groupkeeper.turns import TURN_S, Turns

FACTS_IN_A_SLICE: Final = 64
"""So many facts are told between two looks at the clock: a millisecond, when each is a log line."""

_log = Logger("facts")


@dataclass(slots=True, frozen=True)
class Origin:
    """Where facts come from."""

    partition: int
    leader_epoch: int


Reader = Callable[[Origin, NotedFact], None]
"""Raises nothing; what it raises all the same is logged and counted, and costs it this fact."""


class FactReaders:
    """The readers of one server, and the facts that are on their way to them."""

    def __init__(self, turns: Turns, failures: Counter[tuple[str, str]]) -> None:
        """``failures`` counts, under ``("facts_not_read", <reader>)``, what readers raised."""
        self._turns = turns
        self._failures = failures
        self._readers: list[tuple[str, Reader]] = []
        self._waiting: deque[tuple[Origin, Sequence[NotedFact]]] = deque()
        """A turn tells more than an iteration of the loop can note: this stays short."""

    def subscribe(self, name: str, reader: Reader) -> None:
        """Tell ``reader`` every fact from now on. The name is for lines, and a metric's label."""
        self._readers.append((name, reader))

    def tell(self, origin: Origin, facts: Sequence[NotedFact]) -> None:
        """Facts that may be told; readers get them soon."""
        if not self._waiting:
            self._turns.first(self._go_on)
        self._waiting.append((origin, facts))

    def flush(self) -> None:
        """The process ends: tell all that wait."""
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
            for name, reader in self._readers:
                for noted in facts:
                    try:
                        reader(origin, noted)
                    except Exception:  # noqa: BLE001  # the others, and the partition, go on
                        self._not_read(name, noted)

    def _not_read(self, name: str, noted: NotedFact) -> None:
        self._failures["facts_not_read", name] += 1
        _log.exception("a fact was not read", reader=name, fact=type(noted.fact).__name__)
