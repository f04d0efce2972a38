"""Record batches as a compaction reads and rewrites them: keys without values, fewer records.

A rewritten batch keeps its offsets, producer, leader epoch, timestamp type and codec, and equals
what Kafka's cleaner makes of it, except that compressors differ. Bytes of records are copied; their
timestamps are written anew when the batch gets another base timestamp.

Source: Kafka's `MemoryRecords.filterTo`, `MemoryRecordsBuilder`, `DefaultRecordBatch`; KIP-534.
"""

from collections.abc import Generator, Iterator, Sequence
from struct import Struct
from typing import Final

from crc32c import crc32c

from groupkeeper.protocol.compression import compress
from groupkeeper.protocol.record_batch import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    BatchHeader,
    CorruptBatch,
    read_headers,
    read_longer,
    read_nullable,
    read_signed,
    records_data,
)
from groupkeeper.protocol.wire import write_varint

ABORT: Final = 0
COMMIT: Final = 1

_CODEC: Final = 0x07
_KIND: Final = 0x38
"""Attributes that say what a batch is: timestamp type, transactional, control."""
_HAS_HORIZON: Final = 0x40
_NO_TIMESTAMP: Final = -1
_CHECKED: Final = Struct(">hiqqqhii")
_UNCHECKED: Final = Struct(">qiibI")


RecordSpan = tuple[int, int]
"""Start and end of a record in the decompressed data of its batch."""

KeyedRecord = tuple[int, bytes | None, bool, int, int]
"""Offset in the log, key, whether there is a value; start and end, as in `RecordSpan`."""


def keyed_records(data: bytes, header: BatchHeader) -> Iterator[KeyedRecord]:
    """Return the records in a batch's data. Raises CorruptBatch, also in the middle."""
    try:
        end = yield from _keyed(data, header)
    except (IndexError, UnicodeDecodeError) as error:
        raise CorruptBatch(f"a record of the batch at {header.position} is cut off") from error
    if end != len(data):
        raise CorruptBatch("bytes follow the last record")


def _keyed(data: bytes, header: BatchHeader) -> Generator[KeyedRecord, None, int]:
    """Returns where the last record ends. Its speed decides that of a compaction."""
    base, highest = header.base_offset, header.last_offset_delta
    pos = 0
    for _ in range(header.record_count):
        start = pos
        size = data[pos]
        pos += 1
        if size > 0x7F:
            size, pos = read_longer(data, pos, size)
        end = pos + (size >> 1)
        timestamp_delta = data[pos + 1]
        pos += 2
        if timestamp_delta > 0x7F:
            _, pos = read_longer(data, pos, timestamp_delta)
        delta = data[pos]
        pos += 1
        if delta > 0x7F:
            delta, pos = read_longer(data, pos, delta)
        key_size = data[pos]
        if key_size > 0x7F or key_size & 1:
            key, pos = read_nullable(data, pos)
        else:
            key = data[pos + 1 : pos + 1 + (key_size >> 1)]
            pos += 1 + (key_size >> 1)
        value_size = data[pos]
        pos += 1
        if value_size > 0x7F:
            value_size, pos = read_longer(data, pos, value_size)
        if not value_size & 1:
            pos += value_size >> 1
        if pos + 1 != end or data[pos]:
            _check_headers(data, pos, end)
        # An odd number is a negative one; -1 is the length of a value of null.
        if (size | delta) & 1 or delta >> 1 > highest or (value_size & 1 and value_size != 1):
            raise CorruptBatch("a length is negative, or a record's offset lies outside its batch")
        yield base + (delta >> 1), key, value_size != 1, start, end
        pos = end
    return pos


def newest_offsets(data: bytes, header: BatchHeader) -> dict[bytes, int]:
    """Return each key in the decompressed data of a batch, with the offset of its last record in
    it.

    Raises CorruptBatch. Values and headers are not looked at, which makes it twice as fast as
    `keyed_records`: a compaction reads most records only here.
    """
    try:
        found, end = _newest(data, header)
    except IndexError as error:
        raise CorruptBatch(f"a record of the batch at {header.position} is cut off") from error
    if end != len(data):
        raise CorruptBatch("the records of the batch do not end where it does")
    return found


def _newest(data: bytes, header: BatchHeader) -> tuple[dict[bytes, int], int]:
    """The offsets, and where the last record ends."""
    found: dict[bytes, int] = {}
    base, highest = header.base_offset, header.last_offset_delta
    pos = 0
    for _ in range(header.record_count):
        size = data[pos]
        pos += 1
        if size > 0x7F:
            size, pos = read_longer(data, pos, size)
        end = pos + (size >> 1)
        timestamp_delta = data[pos + 1]
        pos += 2
        if timestamp_delta > 0x7F:
            _, pos = read_longer(data, pos, timestamp_delta)
        delta = data[pos]
        pos += 1
        if delta > 0x7F:
            delta, pos = read_longer(data, pos, delta)
        key_size = data[pos]
        pos += 1
        if key_size > 0x7F:
            key_size, pos = read_longer(data, pos, key_size)
        # An odd number is a negative one; -1 is the length of a key of null.
        if (size | delta) & 1 or delta >> 1 > highest or (key_size & 1 and key_size != 1):
            raise CorruptBatch("a length is negative, or a record's offset lies outside its batch")
        if not key_size & 1:
            key_end = pos + (key_size >> 1)
            if key_end >= end:
                raise CorruptBatch("a record does not end at its length")
            found[data[pos:key_end]] = base + (delta >> 1)
        pos = end
    return found, pos


