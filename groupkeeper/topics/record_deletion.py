"""Deletes records from the start of logs, for DeleteRecords and retention.

The new start of a log is durable, then visible, then the files are deleted (storage/log/start.py,
log.py). One log at a time, so that no older start overwrites a newer one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple

from groupkeeper.storage.errors import StorageError
from groupkeeper.storage.log.log import Log
from groupkeeper.storage.log.retention import RetentionLimits, expired_before, may_delete
from groupkeeper.storage.log.segment import Segment
from groupkeeper.topics.catalog import Topic
from groupkeeper.topics.partition import TopicPartition
from groupkeeper.topics.partitions import AT_ONCE, Failed, TopicPartitions
from groupkeeper.topics.topic_folders import TopicFolders
from groupkeeper.topics.worker import WorkerThread

LimitsOf = Callable[[Topic], RetentionLimits | None]
"""Returns the current retention limits of a topic's logs; None: keep everything. Thread-safe."""

TopicAndIndex = tuple[Topic, int]
"""A topic and the index of one of its partitions."""


class SegmentsDeleted(NamedTuple):
    """The deletions by retention in one partition."""

    partition: str
    """Name of its folder."""
    segments: int
    size_bytes: int
    start_offset: int
    """New start offset of the log."""


class RecordDeletion:
    """Deletes records of topics. Disk failures are reported."""

    def __init__(
        self,
        partitions: TopicPartitions,
        folders: TopicFolders,
        worker: WorkerThread,
        failed: Failed,
    ) -> None:
        self._partitions = partitions
        self._folders = folders
        self._worker = worker
        self._failed = failed
        self.lock = asyncio.Lock()
        """Held from reading the start of a log until its new one is visible."""

    async def delete_before(self, partition: TopicPartition, offset: int) -> bool:
        """Delete the records before an offset of an open partition. The caller holds `lock`.

        Returns False after a failure. If only the last step failed, the next use reopens the log
        with the new start.
        """
        gone = await self._cut(partition, offset)
        if gone is None:
            return False
        await self._remove(partition.topic, partition.folder, gone)
        return not partition.deleted

    async def delete_expired(
        self, topic: Topic, index: int, limits_of: LimitsOf
    ) -> SegmentsDeleted | None:
        """Delete the segments that `limits_of` does not keep; None: nothing was deleted. A closed
        log is opened for this, and closed again.
        """
        folder = f"{topic.name}-{index}"
        async with self.lock:
            try:
                found = await self._expired(topic, index, limits_of)
            except (StorageError, OSError) as error:
                self._failed(folder, error)
                return None
        if found is None:
            return None
        start, gone = found
        size = sum(segment.size for segment in gone)
        deleted = SegmentsDeleted(folder, len(gone), size, start)
        await self._remove(topic, folder, gone)
        return None if topic.deleted else deleted

    def expiring(
        self, places: Sequence[TopicAndIndex], limits_of: LimitsOf
    ) -> Awaitable[Sequence[TopicAndIndex]]:
        """Return the places of logs that may have expired segments."""
        return self._worker(
            lambda: [place for place in places if self._may_expire(*place, limits_of)]
        )

    def _may_expire(self, topic: Topic, index: int, limits_of: LimitsOf) -> bool:
        limits = limits_of(topic)
        if limits is None or topic.deleted:
            return False
        if topic.internal and self._partitions.log_of(topic, index) is None:
            return False  # opened with its journal only
        folders, folder = self._folders, f"{topic.name}-{index}"
        log = self._partitions.log_of(topic, index)
        try:
            if log is not None:
                return expired_before(log, limits) is not None
            return may_delete(folders.files, f"{folders.data_dir}/{folder}", limits)
        except FileNotFoundError:
            return False  # the topic was deleted meanwhile
        except OSError as error:
            self._failed(folder, error)
            return False

    async def _expired(
        self, topic: Topic, index: int, limits_of: LimitsOf
    ) -> tuple[int, list[Segment]] | None:
        log = self._partitions.log_of(topic, index)
        if log is None:
            return await self._worker(lambda: self._expired_of_closed(topic, index, limits_of))
        start = await self._worker(partial(_start_of, log, limits_of(topic)))
        partition = self._partitions.find(topic.name, index)
        if start is None or partition is None or partition.topic is not topic:
            return None
        gone = await self._cut(partition, start)
        return None if gone is None else (start, gone)

    def _expired_of_closed(
        self, topic: Topic, index: int, limits_of: LimitsOf
    ) -> tuple[int, list[Segment]] | None:
        """Cut a closed log on the worker, which opens all logs, but not this one meanwhile."""
        if topic.deleted or self._partitions.log_of(topic, index) is not None:
            return None  # opened before this job: the next pass handles it
        folder = f"{topic.name}-{index}"
        log = self._folders.open_log(folder, self._folders.policy_of(topic).limits)
        try:
            start = _start_of(log, limits_of(topic))
            if start is None:
                return None
            self._folders.note_start(folder, start)
            return start, list(log.begin_at(start))
        finally:
            log.close()

    async def _cut(self, partition: TopicPartition, offset: int) -> list[Segment] | None:
        """Durably cut an open log. Returns the segments before; None after a failure."""
        try:
            if not await self._worker(lambda: self._note_start(partition, offset)):
                return None
            return await self._begin_at(partition, offset)
        except (StorageError, OSError) as error:
            if partition.deleted:
                return None  # so are the files
            self._failed(partition.folder, error)
            if isinstance(error, StorageError):
                await self._partitions.drop_log(partition)
            return None

    async def _begin_at(self, partition: TopicPartition, offset: int) -> list[Segment]:
        """Move the start between appends; for internal topics, on their own thread."""
        log, internal = partition.log, self._partitions.internal.get(partition.topic.name)
        if log is None:
            return []
        if internal is not None:
            return list(await internal.call(lambda: log.begin_at(offset)))
        return await self._worker(lambda: partition.begin_at(log, offset))

    def _note_start(self, partition: TopicPartition, offset: int) -> bool:
        if not partition.deleted:
            self._folders.note_start(partition.folder, offset)
        return not partition.deleted

    async def _remove(self, topic: Topic, folder: str, segments: list[Segment]) -> None:
        """Remove the files, unless the topic is deleted: a new topic may have such files.

        The list is empty afterwards. The last use of a segment closes its file: on the worker,
        since this waits for the disk if the file has no name any more.
        """

        def remove() -> None:
            for _ in range(min(AT_ONCE, len(segments))):
                segment = segments.pop(0)
                if not topic.deleted:
                    segment.remove()

        try:
            while segments:
                await self._worker(remove)
        except OSError as error:
            # They are not used any more, and the next opening removes them.
            self._failed(folder, error)
            await self._worker(segments.clear)


def _start_of(log: Log, limits: RetentionLimits | None) -> int | None:
    return None if limits is None else expired_before(log, limits)
