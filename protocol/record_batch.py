"""Encodes and decodes record batches v2 (magic 2), the unit of Kafka's log, Produce and Fetch.

Encodes plain batches, byte for byte as Kafka's `MemoryRecordsBuilder` does for records without
headers, producer id or compression. Decodes every batch that brokers store: compressed,
transactional and control batches, batches with a delete horizon, empty batches; not magic 0 and 1.

Layout: base offset int64, length int32 of what follows, leader epoch int32, magic int8, CRC-32C
uint32 of all that follows it, attributes int16, last offset delta int32, base timestamp int64, max
timestamp int64, producer id int64, producer epoch int16, base sequence int32, record count int32,
records. Base offset and leader epoch lie before the CRC, so a broker may set them in a finished
batch.

Source: KIP-98, Kafka's `DefaultRecordBatch` and `DefaultRecord`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from groupkeeper.protocol.compression import DecompressionError, decompress
from groupkeeper.protocol.wire import write_varint

HEADER_SIZE: Final = 61
LENGTH_OVERHEAD: Final = 12
CRC_START: Final = 21
MAGIC: Final = 2
NO_PRODUCER: Final = -1
DECOMPRESSED_LIMIT: Final = 64 * 1024 * 1024

_HEADER: Final = Struct(">qiibIhiqqqhii")
_CHECKED: Final = Struct(">hiqqqhii")
_UNCHECKED: Final = Struct(">qiibI")
# Base offset, length, magic, attributes, last offset delta, record count.
_OF_ONE: Final = Struct(">qi4xb4xhi30xi")
_SMALLEST_RECORD: Final = 7

KeyValue = tuple[bytes | None, bytes | None]


class CorruptBatch(Exception):
    """Raised for bytes that are not a complete, well-formed record batch."""


@dataclass(slots=True)
class BatchHeader:
    """The fields of the 61 bytes before the records. `position` is the start of the batch in its
    buffer, `size` the length of the whole batch.
    """

    position: int
    base_offset: int
    size: int
    leader_epoch: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def end(self) -> int:
        return self.position + self.size

    @property
    def codec(self) -> int:
        return self.attributes & 0x07

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & 0x08)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & 0x10)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & 0x20)

    @property
    def delete_horizon_ms(self) -> int | None:
        """Time from which its tombstones and markers may be removed (epoch ms); None if not set."""
        return self.base_timestamp if self.attributes & 0x40 else None


class Record(NamedTuple):
    """A decoded record: offset in the log, epoch milliseconds, bytes. Value None is a tombstone."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


# Lengths and deltas below 1024, which are nearly all, are looked up: a call would cost more than
# the rest of the record.
_TABLE_SIZE: Final = 1024
_VARINTS: Final = [write_varint(number << 1) for number in range(_TABLE_SIZE)]
_NULL: Final = b"\x01"


def _varint(number: int) -> bytes:
    return _VARINTS[number] if number < _TABLE_SIZE else write_varint(number << 1)


def encode_batch(
    base_offset: int, leader_epoch: int, timestamp_ms: int, records: Sequence[KeyValue]
) -> bytes:
    """Encode a plain batch of one or more records with the same timestamp (epoch milliseconds)."""
    if not records:
        raise ValueError("a batch needs a record")
    out: list[bytes] = []
    delta = 0
    for key, value in records:
        if key is not None and value is not None:
            key_size = len(key)
            value_size = len(value)
            if delta + key_size + value_size < _TABLE_SIZE - 16:
                deltas = _VARINTS[delta]
                key_length = _VARINTS[key_size]
                value_length = _VARINTS[value_size]
                varints = len(deltas) + len(key_length) + len(value_length)
                size = _VARINTS[3 + varints + key_size + value_size]
                out += (size, b"\x00\x00", deltas, key_length, key, value_length, value, b"\x00")
                delta += 1
                continue
        out.append(_encode_record(delta, key, value))
        delta += 1
    times = timestamp_ms, timestamp_ms
    return finish_batch(base_offset, leader_epoch, times, delta, b"".join(out))


def finish_batch(
    base_offset: int, leader_epoch: int, times: tuple[int, int], count: int, body: bytes
) -> bytes:
    """Make a plain batch of encoded records; `times` are the base timestamp and the largest one."""
    checked = _CHECKED.pack(0, count - 1, *times, NO_PRODUCER, -1, -1, count)
    crc = crc32c(body, crc32c(checked))
    length = len(body) + HEADER_SIZE - LENGTH_OVERHEAD
    unchecked = _UNCHECKED.pack(base_offset, length, leader_epoch, MAGIC, crc)
    return b"".join((unchecked, checked, body))


