"""Compiled kernels over raw log bytes: records, and the keys and values of offset commits.

They locate and check fields; strings stay in the buffer as start and length (start -1: null).
Values of group records are few and are decoded in plain Python (`reading.groups`). Source: Kafka's
DefaultRecord, OffsetCommitKey.json, OffsetCommitValue.json.
"""

from typing import Final

import numpy as np

from groupkeeper.analytics.reading import kernels
from groupkeeper.analytics.reading.compiled import (
    BYTES,
    INT,
    TABLE,
    ByteArray,
    Int64Array,
    inline,
    kernel,
)
from groupkeeper.analytics.reading.kernels import (
    byte_at,
    int16_at,
    int32_at,
    int64_at,
    unsigned_varint_at,
    varint_at,
)

# Rows of the record table, one array per field. Strings take two: start and length.
BATCH: Final = 0
OFFSET: Final = 1
TIMESTAMP: Final = 2
KEY_TYPE: Final = 3
GROUP: Final = 4
TOPIC: Final = 6
TOPIC_PARTITION: Final = 8
COMMITTED: Final = 9
COMMIT_EPOCH: Final = 10
COMMIT_TIMESTAMP: Final = 11
METADATA: Final = 12
TOMBSTONE: Final = 14
KEY: Final = 15
VALUE: Final = 17
PROBLEM: Final = 19
RECORD_FIELDS: Final = 20

NO_TYPE: Final = -32769
_BAD_RECORDS: Final = 6
_BAD_KEY: Final = 8
_BAD_VALUE: Final = 9
_CONTROL: Final = 0x20
_APPEND_TIME: Final = 0x08


@inline
def _set(row: Int64Array, column: int, start: int, length: int) -> None:
    row[column] = start
    row[column + 1] = length


@inline
def _blob_at(buffer: ByteArray, pos: int, end: int) -> tuple[int, int, int]:
    """Start, length and end of bytes with a varint length; start -1: null, end -1: do not fit."""
    length, pos = varint_at(buffer, pos, end)
    if pos < 0 or length < -1 or length > end - pos:
        return -1, 0, -1
    if length == -1:
        return -1, 0, pos
    return pos, length, pos + length


@inline
def _is_utf8(buffer: ByteArray, pos: int, length: int) -> bool:
    """Validate UTF-8 like Python: no overlong forms, no surrogates, nothing above U+10FFFF."""
    end = pos + length
    while pos < end:
        first = byte_at(buffer, pos)
        pos += 1
        if first < 0x80:
            continue
        low, high = 0x80, 0xBF
        if 0xC2 <= first <= 0xDF:
            more = 1
        elif 0xE0 <= first <= 0xEF:
            more = 2
            low = 0xA0 if first == 0xE0 else low
            high = 0x9F if first == 0xED else high
        elif 0xF0 <= first <= 0xF4:
            more = 3
            low = 0x90 if first == 0xF0 else low
            high = 0x8F if first == 0xF4 else high
        else:
            return False
        for _ in range(more):
            if pos == end or not low <= buffer[pos] <= high:
                return False
            pos += 1
            low, high = 0x80, 0xBF
    return True


@inline
def _string_at(buffer: ByteArray, pos: int, end: int) -> tuple[int, int, int]:
    """Like `_blob_at`, for a string with an int16 length. Null and invalid UTF-8 count as not
    fitting: no string of an offset commit may be null.
    """
    if end - pos < 2:
        return -1, 0, -1
    length = int16_at(buffer, pos)
    pos += 2
    if length < 0 or length > end - pos or not _is_utf8(buffer, pos, length):
        return -1, 0, -1
    return pos, length, pos + length


@inline
def _after_headers(buffer: ByteArray, pos: int, end: int) -> int:
    """The position after a record's headers; -1 if they do not fit. Coordinators write none."""
    count, pos = varint_at(buffer, pos, end)
    if pos < 0 or count < 0:
        return -1
    for _ in range(count):
        start, _length, pos = _blob_at(buffer, pos, end)
        if pos < 0 or start < 0:
            return -1
        _start, _length, pos = _blob_at(buffer, pos, end)
        if pos < 0:
            return -1
    return pos


