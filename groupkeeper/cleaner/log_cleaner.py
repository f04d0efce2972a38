"""Compacts logs one after the other in the background, the neediest first.

A compaction reads segments that no longer change, and writes new ones beside them, in a separate
process. Then the threads that own the log swap the new segments in.

Source: Kafka's LogCleaner and LogCleanerManager.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakSet

from groupkeeper.backoff import RetryTimes
from groupkeeper.cleaner.plan import Candidate, candidate
from groupkeeper.cleaner.process import CompactionHung, CompactionStopped
from groupkeeper.clock import Clock
from groupkeeper.observe.logs import Logger
from groupkeeper.observe.metrics import CleanerStats
from groupkeeper.settings.table import Settings
from groupkeeper.storage.compaction.compaction import Compacted, CompactionJob
from groupkeeper.storage.compaction.pieces import SourceSegment
from groupkeeper.storage.compaction.segment_writer import remove_cleaned
from groupkeeper.storage.compaction.swap import Swap
from groupkeeper.storage.errors import Corrupt, StorageError
from groupkeeper.storage.log.log import Log
from groupkeeper.topics.log_policy import LogPolicy
from groupkeeper.turns import Slices, Turns

RETRY_FIRST_S: Final = 15.0
RETRY_MOST_S: Final = 600.0
"""A log whose compaction failed is retried immediately, then after pauses that double up to the
longest: each attempt may read all of it."""

LOOKED_AT_IN_A_SLICE: Final = 200
"""Logs examined per slice; takes about a millisecond."""

STOP_S: Final = 2.0
"""How long a stop waits for an abandoned compaction, or one whose result is being swapped in: some
milliseconds, unless the machine is overloaded."""

TOKEN_BYTES: Final = 4
"""Length of the random part of the names of the files that a compaction writes."""

# Any: the result of a job is for the caller only.
Thread = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a job on a thread where it may block, or where it has to run."""

_log = Logger("cleaner")


@dataclass(slots=True, frozen=True)
class CleanableLog:
    """An open log to be compacted, as offered by its owner."""

    log: Log
    policy: LogPolicy
    archive: str
    """The folder that keeps its segments as they are before their first compaction, or ""."""
    aside: Thread
    """Where files of the log may be read and renamed, beside its appends."""
    appending: Thread
    """Where appends are made."""


@dataclass(slots=True, frozen=True)
class CleanerServices:
    """Services shared with the rest of the server."""

    clock: Clock
    turns: Turns
    stats: CleanerStats
    random_bytes: Callable[[int], bytes]
    compact: Callable[[CompactionJob], Awaitable[Compacted]]
    """Runs a compaction. Raises StorageError and OSError."""


