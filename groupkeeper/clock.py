"""Reads the two clocks of a server: monotonic for deadlines, wall for timestamps.

The monotonic clock is that of the event loop, so a loop with virtual time controls it. Simulations
override `wall` in a subclass.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class Alarm(Protocol):
    """A scheduled call."""

    def cancel(self) -> None: ...


class Clock:
    """Integer milliseconds; `now` is rounded up, as a timer that fires early finds nothing due."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        is_plain = type(loop).time is asyncio.BaseEventLoop.time
        self.seconds: Callable[[], float] = time.monotonic if is_plain else loop.time
        """Returns monotonic seconds as a float, to measure durations."""

    def now(self) -> int:
        """Return monotonic milliseconds."""
        return int(self.seconds() * 1000) + 1

    def wall(self) -> int:
        """Return Unix milliseconds."""
        return int(time.time() * 1000)

    def call_at(self, due_ms: int, callback: Callable[[], None]) -> Alarm:
        """Schedule a call for when `now` reaches `due_ms`."""
        return self._loop.call_at(due_ms / 1000, callback)

    async def sleep(self, seconds: float) -> None:
        """Wait until `now` has advanced by `seconds`."""
        over: asyncio.Future[None] = self._loop.create_future()
        alarm = self.call_at(self.now() + int(seconds * 1000), lambda: over.set_result(None))
        try:
            await over
        finally:
            alarm.cancel()
