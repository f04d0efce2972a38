"""Sequences of idempotent producers on a partition: detects duplicates, gaps and old epochs.

Producer ids are allocated in apis/init_producer_id.py; transactions are refused earlier.
Source: KIP-98; Kafka's `ProducerStateManager`, `ProducerStateEntry` and `ProducerAppendInfo`.
"""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Final, NamedTuple

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.record_batch import BatchHeader
from groupkeeper.topics.limits import PRODUCERS_MOST, OverLimitError

REMEMBERED_BATCHES: Final = 5
"""Per producer, as in Kafka: a client keeps at most five requests in flight."""

EXPIRED_AT_ONCE: Final = 2
"""Expired producers forgotten per batch: more than a batch can add."""

REPORT_INTERVAL_MS: Final = 60_000
"""Minimum interval between reports that a limit made producers be forgotten."""

_LAST_SEQUENCE: Final = 2**31 - 1


def last_sequence(base_sequence: int, last_offset_delta: int) -> int:
    """Return the sequence of the last record of a batch; after 2^31 - 1 comes 0."""
    return (base_sequence + last_offset_delta) & _LAST_SEQUENCE


class StoredBatch(NamedTuple):
    """A batch of an idempotent producer."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    max_timestamp: int
    """Epoch milliseconds: with LogAppendTime, when it was appended."""


class _Producer:
    """One producer id on one partition: its epoch and newest batches."""

    __slots__ = ("batches", "epoch", "partition", "producer_id", "silent_since_ms")

    def __init__(self, partition: "ProducerStates", producer_id: int, epoch: int) -> None:
        self.partition = partition
        self.producer_id = producer_id
        self.epoch = epoch
        self.batches: list[StoredBatch] = []
        self.silent_since_ms = 0


class ProducerMemory:
    """The producers of all partitions.

    Expires producers that are idle too long, and forgets the longest idle one if there are too
    many. The event loop records appended batches, and the worker those found in logs that it opens:
    both hold `lock` during all changes.
    """

    def __init__(
        self,
        expiration_ms: int,
        wall_ms: Callable[[], int],
        failed: Callable[[str, BaseException], None],
    ) -> None:
        self.lock = Lock()
        self._expiration_ms = expiration_ms
        self._wall_ms = wall_ms
        self._failed = failed
        self._tell_from_ms = 0
        self._by_silence: OrderedDict[_Producer, None] = OrderedDict()
        """Longest idle producer first."""

    def __len__(self) -> int:
        return len(self._by_silence)

    def heard(self, producer: _Producer) -> None:
        """Record that a producer has just written. Others may be forgotten."""
        now = producer.silent_since_ms = self._wall_ms()
        known = self._by_silence
        known[producer] = None
        known.move_to_end(producer)
        if len(known) > PRODUCERS_MOST:
            self._forget(next(iter(known)))
            self.tell(f"at most {PRODUCERS_MOST} producers are remembered", now)
        for _ in range(EXPIRED_AT_ONCE):
            oldest = next(iter(known))
            if oldest is producer or now - oldest.silent_since_ms < self._expiration_ms:
                break
            self._forget(oldest)

    def drop(self, producer: _Producer) -> None:
        """Drop a producer that its partition has forgotten."""
        self._by_silence.pop(producer, None)

    def tell(self, limit: str, now_ms: int) -> None:
        """Report that a limit made a producer be forgotten."""
        if now_ms >= self._tell_from_ms:
            self._tell_from_ms = now_ms + REPORT_INTERVAL_MS
            self._failed("producers", OverLimitError(limit))

    def _forget(self, producer: _Producer) -> None:
        del self._by_silence[producer]
        del producer.partition.by_id[producer.producer_id]


class ProducerStates:
    """The producers that wrote to a partition recently."""

    __slots__ = ("_memory", "by_id")

    def __init__(self, memory: ProducerMemory) -> None:
        self._memory = memory
        self.by_id: dict[int, _Producer] = {}
        """Longest idle producer first."""

    def __len__(self) -> int:
        return len(self.by_id)

    def clear(self) -> None:
        """Forget all producers, one at a time: the event loop may wait for the lock."""
        while self.by_id:
            with self._memory.lock:
                if self.by_id:
                    self._memory.drop(self.by_id.popitem()[1])

    def duplicate_of(
        self, producer_id: int, epoch: int, base_sequence: int, last_offset_delta: int
    ) -> StoredBatch | None:
        """Return this batch if it is one of the last five stored, or None."""
        producer = self.by_id.get(producer_id)
        if producer is None or producer.epoch != epoch:
            return None
        last = last_sequence(base_sequence, last_offset_delta)
        for batch in producer.batches:
            if batch.base_sequence == base_sequence and batch.last_sequence == last:
                return batch
        return None

    def check(self, producer_id: int, epoch: int, base_sequence: int) -> ErrorCode:
        """Return NONE if the batch may be appended; check for duplicates first.

        An unknown producer may begin with any sequence: its batches may have been deleted, or it
        was forgotten.
        """
        producer = self.by_id.get(producer_id)
        if producer is None:
            return ErrorCode.NONE
        if epoch < producer.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if epoch > producer.epoch:
            expected = 0
        else:
            expected = (producer.batches[-1].last_sequence + 1) & _LAST_SEQUENCE
        if base_sequence != expected:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return ErrorCode.NONE

    def appended(self, header: BatchHeader, base_offset: int) -> None:
        """Record a batch that was appended at an offset, or replayed without a check."""
        first = header.base_sequence
        last = last_sequence(first, header.last_offset_delta)
        batch = StoredBatch(first, last, base_offset, header.max_timestamp)
        with self._memory.lock:
            self._note(header.producer_id, header.producer_epoch, batch)

    def _note(self, producer_id: int, epoch: int, batch: StoredBatch) -> None:
        producer = self.by_id.pop(producer_id, None)
        if producer is None:
            producer = _Producer(self, producer_id, epoch)
        elif producer.epoch != epoch:
            producer.epoch = epoch
            producer.batches.clear()
        self.by_id[producer_id] = producer
        producer.batches.append(batch)
        if len(producer.batches) > REMEMBERED_BATCHES:
            del producer.batches[0]
        self._memory.heard(producer)
