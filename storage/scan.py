"""
Walking over the batches of a file: how far are they valid, and does anything valid follow the
first that is not.

Checks what can be checked without decoding: magic, plausible length, rising offsets, checksum.
Decides nothing.
"""

import re
from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from groupkeeper.protocol.record_batch import CRC_START, HEADER_SIZE, LENGTH_OVERHEAD, MAGIC
from groupkeeper.storage.window import Window

# Base offset, length, leader epoch, magic, checksum, last offset delta, largest timestamp.
FIELDS: Final = Struct(">qiibI2xi8xq")
_SEARCH_OVERLAP: Final = 32


class Batch(NamedTuple):
    """What a log needs to know of a batch: where it lies and what it holds."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    epoch: int
    max_timestamp: int


def place(batches: bytes, next_offset: int) -> list[Batch]:
    """
    Finished batches, back to back, as they follow a log that ends at `next_offset`: unchecked but
    for that. Raises ValueError if they do not.
    """
    placed = []
    position = 0
    while position < len(batches):
        if position + HEADER_SIZE > len(batches):
            raise ValueError("a batch is cut off")
        base, length, epoch, _, _, delta, timestamp = FIELDS.unpack_from(batches, position)
        size = length + LENGTH_OVERHEAD
        if base != next_offset or size < HEADER_SIZE or position + size > len(batches):
            raise ValueError(f"a batch of offset {base} does not continue a log at {next_offset}")
        placed.append(Batch(position, size, base, base + delta, epoch, timestamp))
        next_offset = base + delta + 1
        position += size
    if not placed:
        raise ValueError("nothing to append")
    return placed


def valid_batches(window: Window, position: int, next_offset: int) -> Iterator[Batch]:
    """
    The sound batches from a position on, up to the first that is not, cut off, or below
    `next_offset`. The window is in use meanwhile.
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
    """
    How many sound batches lie at or behind bytes that do not continue a file at `next_offset`, and
    the offset after the last of them.

    At the very place any offset counts: no checksum covers the base offset of the batch before it,
    and that may be what is wrong. Behind it, later offsets are searched for byte by byte, as no
    length in bad bytes can be trusted.
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
    """
    The next position that looks like a batch header with a base offset of about `lowest`; the
    file's end if none.
    """
    # High half of the base offset (it, or one more), six bytes that may be anything, magic,
    # checksum, attributes.
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
