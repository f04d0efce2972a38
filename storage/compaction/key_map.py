"""The first pass of a compaction: finds the newest offset of each key in the dirty part of a log,
and the last batch of each producer. The second pass, the rewriting of segments, needs both.

In the clean part only headers are read: its records are compared with newer ones, not with each
other.

Records of a transaction are mapped when its commit marker is read, and never if it is aborted. The
range of a compaction ends before the first record of an open transaction (the last stable offset),
and before the first batch whose keys do not fit into memory. Beyond the range, only the markers of
transactions that began in it are needed.

Source: Kafka's `Cleaner.buildOffsetMap`, `CleanedTransactionMetadata`, and `ProducerStateManager`
for the last batches of producers.
"""

from array import array
from dataclasses import dataclass, field
from typing import Final

from groupkeeper.protocol.record_batch import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    NO_PRODUCER,
    BatchHeader,
    CorruptBatch,
    read_header,
    records_data,
)
from groupkeeper.protocol.rewrite_batch import ABORT, COMMIT, control_type, lone_key, newest_offsets
from groupkeeper.storage.compaction.pieces import UNREADABLE, Piece

KEY_BYTES: Final = 180
"""Memory overhead of a key besides its own bytes: two objects, and its place in the map.

Measured as process memory at the worst moment, just after the map has grown; 115 at best."""

LATEST: Final = 2**63 - 1
"""The largest offset, and the largest timestamp."""


@dataclass(slots=True)
class _OpenTransaction:
    """A transaction whose marker was not read yet."""

    first: int
    """Where the range ends if the transaction stays open: see `_end_before`."""
    newest: dict[bytes, int] = field(default_factory=dict)
    size: int = 0
    """Memory taken by `newest`, in bytes."""


@dataclass(slots=True)
class _Producer:
    """The state of a producer after its last batch."""

    epoch: int
    last_data_offset: int
    """Last offset of its data in this epoch; -1 if the epoch has only markers."""
    timestamp_ms: int


