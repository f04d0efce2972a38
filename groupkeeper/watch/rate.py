"""Limits how many requests an observer sends per second."""

import asyncio


class RequestRate:
    """Turns at even intervals, in the order in which they are asked for."""

    def __init__(self, per_s: float) -> None:
        self._interval_s = 1 / per_s
        self._next_s = 0.0

    async def turn(self, count: int = 1) -> None:
        """Wait for a turn, after which `count` requests may be sent."""
        now = asyncio.get_running_loop().time()
        start = max(now, self._next_s)
        self._next_s = start + count * self._interval_s
        await asyncio.sleep(start - now)