def _check_headers(data: bytes, pos: int, end: int) -> None:
    if read_headers(data, pos)[1] != end:
        raise CorruptBatch("a record does not end at its length")


def lone_key(buffer: bytes, pos: int, end: int) -> tuple[bytes, bool] | None:
    """Return the key of the only record of a plain batch, and whether it has a value.

    The record is the bytes from `pos` to `end`. None if it has another form, or is malformed. A
    short cut for the most frequent batches of an offsets log.
    """
    try:
        size = buffer[pos]
        pos += 1
        if size > 0x7F:
            size, pos = read_longer(buffer, pos, size)
        # Timestamp delta and offset delta are 0; the attributes do not matter.
        if pos + (size >> 1) != end or size & 1 or buffer[pos + 1] or buffer[pos + 2]:
            return None
        pos += 3
        size = buffer[pos]
        pos += 1
        if size > 0x7F:
            size, pos = read_longer(buffer, pos, size)
        if size & 1:
            return None
        key_end = pos + (size >> 1)
        size = buffer[key_end]
        after = key_end + 1
        if size > 0x7F:
            size, after = read_longer(buffer, after, size)
        # What follows the value is a header count of 0.
        if size == 1:
            has_value = False
        elif size & 1:
            return None
        else:
            has_value = True
            after += size >> 1
        if after + 1 != end or buffer[after]:
            return None
    except (IndexError, CorruptBatch):
        return None
    return buffer[pos:key_end], has_value


def control_type(buffer: bytes, header: BatchHeader) -> int:
    """Return the type of a control batch: COMMIT, ABORT or another number; -1 if no record is left
    in it.

    Raises CorruptBatch.
    """
    for _, key, *_ in keyed_records(records_data(buffer, header), header):
        if key is None or len(key) < 4:
            raise CorruptBatch(f"the batch at {header.position} has a control record without type")
        return int.from_bytes(key[2:4], "big")
    return -1


def rewritten_batch(
    header: BatchHeader, data: bytes, records: Sequence[RecordSpan], horizon_ms: int | None
) -> bytes:
    """Return the batch with only these records of its decompressed data, at least one.

    A delete horizon becomes the base timestamp; without one that is the first record's timestamp.
    """
    deltas = [read_signed(data, read_signed(data, start)[1] + 1) for start, _ in records]
    if header.is_log_append_time:
        times = [header.max_timestamp] * len(records)
    else:
        times = [_int64(header.base_timestamp + delta) for delta, _ in deltas]
    attributes = header.attributes & (_KIND | _CODEC)
    if horizon_ms is None:
        base = times[0]
    else:
        base = horizon_ms
        attributes |= _HAS_HORIZON
    parts = []
    for (start, end), (delta, rest), time in zip(records, deltas, times, strict=True):
        new_delta = _int64(time - base)
        is_same = new_delta == delta
        parts.append(data[start:end] if is_same else _record(new_delta, data[rest:end]))
    body = b"".join(parts)
    if header.codec:
        body = compress(header.codec, body)
    return _pack(header, attributes, (base, max(_NO_TIMESTAMP, *times)), len(records), body)


def empty_batch(header: BatchHeader) -> bytes:
    """Return the batch without its records: it keeps the offsets, the producer and the largest
    timestamp.

    Kafka keeps it for the state of an idempotent producer, and so that an end offset is not lost.
    """
    times = _NO_TIMESTAMP, header.max_timestamp
    return _pack(header, header.attributes & _KIND, times, 0, b"")


def _record(timestamp_delta: int, rest: bytes) -> bytes:
    """A record with its offset delta, key, value and headers in `rest`."""
    delta = _signed(timestamp_delta)
    return b"".join((_signed(1 + len(delta) + len(rest)), b"\x00", delta, rest))


def _signed(number: int) -> bytes:
    return write_varint((number << 1) ^ (number >> 63))


def _int64(number: int) -> int:
    """Return the number with the overflow of Java's long: sums of timestamps may exceed it."""
    return (number + 2**63) % 2**64 - 2**63


def _pack(
    header: BatchHeader, attributes: int, times: tuple[int, int], count: int, body: bytes
) -> bytes:
    """A batch with the offsets, leader epoch and producer of `header`."""
    producer = header.producer_id, header.producer_epoch, header.base_sequence
    checked = _CHECKED.pack(attributes, header.last_offset_delta, *times, *producer, count)
    crc = crc32c(body, crc32c(checked))
    length = len(body) + HEADER_SIZE - LENGTH_OVERHEAD
    unchecked = _UNCHECKED.pack(header.base_offset, length, header.leader_epoch, MAGIC, crc)
    return b"".join((unchecked, checked, body))