class KeyMap:
    """The map of newest offsets, filled with all pieces of a log in order."""

    def __init__(self, first_dirty: int, end: int, max_bytes: int) -> None:
        """`first_dirty`, `end`: offsets of the dirty part. `max_bytes`: memory for keys; the first
        batch is mapped even if it takes more.
        """
        self.newest: dict[bytes, int] = {}
        """Newest offset by key; it may be beyond the range."""
        self.newest_offsets = array("q")
        """After `finish`: the sorted values of `newest`, followed by `LATEST`."""
        self.end = end
        """End of the range: where the next compaction begins to map."""
        self.blocked_by = NO_PRODUCER
        """Producer id of the open transaction that ends the range; NO_PRODUCER: none does."""
        self.first_dirty = first_dirty
        self._max_bytes = max_bytes
        self._bytes = 0
        self._is_full = False
        self._open: dict[int, _OpenTransaction] = {}
        self._producers: dict[int, _Producer] = {}

    @property
    def needs_no_more(self) -> bool:
        """Whether the remaining segments need not be read."""
        return self._is_full and not self._open

    def take(self, piece: Piece) -> None:
        """Read the next piece of the log. Raises Corrupt."""
        buffer, newest, first_dirty = piece.buffer, self.newest, self.first_dirty
        end = 0
        for base, length, _, _, _, attributes, _, _, producer_id, count in piece.batches:
            at = end
            end += length + LENGTH_OVERHEAD
            if count == 1 and not attributes and producer_id == NO_PRODUCER:
                if not first_dirty <= base < self.end:
                    continue
                lone = lone_key(buffer, at + HEADER_SIZE, end)
                if lone is not None:
                    key, _ = lone
                    if key in newest or self._has_room(KEY_BYTES + len(key)):
                        newest[key] = base
                    else:
                        self._fill(piece, at, base)
                    continue
            try:
                self._take_batch(piece, read_header(buffer, at))
            except CorruptBatch as error:
                raise piece.damaged(at, UNREADABLE) from error

    def finish(self) -> None:
        """End the range before the first transaction still open, once all pieces were taken."""
        for producer_id, transaction in self._open.items():
            if transaction.first < self.end:
                self.end = max(transaction.first, self.first_dirty)
                self.blocked_by = producer_id
        self.newest_offsets = array("q", sorted(self.newest.values()))
        self.newest_offsets.append(LATEST)

    def is_last_of_producer(self, header: BatchHeader, expired_ms: int) -> bool:
        """Return whether the batch must stay because it holds the state of its producer.

        The state is in the producer's last data, or in the markers of its epoch if the epoch has no
        data. It is not needed if the producer's last batch is not newer than `expired_ms`.
        """
        producer = self._producers.get(header.producer_id)
        if producer is None or producer.timestamp_ms <= expired_ms:
            return False
        if producer.last_data_offset >= 0:
            return header.last_offset == producer.last_data_offset
        return header.is_control and header.producer_epoch == producer.epoch

    def _take_batch(self, piece: Piece, header: BatchHeader) -> None:
        if header.producer_id != NO_PRODUCER:
            self._note_producer(header)
        if header.is_control:
            self._end_transaction(piece, header)
            return
        if header.base_offset >= self.end or header.last_offset < self.first_dirty:
            return
        transaction = self._transaction_of(piece, header) if header.is_transactional else None
        if not self._map(piece, header, transaction):
            self._fill(piece, header.position, header.base_offset)
        elif transaction is not None:
            self._open[header.producer_id] = transaction

    def _map(self, piece: Piece, header: BatchHeader, transaction: _OpenTransaction | None) -> bool:
        """Map the keys of a batch, in its transaction if any. Returns False if they do not fit."""
        offsets = newest_offsets(records_data(piece.buffer, header), header)
        target = self.newest if transaction is None else transaction.newest
        new = set(offsets).difference(target)
        size = KEY_BYTES * len(new) + sum(map(len, new))
        if not self._has_room(size):
            return False
        target.update(offsets)
        if transaction is not None:
            transaction.size += size
        return True

    def _note_producer(self, header: BatchHeader) -> None:
        last = header.last_offset
        if header.is_control:
            known = self._producers.get(header.producer_id)
            same = known is not None and known.epoch == header.producer_epoch
            last = known.last_data_offset if known is not None and same else -1
        self._producers[header.producer_id] = _Producer(
            header.producer_epoch, last, header.max_timestamp
        )

    def _transaction_of(self, piece: Piece, header: BatchHeader) -> _OpenTransaction:
        """Return the transaction of a batch, which may be its first."""
        known = self._open.get(header.producer_id)
        first = _end_before(piece, header.position, header.base_offset)
        return known if known is not None else _OpenTransaction(first)

    def _end_transaction(self, piece: Piece, header: BatchHeader) -> None:
        kind = control_type(piece.buffer, header)
        if kind not in (ABORT, COMMIT):
            return
        transaction = self._open.pop(header.producer_id, None)
        if transaction is None:
            return
        self._bytes -= transaction.size
        if kind == COMMIT:
            self._commit(transaction.newest)

    def _commit(self, offsets: dict[bytes, int]) -> None:
        """Map the records of a committed transaction, unless the map has larger offsets."""
        for key, offset in offsets.items():
            known = self.newest.get(key)
            if known is None:
                self._bytes += KEY_BYTES + len(key)
            if known is None or known < offset:
                self.newest[key] = offset

    def _has_room(self, size: int) -> bool:
        """Reserve memory for keys. Returns False if they do not fit."""
        if self._bytes and self._bytes + size > self._max_bytes:
            return False
        self._bytes += size
        return True

    def _fill(self, piece: Piece, at: int, base: int) -> None:
        """End the range before a batch that does not fit."""
        self._is_full = True
        self.end = _end_before(piece, at, base)


def _end_before(piece: Piece, at: int, base: int) -> int:
    """Return the end of a range without this batch: its base offset, or the base offset of the
    segment if it is the first batch there.
    """
    return base if piece.position + at else piece.segment.base