def _encode_record(delta: int, key: bytes | None, value: bytes | None) -> bytes:
    """Encode a record with attributes 0, timestamp delta 0 and no headers."""
    key_part = _NULL if key is None else _varint(len(key)) + key
    value_part = _NULL if value is None else _varint(len(value)) + value
    body = b"\x00\x00" + _varint(delta) + key_part + value_part + b"\x00"
    return _varint(len(body)) + body


def patch(batch: bytes | memoryview, base_offset: int, leader_epoch: int) -> bytes:
    """Return the batch with another base offset and leader epoch; the checksum covers neither."""
    return b"".join(
        (
            base_offset.to_bytes(8, "big"),
            batch[8:12],
            leader_epoch.to_bytes(4, "big", signed=True),
            batch[16:],
        )
    )


def read_header(buffer: bytes | memoryview, pos: int = 0) -> BatchHeader:
    """Read the header at `pos`. Raises CorruptBatch if it is cut off, not magic 2, or implausible.
    Does not verify the checksum.
    """
    if pos < 0 or pos + HEADER_SIZE > len(buffer):
        raise CorruptBatch(f"a batch header at {pos} is cut off")
    base, length, epoch, magic, crc, attributes, delta, *rest = _HEADER.unpack_from(buffer, pos)
    size = length + LENGTH_OVERHEAD
    if magic != MAGIC:
        raise CorruptBatch(f"the batch at {pos} has magic {magic}, only 2 is read")
    if size < HEADER_SIZE or delta < 0 or base < 0 or rest[-1] < 0:
        raise CorruptBatch(f"the batch header at {pos} is implausible")
    return BatchHeader(pos, base, size, epoch, crc, attributes, delta, *rest)


def iter_batches(buffer: bytes) -> Iterator[BatchHeader]:
    """Yield the header of every batch. Raises CorruptBatch at the first that is not whole."""
    pos = 0
    while pos < len(buffer):
        header = read_header(buffer, pos)
        if header.end > len(buffer):
            raise CorruptBatch(f"the batch at {pos} is cut off")
        yield header
        pos = header.end


def check_crc(buffer: bytes | memoryview, header: BatchHeader) -> bool:
    """Whether the batch is whole and its checksum correct."""
    if header.end > len(buffer):
        return False
    with memoryview(buffer) as view:
        return crc32c(view[header.position + CRC_START : header.end]) == header.crc


def decode_records(buffer: bytes, header: BatchHeader) -> Iterator[Record]:
    """Decode the records of one batch, which may decompress to at most DECOMPRESSED_LIMIT bytes.

    Raises CorruptBatch, also in the middle, and nothing else: each record must end exactly at its
    length, and the batch after its last record. Does not verify the checksum: see `check_crc`.
    """
    data = records_data(buffer, header)
    try:
        yield from _records(data, header)
    except (IndexError, UnicodeDecodeError) as error:
        raise CorruptBatch(f"a record of the batch at {header.position} is cut off") from error


def records_data(buffer: bytes, header: BatchHeader, limit: int = DECOMPRESSED_LIMIT) -> bytes:
    """Return the bytes of the records of one batch, decompressed to at most `limit`. Raises
    CorruptBatch.

    The bytes have room for as many records as the header counts; nothing else is checked.
    """
    if header.end > len(buffer):
        raise CorruptBatch(f"the batch at {header.position} is cut off")
    data = bytes(buffer[header.position + HEADER_SIZE : header.end])
    if header.codec:
        try:
            data = decompress(header.codec, data, limit)
        except DecompressionError as error:
            raise CorruptBatch(f"the batch at {header.position}: {error}") from error
    if header.record_count * _SMALLEST_RECORD > len(data):
        raise CorruptBatch(f"the batch at {header.position} is too short for its record count")
    return data


def lone_record(buffer: bytes, pos: int) -> tuple[int, int, bytes, bytes | None] | None:
    """Return end, offset, key and value of a plain batch of one record with a key and no headers;
    None if the batch at `pos` is another one, or malformed.

    A short cut: most batches of an offsets log have one record, and take half as long as with
    `decode_records`.
    """
    if pos + HEADER_SIZE > len(buffer):
        return None
    base, length, magic, attributes, delta, count = _OF_ONE.unpack_from(buffer, pos)
    end = pos + length + LENGTH_OVERHEAD
    if magic != MAGIC or attributes or delta or count != 1 or base < 0 or end > len(buffer):
        return None
    try:
        size, at = read_signed(buffer, pos + HEADER_SIZE)
        record_end = at + size
        _, at = read_signed(buffer, at + 1)
        delta, at = read_signed(buffer, at)
        key, at = read_nullable(buffer, at)
        value, at = read_nullable(buffer, at)
        if buffer[at] or delta or key is None or not at + 1 == record_end == end:
            return None
    except (IndexError, CorruptBatch):
        return None
    return end, base, key, value


