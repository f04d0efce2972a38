"""A log that rounds write to: its batches are in the journal first, and in the segments later.

A log among many then costs one write for many rounds instead of one write per round. Readers of
the log see what has been written to the segments.

The records of an append may be made late: when their round is written, on the thread that writes
it. That is for what is stored beside the records that it tells of, such as events: making it takes
time that the event loop does not have, and it shares the fate of those records.
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
"""The most that is queued for one log; a batch that exceeds it is written at once."""


Encoded = tuple[bytes, Batch]
"""A finished batch, which need not know its position."""


@dataclass(slots=True)
class Append:
    """The records of one batch, for one log under an epoch, all with one timestamp (epoch ms)."""

    log: Log
    epoch: int
    timestamp_ms: int
    records: Sequence[KeyValue]

    def encode(self, base_offset: int) -> Sequence[Encoded]:
        """The batch, from an offset on. On the thread that writes rounds."""
        data = encode_batch(base_offset, self.epoch, self.timestamp_ms, self.records)
        last = base_offset + len(self.records) - 1
        return ((data, Batch(0, len(data), base_offset, last, self.epoch, self.timestamp_ms)),)


class QueuedLog:
    """An open log and its queue. Only the thread that writes rounds uses it."""

    __slots__ = ("_bytes", "_queued", "end_offset", "fenced", "log", "name_bytes", "unsynced_bytes")

    def __init__(self, log: Log) -> None:
        self.log = log
        self.name_bytes = log.name.encode()
        self.end_offset = log.next_offset
        """The offset that the next batch must start at: the end of the queue."""
        self.fenced = False
        """The lock of its shard is lost: another process may write to the folder."""
        self.unsynced_bytes = 0
        """About how much was written since it was last synced beside the rounds."""
        self._queued: list[tuple[bytes, Batch]] = []
        self._bytes = 0

    def error_for(self, append: Append) -> StorageError | None:
        """Why an append cannot take part in a round; None if it can."""
        log = self.log
        if self.fenced:
            return LockLost(f"the lock of {log.name} was removed: another process may own it")
        if log.failed or log.closed or log is not append.log:
            return AppendFailed(f"{log.name} must be opened again before it takes a round")
        if append.epoch < log.last_epoch:
            return Fenced(f"{log.name} is in epoch {log.last_epoch}, not {append.epoch}")
        return None

    def queue(self, data: bytes, batch: Batch) -> bool:
        """Queue a finished batch that starts at `end_offset` and is in the journal.

        `batch` need not know its position. Returns whether the queue is full.
        """
        self._queued.append((data, batch))
        self._bytes += len(data)
        self.end_offset = batch.last_offset + 1
        return self._bytes > QUEUE_BYTES

    def write(self) -> int:
        """Write the queue to the segments with as few writes as possible; returns its bytes.

        Raises AppendFailed: then the rest is in the journal only, and the log must be opened again.
        """
        size, queued, log = self._bytes, self._queued, self.log
        self._queued, self._bytes = [], 0
        while queued and not log.failed:
            assert queued[0][1].base_offset == log.next_offset, "appended to beside the rounds"
            run = log.fitting(batch for _, batch in queued)
            pieces, batches = zip(*queued[:run], strict=True)
            queued = queued[run:]
            log.write(b"".join(pieces), batches)
        return size

    def fence(self) -> None:
        """Write nothing more, not even when the log is closed."""
        self.fenced = self.log.failed = True

    def close(self, *, with_parent: bool = True) -> None:
        """Write the queue, and `Log.close`. Raises AppendFailed and SyncFailed."""
        try:
            self.write()
        finally:
            self.log.close(with_parent=with_parent)


T = TypeVar("T")


@dataclass(slots=True)
class TimedAppend(Append):
    """Batches of records with times of their own; `records` and `timestamp_ms` are not used."""

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
    """An append that is not made yet."""

    make: Callable[[], Append]
    """What it, or encoding the append, raises leaves this append out of the round."""
    belongs_to: "Append | LateAppend | None" = None
    """An earlier one of the same round: without that one, this one is left out, too."""

    def made(self, left_out: dict[int, StorageError]) -> Append | StorageError:
        """The append, or why there is none. `left_out`: what was, by `id` of the append."""
        if self.belongs_to is not None and id(self.belongs_to) in left_out:
            return left_out[id(self.belongs_to)]
        return _attempt(self.make)

    @staticmethod
    def encoded(append: Append, base_offset: int) -> Sequence[Encoded] | StorageError:
        """`append.encode` of one that was made, or why it has failed."""
        return _attempt(lambda: append.encode(base_offset))


def _attempt(job: Callable[[], T]) -> T | StorageError:
    try:
        return job()
    except SyncFailed:
        raise
    except StorageError as error:
        return error
    except Exception as bug:  # noqa: BLE001  # of whoever makes the records
        failed = AppendFailed(f"its records could not be made: {bug!r}")
        failed.__cause__ = bug
        return failed


def after(append: Append | LateAppend, other: Append | LateAppend) -> LateAppend:
    """An append that is left out of its round if the other one is."""
    make = append.make if isinstance(append, LateAppend) else lambda: append
    return LateAppend(make, other)
