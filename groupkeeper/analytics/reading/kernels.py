"""Compiled kernels over raw log bytes: integers, checksums, batch headers, and copying strings out.

Every function takes the whole buffer (uint8) and positions in it. Compiled code has no bounds
checks, so each function checks its range before it reads. Source: Kafka's DefaultRecordBatch.
"""

from typing import Final

import numpy as np

from groupkeeper.analytics.reading.compiled import (
    BUFFER,
    BYTES,
    INT,
    INTS,
    INTS32,
    NOTHING,
    TABLE,
    ByteArray,
    Int32Array,
    Int64Array,
    inline,
    kernel,
)

# Columns of the batch table, and their number.
POSITION, PROBLEM, SIZE, BASE_OFFSET, LAST_DELTA, LEADER_EPOCH, ATTRIBUTES = range(7)
BASE_TIMESTAMP, MAX_TIMESTAMP, PRODUCER_ID, COUNT, RECORDS, RECORDS_END, BATCH_FIELDS = range(7, 14)

# Values of problems.Problem: kernels have only integers.
_TORN: Final = 2
_BAD_HEADER: Final = 3
_BAD_CHECKSUM: Final = 4
_OLD_MAGIC: Final = 5
_BAD_RECORDS: Final = 6

_HEADER: Final = 61
_SMALLEST_OLD: Final = 26
_SMALLEST_RECORD: Final = 7
SCAN_LIMIT: Final = 1024**3
"""Maximum number of bytes to checksum in search of the next batch: in damaged bytes, many positions
may look like the start of a long batch."""


def _crc_tables() -> Int64Array:
    """Return eight tables of CRC-32C (Castagnoli), which process eight bytes per step."""
    tables = np.zeros((8, 256), np.int64)
    for number in range(256):
        crc = number
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        tables[0, number] = crc
    for level in range(1, 8):
        before = tables[level - 1]
        tables[level] = before >> 8 ^ tables[0][before & 0xFF]
    return tables


_CRC: Final = _crc_tables().astype(np.uint32)


@inline
def byte_at(buffer: ByteArray, pos: int) -> int:
    """Return a byte. An index of uint64 needs no test for its sign: eight calls become one load."""
    return np.int64(buffer[np.uint64(pos)])  # type: ignore[return-value]  # numba's int64


@inline
def int16_at(buffer: ByteArray, pos: int) -> int:
    value = byte_at(buffer, pos) << 8 | byte_at(buffer, pos + 1)
    return value - ((value & 0x8000) << 1)


@inline
def int32_at(buffer: ByteArray, pos: int) -> int:
    value = np.int64(0)
    for i in range(4):
        value = value << 8 | byte_at(buffer, pos + i)
    return value - ((value & 0x80000000) << 1)  # type: ignore[return-value]  # numba's int64


@inline
def int64_at(buffer: ByteArray, pos: int) -> int:
    value = np.int64(0)
    for i in range(8):
        value = value << 8 | byte_at(buffer, pos + i)
    return value  # type: ignore[return-value]  # numba's int64


@inline
def unsigned_varint_at(buffer: ByteArray, pos: int, end: int) -> tuple[int, int]:
    """Return the number and the position after it; position -1 if the varint does not end before
    `end` or exceeds 64 bits.
    """
    value = np.int64(0)
    shift = np.int64(0)
    while pos < end and shift < 70:
        byte = byte_at(buffer, pos)
        pos += 1
        if shift == 63 and byte > 1:
            return 0, -1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos  # type: ignore[return-value]  # numba's int64
        shift += 7
    return 0, -1


@inline
def varint_at(buffer: ByteArray, pos: int, end: int) -> tuple[int, int]:
    """Return a zig-zag encoded number (0, -1, 1, -2, ...) as `unsigned_varint_at` does."""
    raw, pos = unsigned_varint_at(buffer, pos, end)
    # The mask clears copies of the sign bit, which the number of a ten-byte varint may use.
    return (raw >> 1 & 0x7FFFFFFFFFFFFFFF) ^ -(raw & 1), pos