class LogCleaner:
    """The background work of one server."""

    def __init__(
        self,
        sources: Iterable[Callable[[], Iterable[CleanableLog]]],
        settings: Settings,
        services: CleanerServices,
    ) -> None:
        """`sources` return the open logs that are to be compacted."""
        self._sources = tuple(sources)
        self._settings = settings
        self._clock = services.clock
        self._turns = services.turns
        self._stats = services.stats
        self._stats.clock, self._stats.ended = services.clock.seconds, services.clock.seconds()
        self._random_bytes = services.random_bytes
        self._compact = services.compact
        self._retries: RetryTimes[str] = RetryTimes(RETRY_FIRST_S, RETRY_MOST_S)
        self._damaged: WeakSet[Log] = WeakSet()
        """Logs with damaged segments: not retried before they are reopened."""
        self._task: asyncio.Task[None] | None = None
        self._cleaning = False
        self._stopping = False

    def start(self) -> None:
        """Begin in the background, first with a pause."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Begin nothing more. Call this after making the running compaction end.

        An abandoned compaction leaves no files; one whose result is being swapped in completes.
        Work that has not ended after `STOP_S` is left to the next start.
        """
        self._stopping = True
        if self._task is None:
            return
        if self._cleaning:
            await asyncio.wait({self._task}, timeout=STOP_S)
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        while True:
            await self._clock.sleep(self._settings.log_cleaner_backoff_ms / 1000)
            while (found := await self._turns.run(self._neediest())) is not None:
                self._cleaning = True
                self._stats.began = self._clock.seconds()
                try:
                    await self._clean(*found)
                finally:
                    self._stats.began, self._stats.ended = None, self._clock.seconds()
                if self._stopping:
                    return
                self._cleaning = False

    def _neediest(self) -> Slices[tuple[CleanableLog, Candidate] | None]:
        """Return the log that needs compaction most, and its candidate segments."""
        best: tuple[CleanableLog, Candidate] | None = None
        now = self._clock.seconds()
        looked = 0
        self._stats.uncleanable = len(self._damaged)
        for source in self._sources:
            for each in source():
                looked += 1
                if not looked % LOOKED_AT_IN_A_SLICE:
                    yield
                log = each.log
                if log in self._damaged or log.failed or self._retries.waits(log.name, now):
                    continue
                found = candidate(log, each.policy, self._clock.wall())
                if found is not None and (best is None or found[:2] > best[1][:2]):
                    best = each, found
        return best

    async def _clean(self, target: CleanableLog, found: Candidate) -> None:
        log, began = target.log, self._clock.seconds()
        token = self._random_bytes(TOKEN_BYTES).hex()
        compacted: Compacted | None = None
        try:
            compacted = await self._compacted(target, found, token)
        except CompactionStopped:
            pass  # its files are removed as after a failure
        except (StorageError, OSError) as error:
            self._failed(log, error)
        if compacted is None:  # failed, closed meanwhile, or the segments were deleted
            with suppress(StorageError, OSError):
                await target.aside(lambda: remove_cleaned(log.files, log.folder, token))
            return
        took = self._clock.seconds() - began
        self._stats.record(took, compacted.bytes_read, compacted.bytes_written)
        _log.info(
            "log compacted",
            log=log.name,
            bytes_before=compacted.bytes_read,
            bytes_after=compacted.bytes_written,
            records_removed=compacted.records_read - compacted.records_kept,
            seconds=round(took, 3),
        )

    async def _compacted(
        self, target: CleanableLog, found: Candidate, token: str
    ) -> Compacted | None:
        """Compact, and swap the result into the log; None if it no longer fits."""
        log = target.log
        compacted = await self._compact(self._job(target, found.sources, token))
        if compacted.first_dirty == log.first_dirty:
            self._blocked(log, compacted.blocked_by)
        swap = Swap(log, compacted)
        if not await target.aside(lambda: swap.prepare(token, target.archive)):
            return None
        switched = await target.appending(swap.switch)
        await target.aside(swap.finish if switched else swap.discard)
        return compacted if switched else None

    def _job(
        self, target: CleanableLog, sources: Sequence[SourceSegment], token: str
    ) -> CompactionJob:
        log = target.log
        return CompactionJob(
            folder=log.folder,
            token=token,
            segments=tuple(sources),
            first_dirty=log.first_dirty,
            now_ms=self._clock.wall(),
            delete_retention_ms=target.policy.delete_retention_ms,
            producer_id_expiration_ms=self._settings.producer_id_expiration_ms,
            dedupe_bytes=self._settings.log_cleaner_dedupe_buffer_size,
            limits=log.limits,
        )

    def _blocked(self, log: Log, producer_id: int) -> None:
        """Note that nothing could be compacted because of an open transaction."""
        self._retries.failed(log.name, self._clock.seconds())
        _log.info("compaction waits for a transaction", log=log.name, producer_id=producer_id)

    def _failed(self, log: Log, error: StorageError | OSError) -> None:
        self._stats.failures += 1
        self._stats.hung += isinstance(error, CompactionHung)
        self._retries.failed(log.name, self._clock.seconds())
        if isinstance(error, Corrupt):
            self._damaged.add(log)
            _log.error("log cannot be compacted", log=log.name, error=str(error))
        else:
            _log.warning("compaction failed", log=log.name, error=str(error))
