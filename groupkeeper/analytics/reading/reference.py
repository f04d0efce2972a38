"""The reference parser: record by record, with the project's codec. Tests compare the fast parser
with it.

It also reads where numba is not installed, and windows that the fast parser passes to it. The rules
for damaged bytes are in docs/analytics.md.
"""

from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from groupkeeper.analytics.reading.columns import (
    GROUP_KEY_TYPE,
    OFFSET_KEY_TYPES,
    SCHEMA,
    Lost,
    problem_rows,
)
from groupkeeper.analytics.reading.plan import Split
from groupkeeper.analytics.reading.problems import PROBLEM_TEXTS, Problem
from groupkeeper.analytics.reading.segments import EVENTS
from groupkeeper.analytics.reading.settle import NO_EPOCH, settle
from groupkeeper.analytics.reading.walk import SMALLEST_OLD
from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.record_batch import (
    CRC_START,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    BatchHeader,
    CorruptBatch,
    Record,
    check_crc,
    decode_records,
    read_header,
    read_signed,
)
from groupkeeper.protocol.records.consumer_offsets import (
    OffsetCommitKey,
    UnknownKey,
    decode_key,
    decode_offset_value,
)

_ROWS: Final = 10_000
_OFFSET_SIZE: Final = 8
SCAN_LIMIT: Final = 1024**3
"""As kernels.SCAN_LIMIT."""
_MAGIC_AT: Final = 16
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")

Row = dict[str, object]


class Line(NamedTuple):
    """A batch, or bytes that are none, at `position` of a split. `epoch` is NO_EPOCH if the leader
    epoch is not to be believed.
    """

    position: int
    problem: int
    size: int
    epoch: int


def read(
    buffer: bytes, split: Split, names: Sequence[str] = SCHEMA.names
) -> Iterator[pa.RecordBatch]:
    """Rows of `buffer`, the bytes of `split`, with the columns `names`. Damage raises nothing."""
    lines = list(_walk(buffer, split))
    headers = [None if line.problem else read_header(buffer, line.position) for line in lines]
    found = np.array(
        [
            (line.problem, each.base_offset, each.last_offset_delta + 1, each.leader_epoch)
            if each
            else (line.problem, 0, 0, 0)
            for line, each in zip(lines, headers, strict=True)
        ],
        np.int64,
    ).reshape(-1, 4)
    problems, bases, spans, epochs = found.T
    settle(problems, bases, spans, epochs, split)
    settled = [
        Line(line.position, problem, line.size, epoch)
        for line, problem, epoch in zip(lines, problems.tolist(), epochs.tolist(), strict=True)
    ]
    for batch in read_lines(buffer, split, settled):
        yield batch.select(names)


def read_lines(buffer: bytes, split: Split, lines: Iterable[Line]) -> Iterator[pa.RecordBatch]:
    """Wanted rows of the batches at `lines`, then those about damage."""
    for batch in _read_lines(buffer, split, lines):
        wanted = batch.filter(split.selection.mask(batch)) if split.selection.columns else batch
        if wanted.num_rows:
            yield wanted


def _read_lines(buffer: bytes, split: Split, lines: Iterable[Line]) -> Iterator[pa.RecordBatch]:
    rows: list[Row] = []
    looked_at: list[Line] = []
    for each in lines:
        line = each
        if not line.problem:
            header = read_header(buffer, line.position)
            try:
                records = list(decode_records(buffer, header))
            except CorruptBatch:
                line = line._replace(problem=Problem.BAD_RECORDS)
            else:
                rows += [_row(record, header, line, split) for record in records]
        looked_at.append(line)
        if len(rows) >= _ROWS:
            yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
            rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    problems = list(lost(looked_at))
    if problems:
        yield problem_rows(split, problems)


def lost(lines: Iterable[Line]) -> Iterator[Lost]:
    """What `problem_rows` takes."""
    for line in lines:
        if line.problem and line.problem != Problem.OTHER_TASK:
            yield line.position, line.problem, line.size
        elif not line.problem and line.epoch == NO_EPOCH:
            yield line.position, Problem.BAD_EPOCH, 0