def _records(data: bytes, header: BatchHeader) -> Iterator[Record]:
    base, highest = header.base_offset, header.last_offset_delta
    base_timestamp = header.base_timestamp
    append_time = header.max_timestamp if header.is_log_append_time else None
    pos = 0
    for _ in range(header.record_count):
        raw = data[pos]
        pos += 1
        if raw > 0x7F:
            raw, pos = read_longer(data, pos, raw)
        if raw & 1:
            raise CorruptBatch("a record's length is negative")
        end = pos + (raw >> 1)
        delta, pos = read_signed(data, pos + 1)
        raw = data[pos]
        pos += 1
        if raw > 0x7F:
            raw, pos = read_longer(data, pos, raw)
        if raw & 1 or raw >> 1 > highest:
            raise CorruptBatch("a record's offset lies outside its batch")
        key, pos = read_nullable(data, pos)
        value, pos = read_nullable(data, pos)
        headers: tuple[tuple[str, bytes | None], ...] = ()
        if data[pos]:
            headers, pos = read_headers(data, pos)
        else:
            pos += 1
        if pos != end:
            raise CorruptBatch("a record does not end at its length")
        timestamp = base_timestamp + delta if append_time is None else append_time
        yield Record(base + (raw >> 1), timestamp, key, value, headers)
    if pos != len(data):
        raise CorruptBatch("bytes follow the last record")


def record_times(data: bytes | memoryview, header: BatchHeader) -> Iterator[tuple[int, int]]:
    """Yield offset in the log and epoch milliseconds of each record of one batch, without its key,
    value and headers. `data` are the decompressed bytes after the header. Raises CorruptBatch, also
    in the middle.
    """
    try:
        yield from _times(data, header)
    except IndexError as error:
        raise CorruptBatch(f"a record of the batch at {header.position} is cut off") from error


def _times(data: bytes | memoryview, header: BatchHeader) -> Iterator[tuple[int, int]]:
    base, highest = header.base_offset, header.last_offset_delta
    base_timestamp = header.base_timestamp
    append_time = header.max_timestamp if header.is_log_append_time else None
    pos = 0
    for _ in range(header.record_count):
        length, start = read_signed(data, pos)
        delta, pos = read_signed(data, start + 1)
        offset_delta, pos = read_signed(data, pos)
        if not 0 <= offset_delta <= highest:
            raise CorruptBatch("a record's offset lies outside its batch")
        if start + length < pos:
            raise CorruptBatch("a record does not end at its length")
        pos = start + length
        yield base + offset_delta, base_timestamp + delta if append_time is None else append_time
    if pos != len(data):
        raise CorruptBatch("bytes follow the last record")


def read_longer(data: bytes | memoryview, pos: int, number: int) -> tuple[int, int]:
    """Read the rest of an unsigned varint that begins with `number`; at most ten bytes in all."""
    number &= 0x7F
    for shift in range(7, 70, 7):
        byte = data[pos]
        pos += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, pos
    raise CorruptBatch("a varint is longer than ten bytes")


def read_signed(data: bytes | memoryview, pos: int) -> tuple[int, int]:
    raw = data[pos]
    pos += 1
    if raw > 0x7F:
        raw, pos = read_longer(data, pos, raw)
    return (raw >> 1) ^ -(raw & 1), pos


def read_nullable(data: bytes, pos: int) -> tuple[bytes | None, int]:
    raw = data[pos]
    pos += 1
    if raw > 0x7F:
        raw, pos = read_longer(data, pos, raw)
    if raw & 1:
        if raw != 1:
            raise CorruptBatch("a length is negative")
        return None, pos
    end = pos + (raw >> 1)
    return data[pos:end], end


def read_headers(data: bytes, pos: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, pos = read_signed(data, pos)
    if count < 0 or count * 2 > len(data) - pos:
        raise CorruptBatch("a header count is implausible")
    headers = []
    for _ in range(count):
        key, pos = read_nullable(data, pos)
        value, pos = read_nullable(data, pos)
        if key is None:
            raise CorruptBatch("a header key is null")
        # Clients may send any bytes; Kafka replaces what is not UTF-8, too.
        headers.append((str(key, "utf-8", "replace"), value))
    return tuple(headers), pos
