"""Scans over the batches of a file: where the valid ones end, and whether valid ones follow.

Validity here means what can be checked without decoding records: magic, plausible length, ascending
offsets, checksum.
"""

import re
from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from groupkeeper.protocol.record_batch import CRC_START, HEADER_SIZE, LENGTH_OVERHEAD, MAGIC
from groupkeeper.storage.log.window import Window

# Base offset, length, leader epoch, magic, checksum, last offset delta, largest timestamp.
FIELDS: Final = Struct(">qiibI2xi8xq")
_SEARCH_OVERLAP: Final = 32


class Batch(NamedTuple):
    """A batch in a file: position and size in bytes, offsets, epoch and largest timestamp (ms)."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    epoch: int
    max_timestamp: int


def locate_batches(data: bytes, next_offset: int) -> list[Batch]:
    """Describe the finished batches in some data, back to back. Their records are not checked.

    Raises ValueError if the batches do not continue a log whose next offset is `next_offset`.
    """
    batches = []
    position = 0
    while position < len(data):
        if position + HEADER_SIZE > len(data):
            raise ValueError("a batch is cut off")
        base, length, epoch, _, _, delta, timestamp = FIELDS.unpack_from(data, position)
        size = length + LENGTH_OVERHEAD
        if base != next_offset or size < HEADER_SIZE or position + size > len(data):
            raise ValueError(f"a batch of offset {base} does not continue a log at {next_offset}")
        batches.append(Batch(position, size, base, base + delta, epoch, timestamp))
        next_offset = base + delta + 1
        position += size
    if not batches:
        raise ValueError("nothing to append")
    return batches


def valid_batches(window: Window, position: int, next_offset: int) -> Iterator[Batch]:
    """Yield the valid batches from a position up to the first that is invalid or cut off.

    A base offset below `next_offset` is invalid. Do not move the window during the iteration.
    """
    at = window.find(position, HEADER_SIZE)
    while at >= 0:
        base, length, epoch, magic, crc, delta, timestamp = FIELDS.unpack_from(window.view, at)
        size = length + LENGTH_OVERHEAD
        if magic != MAGIC or size < HEADER_SIZE or base < next_offset or delta < 0:
            return
        if at + size > len(window.view):
            at = window.find(position, size)
            if at < 0:
                return
        if crc32c(window.view[at + CRC_START : at + size]) != crc:
            return
        yield Batch(position, size, base, base + delta, epoch, timestamp)
        next_offset = base + delta + 1
        position += size
        at += size
        if at + HEADER_SIZE > len(window.view):
            at = window.find(position, HEADER_SIZE)


def batches_after(window: Window, position: int, next_offset: int) -> tuple[int, int]:
    """Return the number of valid batches at or after damage, and the offset after the last one.

    The damage is at `position`, where a batch of `next_offset` is expected. At that position any
    offset is accepted: no checksum covers the base offset of the previous batch, which may be the
    damaged one. After it, later offsets are searched byte by byte, because no length in damaged
    bytes can be trusted.
    """
    count = 0
    end = next_offset
    lowest = 0
    while position < window.size:
        for batch in valid_batches(window, position, lowest):
            count += 1
            end = batch.last_offset + 1
            position = batch.position + batch.size
        lowest = next_offset
        position = next_candidate(window, position, lowest)
    return count, end


def next_candidate(window: Window, position: int, lowest: int) -> int:
    """Return the next position of a valid batch with a base offset of about `lowest` or more.

    The end of the file if there is none. Candidates match: the high half of the base offset, or one
    more; any bytes; magic, any checksum, and attributes whose first byte is 0.
    """
    high = lowest >> 32
    halves = b"|".join(re.escape((high + more).to_bytes(4, "big")) for more in (0, 1))
    pattern = re.compile(rb"(?=(?:" + halves + rb")[\s\S]{12}\x02[\s\S]{4}\x00)")
    while position < window.size:
        at = window.find(position, min(HEADER_SIZE, window.size - position))
        for match in pattern.finditer(window.buffer, at):
            candidate = position + match.start() - at
            if next(valid_batches(window.again(), candidate, lowest), None):
                return candidate
        position += max(1, len(window.buffer) - at - _SEARCH_OVERLAP)
    return window.size
