"""The clocks of a machine whose wall clock is set, or which is suspended, under virtual time."""

import asyncio
from collections.abc import Callable

from groupkeeper.clock import Alarm
from tests.simulation.cluster import START_OF_TIME_MS, VirtualClock


class SteppedClock(VirtualClock):
    """Both clocks follow virtual time until a test moves them apart."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.set_by_ms = 0
        """By how much the wall clock was set forward; negative: back."""
        self._lost_s = 0.0
        """For how long the machine was suspended."""
        self._stands_at_s: float | None = None
        self.seconds = self._seconds

    def suspend(self) -> None:
        """Let the monotonic clock stand still, while the wall clock runs."""
        self._stands_at_s = self._seconds()

    def resume(self) -> None:
        """End `suspend`."""
        assert self._stands_at_s is not None
        self._lost_s = self._loop.time() - self._stands_at_s
        self._stands_at_s = None

    def _seconds(self) -> float:
        at_s = self._stands_at_s
        return self._loop.time() - self._lost_s if at_s is None else at_s

    def wall(self) -> int:
        return START_OF_TIME_MS + int(self._loop.time() * 1000) + 1 + self.set_by_ms

    def call_at(self, due_ms: int, callback: Callable[[], None]) -> Alarm:
        return super().call_at(due_ms + int(self._lost_s * 1000), callback)
