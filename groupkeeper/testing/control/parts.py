"""What the routes of the control stand on, how they are made, and the broker that they act on."""

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

READERS: Final = 4
"""Threads that look; one more makes changes."""
WAITS: Final = 40
"""Waits for groups at a time: less than the port answers (`http_exchange.ANSWERS`), so that
what they wait for can still be asked."""


class ServedBroker(Broker):
    """The broker of a bench that exists already."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

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


@dataclass(slots=True, frozen=True)
class ControlParts:
    """What a route is given."""

    broker: ServedBroker
    changing: Executor = field(default_factory=lambda: ThreadPoolExecutor(1, "control"))
    """Changes are made one after another."""
    looking: Executor = field(
        default_factory=lambda: ThreadPoolExecutor(READERS, "control-looking")
    )
    waits: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(WAITS))
    """Places for them."""


Do = Callable[[ServedBroker, RoutedRequest], Object]
"""Does what a route is for, on a thread; its documentation is that of the route. Raises what the
broker raises, and HttpRefused."""

ALWAYS: Final = (403, 409, 500)
OF_A_CHANGE: Final = (*ALWAYS, 415)


class Routes(list[Route]):
    """A table of routes, in the order of the document."""

    def add(
        self, method: str, path: str, answer: str, body: str = "Nothing", *parameters: Parameter
    ) -> Callable[[Do], Do]:
        """Let a function answer requests for a path, on a thread. `answer`, and `body` of a POST:
        names of schemas.
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
        executor = parts.changing if changes else parts.looking
        work = partial(do, parts.broker, call)
        return await asyncio.get_running_loop().run_in_executor(executor, work)

    return handle


def number(call: RoutedRequest, name: str) -> int:
    """A part of the path. Raises HttpRefused."""
    text = call.names[name]
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise HttpRefused(400, f"{name} '{text[:100]}' is no number")
    return int(text)
