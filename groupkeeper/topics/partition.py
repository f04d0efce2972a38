"""A topic partition: a log of `storage`, opened when it is first needed.

The folders are in partitions.py. As in Kafka, appends are acknowledged from the page cache; a torn
end after a crash is found when the log is opened. Blocking methods make file calls, and are for
threads: the event loop only accesses memory.
"""

from contextlib import suppress
from threading import Lock
from typing import Final, NamedTuple, Protocol

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.record_batch import BatchHeader, iter_batches, patch
from groupkeeper.storage.errors import NotCached, OffsetOutOfRange, StorageError
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.log.log import Log
from groupkeeper.storage.log.scan import Batch
from groupkeeper.storage.log.segment import Segment
from groupkeeper.topics.batches import RefusedByLog
from groupkeeper.topics.catalog import Topic
from groupkeeper.topics.log_policy import LogPolicy
from groupkeeper.topics.producers import ProducerMemory, ProducerStates, StoredBatch
from groupkeeper.topics.refusals import Refused
from groupkeeper.topics.slices import ITEMS, Pace
from groupkeeper.topics.timestamps import NO_TIMESTAMP
from groupkeeper.topics.topic_folders import TopicFolders
from groupkeeper.turns import Slices, Turns

LEADER_EPOCH: Final = 0
"""The epoch of a partition without an earlier leader."""

WRITE_BACK_BYTES: Final = 32 * 1024 * 1024
"""Unsynced bytes after which the log is synced, off the event loop."""

LEARN_BYTES: Final = 16 * 1024 * 1024
"""Approximate size of the end of a log that is searched for producers on opening: a producer
repeats a batch soon or never, and an unknown one may begin with any sequence."""


class Watcher(Protocol):
    """The interface of a waiting Fetch for its partitions."""

    def grew(self, size: int) -> None:
        """Called when `size` bytes were appended."""

    def changed(self) -> None:
        """Called when the topic was deleted: read again immediately."""


