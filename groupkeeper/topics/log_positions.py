"""Finds the ends and sizes of logs, and when records were written, without opening logs.

Works on many partitions at a time. Open logs have this information in memory. The worker examines
the folders of others (storage/log/glance.py); results are kept until the folder changes.
"""

from collections.abc import Iterable
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from groupkeeper.storage.errors import StorageError
from groupkeeper.storage.log.glance import Glance, glance, time_at
from groupkeeper.topics.catalog import Catalog, Topic
from groupkeeper.topics.partitions import AT_ONCE, Failed, TopicPartitions
from groupkeeper.topics.slices import Pace, each
from groupkeeper.topics.topic_folders import TopicFolders
from groupkeeper.topics.worker import WorkerThread
from groupkeeper.turns import Slices, Turns

LogName: TypeAlias = tuple[str, int]
"""Topic and partition."""

Position: TypeAlias = tuple[str, int, int]
"""Topic, partition and offset."""

_SPARE: Final = 1_000
"""Cached looks beyond one per partition, before those of deleted topics are dropped."""


class Extent(NamedTuple):
    """A log at some moment."""

    start_offset: int
    """The first offset that is kept."""
    end_offset: int
    """The offset after the last record: the high watermark."""
    size: int
    """Bytes of all segments."""


class LogPositions:
    """Positions for pages, metrics and DescribeLogDirs."""

    def __init__(
        self,
        catalog: Catalog,
        partitions: TopicPartitions,
        folders: TopicFolders,
        worker: WorkerThread,
        turns: Turns,
        failed: Failed,
    ) -> None:
        self._catalog = catalog
        self._partitions = partitions
        self._folders = folders
        self._worker = worker
        self._turns = turns
        self._failed = failed
        self.data_dir = folders.data_dir
        self._seen: dict[tuple[Topic, int], Glance] = {}

    async def extents(self, places: Iterable[LogName]) -> dict[LogName, Extent]:
        """Return the extent of every partition that exists and whose log can be read. Disk failures
        are reported. A partition without a folder is empty.
        """
        found: dict[LogName, Extent] = {}
        unopened = await self._turns.run(self._open_ones(places, found))
        for first in range(0, len(unopened), AT_ONCE):
            some = unopened[first : first + AT_ONCE]
            for (topic, index), seen in await self._worker(partial(self._look, some)):
                self._seen[topic, index] = seen
                found[topic.name, index] = Extent(seen.start_offset, seen.end_offset, seen.size)
        return found

    async def space(self) -> tuple[int, int]:
        """Return total and free bytes of the data directory's file system; -1 if unknown."""
        return await self._worker(lambda: self._folders.files.space(self.data_dir))

    async def times(self, wanted: Iterable[Position]) -> dict[Position, int]:
        """Return the largest timestamps (Unix ms) of the batches at some positions.

        An offset before the log stands for its first record. Positions without a record at or after
        the offset, or without a timestamp, are left out.
        """
        found: dict[Position, int] = {}
        known = await self._turns.run(each(wanted, self._with_topic))
        for first in range(0, len(known), AT_ONCE):
            some = known[first : first + AT_ONCE]
            found.update(await self._worker(partial(self._times, some)))
        return found

    def _with_topic(self, position: Position) -> tuple[Position, Topic | None]:
        return position, self._catalog.by_name.get(position[0])

    def _open_ones(
        self, places: Iterable[LogName], found: dict[LogName, Extent]
    ) -> Slices[list[tuple[Topic, int]]]:
        """Fill in the extents of open logs, and return the other partitions."""
        unopened, pace = [], Pace()
        if len(self._seen) > self._catalog.partition_total + _SPARE:
            self._seen = {key: seen for key, seen in self._seen.items() if not key[0].deleted}
        for name, index in places:
            topic = self._catalog.by_name.get(name)
            if topic is not None and 0 <= index < topic.partition_count:
                log = self._partitions.log_of(topic, index)
                if log is not None:
                    found[name, index] = Extent(log.start_offset, log.next_offset, log.size)
                else:
                    unopened.append((topic, index))
            if pace.spent():
                yield
        return unopened

    def _look(self, some: Iterable[tuple[Topic, int]]) -> list[tuple[tuple[Topic, int], Glance]]:
        """Examine folders on the worker, which opens all logs, but none of these meanwhile."""
        seen = []
        for topic, index in some:
            if topic.deleted or topic.internal:
                continue  # a log of an internal topic that its owner has closed is not reported
            try:
                seen.append(((topic, index), self._glance(topic, index)))
            except FileNotFoundError:
                continue  # retention, or a deletion of the topic, was quicker
            except (StorageError, OSError) as error:
                self._failed(f"{topic.name}-{index}", error)
        return seen

    def _glance(self, topic: Topic, index: int) -> Glance:
        log = self._partitions.log_of(topic, index)
        if log is not None:  # opened by an earlier job
            return Glance(log.start_offset, log.next_offset, log.size)
        folder = f"{self._folders.data_dir}/{topic.name}-{index}"
        return glance(self._folders.files, folder, self._seen.get((topic, index)))

    def _times(self, some: Iterable[tuple[Position, Topic | None]]) -> dict[Position, int]:
        found = {}
        for key, topic in some:
            name, index, offset = key
            if topic is None or topic.deleted or not 0 <= index < topic.partition_count:
                continue
            try:
                time = self._time_at(topic, index, offset)
            except FileNotFoundError:
                continue  # as above
            except (StorageError, OSError) as error:
                self._failed(f"{name}-{index}", error)
                continue
            if time is not None:
                found[key] = time
        return found

    def _time_at(self, topic: Topic, index: int, offset: int) -> int | None:
        log = self._partitions.log_of(topic, index)
        if log is not None:
            return log.timestamp_at(max(offset, log.start_offset))
        if topic.internal:
            return None
        start = self._glance(topic, index).start_offset
        folder = f"{self._folders.data_dir}/{topic.name}-{index}"
        return time_at(self._folders.files, folder, max(offset, start))
