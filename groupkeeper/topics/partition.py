"""A topic partition: it is a log of the storage, opened when somebody first needs it.

Not the requests, and not where its files are (partitions.py). Topic logs are acknowledged from the
page cache, as Kafka does; what a crash tears off the end is found when the log is opened again.
"""

from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import Final, Protocol

from groupkeeper.protocol.record_batch import BatchHeader, iter_batches, patch
from groupkeeper.storage.errors import StorageError
from groupkeeper.storage.log import Log
from groupkeeper.topics.catalog import Topic
from groupkeeper.topics.producers import ProducerMemory, ProducerStates
from groupkeeper.topics.slices import ITEMS, Pace
from groupkeeper.turns import Slices, Turns

LEADER_EPOCH: Final = 0
"""There is one broker and it never changes: a partition stays in its first epoch, unless the
coordinator writes it."""

WRITE_BACK_BYTES: Final = 32 * 1024 * 1024
"""So much may be in the page cache only; then it is synced, off the event loop."""

WARM_BYTES: Final = 16 * 1024 * 1024
"""Of the end of a log so much is taken to be in the page cache: it was appended not long ago, or
read when the log was opened. What lies before it is read once off the event loop, which must not
wait for the disk."""

LEARN_BYTES: Final = 16 * 1024 * 1024
"""About so much of the end of a log is looked through for producers when it is opened: a producer
that repeats a batch does so soon, and one that is not known may begin with any sequence."""


class Watcher(Protocol):
    """A waiting Fetch, as a partition sees it."""

    def grew(self, size: int) -> None:
        """So many bytes were appended."""

    def changed(self) -> None:
        """Nothing is as it was: look again at once (the topic was deleted)."""


class TopicPartition:
    """One partition of one topic. It makes no files before the first append."""

    __slots__ = (
        "_full",
        "_made",
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
        made: Callable[[str], None],
    ) -> None:
        """`made` is told the name of the folder when the first batch is in it."""
        self._made = made
        self.topic = topic
        self.index = index
        self.log: Log | None = None
        """None until it is opened, and again after it has failed."""
        self.unsynced_bytes = 0
        self._full = False
        """What somebody wants to append needs a new segment."""
        self._rolling = Lock()
        """Held while something is appended, and while a new segment is begun."""
        self.producers = ProducerStates(producers)
        self.watchers: dict[Watcher, int] = {}
        """Those who wait, in their order, each with how much of `_untold` it knows."""
        self._turns = turns
        self._telling = False
        self._untold = 0
        """Bytes that came since it was decided to tell those who wait."""

    @property
    def folder(self) -> str:
        return f"{self.topic.name}-{self.index}"

    @property
    def deleted(self) -> bool:
        """Its topic is gone for clients."""
        return self.topic.deleted

    @property
    def leader_epoch(self) -> int:
        """Present epoch; in the group topic that of the newest batch, as every start has its own.
        No client may see a later one in a batch than Metadata tells: it would wait for that.
        """
        if not self.topic.internal or self.log is None:
            return LEADER_EPOCH
        return max(self.log.last_epoch, LEADER_EPOCH)

    @property
    def readable(self) -> bool:
        """False: the log must be opened first. The coordinator's are not opened here."""
        return self.log is not None or self.topic.internal

    def may_append(self, size: int) -> bool:
        """False: the log must be opened, written back or begin a new segment, off the event loop,
        before so many bytes are appended.
        """
        if self.log is None or not self.log.has_room(size):
            self._full = self.log is not None
            return False
        return self.ready

    @property
    def ready(self) -> bool:
        """Nothing is to be done off the event loop."""
        return self.log is not None and not self._full and self.unsynced_bytes < WRITE_BACK_BYTES

    def is_cold(self, offset: int) -> bool:
        """What is at an offset may have to come from the disk."""
        return self.log is not None and self.log.bytes_from(offset) > WARM_BYTES

    def append(self, log: Log, batch: bytes | memoryview, header: BatchHeader) -> int:
        """Store one checked batch at the end and wake who waits for it; gives its base offset.

        Raises StorageError; the log is closed then, and opened again from what the disk holds.
        """
        base_offset = log.next_offset
        try:
            # Nobody has it but when another request has just found the segment full.
            with self._rolling:
                log.append(patch(batch, base_offset, LEADER_EPOCH))
        except StorageError:
            self.close()
            raise
        if not base_offset:
            self._made(self.folder)
        self.unsynced_bytes += header.size
        self._note(header, base_offset)
        self.grew(header.size)
        return base_offset

    def grew(self, size: int) -> None:
        """Tell those who wait that so many bytes came."""
        if self._telling:
            self._untold += size
        elif len(self.watchers) <= ITEMS:
            for watcher in self.watchers:  # they look away later, when it is their turn
                watcher.grew(size)
        else:
            self._telling = True
            self._untold = size
            self._turns.start(self._tell(), lambda _: None)

    def watch(self, watcher: Watcher) -> None:
        """Tell it of all that comes from now on, until it is out of `watchers`."""
        self.watchers[watcher] = self._untold

    def _tell(self) -> Slices[None]:
        """Tell many at once what came since this was begun."""
        came, self._untold, self._telling = self._untold, 0, False
        pace = Pace()
        for watcher in list(self.watchers):
            known = self.watchers.get(watcher)
            if known is not None:
                self.watchers[watcher] = 0
                watcher.grew(came - known)
            if pace.spent():
                yield

    def open(self, open_log: Callable[[], Log]) -> None:
        """Open the log, blocking, and learn from its end. Raises StorageError and OSError."""
        log = open_log()
        self.producers.clear()
        self.unsynced_bytes = 0
        self._full = False
        for chunk in log.batches(_recent(log)):
            for header in iter_batches(chunk):
                self._note(header, header.base_offset)
        self.log = log

    def write_back(self, log: Log) -> None:
        """Sync the log, blocking, and begin a new segment if that is due. Raises StorageError and
        OSError.
        """
        try:
            if self._full:
                with self._rolling:
                    log.roll()
            else:
                log.sync()
        except StorageError:
            self.close()
            raise
        self.unsynced_bytes = 0
        self._full = False

    def warm(self, offset: int, size: int) -> None:
        """Read what will be read on the event loop, blocking."""
        log = self.log
        if log is not None:
            with suppress(StorageError, OSError):  # who reads it will meet it again
                log.read(offset, size)

    def close(self) -> None:
        """Let go of the files; the next use opens them again. Blocks if much was appended."""
        log, self.log = self.log, None
        if log is not None and not self.topic.internal:
            with suppress(StorageError, OSError):
                log.close()

    def delete(self) -> None:
        """Let go of the files and remove them, blocking. Raises OSError."""
        self.producers.clear()
        log, self.log = self.log, None
        if log is not None:
            log.delete()

    def _note(self, header: BatchHeader, base_offset: int) -> None:
        if header.producer_id >= 0 and not header.is_control:
            self.producers.appended(
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                header.last_offset_delta,
                base_offset,
            )


def _recent(log: Log) -> int:
    """An offset about LEARN_BYTES before the end, as if all records had the same size."""
    size = log.size
    if size <= LEARN_BYTES:
        return log.start_offset
    return log.next_offset - (log.next_offset - log.start_offset) * LEARN_BYTES // size