def _walk(buffer: bytes, split: Split) -> Iterator[Line]:
    """All bytes of the split, batch by batch. See kernels.walk."""
    position, end, sound = 0, len(buffer), 0
    while position < end:
        problem, size = _trouble(buffer, position, end)
        if problem:
            if sound <= position:
                sound = _next_sound(buffer, position + 1, end)
            framed = problem in (Problem.BAD_CHECKSUM, Problem.OLD_MAGIC)
            # The length of a damaged batch is believed only if it leads over no sound one.
            if not framed or position + size > sound:
                size = sound - position
                torn = problem == Problem.TORN and sound == end
                if not torn or not _is_unfinished(buffer[position:], split):
                    problem = Problem.BAD_HEADER
        yield Line(position, problem, size, 0)
        position += size


def _next_sound(buffer: bytes, position: int, end: int) -> int:
    """Where the next whole batch with a good checksum starts. See kernels.next_sound."""
    checked = 0
    at = buffer.find(MAGIC, position + _MAGIC_AT)
    while at >= 0:
        position = at - _MAGIC_AT
        if position + HEADER_SIZE > end:
            break
        size = _INT32.unpack_from(buffer, position + 8)[0] + LENGTH_OVERHEAD
        if HEADER_SIZE <= size <= end - position:
            checked += size
            if checked > SCAN_LIMIT:
                break
            if not _trouble(buffer, position, end)[0]:
                return position
        at = buffer.find(MAGIC, at + 1)
    return end


def _is_unfinished(left: bytes, split: Split) -> bool:
    """Whether these bytes up to the end can be the beginning of a batch of the split, or are
    zeros.
    """
    if len(left) < _OFFSET_SIZE or not any(left):
        return True
    if not split.first <= int.from_bytes(left[:_OFFSET_SIZE], "big", signed=True) < split.until:
        return False
    if len(left) <= _MAGIC_AT or left[_MAGIC_AT] > MAGIC:
        return len(left) <= _MAGIC_AT
    if len(left) < HEADER_SIZE or left[_MAGIC_AT] < MAGIC:
        return True
    try:
        return not _is_complete(left, read_header(left))
    except CorruptBatch:
        return False


def _is_complete(left: bytes, header: BatchHeader) -> bool:
    """Whether all records of a batch are there although its length says that they are not."""
    if crc32c(left[CRC_START:]) == header.crc:
        return True
    if header.codec:
        return False
    at = HEADER_SIZE
    try:
        for _ in range(header.record_count):
            length, at = read_signed(left, at)
            if length < 1 or length > len(left) - at:
                return False
            at += length
    except (IndexError, CorruptBatch):
        return False
    return True


def _trouble(buffer: bytes, position: int, limit: int) -> tuple[Problem, int]:
    """The Problem of the batch at `position`, and its size in bytes: all that remain if it is
    unknown.
    """
    left = limit - position
    if left < LENGTH_OVERHEAD:
        return Problem.TORN, left
    size = _INT32.unpack_from(buffer, position + 8)[0] + LENGTH_OVERHEAD
    if size < SMALLEST_OLD:
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


def _row(record: Record, header: BatchHeader, line: Line, split: Split) -> Row:
    row: Row = {
        "partition": split.partition,
        "batch_position": split.start + header.position,
        "offset": _int64(record.offset),
        "timestamp_ms": _int64(record.timestamp_ms),
        "leader_epoch": None if line.epoch == NO_EPOCH else header.leader_epoch,
        "producer_id": header.producer_id,
        "attributes": header.attributes,
        "tombstone": record.value is None,
        "key": record.key,
        "value": record.value,
    }
    if split.topic == EVENTS:
        read_event_key(row, record.key)
    elif not header.is_control:
        read_key(row, record.key)
    return row


def _int64(number: int) -> int:
    """The number wrapped to 64 bits, as Java does: an absurd timestamp must not stop the parser."""
    return (number + 2**63) % 2**64 - 2**63


def read_key(row: Row, key: bytes | None) -> None:
    """Fill the columns that are in the key of an offsets log, and in the value of a commit."""
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


def read_event_key(row: Row, key: bytes | None) -> None:
    """The group in UTF-8; empty for events of the partition itself."""
    try:
        if key is None:
            raise ValueError
        row["group"] = key.decode() or None
    except ValueError:
        row["problem"] = PROBLEM_TEXTS[Problem.BAD_KEY]


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
