"""The reference parser: record by record, with the project's codec. Tests compare the fast parser
with it.

It also reads where numba is not installed, and windows that the fast parser passes to it. The rules
for damaged bytes are in docs/analytics.md.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final

import pyarrow as pa

from groupkeeper.analytics.columns import (
    GROUP_KEY_TYPE,
    OFFSET_KEY_TYPES,
    PROBLEM_TEXTS,
    SCHEMA,
    Problem,
    problem_rows,
)
from groupkeeper.analytics.plan import Split
from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.record_batch import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    BatchHeader,
    CorruptBatch,
    Record,
    check_crc,
    decode_records,
    read_header,
)
from groupkeeper.protocol.records.consumer_offsets import (
    OffsetCommitKey,
    UnknownKey,
    decode_key,
    decode_offset_value,
)

_ROWS: Final = 10_000
_SMALLEST_OLD: Final = 26
_MAGIC_AT: Final = 16
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")

Row = dict[str, object]


def read(
    buffer: bytes, split: Split, start: int = 0, end: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Rows of `buffer[start:end]`; `buffer` holds those of `split`. Damage raises nothing."""
    rows: list[Row] = []
    problems: list[tuple[int, int, int]] = []
    position, limit = start, len(buffer) if end is None else end
    while position < limit:
        problem, size = _trouble(buffer, position, limit)
        if not problem:
            header = read_header(buffer, position)
            try:
                rows += [_row(record, header, split) for record in decode_records(buffer, header)]
            except CorruptBatch:
                problem = Problem.BAD_RECORDS
        if problem:
            problems.append((position, problem, size))
        position += size
        if len(rows) >= _ROWS:
            yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
            rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    if problems:
        yield problem_rows(split, problems)


def _trouble(buffer: bytes, position: int, limit: int) -> tuple[Problem, int]:
    """The Problem of the batch at `position`, and its size in bytes: all that remain if it is
    unknown.
    """
    left = limit - position
    if left < LENGTH_OVERHEAD:
        return Problem.TORN, left
    size = _INT32.unpack_from(buffer, position + 8)[0] + LENGTH_OVERHEAD
    if size < _SMALLEST_OLD:
        # Zeros up to the end are preallocated space.
        return (Problem.BAD_HEADER if any(buffer[position:limit]) else Problem.TORN), left
    if size > left:
        return Problem.TORN, left
    if buffer[position + _MAGIC_AT] < MAGIC:
        return Problem.OLD_MAGIC, size
    if size < HEADER_SIZE:
        return Problem.BAD_HEADER, left
    try:
        header = read_header(buffer, position)
    except CorruptBatch:
        return Problem.BAD_HEADER, left
    return (Problem.NONE if check_crc(buffer, header) else Problem.BAD_CHECKSUM), size


def _row(record: Record, header: BatchHeader, split: Split) -> Row:
    row: Row = {
        "partition": split.partition,
        "batch_position": split.start + header.position,
        "offset": _int64(record.offset),
        "timestamp_ms": _int64(record.timestamp_ms),
        "leader_epoch": header.leader_epoch,
        "producer_id": header.producer_id,
        "attributes": header.attributes,
        "tombstone": record.value is None,
        "key": record.key,
        "value": record.value,
    }
    if not header.is_control:
        _read_key(row, record.key)
    return row


def _int64(number: int) -> int:
    """The number wrapped to 64 bits, as Java does: an absurd timestamp must not stop the parser."""
    return (number + 2**63) % 2**64 - 2**63


def _read_key(row: Row, key: bytes | None) -> None:
    if key is None or len(key) < _INT16.size:
        row["problem"] = PROBLEM_TEXTS[Problem.BAD_KEY]
        return
    row["key_type"] = kind = _INT16.unpack_from(key)[0]
    if kind not in (*OFFSET_KEY_TYPES, GROUP_KEY_TYPE):
        row["group"] = _group_of_other_key(key) if kind >= 0 else None
        return
    try:
        decoded = decode_key(key)
    except DecodeError:
        row["problem"] = PROBLEM_TEXTS[Problem.BAD_KEY]
        return
    assert not isinstance(decoded, UnknownKey), "types 0 to 2 are known"
    row["key"] = None
    row["group"] = decoded.group
    if isinstance(decoded, OffsetCommitKey):
        row["topic"], row["topic_partition"] = decoded.topic, decoded.partition
        _read_offset_value(row)


def _group_of_other_key(key: bytes) -> str | None:
    """Keys of types 3 to 24 begin with the group id; None if the key does not fit that."""
    if len(key) < 4:
        return None
    length = _INT16.unpack_from(key, 2)[0]
    if not 0 <= length <= len(key) - 4:
        return None
    return key[4 : 4 + length].decode(errors="replace")


def _read_offset_value(row: Row) -> None:
    data = row["value"]
    if not isinstance(data, bytes):
        return
    try:
        value = decode_offset_value(data)
    except DecodeError:
        row["problem"] = PROBLEM_TEXTS[Problem.BAD_VALUE]
        return
    row["value"] = None
    row["committed_offset"] = value.offset
    row["commit_leader_epoch"] = value.leader_epoch
    row["commit_timestamp_ms"] = value.commit_timestamp
    row["metadata"] = value.metadata
