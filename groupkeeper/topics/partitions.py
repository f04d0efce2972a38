"""All partitions used since the start.

A single partition is in partition.py, the folders are in topic_folders.py. The start opens no log:
the first request that needs a log makes the worker open it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from groupkeeper.backoff import RetryTimes
from groupkeeper.storage.errors import StorageError, SyncFailed
from groupkeeper.storage.files.at_once import AtOnce, one_after_another
from groupkeeper.storage.log.log import Log
from groupkeeper.storage.log.segment import Segment
from groupkeeper.topics.catalog import Catalog, Topic
from groupkeeper.topics.partition import TopicPartition
from groupkeeper.topics.producers import ProducerMemory
from groupkeeper.topics.slices import Pace
from groupkeeper.topics.topic_folders import TopicFolders
from groupkeeper.topics.worker import WorkerThread
from groupkeeper.turns import Slices, Turns

AT_ONCE: Final = 16
"""Partitions in one job of the worker; other jobs run in between."""

RETRY_FIRST_S: Final = 0.1
RETRY_MOST_S: Final = 5.0
"""A log that could not be opened or written is retried immediately, then after pauses that double
up to the longest: opening reads much of it, and clients retry immediately."""
NAMED: Final = 5
"""Maximum number of logs in the error of a stop."""

Failed = Callable[[str, BaseException], None]
"""Called with the place and the cause of a failure; topics write no log lines themselves."""


class InternalLogs(NamedTuple):
    """The logs of an internal topic, which others open and write."""

    log_of: Callable[[int], Log | None]
    """Returns the log of a partition; None if it is not open."""
    call: Callable[[Callable[[], Sequence[Segment]]], Awaitable[Sequence[Segment]]]
    """Runs a job on the thread that appends to the logs."""
    is_new: Callable[[int], bool] = lambda _: False
    """Returns whether the log of a partition never had records, and so need not be open."""


class TopicPartitions:
    """Finds, opens and deletes partitions."""

    def __init__(
        self,
        catalog: Catalog,
        folders: TopicFolders,
        worker: WorkerThread,
        turns: Turns,
        failed: Failed,
        producers: ProducerMemory,
    ) -> None:
        self._catalog = catalog
        self.before_opening: list[Callable[[], None]] = []
        """Called before logs are opened, which may take the last file descriptors."""
        self._folders = folders
        self._worker = worker
        self._turns = turns
        self._failed = failed
        self._producers = producers
        self.unopened: RetryTimes[TopicPartition] = RetryTimes(RETRY_FIRST_S, RETRY_MOST_S)
        self.unwritten: RetryTimes[TopicPartition] = RetryTimes(RETRY_FIRST_S, RETRY_MOST_S)
        """When logs that could not be opened, or written, may be retried."""
        self._known: dict[tuple[str, int], TopicPartition] = {}
        self._detached: dict[tuple[Topic, int], TopicPartition] = {}
        """Partitions of deleted topics whose files still exist."""
        self.internal: dict[str, InternalLogs] = {}
        """Logs of internal topics by name; set by the server."""

    def find(self, topic_name: str, index: int) -> TopicPartition | None:
        """Return the partition, open or not; None if there is no such topic or index."""
        partition = self._known.get((topic_name, index))
        if partition is None or partition.deleted:
            topic = self._catalog.by_name.get(topic_name)
            if topic is None or not 0 <= index < topic.partition_count:
                return None
            partition = TopicPartition(topic, index, self._turns, self._producers, self._folders)
            self._known[topic_name, index] = partition
        if partition.topic.internal:
            # The coordinator opens, closes and reloads it, so look it up each time.
            partition.log = self._internal_log(topic_name, index)
        return partition

    def log_of(self, topic: Topic, index: int) -> Log | None:
        """Return the log of a partition if it is open. Thread-safe."""
        if topic.internal:
            return self._internal_log(topic.name, index)
        partition = self._known.get((topic.name, index))
        return partition.log if partition is not None and partition.topic is topic else None

    def _internal_log(self, topic_name: str, index: int) -> Log | None:
        logs = self.internal.get(topic_name)
        return None if logs is None else logs.log_of(index)

    def is_new(self, topic_name: str, index: int) -> bool:
        """Return whether a partition of an internal topic never had records."""
        logs = self.internal.get(topic_name)
        return logs is not None and logs.is_new(index)

    def grew(self, topic_name: str, index: int, size: int) -> None:
        """Notify waiting requests of an append by the coordinator."""
        partition = self._known.get((topic_name, index))
        if partition is not None:
            partition.grew(size)

    async def unknown_folders(self) -> list[str]:
        """Return the folders that belong to no topic of the catalog. Raises OSError."""
        names = await self._worker(self._folders.names)
        # A topic that had a folder then is in one of these, unless deleted meanwhile.
        topics = [*self._catalog.by_name.values(), *self._catalog.being_deleted.values()]
        return await self._worker(lambda: unknown_folders(names, topics))

    def compacted(self) -> Iterator[TopicPartition]:
        """Yield the partitions of compacted topics, if their logs are open."""
        for partition in list(self._known.values()):
            is_open = partition.log is not None and not partition.deleted
            if is_open and not partition.topic.internal and partition.policy.compacts:
                yield partition

    def opened(self) -> int:
        """Return the number of open logs of topics."""
        return sum(p.log is not None and not p.topic.internal for p in self._known.values())

    async def prepare(self, partitions: Iterable[TopicPartition]) -> None:
        """Open logs that are closed, and write back those that are due. A partition whose log fails
        has none afterwards, and is not retried for a while.
        """
        for each in self.before_opening:
            each()
        seconds = asyncio.get_running_loop().time
        now = seconds()
        wanted = [each for each in partitions if not self.unopened.waits(each, now)]
        for first in range(0, len(wanted), AT_ONCE):
            some = wanted[first : first + AT_ONCE]
            for partition in await self._worker(partial(self._prepare, some)):
                self.unopened.failed(partition, seconds())

    async def drop_log(self, partition: TopicPartition) -> None:
        """Close a log that cannot be read; its next use reopens it."""
        await self._worker(partition.close)

    def write_failed(self, topic_name: str, index: int) -> None:
        """Refuse other appends for a while, after a failed append."""
        partition = self._known.get((topic_name, index))
        if partition is not None:
            self.unwritten.failed(partition, asyncio.get_running_loop().time())

    def refuses_writes(self, partition: TopicPartition) -> bool:
        """Return whether appends have failed and the next one is not to be tried yet."""
        unwritten = self.unwritten
        return bool(unwritten) and unwritten.waits(partition, asyncio.get_running_loop().time())

    def _prepare(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Prepare partitions, and return those that could not be opened."""
        unopened = []
        for partition in partitions:
            # An earlier job may have done it, or the topic may be gone.
            if partition.ready or partition.deleted:
                continue
            try:
                if partition.log is None:
                    partition.open()
                else:
                    partition.write_back(partition.log)
            except (StorageError, OSError) as error:
                self._failed(partition.folder, error)
                unopened.append(partition)
        return unopened

    def detach(self, topics: Iterable[Topic]) -> Slices[None]:
        """Drop partitions of deleted topics, except files, and notify watchers. Repeatable."""
        pace = Pace()
        for topic in topics:
            for index in range(topic.partition_count):
                partition = self._known.get((topic.name, index))
                if partition is not None and partition.topic is topic:
                    del self._known[topic.name, index]
                    self.unopened.drop(partition)
                    self.unwritten.drop(partition)
                    self._detached[topic, index] = partition
                    for watcher in list(partition.watchers):
                        watcher.changed()
                        if pace.spent():
                            yield
                if pace.spent():
                    yield

    async def purge(self, topics: Iterable[Topic]) -> None:
        """Remove the files of detached topics, durably. Raises OSError; may be repeated."""
        remaining = ((topic, index) for topic in topics for index in range(topic.partition_count))
        while some := list(islice(remaining, AT_ONCE)):
            await self._worker(partial(self._remove, some))
        await self._worker(self._folders.sync)

    def _remove(self, remaining: Iterable[tuple[Topic, int]]) -> None:
        for topic, index in remaining:
            partition = self._detached.pop((topic, index), None)
            if partition is not None:
                partition.delete()
            self._folders.remove(f"{topic.name}-{index}")

    def close(self, at_once: AtOnce = one_after_another) -> None:
        """Sync and close every log. After all are closed, raises StorageError for logs whose last
        records may be in the page cache only.
        """
        known = [*self._known.values()]
        failed: dict[str, Exception] = {}
        for each, error in zip(known, at_once([k.sync_and_close for k in known]), strict=True):
            if isinstance(error, StorageError | OSError):
                failed[each.folder] = error
            elif error is not None:
                raise error
        if failed:
            names = ", ".join([*failed][:NAMED]) + (", ..." if len(failed) > NAMED else "")
            raise SyncFailed(
                f"the last records of topic logs ({len(failed)}: {names}) may not be on the disk, "
                f"and are lost if the machine loses power now: {next(iter(failed.values()))}"
            )


def unknown_folders(names: Iterable[str], topics: Iterable[Topic]) -> list[str]:
    """Return the names of partition folders that belong to no topic."""
    counts = {topic.name: topic.partition_count for topic in topics}
    parted = ((name, *name.rpartition("-")[::2]) for name in names)
    return [name for name, topic, index in parted if int(index) >= counts.get(topic, 0)]
