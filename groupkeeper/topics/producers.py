"""Sequences of idempotent producers on one partition: what is a duplicate, a gap, a zombie.

Not the giving out of producer ids (producer_ids.py), and not transactions: they are refused
earlier.
Source: KIP-98; Kafka's ``ProducerStateManager``, ``ProducerStateEntry`` and ``ProducerAppendInfo``.
"""

from collections import deque
from typing import Final

from protocol.errors import ErrorCode

REMEMBERED_BATCHES: Final = 5
"""Per producer, as in Kafka: a client keeps at most five requests in flight."""

REMEMBERED_PRODUCERS: Final = 10_000
"""Per partition; the one that was silent longest is forgotten first, and is then as good as new."""

_LAST_SEQUENCE: Final = 2**31 - 1


def last_sequence(base_sequence: int, last_offset_delta: int) -> int:
    """Sequence of the last record of a batch; after 2^31 - 1 comes 0."""
    return (base_sequence + last_offset_delta) & _LAST_SEQUENCE


class _Producer:
    """One producer id: its epoch, newest batches as (first, last sequence, base offset)."""

    __slots__ = ("batches", "epoch")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[tuple[int, int, int]] = deque(maxlen=REMEMBERED_BATCHES)


class ProducerStates:
    """Every producer that wrote to the partition lately."""

    __slots__ = ("_producers",)

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def duplicate_of(
        self, producer_id: int, epoch: int, base_sequence: int, last_offset_delta: int
    ) -> int | None:
        """Base offset of this very batch, if it is one of the last five stored."""
        producer = self._producers.get(producer_id)
        if producer is None or producer.epoch != epoch:
            return None
        last = last_sequence(base_sequence, last_offset_delta)
        for first_known, last_known, base_offset in producer.batches:
            if first_known == base_sequence and last_known == last:
                return base_offset
        return None

    def check(self, producer_id: int, epoch: int, base_sequence: int) -> ErrorCode:
        """Whether the batch may be appended; ask for duplicates first.

        A producer that is not known may begin with any sequence: its past may have been deleted or
        forgotten.
        """
        producer = self._producers.get(producer_id)
        if producer is None:
            return ErrorCode.NONE
        if epoch < producer.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if epoch > producer.epoch:
            expected = 0
        else:
            expected = (producer.batches[-1][1] + 1) & _LAST_SEQUENCE
        if base_sequence != expected:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return ErrorCode.NONE

    def appended(
        self,
        producer_id: int,
        epoch: int,
        base_sequence: int,
        last_offset_delta: int,
        base_offset: int,
    ) -> None:
        """Note a batch that is in the log now (also on replay, where nothing is checked)."""
        producer = self._producers.pop(producer_id, None)
        if producer is None or producer.epoch != epoch:
            producer = _Producer(epoch)
        self._producers[producer_id] = producer
        last = last_sequence(base_sequence, last_offset_delta)
        producer.batches.append((base_sequence, last, base_offset))
        if len(self._producers) > REMEMBERED_PRODUCERS:
            del self._producers[next(iter(self._producers))]