class Appended(NamedTuple):
    """The outcome of an append."""

    base_offset: int
    log_append_time: int
    """Time of the append in Unix milliseconds, if the topic has LogAppendTime; for a repeated batch
    its largest timestamp, as in Kafka, whatever the type. Otherwise NO_TIMESTAMP."""
    log_start_offset: int
    is_new: bool
    """False if a producer has repeated a batch that the log had already."""


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
        """Whether a batch to be appended needs a new segment."""
        self._expected = 0, NO_TIMESTAMP
        """Size and largest timestamp of the batch that the log is opened for."""
        self._rolling = Lock()
        """Held during an append, while a new segment begins or the manifest is written, while the
        start of the log moves, and while its files are removed."""
        self.producers = ProducerStates(producers)
        self.watchers: dict[Watcher, int] = {}
        """Waiting requests in order, each with the part of `_untold` that it has counted."""
        self._turns = turns
        self._telling = False
        self._untold = 0
        """Bytes appended since `_tell` was started."""

    @property
    def folder(self) -> str:
        return f"{self.topic.name}-{self.index}"

    @property
    def deleted(self) -> bool:
        """Whether its topic is deleted for clients."""
        return self.topic.deleted

    @property
    def leader_epoch(self) -> int:
        """The current epoch. In the group topic, each start has one: that of the newest batch.
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
        """How the log is kept, by the topic's present configs."""
        return self._folders.policy_of(self.topic)

    def may_append(self, size: int, timestamp: int, limits: Limits) -> bool:
        """Return whether a batch of this size and largest timestamp can be appended now.

        If not, the worker must first open the log, write it back or begin a new segment. `limits`
        are those of the policy.
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

    def append(self, batch: bytes | memoryview, header: BatchHeader) -> Appended:
        """Append a checked batch, blocking, unless the log has it already.

        One call at a time; the caller notifies waiting requests with `grew`. Raises Refused if the
        topic is deleted, RefusedByLog if the batch does not continue its producer's, and
        StorageError: the log is then closed, and reopened from disk later.
        """
        with self._rolling:
            log = self.log
            if self.deleted:
                raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if log is None:
                raise Refused(ErrorCode.KAFKA_STORAGE_ERROR)
            stored = self._duplicate(header)
            if stored is not None:
                return Appended(
                    stored.base_offset, stored.max_timestamp, log.start_offset, is_new=False
                )
            base_offset, epoch = log.next_offset, max(self.leader_epoch, log.last_epoch)
            last, time = base_offset + header.last_offset_delta, header.max_timestamp
            placed = Batch(0, header.size, base_offset, last, epoch, time)
            try:
                log.append(patch(batch, base_offset, epoch), (placed,))
            except StorageError:
                self.close()
                raise
        if not base_offset:
            self._folders.note_made(self.folder)
        self.unsynced_bytes += header.size
        self._note(header, base_offset)
        append_time = header.max_timestamp if header.is_log_append_time else NO_TIMESTAMP
        return Appended(base_offset, append_time, log.start_offset, is_new=True)

    def _duplicate(self, header: BatchHeader) -> StoredBatch | None:
        """Return the stored copy of a batch, or None. Raises RefusedByLog if it does not fit."""
        if header.producer_id < 0:
            return None
        producer = header.producer_id, header.producer_epoch, header.base_sequence
        stored = self.producers.duplicate_of(*producer, header.last_offset_delta)
        if stored is None:
            error = self.producers.check(*producer)
            if error != ErrorCode.NONE:
                raise RefusedByLog(
                    error,
                    f"Producer {header.producer_id} with epoch {header.producer_epoch} "
                    f"and sequence {header.base_sequence} does not continue the stored batches",
                )
        return stored

    def read_cached(self, offset: int, max_bytes: int, *, at_least_one: bool) -> bytes | None:
        """Read as `read` does, but from memory only, without blocking. Raises NotCached, even where
        `read` fails: closing the log needs the disk.
        """
        log = self.log
        if log is None:
            return None
        try:
            return log.read(offset, max_bytes, at_least_one=at_least_one, cached=True) or None
        except OffsetOutOfRange:
            return None
        except (StorageError, OSError) as error:
            raise NotCached from error

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool) -> bytes | None:
        """Return records from an offset on, blocking, like `Log.read`.

        None if there are none now, or the log was closed, or begins later now. Raises StorageError
        and OSError, and closes the log.
        """
        log = self.log
        if log is None:
            return None
        try:
            return log.read(offset, max_bytes, at_least_one=at_least_one) or None
        except OffsetOutOfRange:
            return None
        except (StorageError, OSError):
            if log.closed or log.start_offset > offset:
                return None  # its files were removed meanwhile
            if self.log is log:
                self.close()
            raise

    def begin_at(self, log: Log, offset: int) -> list[Segment]:
        """Do `Log.begin_at`, blocking, between two appends."""
        with self._rolling:
            return list(log.begin_at(offset))

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
            self._turns.start(self._tell())

    def watch(self, watcher: Watcher) -> None:
        """Notify a watcher of appends from now on, until it is removed from `watchers`."""
        self.watchers[watcher] = self._untold

    def _tell(self) -> Slices[None]:
        """Notify many watchers, in slices, of the bytes appended so far."""
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
        """Sync the log or begin a new segment, blocking. Raises StorageError and OSError."""
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

    def close(self) -> None:
        """Close the files, blocking, after an error; the next use reopens them."""
        with suppress(StorageError, OSError):
            self.sync_and_close()

    def sync_and_close(self) -> None:
        """Close the files, blocking, and keep all records. Raises StorageError and OSError."""
        log, self.log = self.log, None
        if log is not None and not self.topic.internal:
            log.close()

    def delete(self) -> None:
        """Close and remove the files, blocking. Raises OSError."""
        self.producers.clear()
        with self._rolling:  # an append in progress may create the folder, a later one is refused
            log, self.log = self.log, None
            if log is not None:
                log.delete()

    def _note(self, header: BatchHeader, base_offset: int) -> None:
        if header.producer_id >= 0 and not header.is_control:
            self.producers.appended(header, base_offset)


def _recent(log: Log) -> int:
    """Return an offset about LEARN_BYTES before the end, as if all records had the same size."""
    size = log.size
    if size <= LEARN_BYTES:
        return log.start_offset
    return log.next_offset - (log.next_offset - log.start_offset) * LEARN_BYTES // size
