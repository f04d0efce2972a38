"""The process's writer: rounds of group commit, one at a time.

What steps write while a round is under way is the next round: under light load a round is one
request and waits for nothing, under heavy load rounds grow by themselves. A round costs one hop to
the writer thread and one back. The store is touched by that thread only.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final, Protocol, TypeVar

from groupkeeper.clock import Clock
from groupkeeper.coordinator.gate import Unwritten
from groupkeeper.coordinator.step import KeyValue
from groupkeeper.observe.logs import Logger
from groupkeeper.observe.metrics import AppendStats
from groupkeeper.storage.errors import StorageError
from groupkeeper.storage.queued_log import Append
from groupkeeper.storage.store import Store

T = TypeVar("T")

ROUND_BYTES: Final = 256 * 1024
"""A round that has so many bytes takes no more of them: to encode a record takes a microsecond, and
as long as a round takes wait all who are in it, and those of the next one."""

LINGER_S: Final = 0.005
"""A round does not wait for a second iteration of the loop when the first took so long."""

CATCH_UP_S = 0.02
"""How long the writer rests before it brings the segments up to the journal."""

_log = Logger("writer")


class RecordSource(Protocol):
    """Whoever has something to write: the driver of a partition."""

    def take(self) -> Unwritten | None:
        """What the next round writes."""

    def append_of(self, records: list[KeyValue], wall_ms: int) -> Append:
        """The records as the store takes them."""

    def written(self, unwritten: Unwritten) -> None:
        """A round is durable."""

    def not_written(self, error: BaseException) -> None:
        """A round failed: nothing of it may be acknowledged."""

    def grown(self) -> None:
        """The log's files have caught up with what was written."""


class Writer:
    """Collects what partitions have to write and makes it durable together."""

    def __init__(self, store: Store, clock: Clock, executor: Executor, stats: AppendStats) -> None:
        """``executor`` has exactly one thread: it is what serialises access to the store."""
        self.store = store
        self._clock = clock
        self._executor = executor
        self._stats = stats
        self._loop = asyncio.get_running_loop()
        self._dirty: dict[RecordSource, None] = {}
        self._behind: dict[RecordSource, None] = {}
        """Whose segments may lack what the journal has."""
        self._resting: asyncio.TimerHandle | None = None
        self._bytes = 0
        self._round: asyncio.Future[list[StorageError | None]] | None = None
        self._scheduled = False
        self._idle = asyncio.Event()
        self._idle.set()

    def call(self, job: Callable[..., T], *args: object) -> "asyncio.Future[T]":
        """Run something else on the store, between rounds."""
        return self._loop.run_in_executor(self._executor, job, *args)

    def enqueue(self, source: RecordSource) -> None:
        """The partition has something to write; the next round takes it."""
        self._dirty[source] = None
        if self._round is None and not self._scheduled:
            self._idle.clear()
            self._schedule()

    def _schedule(self) -> None:
        """Start a round two iterations on: the answers of the last one bring requests, which come
        in while those before them are decided, and they may share this round and its sync. An idle
        loop turns twice in no time; in one that is slow, what comes is in the first iteration.
        """
        self._scheduled = True
        self._loop.call_soon(self._linger, self._clock.seconds() + LINGER_S)

    def _linger(self, until: float) -> None:
        if self._clock.seconds() < until:
            self._loop.call_soon(self._start)
        else:
            self._start()

    async def drain(self) -> None:
        """Wait until everything enqueued so far, and what follows from it, is written."""
        await self._idle.wait()

    def stop(self) -> None:
        """After :meth:`drain`: the store is about to be closed, and does the rest itself."""
        if self._resting is not None:
            self._resting.cancel()

    def _start(self) -> None:
        self._scheduled = False
        work: list[tuple[RecordSource, Unwritten]] = []
        appends: list[Append] = []
        wall = self._clock.wall()
        broken: list[tuple[RecordSource, Exception]] = []
        size = 0
        while self._dirty and size < ROUND_BYTES:
            source = next(iter(self._dirty))
            del self._dirty[source]
            try:
                unwritten = source.take()
                if unwritten is not None:
                    appends.append(source.append_of(unwritten.records, wall))
                    work.append((source, unwritten))
                    size += unwritten.size
            except Exception as bug:  # noqa: BLE001  # the others' round goes on without it
                broken.append((source, bug))
        if work:
            began = self._clock.seconds()
            self._round = self.call(self.store.commit, appends)
            self._round.add_done_callback(lambda done: self._finish(done, work, began))
        else:
            self._rest()
        for source, error in broken:  # only now: it may have something to write again
            _tell_failure(source, error)

    def _finish(
        self,
        done: "asyncio.Future[list[StorageError | None]]",
        work: list[tuple[RecordSource, Unwritten]],
        began: float,
    ) -> None:
        self._round = None
        try:
            self._report(done, work, began)
        finally:
            if self._dirty and not self._scheduled:
                self._schedule()
            elif not self._scheduled and self._round is None:
                self._rest()

    def _report(
        self,
        done: "asyncio.Future[list[StorageError | None]]",
        work: list[tuple[RecordSource, Unwritten]],
        began: float,
    ) -> None:
        error = None if done.cancelled() else done.exception()
        if error is None and not done.cancelled():
            took = self._clock.seconds() - began
            for (source, unwritten), left_out in zip(work, done.result(), strict=True):
                if left_out is None:
                    self._behind[source] = None
                    _tell(source, unwritten)
                else:
                    self._stats.failures += 1
                    _tell_failure(source, left_out)
            records = sum(len(unwritten.records) for _, unwritten in work)
            size, self._bytes = self._bytes, self.store.committed_bytes
            self._stats.record(took, records, self._bytes - size)
        else:
            self._stats.failures += 1
            for source, _ in work:
                _tell_failure(source, error or asyncio.CancelledError())

    # -- the segments --------------------------------------------------------------------------

    def _rest(self) -> None:
        """Nothing is left to make durable: time to let the segments catch up with the journal."""
        self._idle.set()
        if self._behind and self._resting is None:
            self._resting = self._loop.call_later(CATCH_UP_S, self._catch_up)

    def _catch_up(self) -> None:
        self._resting = None
        if self._round is None and self._behind:  # under way again? Then the next rest does it
            sources, self._behind = self._behind, {}
            done = self.call(self.store.catch_up)
            done.add_done_callback(lambda done: self._caught_up(done, sources))

    def _caught_up(self, done: "asyncio.Future[None]", sources: dict[RecordSource, None]) -> None:
        error = None if done.cancelled() else done.exception()
        for source in sources:
            if error is None:
                source.grown()
            else:
                _tell_failure(source, error)


def _tell(source: RecordSource, unwritten: Unwritten) -> None:
    """What goes wrong while one partition's answers leave must not cost the others theirs."""
    try:
        source.written(unwritten)
    except Exception as bug:  # noqa: BLE001  # its partition closes, and is loaded again
        _tell_failure(source, bug)


def _tell_failure(source: RecordSource, error: BaseException) -> None:
    """What goes wrong while one partition closes must not keep the others from hearing that theirs
    is lost: they would go on, and acknowledge it with what they write next.
    """
    try:
        source.not_written(error)
    except Exception:  # noqa: BLE001
        _log.exception("a failed partition could not be closed", error=str(error))
