"""Limits the requests that an observer sends, and counts and tells what becomes of them."""

import asyncio
import time
from collections.abc import Callable

from groupkeeper.observe.logs import Logger
from groupkeeper.observe.seldom import Seldom

_log = Logger("observer")


class Requests:
    """Requests of one kind, to all nodes together: at most `per_s` a second, at even intervals, in
    the order in which they are asked for. Each event is told once a minute at most.
    """

    def __init__(self, per_s: float, seconds: Callable[[], float] = time.monotonic) -> None:
        """`seconds`: of a monotonic clock."""
        self.sent = 0
        self.failures = 0
        """Failed requests, and rows of responses with an error."""
        self.dropped = 0
        """Things that were not asked for, or whose answers were not kept, because of a limit."""
        self._interval_s, self._next_s = 1 / per_s, 0.0
        self._seldom = Seldom(seconds)

    async def turn(self, count: int = 1) -> None:
        """Wait for a turn, after which `count` requests are sent."""
        now = asyncio.get_running_loop().time()
        start = max(now, self._next_s)
        self._next_s = start + count * self._interval_s
        await asyncio.sleep(start - now)
        self.sent += count

    def failed(self, event: str, why: str, count: int = 1, **about: object) -> None:
        """Count failures, and tell them."""
        self.failures += count
        if times := self._seldom.due(event):
            _log.warning(event, why=why, **about, times=times)

    def drop(self, limit: str, most: int, count: int = 1, **about: object) -> None:
        """Count what a limit drops, and tell it."""
        self.dropped += count
        if times := self._seldom.due(limit):
            _log.warning("limit reached", limit=limit, most=most, **about, times=times)
