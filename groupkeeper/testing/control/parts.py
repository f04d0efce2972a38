"""What the routes of the control stand on, and how their functions get to the broker."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial, wraps
from itertools import count
from typing import Any, Final, Protocol, Unpack

from groupkeeper.testing.bench import Bench
from groupkeeper.testing.broker import Broker
from groupkeeper.testing.effects import Effect
from groupkeeper.testing.faults.rules import Rule, When
from groupkeeper.web.call import Call
from groupkeeper.web.parts import Object
from groupkeeper.web.route import Handle

WAITS: Final = 40
"""Waits for groups at a time: less than the port answers (`http_limits.ANSWERS`), so that what they
wait for can still be asked."""


class ServedBroker(Broker):
    """The broker of a bench that exists already; its fault rules have numbers."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._rules: dict[int, Rule] = {}
        self._numbers = count(1)

    @property
    def is_up(self) -> bool:
        """Whether it runs."""
        return self._bench.is_up

    @property
    def is_frozen(self) -> bool:
        """Whether its time stands still."""
        return self._bench.time.is_frozen

    @property
    def time_ms(self) -> int:
        """Its Unix time."""
        return self._bench.time.wall()

    @property
    def topics(self) -> dict[str, int]:
        """Names, and numbers of partitions, without internal ones."""
        catalog = self._bench.server.topics.catalog
        return self._bench.running.call(
            lambda: {
                name: topic.partition_count
                for name, topic in sorted(catalog.by_name.items())
                if not topic.internal
            }
        )

    @property
    def rules(self) -> dict[int, Rule]:
        """The fault rules that are there, by number."""
        present = [*self.faults]
        self._rules = {number: rule for number, rule in self._rules.items() if rule in present}
        return self._rules

    def fault(self, effect: Effect, **when: Unpack[When]) -> Rule:
        rule = super().fault(effect, **when)
        self._rules[next(self._numbers)] = rule
        return rule


Do = Callable[[ServedBroker, Call], Object]
"""Does what a route is for, on a thread. Raises what the broker raises, and Refused."""


class Run(Protocol):
    """Calls a function on a thread: `changes` are made one after another."""

    # Any: what it returns.
    def __call__(self, do: Callable[[], Any], *, changes: bool) -> Awaitable[Any]: ...


@dataclass(slots=True, frozen=True)
class Parts:
    """What a route is given."""

    broker: ServedBroker
    run: Run
    waits: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(WAITS))
    """Places for them."""


def change(do: Do) -> Handle:
    """The route of a function that changes something."""
    return _on_thread(do, changes=True)


def look(do: Do) -> Handle:
    """The route of a function that only looks."""
    return _on_thread(do, changes=False)


def _on_thread(do: Do, *, changes: bool) -> Handle:
    @wraps(do)
    async def handle(parts: Parts, call: Call) -> Object:
        found: Object = await parts.run(partial(do, parts.broker, call), changes=changes)
        return found

    return handle