@kernel(INT(BYTES, INT, INT))
def crc32c(buffer: ByteArray, start: int, end: int) -> int:
    """Return the CRC-32C of [start, end). Compiled, because one call from Python per small batch
    would cost more than the parsing.
    """
    crc = np.uint32(0xFFFFFFFF)
    low = np.uint32(0xFF)
    pos = start
    while pos + 8 <= end:
        first = crc ^ np.uint32(
            np.uint32(buffer[pos])
            | np.uint32(buffer[pos + 1]) << np.uint32(8)
            | np.uint32(buffer[pos + 2]) << np.uint32(16)
            | np.uint32(buffer[pos + 3]) << np.uint32(24)
        )
        crc = (
            _CRC[7, first & low]
            ^ _CRC[6, first >> np.uint32(8) & low]
            ^ _CRC[5, first >> np.uint32(16) & low]
            ^ _CRC[4, first >> np.uint32(24)]
            ^ _CRC[3, buffer[pos + 4]]
            ^ _CRC[2, buffer[pos + 5]]
            ^ _CRC[1, buffer[pos + 6]]
            ^ _CRC[0, buffer[pos + 7]]
        )
        pos += 8
    while pos < end:
        crc = _CRC[0, (crc ^ np.uint32(buffer[pos])) & low] ^ crc >> np.uint32(8)
        pos += 1
    return np.int64(crc ^ np.uint32(0xFFFFFFFF))  # type: ignore[return-value]  # numba's int64


@inline
def _only_zeros(buffer: ByteArray, pos: int, end: int) -> bool:
    while pos < end and buffer[pos] == 0:
        pos += 1
    return pos == end


@inline
def _trouble(buffer: ByteArray, pos: int, end: int) -> tuple[int, int]:
    """Return the Problem of the batch at `pos` (0: none) and its size in bytes."""
    left = end - pos
    if left < 12:
        return _TORN, left
    size = int32_at(buffer, pos + 8) + 12
    if size < _SMALLEST_OLD:
        # Zeros up to the end are preallocated space.
        return (_TORN if _only_zeros(buffer, pos, end) else _BAD_HEADER), left
    if size > left:
        return _TORN, left
    magic = buffer[pos + 16]
    if magic < 2:
        return _OLD_MAGIC, size
    if magic > 2 or size < _HEADER:
        return _BAD_HEADER, left
    if (
        int64_at(buffer, pos) < 0
        or int32_at(buffer, pos + 23) < 0
        or int32_at(buffer, pos + 57) < 0
    ):
        return _BAD_HEADER, left
    if crc32c(buffer, pos + 21, pos + size) != int32_at(buffer, pos + 17) & 0xFFFFFFFF:
        return _BAD_CHECKSUM, size
    return 0, size


@inline
def _read_header(buffer: ByteArray, pos: int, size: int, line: Int64Array) -> None:
    line[BASE_OFFSET] = int64_at(buffer, pos)
    line[LEADER_EPOCH] = int32_at(buffer, pos + 12)
    line[ATTRIBUTES] = int16_at(buffer, pos + 21)
    line[LAST_DELTA] = int32_at(buffer, pos + 23)
    line[BASE_TIMESTAMP] = int64_at(buffer, pos + 27)
    line[MAX_TIMESTAMP] = int64_at(buffer, pos + 35)
    line[PRODUCER_ID] = int64_at(buffer, pos + 43)
    line[COUNT] = int32_at(buffer, pos + 57)
    line[RECORDS] = pos + _HEADER
    line[RECORDS_END] = pos + size


@inline
def check_count(line: Int64Array) -> None:
    """Reject a record count that the bytes cannot hold, at seven bytes or more per record, before
    rows are allocated for it.
    """
    if line[COUNT] * _SMALLEST_RECORD > line[RECORDS_END] - line[RECORDS]:
        line[PROBLEM] = _BAD_RECORDS
        line[COUNT] = 0


