"""The reference parser: batch by batch, with the project's codec. Tests compare the compiled parser
with it.

The rules for damaged bytes are in docs/analytics.md.
"""

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from groupkeeper.analytics.reading import parser
from groupkeeper.analytics.reading.columns import SCHEMA
from groupkeeper.analytics.reading.plan import Split
from groupkeeper.analytics.reading.problems import Problem
from groupkeeper.analytics.reading.walk import SMALLEST_OLD
from groupkeeper.protocol.record_batch import (
    CRC_START,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    BatchHeader,
    CorruptBatch,
    check_crc,
    read_header,
    read_signed,
)
from tests.analytics.plain import Line, read_lines

_OFFSET_SIZE: Final = 8
SCAN_LIMIT: Final = 1024**3
"""As kernels.SCAN_LIMIT."""
_MAGIC_AT: Final = 16
_INT32: Final = Struct(">i")


def parse(
    buffer: bytes, split: Split, engine: str = "numba", names: Sequence[str] = SCHEMA.names
) -> Iterator[pa.RecordBatch]:
    """As `reading.parse`, by the parser `numba` or `reference`."""
    return (read if engine == "reference" else parser.parse)(buffer, split, names)


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
    parser.settle(problems, bases, spans, epochs, split)
    settled = [
        Line(line.position, problem, line.size, epoch)
        for line, problem, epoch in zip(lines, problems.tolist(), epochs.tolist(), strict=True)
    ]
    for batch in read_lines(buffer, split, settled):
        yield batch.select(names)


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
