"""The process's writer: group commit in flushes, one at a time.

When a flush begins, the pending batches of all authors are taken, and written with one journal
entry and one sync for all logs. Records of steps during a flush go into the next one: under light
load a flush has one request and waits for nothing, under heavy load flushes grow. A flush costs one
hop to the writer thread and one back. Only that thread uses the store.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from typing import Final, Protocol, TypeVar, cast

from groupkeeper.clock import Clock
from groupkeeper.coordinator.gate import Unwritten
from groupkeeper.coordinator.stalls import STALL_MS
from groupkeeper.groups.partition_log import Author, LogBatch, LogOwner, PartitionLog
from groupkeeper.observe.logs import Logger
from groupkeeper.observe.metrics import AppendStats
from groupkeeper.storage.errors import StorageError
from groupkeeper.storage.log.queued_log import Append, LateAppend, after
from groupkeeper.storage.store import Store

T = TypeVar("T")

FLUSH_BYTES: Final = 256 * 1024
"""A flush with this many bytes takes no more: encoding a record takes a microsecond, and all
requests in the flush and in the next one wait for it."""

LINGER_S: Final = 0.005
"""If one iteration of the loop takes longer, a flush does not wait for a second one."""

CATCH_UP_S = 0.02
"""Idle time of the writer before it copies the journal to the segments."""

_log = Logger("writer")


class FlushedLog(PartitionLog, Protocol):
    """A log whose batches are written by flushes, as the writer uses it."""

    def prepare(self, unwritten: Unwritten, wall_ms: int) -> Append | LateAppend:
        """Return the records of a batch in the form of the store."""

    def grown(self) -> None:
        """Called when the segments have caught up with the journal."""


_Work = list[tuple[FlushedLog, LogBatch]]
"""The batches of a flush."""

_Flush = Future[list[StorageError | None]]
"""The result of `Store.commit`."""


class Writer:
    """Collects the batches of all authors and makes them durable together."""

    def __init__(self, store: Store, clock: Clock, executor: Executor, stats: AppendStats) -> None:
        """`executor` has exactly one thread, which serialises access to the store."""
        self.store = store
        self.clock = clock
        self._executor = executor
        self._stats = stats
        self._loop = asyncio.get_running_loop()
        self._dirty: dict[Author, None] = {}
        self._behind: dict[FlushedLog, LogOwner] = {}
        """Logs whose segments may be behind the journal."""
        self._resting: asyncio.TimerHandle | None = None
        self._bytes = 0
        self._flush: _Flush | None = None
        self._scheduled = False
        self._idle = asyncio.Event()
        self._idle.set()

    def call(self, job: Callable[..., T], *args: object) -> "asyncio.Future[T]":
        """Run another job with the store, between flushes."""
        return self._loop.run_in_executor(self._executor, job, *args)

    def enqueue(self, author: Author) -> None:
        """Take the batches of this author in the next flush."""
        self._dirty[author] = None
        if self._flush is None and not self._scheduled:
            self._idle.clear()
            self._schedule()

    def _schedule(self) -> None:
        """Start a flush two iterations of the loop later.

        In that time, clients answered by the last flush send their next requests, which then share
        this flush and its sync. An idle loop iterates twice in no time; a slow one reads them all
        in the first iteration.
        """
        self._scheduled = True
        self._loop.call_soon(self._linger, self.clock.seconds() + LINGER_S)

    def _linger(self, until: float) -> None:
        if self.clock.seconds() < until:
            self._loop.call_soon(self._start)
        else:
            self._start()

    async def drain(self) -> None:
        """Wait until no author has records to write, and no flush is in progress."""
        await self._idle.wait()

    def stop(self) -> None:
        """Call after `drain`. Closing the store brings the segments up to the journal."""
        if self._resting is not None:
            self._resting.cancel()

    def _start(self) -> None:
        self._scheduled = False
        work: _Work = []
        appends: list[Append | LateAppend] = []
        wall = self.clock.wall()
        broken: list[tuple[LogOwner, Exception]] = []
        size = 0
        while self._dirty and size < FLUSH_BYTES:
            author = next(iter(self._dirty))
            del self._dirty[author]
            try:
                batches = author.take()
            except Exception as bug:  # noqa: BLE001  # the flush continues without it
                broken.append((author, bug))
                continue
            made: dict[LogBatch, Append | LateAppend] = {}
            for batch in batches:
                try:
                    log, append = _append_of(batch, made, wall)
                except Exception as bug:  # noqa: BLE001  # and with the other logs of the author
                    broken.append((batch.owner, bug))
                    continue
                appends.append(append)
                work.append((log, batch))
                size += batch.unwritten.size
        if work:
            began = self.clock.seconds()
            # Not `call`: asyncio's future of a thread's result costs as much as a small flush.
            self._flush = self._executor.submit(self.store.commit, appends)
            self._flush.add_done_callback(lambda done: self._pass_back(done, work, began))
        else:
            self._rest()
        for owner, error in broken:  # only now: it may enqueue itself again
            _tell_failure(owner, error)

    def _pass_back(self, done: _Flush, work: _Work, began: float) -> None:
        """Let the loop finish a flush. Called on the writer's thread."""
        if not self._loop.is_closed():  # else the process ends, and nobody is answered any more
            self._loop.call_soon_threadsafe(self._finish, done, work, began)

    def _finish(self, done: _Flush, work: _Work, began: float) -> None:
        self._flush = None
        try:
            self._report(done, work, began)
        finally:
            if self._dirty and not self._scheduled:
                self._schedule()
            elif not self._scheduled and self._flush is None:
                self._rest()

    def _report(self, done: _Flush, work: _Work, began: float) -> None:
        error = None if done.cancelled() else done.exception()
        if error is None and not done.cancelled():
            took = self.clock.seconds() - began
            if took * 1000 >= STALL_MS:
                _log.warning("the log stood still", for_ms=int(took * 1000))
            for (log, batch), left_out in zip(work, done.result(), strict=True):
                if left_out is None:
                    self._behind[log] = batch.owner
                    _tell(batch)
                else:
                    self._stats.failures += 1
                    _tell_failure(batch.owner, left_out)
            records = sum(len(batch.unwritten.records) for _, batch in work)
            size, self._bytes = self._bytes, self.store.committed_bytes
            self._stats.record(took, records, self._bytes - size)
        else:
            self._stats.failures += 1
            for _, batch in work:
                _tell_failure(batch.owner, error or asyncio.CancelledError())

    # -- the segments --------------------------------------------------------------------------

    def _rest(self) -> None:
        """Let the segments catch up with the journal soon, as nothing is left to make durable."""
        self._idle.set()
        if self._behind and self._resting is None:
            self._resting = self._loop.call_later(CATCH_UP_S, self._catch_up)

    def _catch_up(self) -> None:
        self._resting = None
        if self._flush is None and self._behind:  # else: after the current flush
            logs, self._behind = self._behind, {}
            done = self.call(self.store.catch_up)
            done.add_done_callback(lambda done: self._caught_up(done, logs))

    def _caught_up(self, done: "asyncio.Future[None]", logs: Mapping[FlushedLog, LogOwner]) -> None:
        error = None if done.cancelled() else done.exception()
        for log, owner in logs.items():
            if error is None:
                log.grown()
            else:
                _tell_failure(owner, error)


def _append_of(
    batch: LogBatch, made: dict[LogBatch, Append | LateAppend], wall_ms: int
) -> tuple[FlushedLog, Append | LateAppend]:
    """Return the append of a batch; `made` has those of earlier batches."""
    log = cast("FlushedLog", batch.log)  # an author's logs are in one store
    append = log.prepare(batch.unwritten, wall_ms)
    if batch.belongs_to is not None:
        append = after(append, made[batch.belongs_to])
    made[batch] = append
    return log, append


def _tell(batch: LogBatch) -> None:
    """Report success. An error in one partition must not keep others from their replies."""
    try:
        batch.owner.written(batch.unwritten)
    except Exception as bug:  # noqa: BLE001  # the partition closes and reloads
        _tell_failure(batch.owner, bug)


def _tell_failure(owner: LogOwner, error: BaseException) -> None:
    """Report a failure. An error in one partition must not keep this from the others: they would
    acknowledge their lost records with their next flush.
    """
    try:
        owner.not_written(error)
    except Exception:  # noqa: BLE001
        _log.exception("a failed partition could not be closed", error=str(error))
