"""A log written to by flushes: batches go to the journal first, and to the segments later.

With many logs, each then costs one write per many flushes instead of one per flush. Readers of the
log see the batches that are in the segments.

The records of an append may be made late: when their flush is written, on the thread that writes
it. This is for records stored alongside the ones they describe, such as events: making them takes
time that the event loop does not have, and they must be durable only together with those.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from groupkeeper.protocol.record_batch import KeyValue, encode_batch
from groupkeeper.protocol.timed_batch import TimedRecord, encode_timed_batch
from groupkeeper.storage.errors import AppendFailed, Fenced, LockLost, StorageError, SyncFailed
from groupkeeper.storage.log.log import Log
from groupkeeper.storage.log.scan import Batch

QUEUE_BYTES: Final = 64 * 1024
"""Maximum bytes queued per log; the batch that exceeds it triggers a write."""


Encoded = tuple[bytes, Batch]
"""A finished batch, whose `position` need not be set."""


@dataclass(slots=True)
class Append:
    """One batch of records for one log and epoch, all with the same timestamp (epoch ms)."""

    log: Log
    epoch: int
    timestamp_ms: int
    records: Sequence[KeyValue]

    def encode(self, base_offset: int) -> Sequence[Encoded]:
        """Return the finished batch, starting at an offset. For the thread that writes flushes."""
        data = encode_batch(base_offset, self.epoch, self.timestamp_ms, self.records)
        last = base_offset + len(self.records) - 1
        return ((data, Batch(0, len(data), base_offset, last, self.epoch, self.timestamp_ms)),)


class QueuedLog:
    """An open log and its queue. For the thread that writes flushes only."""

    __slots__ = ("_bytes", "_queued", "end_offset", "fenced", "log", "name_bytes", "unsynced_bytes")

    def __init__(self, log: Log) -> None:
        self.log = log
        self.name_bytes = log.name.encode()
        self.end_offset = log.next_offset
        """The base offset of the next batch: the end of the queue."""
        self.fenced = False
        """Whether the lock of its shard is lost: another process may write to the folder."""
        self.unsynced_bytes = 0
        """Approximate bytes written since the last sync beside the flushes."""
        self._queued: list[tuple[bytes, Batch]] = []
        self._bytes = 0

    def error_for(self, append: Append) -> StorageError | None:
        """Return the reason why an append cannot take part in a flush, or None."""
        log = self.log
        if self.fenced:
            return LockLost(f"the lock of {log.name} was removed: another process may own it")
        if log.failed or log.closed or log is not append.log:
            return AppendFailed(f"{log.name} must be opened again before it takes a flush")
        if append.epoch < log.last_epoch:
            return Fenced(f"{log.name} is in epoch {log.last_epoch}, not {append.epoch}")
        return None

    def queue(self, data: bytes, batch: Batch) -> bool:
        """Queue a finished batch that starts at `end_offset` and is in the journal.

        `batch.position` need not be set. Returns whether the queue is full.
        """
        self._queued.append((data, batch))
        self._bytes += len(data)
        self.end_offset = batch.last_offset + 1
        return self._bytes > QUEUE_BYTES

    def write(self) -> int:
        """Write the queue to the segments with as few writes as possible; return its size in bytes.

        Raises AppendFailed: then the rest is in the journal only, and the log must be reopened.
        """
        size, queued, log = self._bytes, self._queued, self.log
        self._queued, self._bytes = [], 0
        while queued and not log.failed:
            assert queued[0][1].base_offset == log.next_offset, "appended to beside the flushes"
            run = log.fitting(batch for _, batch in queued)
            pieces, batches = zip(*queued[:run], strict=True)
            queued = queued[run:]
            log.write(b"".join(pieces), batches)
        return size

    def fence(self) -> None:
        """Stop all writes, including those of closing the log."""
        self.fenced = self.log.failed = True

    def close(self, *, with_parent: bool = True) -> None:
        """Write the queue, then call `Log.close`. Raises AppendFailed and SyncFailed."""
        try:
            self.write()
        finally:
            self.log.close(with_parent=with_parent)


T = TypeVar("T")


@dataclass(slots=True)
class TimedAppend(Append):
    """Batches of records with individual timestamps; `records` and `timestamp_ms` are not used."""

    batches: Sequence[Sequence[TimedRecord]] = ()

    def encode(self, base_offset: int) -> Sequence[Encoded]:
        encoded = []
        for records in self.batches:
            data = encode_timed_batch(base_offset, self.epoch, records)
            last, newest = base_offset + len(records) - 1, max(each[0] for each in records)
            encoded.append((data, Batch(0, len(data), base_offset, last, self.epoch, newest)))
            base_offset = last + 1
        return encoded


@dataclass(slots=True)
class LateAppend:
    """An append whose records are made when its flush is written."""

    make: Callable[[], Append]
    """An error raised by it, or by encoding the append, leaves this append out of the flush."""
    belongs_to: "Append | LateAppend | None" = None
    """An earlier append of the same flush; if that is left out, so is this one."""

    def made(self, left_out: dict[int, StorageError]) -> Append | StorageError:
        """Return the append, or the reason there is none. `left_out`: errors by append id."""
        if self.belongs_to is not None and id(self.belongs_to) in left_out:
            return left_out[id(self.belongs_to)]
        return _attempt(self.make)

    @staticmethod
    def encoded(append: Append, base_offset: int) -> Sequence[Encoded] | StorageError:
        """Return `append.encode` of an append that was made, or the reason it failed."""
        return _attempt(lambda: append.encode(base_offset))


def _attempt(job: Callable[[], T]) -> T | StorageError:
    try:
        return job()
    except SyncFailed:
        raise
    except StorageError as error:
        return error
    except Exception as bug:  # noqa: BLE001  # in the code that makes the records
        failed = AppendFailed(f"its records could not be made: {bug!r}")
        failed.__cause__ = bug
        return failed


def after(append: Append | LateAppend, other: Append | LateAppend) -> LateAppend:
    """Return an append that is left out of its flush if the other one is."""
    make = append.make if isinstance(append, LateAppend) else lambda: append
    return LateAppend(make, other)
