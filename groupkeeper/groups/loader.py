"""Where partitions are loaded: a thread of its own, on which a few of them take turns.

Neither the event loop nor the thread of the rounds waits for a load. What the thread does is
mostly Python, and holds the interpreter: so while it works, it is asked to let go of it sooner.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from groupkeeper.backoff import Backoff
from groupkeeper.groups.writer import Writer
from groupkeeper.protocol.record_batch import CorruptBatch
from groupkeeper.storage.errors import Corrupt
from groupkeeper.storage.log import Log
from groupkeeper.turns import Slices, Work

T = TypeVar("T")

AT_ONCE: Final = 2
"""So many partitions load at a time; the others wait, in the order they came. With one, a partition
with a long log would keep all behind it waiting."""
TURN_S: Final = 0.02
"""So long a partition has the thread before it is the other one's turn."""
SWITCH_S: Final = 0.0005
"""While partitions load, a thread that wants the interpreter gets it after so long, not after
Python's 5 ms: the event loop gives it up with every call of the system."""
RELOAD_FIRST_S: Final = 0.1
RELOAD_MOST_S: Final = 5.0
"""First and longest pause before a failed partition is loaded again; each pause is twice the one
before it. A load may read a long log, and competes with others for the disk."""
RELOAD_DAMAGED_MOST_S: Final = 30.0
"""The longest pause if the log is damaged: only a person can repair it, and a load notices after
reading much of it."""
HEALTHY_S: Final = 10.0
"""A partition that was active for so long begins with the first pause again."""


class Loader:
    """Lets partitions load, a few at a time."""

    def __init__(self, executor: Executor) -> None:
        """``executor`` has exactly one thread, which nobody else uses."""
        self._executor = executor
        self._loop = asyncio.get_running_loop()
        self._places = asyncio.Semaphore(AT_ONCE)
        self._loading = 0
        self._switch_s = 0.0

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """A place among those that load, to be held until the partition is active or has failed."""
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

    def call(self, job: Callable[..., T], *args: object) -> "asyncio.Future[T]":
        """Do one thing on the thread."""
        return self._loop.run_in_executor(self._executor, job, *args)

    def call_from_thread(self, job: Callable[[], None]) -> None:
        """The same, from any thread, for a job that raises nothing."""
        self._loop.call_soon_threadsafe(self.call, job)

    async def run(self, slices: Slices[T]) -> T:
        """Do work in slices on the thread, and others' between; given up when cancelled."""
        work = Work(slices)
        while not await self.call(self._turn, work):
            pass
        return work.result

    def _turn(self, work: Work[T]) -> bool:
        seconds = self._loop.time  # may be asked from any thread
        return work.run(seconds, seconds() + TURN_S)

    async def close(self) -> None:
        """Wait for what is under way on the thread; what was not begun is dropped."""
        await self.call(bool)
        self._executor.shutdown(cancel_futures=True)


class ReloadBackoff:
    """When one partition is loaded again after a failure. Times are seconds of one clock."""

    def __init__(self) -> None:
        self._backoff = Backoff(RELOAD_FIRST_S, RELOAD_DAMAGED_MOST_S)
        self._active_since: float | None = None
        self._next = 0.0

    def active(self, now: float) -> None:
        """The partition has become active."""
        self._active_since = now

    def failed(self, error: BaseException, now: float) -> float:
        """The partition failed, active or loading: the seconds until it is loaded again."""
        since, self._active_since = self._active_since, None
        if since is not None and now - since >= HEALTHY_S:
            self._backoff.reset()
        damaged = isinstance(error, Corrupt | CorruptBatch)
        pause = min(self._backoff.failed(), RELOAD_DAMAGED_MOST_S if damaged else RELOAD_MOST_S)
        self._next = now + pause
        return pause

    def left(self, now: float) -> float:
        """Seconds left of the last pause."""
        return max(self._next - now, 0.0)


def read(
    pieces: Iterator[bytes], take: Callable[[bytes], None], then: Slices[None]
) -> Slices[None]:
    """Take one piece of a log after another, then finish: as work for `Loader.run`."""
    for piece in pieces:
        take(piece)
        yield
    yield from then


async def claimed_log(
    writer: Writer, loader: Loader, shard: int, name: str, epoch: int | None
) -> tuple[int, Log]:
    """The log of a shard, and an epoch under which it may be written: that of an earlier claim, or
    of a new one if there is none or the log, which comes from elsewhere, is in a newer one.

    Raises Locked, Corrupt and what else the store raises.
    """
    store = writer.store
    if epoch is None:
        epoch = await loader.call(store.claim, shard)
    # First behind the rounds under way: they may still write to the log.
    log = await writer.call(store.usable_log, name)
    if log is None:
        log = await loader.call(store.recover_log, name)
    if epoch <= log.last_epoch:
        epoch = await loader.call(store.claim, shard, log.last_epoch)
    return epoch, log
