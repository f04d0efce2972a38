"""The two times: monotonic for deadlines, wall for what is written. Nothing else reads a clock.

Both are the event loop's in the end, so that a loop under virtual time moves them.
"""

import asyncio
import time
from collections.abc import Callable


class Clock:
    """Integer milliseconds, rounded up: a timer must not fire early, find nothing due, and spin."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        is_plain = type(loop).time is asyncio.BaseEventLoop.time
        self.seconds: Callable[[], float] = time.monotonic if is_plain else loop.time
        """Monotonic, as a float, for measuring."""

    def now(self) -> int:
        """Monotonic milliseconds."""
        return int(self.seconds() * 1000) + 1

    def wall(self) -> int:
        """Unix milliseconds."""
        return int(time.time() * 1000)
