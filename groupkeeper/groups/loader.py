"""Loads partitions on a separate thread, a few at a time, and schedules retries.

Neither the event loop nor the writer's thread waits for a load. Loading is mostly Python code and
holds the GIL, so the GIL is switched more often while a partition loads.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from contextlib import asynccontextmanager, suppress
from typing import Final, TypeVar

from groupkeeper.backoff import Backoff
from groupkeeper.protocol.record_batch import CorruptBatch
from groupkeeper.storage.errors import Corrupt, StorageError
from groupkeeper.turns import Slices, Work

T = TypeVar("T")

AT_ONCE: Final = 2
"""Partitions that load at a time. More than one, so that a long log does not delay all others."""
TURN_S: Final = 0.02
"""How long one partition uses the thread before the next one does."""
SWITCH_S: Final = 0.0005
"""The interpreter's switch interval while partitions load, instead of Python's 5 ms: the event loop
gives up the GIL in every system call, and waits that long to get it back."""
RELOAD_FIRST_S: Final = 0.1
RELOAD_MOST_S: Final = 5.0
"""First and longest pause before a failed partition is loaded again; each pause is twice the last.
A load may read a long log, and competes with others for the disk."""
RELOAD_DAMAGED_MOST_S: Final = 30.0
"""The longest pause if the log is damaged: an operator has to repair it, and a load reads much of
it before it fails again."""
HEALTHY_S: Final = 10.0
"""A partition that was active for so long starts over with the first pause."""


class Moved(StorageError):
    """The partition moves to another node simulated by this process: it is reloaded immediately."""


class Loader:
    """The thread on which partitions load."""

    def __init__(self, executor: Executor) -> None:
        """`executor` has exactly one thread, which is used for nothing else."""
        self._executor = executor
        self._loop = asyncio.get_running_loop()
        self._places = asyncio.Semaphore(AT_ONCE)
        self._loading = 0
        self._switch_s = 0.0
        self._again = asyncio.Event()

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for a free slot to load, and hold it until active or failed."""
        async with self._places:
            self._loading += 1
            if self._loading == 1:
                self._switch_s = sys.getswitchinterval()
                sys.setswitchinterval(min(SWITCH_S, self._switch_s))
            try:
                yield
            finally:
                self._loading -= 1
                if not self._loading:
                    sys.setswitchinterval(self._switch_s)

    async def pause(self, seconds: float) -> None:
        """Wait before a partition is loaded, or until `try_now`."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._again.wait(), seconds)

    def try_now(self) -> None:
        """End all waits in `pause`: the cause of the failures is known to be gone."""
        self._again.set()
        self._again = asyncio.Event()

    def call(self, job: Callable[..., T], *args: object) -> "asyncio.Future[T]":
        return self._loop.run_in_executor(self._executor, job, *args)

    def call_from_thread(self, job: Callable[[], None]) -> None:
        """Do the same from any thread, for a job that does not raise."""
        self._loop.call_soon_threadsafe(self.call, job)

    async def run(self, slices: Slices[T]) -> T:
        """Run work on the thread in turns with other work; stops when cancelled."""
        work = Work(slices)
        while not await self.call(self._turn, work):
            pass
        return work.result

    def _turn(self, work: Work[T]) -> bool:
        seconds = self._loop.time  # may be called from any thread
        return work.run(seconds, seconds() + TURN_S)

    async def close(self) -> None:
        """Wait for the running job; drop those that have not begun."""
        await self.call(bool)
        self._executor.shutdown(cancel_futures=True)


def is_damage(error: BaseException) -> bool:
    """Return whether a load failed because of a damaged log, which an operator has to repair."""
    return isinstance(error, Corrupt | CorruptBatch)


class ReloadBackoff:
    """Schedules reloads of one partition after failures. Times are seconds of one clock."""

    def __init__(self) -> None:
        self._backoff = Backoff(RELOAD_FIRST_S, RELOAD_DAMAGED_MOST_S)
        self._active_since: float | None = None
        self._next = 0.0

    def active(self, now: float) -> None:
        """Note that the partition has become active."""
        self._active_since = now

    def failed(self, error: BaseException, now: float) -> float:
        """Note a failure, active or loading; return the seconds until the next load."""
        since, self._active_since = self._active_since, None
        if isinstance(error, Moved):
            self._next = now
            return 0.0
        if since is not None and now - since >= HEALTHY_S:
            self._backoff.reset()
        most = RELOAD_DAMAGED_MOST_S if is_damage(error) else RELOAD_MOST_S
        pause = min(self._backoff.failed(), most)
        self._next = now + pause
        return pause

    def left(self, now: float) -> float:
        """Return the seconds left of the last pause."""
        return max(self._next - now, 0.0)
