"""The event loop of the server process, with limits and measurements for its iterations.

An iteration begins when the selector returns and ends when it is called again. Within it, new work
is started only for a limited time (`turns.py`); its length is how late a heartbeat may be read.
"""

import asyncio
import selectors
import time
from collections.abc import Callable
from typing import Any, Final

from groupkeeper.coordinator.stalls import STALL_MS
from groupkeeper.observe.logs import Logger
from groupkeeper.observe.metrics import ConnectionStats, Histogram
from groupkeeper.turns import ITERATION_S, Turns

MEMBERS: Final = 512
"""Sockets of members that are read in one iteration of the loop: a heartbeat takes microseconds."""
OTHERS: Final = 192
"""Sockets of clients without heartbeats that are read in one iteration."""
FEW_EVENTS: Final = 64
"""Sockets of clients with a long request that are read in one iteration. If no more events than
this are ready, all are handled, unsorted."""

_ACCEPT_FAILED: Final = "socket.accept() out of system resource"

_log = Logger("server")


LOOK_S: Final = 1.0
"""The longest wait of the selector: a stop of the process that is longer is noticed."""
STALL_S: Final = STALL_MS / 1000
"""Shorter stops are not reported."""

Stopped = Callable[[float, float], None]
"""Is told begin and end of a time in which the loop did not run, in monotonic seconds."""


class WatchedSelector(selectors.DefaultSelector):
    """The selector of asyncio's loop, called once in each iteration."""

    def __init__(self) -> None:
        super().__init__()
        self.turns = Turns()
        self.iterations = Histogram()
        self.last: Callable[[], None] | None = None
        """Called at the end of each iteration, before the selector may wait."""
        self.stopped: Stopped | None = None
        """Called before the events that came meanwhile are handled."""
        self.clock_moved: Callable[[float], None] | None = None
        """Called with the seconds by which the wall clock was moved, or the machine suspended."""
        self._began = time.monotonic()
        self._apart = time.time() - self._began
        self._start = 0

    # Any: only the loop uses the keys and events.
    def select(self, timeout: float | None = None) -> Any:
        """Select as the base class, with fewer events under load; starts timing the iteration."""
        if self.last is not None:
            self.last()
        asked = time.monotonic()
        busy = asked - self._began
        self.iterations.observe(busy)
        wait = LOOK_S if timeout is None or timeout > LOOK_S else max(timeout, 0.0)
        events = super().select(wait)
        began = time.monotonic()
        if busy >= STALL_S or began - asked >= wait + STALL_S:
            self._note_stop(asked, began)
        self._began = began
        apart = time.time() - began
        if abs(apart - self._apart) >= STALL_S and self.clock_moved is not None:
            self.clock_moved(apart - self._apart)
        self._apart = apart
        self.turns.until = began + ITERATION_S
        chosen = events if len(events) <= FEW_EVENTS else self._some(events)
        self.turns.has_more = len(chosen) < len(events)
        return chosen

    def _note_stop(self, asked: float, began: float) -> None:
        """Report a callback that took too long, or a wait that lasted longer than was asked for."""
        if self.stopped is not None:
            busy = asked - self._began
            self.stopped(self._began if busy >= STALL_S else asked, began)

    # Any: see select.
    def _some(self, events: list[Any]) -> list[Any]:
        """Choose the events of one iteration: members first, long requests last. The next iteration
        chooses others of each kind, even if these sockets are readable again.
        """
        turns = self.turns
        members: list[Any] = []
        others: list[Any] = []
        bulk: list[Any] = []
        for event in events:
            fd = event[0].fd
            kind = bulk if fd in turns.bulk else members if fd in turns.members else others
            kind.append(event)
        chosen = self._from(members, MEMBERS) + self._from(others, OTHERS)
        chosen += self._from(bulk, FEW_EVENTS)
        self._start += FEW_EVENTS
        return chosen

    def _from(self, events: list[Any], most: int) -> list[Any]:
        if len(events) <= most:
            return events
        start = self._start % len(events)
        return (events[start:] + events[:start])[:most]


def watched_loop() -> tuple[asyncio.AbstractEventLoop, WatchedSelector]:
    """Return a new event loop, and its selector: set `turns`, `iterations` and `last` there."""
    selector = WatchedSelector()
    return asyncio.SelectorEventLoop(selector), selector


def count_failed_accepts(loop: asyncio.AbstractEventLoop, stats: ConnectionStats) -> None:
    """Log and count failed accepts for lack of a file descriptor, once per iteration. In each, the
    loop tries as often as its backlog is long.
    """
    counted = False

    def reset() -> None:
        nonlocal counted
        counted = False

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if context.get("message") != _ACCEPT_FAILED:
            loop.default_exception_handler(context)
            return
        nonlocal counted
        if counted:
            return
        counted = True
        loop.call_soon(reset)
        stats.unaccepted += 1
        _log.error("connection cannot be accepted", error=str(context.get("exception")))

    loop.set_exception_handler(handle)