@kernel(INT(BYTES, INT, INT))
def next_sound(buffer: ByteArray, pos: int, end: int) -> int:
    """Return the position of the next whole batch with a good checksum, from `pos` on; `end` if
    there is none within SCAN_LIMIT bytes of checksums.
    """
    checked = 0
    while pos + _HEADER <= end:
        if buffer[pos + 16] == 2:
            size = int32_at(buffer, pos + 8) + 12
            if _HEADER <= size <= end - pos:
                checked += size
                if checked > SCAN_LIMIT:
                    return end
                if _trouble(buffer, pos, end)[0] == 0:
                    return pos
        pos += 1
    return end


@inline
def _is_complete(buffer: ByteArray, pos: int, end: int) -> bool:
    """Return whether all records of a batch are present although its length exceeds the buffer."""
    if crc32c(buffer, pos + 21, end) == int32_at(buffer, pos + 17) & 0xFFFFFFFF:
        return True
    if int16_at(buffer, pos + 21) & 7:
        return False
    at = pos + _HEADER
    for _ in range(int32_at(buffer, pos + 57)):
        length, at = varint_at(buffer, at, end)
        if at < 0 or length < 1 or length > end - at:
            return False
        at += length
    return True


@inline
def _is_unfinished(buffer: ByteArray, pos: int, end: int, first: int, until: int) -> bool:
    """Return whether the bytes up to the end are zeros, or can be the start of a batch with an
    offset in [first, until).
    """
    left = end - pos
    if left < 8 or _only_zeros(buffer, pos, end):
        return True
    if not first <= int64_at(buffer, pos) < until:
        return False
    if left < 17:
        return True
    if buffer[pos + 16] > 2:
        return False
    if left < _HEADER or buffer[pos + 16] < 2:
        return True
    if int32_at(buffer, pos + 23) < 0 or int32_at(buffer, pos + 57) < 0:
        return False
    return not _is_complete(buffer, pos, end)


@kernel(INT(BYTES, INT, INT, INTS, TABLE))
def walk(buffer: ByteArray, first: int, until: int, state: Int64Array, batches: Int64Array) -> int:
    """Fill the batch table from headers until it is full or the buffer ends. Returns the row count.

    Offsets in the buffer are expected in [first, until). `state` holds the position to continue
    from, and the position of the next sound batch if known.
    Rows with a PROBLEM have COUNT 0. Bytes that are not a batch are one row, up to the next sound
    batch.
    """
    end = len(buffer)
    used = 0
    pos = state[0]
    while pos < end and used < len(batches):
        line = batches[used]
        line[:] = 0
        problem, size = _trouble(buffer, pos, end)
        if problem == 0:
            _read_header(buffer, pos, size, line)
            if line[ATTRIBUTES] & 7 == 0:
                check_count(line)
        else:
            if state[1] <= pos:
                state[1] = next_sound(buffer, pos + 1, end)
            framed = _BAD_CHECKSUM <= problem <= _OLD_MAGIC
            # The length of a damaged batch is trusted only if no sound batch begins within it.
            if not framed or pos + size > state[1]:
                size = state[1] - pos
                torn = problem == _TORN and state[1] == end
                if not torn or not _is_unfinished(buffer, pos, end, first, until):
                    problem = _BAD_HEADER
            line[PROBLEM] = problem
        line[POSITION] = pos
        line[SIZE] = size
        used += 1
        pos += size
    state[0] = pos
    return used


@kernel(INT(INTS, INTS, INTS32))
def string_offsets(starts: Int64Array, lengths: Int64Array, offsets: Int32Array) -> int:
    """Fill in Arrow's offsets for strings of these lengths (null: length 0). Returns their sum."""
    total = 0
    offsets[0] = 0
    for i in range(len(starts)):
        total += lengths[i]
        offsets[i + 1] = total
    return total


@kernel(NOTHING(BYTES, INTS, INTS, BUFFER))
def gather(buffer: ByteArray, starts: Int64Array, lengths: Int64Array, out: ByteArray) -> None:
    """Copy the strings into `out`, back to back."""
    at = 0
    for i in range(len(starts)):
        start = starts[i]
        for j in range(lengths[i]):
            out[at + j] = buffer[start + j]
        at += lengths[i]