@inline
def _record_at(buffer: ByteArray, pos: int, batch: Int64Array, row: Int64Array) -> int:
    """Read one record's frame into `row`. Returns the position after it; -1 if it does not fit."""
    limit = batch[kernels.RECORDS_END]
    length, pos = varint_at(buffer, pos, limit)
    if pos < 0 or length < 1 or length > limit - pos:
        return -1
    end = pos + length
    timestamp_delta, pos = varint_at(buffer, pos + 1, end)
    if pos < 0:
        return -1
    offset_delta, pos = varint_at(buffer, pos, end)
    if pos < 0 or offset_delta < 0 or offset_delta > batch[kernels.LAST_DELTA]:
        return -1
    start, size, pos = _blob_at(buffer, pos, end)
    _set(row, KEY, start, size)
    if pos < 0:
        return -1
    start, size, pos = _blob_at(buffer, pos, end)
    _set(row, VALUE, start, size)
    if pos < 0:
        return -1
    if _after_headers(buffer, pos, end) != end:
        return -1
    row[OFFSET] = batch[kernels.BASE_OFFSET] + offset_delta
    row[TIMESTAMP] = batch[kernels.BASE_TIMESTAMP] + timestamp_delta
    if batch[kernels.ATTRIBUTES] & _APPEND_TIME:
        row[TIMESTAMP] = batch[kernels.MAX_TIMESTAMP]
    return end


@inline
def _read_offset_key(buffer: ByteArray, pos: int, end: int, row: Int64Array) -> bool:
    start, size, pos = _string_at(buffer, pos, end)
    if pos < 0:
        return False
    topic, topic_size, pos = _string_at(buffer, pos, end)
    if pos < 0 or end - pos != 4:
        return False
    _set(row, GROUP, start, size)
    _set(row, TOPIC, topic, topic_size)
    row[TOPIC_PARTITION] = int32_at(buffer, pos)
    return True


@inline
def _read_key(buffer: ByteArray, row: Int64Array) -> bool:
    """Read type, group, topic and partition. Keys of types up to 24 begin with the group; of later
    types only the type is read.
    """
    pos = row[KEY]
    end = pos + row[KEY + 1]
    if pos < 0 or end - pos < 2:
        return False
    kind = int16_at(buffer, pos)
    row[KEY_TYPE] = kind
    if 0 <= kind <= 1:
        return _read_offset_key(buffer, pos + 2, end, row)
    start, size, pos = _string_at(buffer, pos + 2, end)
    if kind == 2 and pos != end:
        return False
    if pos >= 0 and kind >= 0:
        _set(row, GROUP, start, size)
    return True


@inline
def _read_plain_value(buffer: ByteArray, pos: int, end: int, version: int, row: Int64Array) -> bool:
    """OffsetCommitValue 0-3: offset, leader epoch (3), metadata, commit time, expiry time (1)."""
    epoch_size = 4 if version == 3 else 0
    if end - pos < 8 + epoch_size:
        return False
    epoch = int32_at(buffer, pos + 8) if version == 3 else -1
    start, size, after = _string_at(buffer, pos + 8 + epoch_size, end)
    if after < 0 or end - after != (16 if version == 1 else 8):
        return False
    row[COMMITTED] = int64_at(buffer, pos)
    row[COMMIT_EPOCH] = epoch
    row[COMMIT_TIMESTAMP] = int64_at(buffer, after)
    _set(row, METADATA, start, size)
    return True


@inline
def _read_flexible_value(buffer: ByteArray, pos: int, end: int, row: Int64Array) -> bool:
    """OffsetCommitValue from 4 on (KIP-915), with a compact string; tagged fields are ignored."""
    if end - pos < 12:
        return False
    length, start = _unsigned_at(buffer, pos + 12, end)
    length -= 1
    if start < 0 or length < 0 or length > end - start - 8 or not _is_utf8(buffer, start, length):
        return False
    row[COMMITTED] = int64_at(buffer, pos)
    row[COMMIT_EPOCH] = int32_at(buffer, pos + 8)
    row[COMMIT_TIMESTAMP] = int64_at(buffer, start + length)
    _set(row, METADATA, start, length)
    return _tags_fit(buffer, start + length + 8, end)


@inline
def _unsigned_at(buffer: ByteArray, pos: int, end: int) -> tuple[int, int]:
    """Return an unsigned 32-bit varint of at most five bytes, as in flexible messages, and the
    position after it; position -1 if invalid.
    """
    value, after = unsigned_varint_at(buffer, pos, min(end, pos + 5))
    return value, -1 if value > 0xFFFFFFFF else after


