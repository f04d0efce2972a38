"""Shared parts of the control API's routes: the broker, thread pools, and the route table."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Final

from groupkeeper.testing.bench import Bench
from groupkeeper.testing.broker import Broker
from groupkeeper.web.parts import HttpRefused, Object, RoutedRequest
from groupkeeper.web.route import Handle, Parameter, Route, table

WAITS: Final = 40
"""Maximum number of concurrent waits: fewer than the port's concurrent requests
(`http_exchange.ANSWERS`), so that a client can still cause the awaited change."""


class ServedBroker(Broker):
    """The `Broker` interface of an existing bench."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    @property
    def is_up(self) -> bool:
        """Whether the broker is running."""
        return self._bench.is_up

    @property
    def is_frozen(self) -> bool:
        """Whether the broker's clock is stopped."""
        return self._bench.time.is_frozen

    @property
    def time_ms(self) -> int:
        """The broker's time in Unix milliseconds."""
        return self._bench.time.wall()

    @property
    def topics(self) -> dict[str, int]:
        """{topic: number of partitions}, without internal topics."""
        catalog = self._bench.server.topics.catalog
        return self._bench.running.call(
            lambda: {
                name: topic.partition_count
                for name, topic in sorted(catalog.by_name.items())
                if not topic.internal
            }
        )


@dataclass(slots=True, frozen=True)
class ControlParts:
    """The first argument of each route."""

    broker: ServedBroker
    changing: Executor = field(default_factory=lambda: ThreadPoolExecutor(1, "control"))
    """Runs changes, one at a time."""
    waits: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(WAITS))
    """Limits concurrent waits."""


Do = Callable[[ServedBroker, RoutedRequest], Object]
"""Handles a route on a thread; its docstring is the route's description. Raises the exceptions of
the broker, and HttpRefused."""

ALWAYS: Final = (403, 409, 500)
OF_A_CHANGE: Final = (*ALWAYS, 415)


class Routes(list[Route]):
    """A table of routes, in the order of the document."""

    def add(
        self, method: str, path: str, answer: str, body: str = "Nothing", *parameters: Parameter
    ) -> Callable[[Do], Do]:
        """Register a function for a path, to be called on a thread. `answer` and `body` (of a POST)
        are schema names.
        """
        statuses = {"GET": ALWAYS, "POST": OF_A_CHANGE, "DELETE": (*ALWAYS, 404)}[method]
        body = body if method == "POST" else ""

        def added(do: Do) -> Do:
            handle, about = _on_thread(do, changes=method != "GET"), do.__doc__ or ""
            known = table(*parameters)
            self.append(Route(path, handle, about, answer, known, method, statuses, body))
            return do

        return added


def _on_thread(do: Do, *, changes: bool) -> Handle:
    @wraps(do)
    async def handle(parts: ControlParts, call: RoutedRequest) -> Object:
        executor = parts.changing if changes else None  # the default one of the loop
        work = partial(do, parts.broker, call)
        return await asyncio.get_running_loop().run_in_executor(executor, work)

    return handle


def number(call: RoutedRequest, name: str) -> int:
    """Return a numeric part of the path. Raises HttpRefused."""
    text = call.names[name]
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise HttpRefused(400, f"{name} '{text[:100]}' is not a number")
    return int(text)
