"""A topic partition: a log of `storage`, opened when it is first needed.

The folders are in partitions.py. As in Kafka, appends are acknowledged from the page cache; a torn
end after a crash is found when the log is opened.
"""

from collections.abc import Iterator
from contextlib import suppress
from threading import Lock
from typing import Final, Protocol

from groupkeeper.protocol.record_batch import BatchHeader, iter_batches, patch
from groupkeeper.storage.errors import StorageError
from groupkeeper.storage.limits import Limits
from groupkeeper.storage.log import Log
from groupkeeper.storage.recovery_point import compare
from groupkeeper.storage.segment import Segment
from groupkeeper.topics.catalog import Topic
from groupkeeper.topics.log_policy import LogPolicy
from groupkeeper.topics.producers import ProducerMemory, ProducerStates
from groupkeeper.topics.slices import ITEMS, Pace
from groupkeeper.topics.timestamps import NO_TIMESTAMP
from groupkeeper.topics.topic_folders import TopicFolders
from groupkeeper.turns import Slices, Turns

LEADER_EPOCH: Final = 0
"""That of a partition which nobody has led before."""

WRITE_BACK_BYTES: Final = 32 * 1024 * 1024
"""How much may be in the page cache only before it is synced, off the event loop."""

WARM_BYTES: Final = 16 * 1024 * 1024
"""How much of the end of a log is assumed to be in the page cache: it was appended recently, or
read when the log was opened. What is before it is read by the worker first, as the event loop must
not wait for the disk."""

LEARN_BYTES: Final = 16 * 1024 * 1024
"""About how much of the end of a log is searched for producers when it is opened: a producer
repeats a batch soon or never, and an unknown one may begin with any sequence."""


class Watcher(Protocol):
    """What a partition knows of a waiting Fetch."""

    def grew(self, size: int) -> None:
        """`size` bytes were appended."""

    def changed(self) -> None:
        """The topic was deleted: read again at once."""