@inline
def _tags_fit(buffer: ByteArray, pos: int, end: int) -> bool:
    """Return whether tags rise (KIP-482), tag 0 (topic id) has 16 bytes, and nothing follows."""
    count, pos = _unsigned_at(buffer, pos, end)
    last = -1
    while pos >= 0 and count > 0:
        tag, pos = _unsigned_at(buffer, pos, end)
        if pos < 0 or tag <= last:
            return False
        size, pos = _unsigned_at(buffer, pos, end)
        if pos < 0 or size > end - pos or (tag == 0 and size != 16):
            return False
        pos += size
        last = tag
        count -= 1
    return pos == end


@inline
def _read_value(buffer: ByteArray, row: Int64Array) -> bool:
    pos = row[VALUE]
    end = pos + row[VALUE + 1]
    if end - pos < 2:
        return False
    version = int16_at(buffer, pos)
    if version < 0:
        return False
    if version < 4:
        return _read_plain_value(buffer, pos + 2, end, version, row)
    return _read_flexible_value(buffer, pos + 2, end, row)


@inline
def _interpret(buffer: ByteArray, row: Int64Array) -> None:
    """Decode key and value. Clears KEY once decoded, and VALUE of a decoded commit."""
    if not _read_key(buffer, row):
        row[PROBLEM] = _BAD_KEY
        return
    kind = row[KEY_TYPE]
    if kind < 0 or kind > 2:
        return
    _set(row, KEY, -1, 0)
    if kind == 2 or row[TOMBSTONE]:
        return
    if _read_value(buffer, row):
        _set(row, VALUE, -1, 0)
    else:
        row[PROBLEM] = _BAD_VALUE
        _set(row, METADATA, -1, 0)


@inline
def _interpret_event(buffer: ByteArray, row: Int64Array) -> None:
    """Decode the key of a group event, its group; empty for events of the partition itself."""
    if row[KEY] < 0 or not _is_utf8(buffer, row[KEY], row[KEY + 1]):
        row[PROBLEM] = _BAD_KEY
    elif row[KEY + 1]:
        _set(row, GROUP, row[KEY], row[KEY + 1])


@inline
def _clear(row: Int64Array, batch: int) -> None:
    row[:] = 0
    row[BATCH] = batch
    row[KEY_TYPE] = NO_TYPE
    row[GROUP] = row[TOPIC] = row[METADATA] = row[KEY] = row[VALUE] = -1


@kernel(INT(BYTES, TABLE, TABLE, INT))
def read_records(buffer: ByteArray, batches: Int64Array, rows: Int64Array, are_events: int) -> int:
    """Fill the record table from uncompressed batches. Returns the number of rows.

    A batch yields all of its records or none: if a record does not fit its frame, or bytes are left
    over, the batch is marked as a problem. `rows` has room for the sum of COUNT. Values of group
    events are not decoded.
    """
    at = 0
    for number in range(len(batches)):
        batch = batches[number]
        first = at
        pos = batch[kernels.RECORDS]
        for _ in range(batch[kernels.COUNT]):
            row = rows[:, at]
            _clear(row, number)
            pos = _record_at(buffer, pos, batch, row)
            if pos < 0:
                break
            row[TOMBSTONE] = 1 if row[VALUE] < 0 else 0
            if are_events:
                _interpret_event(buffer, row)
            elif not batch[kernels.ATTRIBUTES] & _CONTROL:
                _interpret(buffer, row)
            at += 1
        if batch[kernels.PROBLEM] == 0 and pos != batch[kernels.RECORDS_END]:
            batch[kernels.PROBLEM] = _BAD_RECORDS
            at = first
    return at


@kernel(INT(BYTES, TABLE, INT))
def interpret(buffer: ByteArray, rows: Int64Array, are_events: int) -> int:
    """Decode keys and values of a record table from `cleared` in which KEY, VALUE and TOMBSTONE are
    set. Returns the number of rows.
    """
    count: int = rows.shape[1]
    for at in range(count):
        row = rows[:, at]
        if are_events:
            _interpret_event(buffer, row)
        else:
            _interpret(buffer, row)
    return count


def cleared(count: int) -> Int64Array:
    """Return an empty record table."""
    rows = np.zeros((RECORD_FIELDS, count), np.int64)
    rows[KEY_TYPE] = NO_TYPE
    rows[[GROUP, TOPIC, METADATA, KEY, VALUE]] = -1
    return rows
