"""A topic partition: it is a log of the storage, opened when somebody first needs it.

Not the requests, and not where its files are (partitions.py). Topic logs are acknowledged from the
page cache, as Kafka does; what a crash tears off the end is found when the log is opened again.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from groupkeeper.topics.catalog import Topic
from groupkeeper.topics.producers import ProducerStates
from protocol.record_batch import (
    BatchHeader,
    CorruptBatch,
    decode_records,
    iter_batches,
    patch,
    read_header,
)
from storage.errors import StorageError
from storage.log import Log

LEADER_EPOCH: Final = 0
"""There is one broker and it never changes: every topic partition stays in its first epoch."""

WRITE_BACK_BYTES: Final = 32 * 1024 * 1024
"""So much may be in the page cache only; then it is synced off the event loop, before a roll has to
do it on the loop."""

NO_TIMESTAMP: Final = -1


class Watcher(Protocol):
    """A waiting Fetch, as a partition sees it."""

    def grew(self, size: int) -> None:
        """So many bytes were appended."""

    def changed(self) -> None:
        """Nothing is as it was: look again at once (the topic was deleted)."""


class Partition:
    """One partition of one topic. Its offsets are known while `log` is there; it makes no files
    before the first append.
    """

    __slots__ = (
        "_max_timestamp",
        "_max_timestamp_offset",
        "deleted",
        "index",
        "log",
        "producers",
        "topic",
        "unsynced_bytes",
        "watchers",
    )

    def __init__(self, topic: Topic, index: int) -> None:
        self.topic = topic
        self.index = index
        self.log: Log | None = None
        """None until it is opened, and again after it has failed."""
        self.unsynced_bytes = 0
        self.deleted = False
        self.producers = ProducerStates()
        self.watchers: dict[Watcher, None] = {}
        self._max_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = -1

    @property
    def folder(self) -> str:
        return f"{self.topic.name}-{self.index}"

    @property
    def readable(self) -> bool:
        """False: the log must be opened first. The coordinator's logs are never opened from
        here.
        """
        return self.log is not None or self.topic.internal

    @property
    def may_append(self) -> bool:
        """False: the log must be opened, or written back, off the event loop first."""
        return self.log is not None and self.unsynced_bytes < WRITE_BACK_BYTES

    def append(self, log: Log, batch: bytes, header: BatchHeader) -> int:
        """Store one checked batch at the end and wake who waits for it; gives its base offset.

        Raises StorageError; the log is closed then, and opened again from what the disk holds.
        """
        base_offset = log.next_offset
        try:
            log.append(patch(batch, base_offset, LEADER_EPOCH))
        except StorageError:
            self.close()
            raise
        self.unsynced_bytes += header.size
        self._note(header, base_offset)
        self.grew(header.size)
        return base_offset

    def grew(self, size: int) -> None:
        """Tell those who wait that so many bytes came."""
        for watcher in list(self.watchers):
            watcher.grew(size)

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int] | None:
        """The first record that is at least that young, as offset and timestamp; None if all are
        older.
        """
        return None if self.log is None else self.log.offset_for_timestamp(timestamp_ms)

    def newest_timestamp(self) -> tuple[int, int] | None:
        """Offset and epoch milliseconds of the record with the highest timestamp, the first if
        several.
        """
        if self.log is None or self._max_timestamp == NO_TIMESTAMP:
            return None
        chunk = self.log.read(self._max_timestamp_offset, 1)
        header = read_header(chunk)
        try:
            records = list(decode_records(chunk, header))
        except CorruptBatch:
            # Stored as it came: what a client compressed badly still has its header.
            return header.last_offset, header.max_timestamp
        newest = max(records, key=lambda record: record.timestamp_ms)
        return newest.offset, newest.timestamp_ms

    def open(self, open_log: Callable[[], Log]) -> None:
        """Open the log, blocking, and learn from all it holds. Raises StorageError and OSError."""
        log = open_log()
        self.producers = ProducerStates()
        self._max_timestamp = NO_TIMESTAMP
        self.unsynced_bytes = 0
        for chunk in log.batches():
            for header in iter_batches(chunk):
                self._note(header, header.base_offset)
        self.log = log

    def write_back(self, log: Log) -> None:
        """Sync the log, blocking. No append may happen meanwhile. Raises StorageError."""
        try:
            log.sync()
        except StorageError:
            self.close()
            raise
        self.unsynced_bytes = 0

    def close(self) -> None:
        """Let go of the files; the next use opens them again. Blocks if much was appended."""
        log, self.log = self.log, None
        if log is not None and not self.topic.internal:
            with suppress(StorageError, OSError):
                log.close()

    def delete(self) -> None:
        """Let go of the files and remove them, blocking. Raises OSError."""
        log, self.log = self.log, None
        if log is not None:
            log.delete()

    def _note(self, header: BatchHeader, base_offset: int) -> None:
        if header.max_timestamp > self._max_timestamp:
            self._max_timestamp = header.max_timestamp
            self._max_timestamp_offset = base_offset
        if header.producer_id >= 0 and not header.is_control:
            self.producers.appended(
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                header.last_offset_delta,
                base_offset,
            )
