"""Reads the two clocks: monotonic for deadlines, wall for timestamps.

The monotonic clock is the event loop's, so a loop under virtual time moves it; a simulation derives
a clock with a `wall` of its own.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class Alarm(Protocol):
    """A call that was asked for."""

    def cancel(self) -> None: ...


class Clock:
    """Integer milliseconds; `now` is rounded up: an early timer would find nothing due."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        is_plain = type(loop).time is asyncio.BaseEventLoop.time
        self.seconds: Callable[[], float] = time.monotonic if is_plain else loop.time
        """Monotonic time as a float, to measure durations."""

    def now(self) -> int:
        """Monotonic milliseconds."""
        return int(self.seconds() * 1000) + 1

    def wall(self) -> int:
        """Unix milliseconds."""
        return int(time.time() * 1000)

    def call_at(self, due_ms: int, callback: Callable[[], None]) -> Alarm:
        """Call when `now` has come to that time."""
        return self._loop.call_at(due_ms / 1000, callback)

    async def sleep(self, seconds: float) -> None:
        """Wait until `now` has risen by so much."""
        over: asyncio.Future[None] = self._loop.create_future()
        alarm = self.call_at(self.now() + int(seconds * 1000), lambda: over.set_result(None))
        try:
            await over
        finally:
            alarm.cancel()