class TopicPartition:
    """One partition of one topic. The first append creates its files."""

    __slots__ = (
        "_expected",
        "_folders",
        "_full",
        "_rolling",
        "_telling",
        "_turns",
        "_untold",
        "index",
        "log",
        "producers",
        "topic",
        "unsynced_bytes",
        "watchers",
    )

    def __init__(
        self,
        topic: Topic,
        index: int,
        turns: Turns,
        producers: ProducerMemory,
        folders: TopicFolders,
    ) -> None:
        self._folders = folders
        self.topic = topic
        self.index = index
        self.log: Log | None = None
        """None until it is opened, and again after it has failed."""
        self.unsynced_bytes = 0
        self._full = False
        """A batch to be appended needs a new segment."""
        self._expected = 0, NO_TIMESTAMP
        """Size and largest timestamp of the batch that the log is opened for."""
        self._rolling = Lock()
        """Held during an append, and while a new segment begins or the manifest is written."""
        self.producers = ProducerStates(producers)
        self.watchers: dict[Watcher, int] = {}
        """Waiting requests in order, each with how much of `_untold` it has counted."""
        self._turns = turns
        self._telling = False
        self._untold = 0
        """Bytes appended since `_tell` was started."""

    @property
    def folder(self) -> str:
        return f"{self.topic.name}-{self.index}"

    @property
    def deleted(self) -> bool:
        """Its topic is deleted for clients."""
        return self.topic.deleted

    @property
    def leader_epoch(self) -> int:
        """Current epoch; in the group topic that of the newest batch, as every start has its own.
        Batches must not have a later epoch than Metadata: a client would wait for it.
        """
        if not self.topic.internal:
            return self.topic.leader_epoch
        return LEADER_EPOCH if self.log is None else max(self.log.last_epoch, LEADER_EPOCH)

    @property
    def readable(self) -> bool:
        """False if the log must be opened first. The coordinator opens its own."""
        return self.log is not None or self.topic.internal

    @property
    def policy(self) -> LogPolicy:
        """How the log is kept, by the topic's configs of this moment."""
        return self._folders.policy_of(self.topic)

    def may_append(self, size: int, timestamp: int, limits: Limits) -> bool:
        """False if the worker must open the log, write it back or begin a new segment before a
        batch of this size and largest timestamp is appended. `limits` are those of the policy.
        """
        log = self.log
        if log is None:
            self._expected = size, timestamp
            return False
        log.limits = limits
        if not log.has_room(size, timestamp):
            self._full = True
            return False
        return self.ready

    @property
    def ready(self) -> bool:
        """Whether the worker has nothing to do first."""
        return self.log is not None and not self._full and self.unsynced_bytes < WRITE_BACK_BYTES

    def is_cold(self, offset: int) -> bool:
        """Whether records at an offset may have to be read from the disk."""
        return self.log is not None and self.log.bytes_from(offset) > WARM_BYTES

    def append(self, log: Log, batch: bytes | memoryview, header: BatchHeader) -> int:
        """Append a checked batch and notify waiting requests; returns its base offset.

        Raises StorageError, and closes the log; it is opened again from what the disk holds.
        """
        base_offset = log.next_offset
        try:
            # Only contended if another request has just found the segment full.
            with self._rolling:
                log.append(patch(batch, base_offset, max(self.leader_epoch, log.last_epoch)))
        except StorageError:
            self.close()
            raise
        if not base_offset:
            self._folders.note_made(self.folder)
        self.unsynced_bytes += header.size
        self._note(header, base_offset)
        self.grew(header.size)
        return base_offset

    def grew(self, size: int) -> None:
        """Notify waiting requests of `size` appended bytes."""
        if self._telling:
            self._untold += size
        elif len(self.watchers) <= ITEMS:
            for watcher in self.watchers:  # none is removed here, only in its turn
                watcher.grew(size)
        else:
            self._telling = True
            self._untold = size
            self._turns.start(self._tell(), lambda _: None)

    def watch(self, watcher: Watcher) -> None:
        """Notify it of appends from now on, until it is removed from `watchers`."""
        self.watchers[watcher] = self._untold

    def _tell(self) -> Slices[None]:
        """Notify many, in slices, of the bytes appended so far."""
        came, self._untold, self._telling = self._untold, 0, False
        pace = Pace()
        for watcher in list(self.watchers):
            known = self.watchers.get(watcher)
            if known is not None:
                self.watchers[watcher] = 0
                watcher.grew(came - known)
            if pace.spent():
                yield

    def open(self) -> None:
        """Open the log, blocking, and find recent producers. Begins a new segment if the batch that
        waits for this needs one. Raises StorageError and OSError.
        """
        log = self._folders.open_log(self.folder, self.policy.limits)
        log.lock = Lock()
        self.producers.clear()
        self.unsynced_bytes = 0
        self._full = False
        for chunk in log.batches(_recent(log)):
            for header in iter_batches(chunk):
                self._note(header, header.base_offset)
        expected, self._expected = self._expected, (0, NO_TIMESTAMP)
        if not log.has_room(*expected):
            log.roll()
        self.log = log

    def write_back(self, log: Log) -> None:
        """Sync the log, blocking, or begin a new segment if that is due. Raises StorageError and
        OSError.
        """
        try:
            if self._full:
                with self._rolling:
                    log.roll()
            else:
                with self._rolling:
                    stand = log.stand()
                mark = log.checkpoint(stand) if stand is not None else None
                if mark is not None:
                    with self._rolling:
                        log.save(mark)
        except StorageError:
            self.close()
            raise
        self.unsynced_bytes = 0
        self._full = False

    def warm(self, offset: int, size: int) -> None:
        """Read records, blocking, so that the event loop finds them in the page cache."""
        log = self.log
        if log is not None:
            with suppress(StorageError, OSError):  # a later read reports it
                log.read(offset, size)

    def compare(self, log: Log, segment: Segment) -> Iterator[None]:
        """Read what opening has left unread of a segment, blocking, in pieces. Raises StorageError
        and OSError, and closes the log.
        """
        try:
            yield from compare(segment)
        except (StorageError, OSError):
            log.failed = True
            if self.log is log:
                self.close()
            raise

    def close(self) -> None:
        """Close the files; the next use opens them again. Blocks if much was appended."""
        log, self.log = self.log, None
        if log is not None and not self.topic.internal:
            with suppress(StorageError, OSError):
                log.close()

    def delete(self) -> None:
        """Close and remove the files, blocking. Raises OSError."""
        self.producers.clear()
        log, self.log = self.log, None
        if log is not None:
            log.delete()

    def _note(self, header: BatchHeader, base_offset: int) -> None:
        if header.producer_id >= 0 and not header.is_control:
            self.producers.appended(header, base_offset)


def _recent(log: Log) -> int:
    """An offset about LEARN_BYTES before the end, as if all records had the same size."""
    size = log.size
    if size <= LEARN_BYTES:
        return log.start_offset
    return log.next_offset - (log.next_offset - log.start_offset) * LEARN_BYTES // size
