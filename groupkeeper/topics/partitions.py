"""All partitions that were asked for since the start, and the way to their files.

Not one partition's behaviour (partition.py). Start-up does not look at any of them: a log is
opened, off the event loop, by the first request that needs it.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from groupkeeper.topics.catalog import Catalog, Topic
from groupkeeper.topics.offload import OffLoop
from groupkeeper.topics.partition import Partition
from storage.errors import StorageError
from storage.files import Files
from storage.limits import Limits
from storage.log import NO_END, Log
from storage.segment import Segment
from storage.start import write_start

Failed = Callable[[str, BaseException], None]
"""Told what could not be done and why; the data plane itself writes no log lines."""


class TopicFolders:
    """Where topic logs live: one folder ``<topic>-<partition>`` each, in the data directory."""

    def __init__(self, files: Files, data_dir: str, limits: Limits) -> None:
        self._files = files
        self._data_dir = data_dir
        self._limits = limits

    def open_log(self, name: str, end: int = NO_END) -> Log:
        """What it holds before offset `end`; the rest is cut off. A log without a folder is empty.

        Raises StorageError and OSError.
        """
        return Log.open(self._files, f"{self._data_dir}/{name}", self._limits, end=end)

    def note_start(self, name: str, offset: int) -> None:
        """Make it durable that a log begins at an offset, blocking. Raises as `write_start`."""
        write_start(self._files, f"{self._data_dir}/{name}", offset)

    def remove(self, name: str) -> None:
        """Remove a folder and what is in it; nothing happens if there is none. Raises OSError."""
        folder = f"{self._data_dir}/{name}"
        for file in self._files.list_folder(folder):
            self._files.remove(f"{folder}/{file}")
        self._files.remove_folder(folder)


class Partitions:
    """Finds, opens and deletes partitions."""

    def __init__(
        self, catalog: Catalog, folders: TopicFolders, off_loop: OffLoop, failed: Failed
    ) -> None:
        self._catalog = catalog
        self._folders = folders
        self._off_loop = off_loop
        self._failed = failed
        self._known: dict[tuple[str, int], Partition] = {}
        self._detached: list[Partition] = []
        self.group_log: Callable[[int], Log | None] = lambda index: None
        """The log of a partition of the group topic, where there is one: set by the coordinator's
        host."""

    def find(self, topic_name: str, index: int) -> Partition | None:
        """The partition, opened or not; None if there is no such topic or no such index."""
        partition = self._known.get((topic_name, index))
        if partition is None:
            topic = self._catalog.by_name.get(topic_name)
            if topic is None or not 0 <= index < topic.partition_count:
                return None
            partition = self._known[topic_name, index] = Partition(topic, index)
        if partition.topic.internal:
            # Opened, closed and reloaded by the coordinator: always ask. Nothing to read while it
            # has none.
            partition.log = self.group_log(index)
        return partition

    def existing(self, places: Iterable[tuple[str, int]]) -> Iterator[Partition]:
        """Those of the partitions (topic and index) that there are."""
        for topic_name, index in places:
            partition = self.find(topic_name, index)
            if partition is not None:
                yield partition

    def grew(self, topic_name: str, index: int, size: int) -> None:
        """Somebody else appended to the partition: tell those who wait for it."""
        partition = self._known.get((topic_name, index))
        if partition is not None:
            partition.grew(size)

    def opened(self) -> int:
        """How many logs of topics are open now."""
        return sum(p.log is not None and not p.topic.internal for p in self._known.values())

    async def prepare(self, partitions: Iterable[Partition]) -> None:
        """Open what is not open, write back what is due. What fails has no log afterwards."""
        wanted = list(partitions)
        await self._off_loop(lambda: self._prepare(wanted))

    def _prepare(self, partitions: list[Partition]) -> None:
        for partition in partitions:
            # An earlier job may have done it, or the topic may be gone.
            if partition.may_append or partition.deleted:
                continue
            try:
                if partition.log is None:
                    partition.open(partial(self._folders.open_log, partition.folder))
                else:
                    partition.write_back(partition.log)
            except (StorageError, OSError) as error:
                self._failed(partition.folder, error)

    async def delete_before(self, partition: Partition, offset: int) -> bool:
        """Keep nothing before an offset of an open partition: durable, then visible, then the files
        go. False, and told, if the disk refuses. If only the last step failed, the next use opens
        the log again, and it begins there.
        """
        try:
            if not await self._off_loop(lambda: self._note_start(partition, offset)):
                return False
        except (StorageError, OSError) as error:
            self._failed(partition.folder, error)
            if isinstance(error, StorageError):
                partition.close()
            return False
        gone = partition.log.begin_at(offset) if partition.log is not None else ()
        if gone:
            await self._off_loop(lambda: self._remove_segments(partition, gone))
        return True

    def _note_start(self, partition: Partition, offset: int) -> bool:
        if not partition.deleted:
            self._folders.note_start(partition.folder, offset)
        return not partition.deleted

    def _remove_segments(self, partition: Partition, segments: Iterable[Segment]) -> None:
        try:
            for segment in segments:
                segment.remove()
        except OSError as error:
            # They are not seen any more, and the next opening removes them.
            self._failed(partition.folder, error)

    def detach(self, topic: Topic) -> None:
        """Forget a deleted topic's partitions and answer who waits for them. Files stay."""
        for index in range(topic.partition_count):
            partition = self._known.get((topic.name, index))
            if partition is None or partition.topic is not topic:
                continue
            del self._known[topic.name, index]
            partition.deleted = True
            for watcher in list(partition.watchers):
                watcher.changed()
            self._detached.append(partition)

    async def purge(self, topics: Iterable[Topic]) -> None:
        """Close and remove the files of detached topics. Raises OSError; may be repeated."""
        doomed = list(topics)
        await self._off_loop(lambda: self._remove_files(doomed))

    def _remove_files(self, topics: Iterable[Topic]) -> None:
        while self._detached:
            self._detached.pop().delete()
        for topic in topics:
            for index in range(topic.partition_count):
                self._folders.remove(f"{topic.name}-{index}")

    def close(self) -> None:
        """Close every log; a failure is told and does not keep the others open."""
        for partition in self._known.values():
            partition.close()
