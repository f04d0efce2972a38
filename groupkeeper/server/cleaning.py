"""Compaction and archive of a server: which of its logs, with which settings, on which threads."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Final

from groupkeeper.cleaner.log_cleaner import CleanableLog, CleanerServices, LogCleaner
from groupkeeper.cleaner.process import CompactionProcess
from groupkeeper.groups.embedded_log import EmbeddedLogs
from groupkeeper.groups.loader import Loader
from groupkeeper.groups.writer import Writer
from groupkeeper.observe.logs import Logger
from groupkeeper.observe.metrics import Metrics
from groupkeeper.storage.compaction.archive import FOLDER, archive_folder, remove_older
from groupkeeper.storage.compaction.compaction import Compacted, CompactionJob
from groupkeeper.storage.files.files import Files
from groupkeeper.topics.topics import Topics

FOREVER: Final = -1
"""`offsets.raw.retention.ms` of an archive that is never emptied."""

Compact = Callable[[CompactionJob], Compacted]

_log = Logger("cleaner")


@dataclass(slots=True, frozen=True)
class Threads:
    """The threads for the work."""

    writer: Writer
    loader: Loader
    cleaner: Executor
    """One thread, on which compactions run."""
    compact: Compact | None
    """Runs a compaction there; None: in a separate process."""


class Cleaning:
    """The cleaner of a server, and the retention of its archive."""

    def __init__(
        self, files: Files, groups: EmbeddedLogs, topics: Topics, threads: Threads, metrics: Metrics
    ) -> None:
        self._files = files
        self._settings = settings = topics.settings
        self._groups = groups
        self._topics = topics
        self._threads = threads
        self._on = threads.loader.call, threads.writer.call
        """Where files of these logs are read and renamed, and where appends are made."""
        self._process = CompactionProcess()
        self._compact = threads.compact or self._process
        self._data_dir = threads.writer.store.data_dir
        self._clock = threads.writer.clock
        services = CleanerServices(
            self._clock, topics.response_tasks.turns, metrics.cleaner, files.random_bytes, self._run
        )
        sources = self._group_logs, self._topic_logs, self._catalogs
        self._cleaner = LogCleaner(sources, settings, services)
        self._retention: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._settings.log_cleaner_enable:
            self._cleaner.start()
        if self._settings.offsets_raw_retention_ms not in (0, FOREVER):
            self._retention = asyncio.get_running_loop().create_task(self._empty_archive())

    async def stop(self) -> None:
        """Abandon the running compaction, and start no other; see `LogCleaner.stop`."""
        self._process.stop()
        if self._retention is not None:
            self._retention.cancel()
        await self._cleaner.stop()
        self._threads.cleaner.shutdown(wait=False)

    async def _run(self, job: CompactionJob) -> Compacted:
        loop = asyncio.get_running_loop()
        compact = partial(copy_context().run, self._compact, job)  # for log lines
        return await loop.run_in_executor(self._threads.cleaner, compact)

    def _group_logs(self) -> Iterator[CleanableLog]:
        keeps_raw = self._settings.offsets_raw_retention_ms != 0
        policy = self._topics.effective.group_topic_policy
        for each in self._groups.by_partition:
            log = each.log
            if log is not None and not log.closed:
                archive = archive_folder(self._data_dir, log.name) if keeps_raw else ""
                yield CleanableLog(log, policy, archive, *self._on)

    def _topic_logs(self) -> Iterator[CleanableLog]:
        on_worker = self._topics.worker
        for partition in self._topics.partitions.compacted():
            if partition.log is not None:
                yield CleanableLog(partition.log, partition.policy, "", on_worker, on_worker)

    def _catalogs(self) -> Iterator[CleanableLog]:
        policy, on_worker = self._topics.effective.group_topic_policy, self._topics.worker
        for log in self._topics.catalog.logs():
            yield CleanableLog(log, policy, "", on_worker, on_worker)

    async def _empty_archive(self) -> None:
        """Remove segments that are older than `offsets.raw.retention.ms`, periodically."""
        archive = f"{self._data_dir}/{FOLDER}"
        while True:
            await self._clock.sleep(self._settings.log_retention_check_interval_ms / 1000)
            before = self._clock.wall() - self._settings.offsets_raw_retention_ms
            with suppress(FileNotFoundError):
                for name in self._files.list_folder(archive):
                    job = partial(remove_older, self._files, f"{archive}/{name}", before)
                    try:
                        removed = await self._threads.loader.call(job)
                    except OSError as error:
                        _log.warning("archive: segments not removed", log=name, error=str(error))
                        continue
                    if removed:
                        _log.info("archive: old segments removed", log=name, segments=removed)
