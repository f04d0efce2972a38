"""The second pass of a compaction: decides which batches and records of a segment are kept.

Records beyond the range of the compaction are kept, and within it the newest record of each key,
unless it is a tombstone whose delete horizon has passed. Records without a key and those of aborted
transactions are dropped. A batch that stays whole is copied byte for byte.

A marker is kept while a batch of its transaction was read in the same pass; from then on it has a
delete horizon, as a tombstone has from the first pass over it. So readers that are slower than a
compaction still see both.

Source: Kafka's `Cleaner.cleanInto`, `MemoryRecords.filterTo`; KIP-534.
"""

from bisect import bisect_left

from groupkeeper.protocol.record_batch import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    NO_PRODUCER,
    BatchHeader,
    CorruptBatch,
    read_header,
    records_data,
)
from groupkeeper.protocol.rewrite_batch import (
    ABORT,
    COMMIT,
    RecordSpan,
    control_type,
    empty_batch,
    keyed_records,
    lone_key,
    rewritten_batch,
)
from groupkeeper.storage.compaction.key_map import LATEST, KeyMap
from groupkeeper.storage.compaction.pieces import UNREADABLE, Fields, Piece
from groupkeeper.storage.compaction.segment_writer import SegmentWriter


class Rewriter:
    """Writes the kept parts of a log, given all its pieces in order."""

    def __init__(self, keys: KeyMap, now_ms: int, retention_ms: int, expiration_ms: int) -> None:
        """Tombstones and markers stay for `retention_ms`, idle producers for `expiration_ms`."""
        self._keys = keys
        self._now_ms = now_ms
        self._new_horizon_ms = min(now_ms + retention_ms, LATEST)
        self._expired_ms = now_ms - expiration_ms
        self._observed: set[int] = set()
        """Producer ids of transactions with a batch already read and a marker still to come."""
        self._last: BatchHeader | None = None
        self._following = 0
        """Index in the newest offsets of those at or after the next batch."""
        self.records_read = 0

    def take(self, piece: Piece, writer: SegmentWriter) -> None:
        """Write the kept part of the next piece. Raises Corrupt and OSError."""
        buffer, newest = piece.buffer, self._keys.newest_offsets
        range_end = self._keys.end
        skips_from = self._keys.first_dirty
        start = at = end = records = 0
        kept: list[Fields] = []
        """The batches from `start` on."""
        following = self._following
        for fields in piece.batches:
            base, length, _, _, _, attributes, delta, _, producer_id, count = fields
            at = end
            end += length + LENGTH_OVERHEAD
            records += count
            while newest[following] < base:
                following += 1
            is_lone = count == 1 and not attributes and producer_id == NO_PRODUCER
            if base >= range_end:
                changed: bytes | None = None
            elif is_lone and base >= skips_from and newest[following] > base + delta:
                changed = b""  # not the newest of any key: the most common case
            else:
                changed = self._lone(piece, at, end, base) if is_lone else self._changed(piece, at)
            if changed is None:
                kept.append(fields)
            else:
                writer.add(buffer[start:at], kept)
                writer.add_batch(changed)
                start, kept = end, []
        writer.add(buffer[start:end], kept)
        self._following = following
        self.records_read += records
        self._last = read_header(buffer, at)

    def finish(self, writer: SegmentWriter) -> None:
        """Write the last batch of a segment without its records, if none of it was kept.

        Otherwise nothing in the file would show where the segment ends.
        """
        if self._last is not None and writer.next_offset < self._last.next_offset:
            writer.add_batch(empty_batch(self._last))

    def _lone(self, piece: Piece, at: int, end: int, base: int) -> bytes | None:
        """Do the same as `_changed` for a plain batch of one record."""
        lone = lone_key(piece.buffer, at + HEADER_SIZE, end)
        if lone is not None:
            key, has_value = lone
            if base < self._keys.newest.get(key, -1):
                return b""
            if has_value:
                return None
        return self._changed(piece, at)

    def _changed(self, piece: Piece, at: int) -> bytes | None:
        """Return the kept part of a batch: None if it stays as it is, empty if nothing is kept."""
        try:
            return self._cleaned(piece.buffer, read_header(piece.buffer, at))
        except CorruptBatch as error:
            raise piece.damaged(at, UNREADABLE) from error

    def _cleaned(self, buffer: bytes, header: BatchHeader) -> bytes | None:
        goes, marks_nothing = self._of_transaction(buffer, header)
        goes = goes or self._is_superseded(header)
        data = b"" if goes else records_data(buffer, header)
        records, has_tombstone = ([], False) if goes else self._kept(data, header)
        if not records:
            is_last = self._keys.is_last_of_producer(header, self._expired_ms)
            return empty_batch(header) if is_last else b""
        horizon_ms = header.delete_horizon_ms
        if horizon_ms is None and (has_tombstone or marks_nothing):
            horizon_ms = self._new_horizon_ms
        elif len(records) == header.record_count:
            return None
        return rewritten_batch(header, data, records, horizon_ms)

    def _is_superseded(self, header: BatchHeader) -> bool:
        """Return whether a batch is dropped because none of its records is the newest of its key.

        Also true for batches of aborted transactions. False: the records have to be read.
        """
        keys = self._keys
        if header.is_control or header.base_offset < keys.first_dirty:
            return False
        newest = keys.newest_offsets
        return newest[bisect_left(newest, header.base_offset)] > header.last_offset

    def _kept(self, data: bytes, header: BatchHeader) -> tuple[list[RecordSpan], bool]:
        """Return the kept records, and whether a tombstone is among them."""
        records = keyed_records(data, header)
        if header.is_control:
            return [(start, end) for _, _, _, start, end in records], False
        newest = self._keys.newest.get
        horizon_ms = header.delete_horizon_ms
        keeps_tombstones = horizon_ms is None or self._now_ms < horizon_ms
        kept = []
        has_tombstone = False
        for offset, key, has_value, start, end in records:
            if key is None or offset < newest(key, -1):
                continue
            if has_value:
                kept.append((start, end))
            elif keeps_tombstones:
                kept.append((start, end))
                has_tombstone = True
        return kept, has_tombstone

    def _of_transaction(self, buffer: bytes, header: BatchHeader) -> tuple[bool, bool]:
        """Return whether a batch is dropped as a whole, and whether it is an unneeded marker."""
        if header.is_control:
            marks_nothing = self._marks_nothing(header.producer_id, control_type(buffer, header))
            horizon_ms = header.delete_horizon_ms
            has_passed = horizon_ms is not None and horizon_ms <= self._now_ms
            return marks_nothing and has_passed, marks_nothing
        if header.is_transactional:
            self._observed.add(header.producer_id)
        return False, False

    def _marks_nothing(self, producer_id: int, kind: int) -> bool:
        if kind not in (ABORT, COMMIT):
            return False
        observed = producer_id in self._observed
        self._observed.discard(producer_id)
        return not observed
