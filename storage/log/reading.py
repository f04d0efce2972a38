"""Reads of log segments by offset, for Fetch; chunks.py reads them for replay.

Stateless functions of segments: safe on any thread while another one appends.
"""

from collections.abc import Sequence
from typing import Final

from groupkeeper.protocol.record_batch import LENGTH_OVERHEAD
from groupkeeper.storage.errors import Corrupt, remedy
from groupkeeper.storage.files.files import parent_of
from groupkeeper.storage.log.scan import FIELDS
from groupkeeper.storage.log.segment import MAX_RELATIVE_OFFSET, Segment, segments_from
from groupkeeper.storage.log.window import Window

_WALK: Final = 8 * 1024
"""Bytes per read when searching for a batch, which is at most one index interval away."""


def read_batches(
    segments: Sequence[Segment],
    offset: int,
    max_bytes: int,
    *,
    at_least_one: bool,
    cached: bool = False,
) -> bytes:
    """Return whole batches of one segment, from the one that holds an offset, or the next one, on.

    `cached`: from memory only. Raises Corrupt, and NotCached.
    """
    for segment in segments_from(segments, offset):
        window = segment.window(_WALK, cached=cached)
        position, size = _seek(window, segment, offset)
        if size > max_bytes and not at_least_one:
            break
        if size:
            limit = position + max(max_bytes, size)
            known = max(position + size, segment.index.floor_by_position(limit))
            data = window.read(position, _end_of_batches(window, known, limit) - position)
            _check_order(segment, data, position, offset)
            return data
        _check_order(segment, b"", position, offset)
    return b""


def _check_order(segment: Segment, data: bytes, position: int, offset: int) -> None:
    """Raise Corrupt if the offsets of batches read at an offset are not consecutive.

    For finished segments with a known checksum, and for parts left unread on opening: a batch's
    checksum, which a client could verify, does not cover its base offset. Where batches may be
    missing, offsets only have to ascend.
    """
    finished, unread = segment.finished, segment.unread
    if finished is not None and finished.crc is not None:
        end, last, may_lack = finished.end, finished.end, finished.compacted
    elif unread is not None:
        end, last, may_lack = unread.end, segment.base_offset + MAX_RELATIVE_OFFSET + 1, True
    else:
        return
    if not segment.base_offset <= offset < end:
        return
    at, following = 0, -1
    while at < len(data):
        base, length, _, _, _, delta, _ = FIELDS.unpack_from(data, at)
        if may_lack:
            right = base >= following and base + delta >= offset
        else:
            right = base == following if at else base <= offset <= base + delta
        if length <= 0 or not right:
            break
        following = base + delta + 1
        at += length + LENGTH_OVERHEAD
    missing = not data and not (finished is not None and finished.compacted)
    if at < len(data) or missing or following > last:
        raise Corrupt(
            f"{segment.path}: the header of the batch at byte {position + at}, or of the one "
            f"before it, is damaged: {remedy(parent_of(segment.path))}"
        )


def seek(segment: Segment, offset: int) -> tuple[int, int]:
    """Return position and size of the batch at an offset, or of the next one; size 0: none."""
    return _seek(segment.window(_WALK), segment, offset)


def _seek(window: Window, segment: Segment, offset: int) -> tuple[int, int]:
    position = segment.index.floor(max(0, offset - segment.base_offset))
    while (at := window.find(position, FIELDS.size)) >= 0:
        base, length, _, _, _, delta, _ = FIELDS.unpack_from(window.view, at)
        if base + delta >= offset:
            return position, length + LENGTH_OVERHEAD
        position += length + LENGTH_OVERHEAD
    return position, 0


def timestamp_at(segments: Sequence[Segment], offset: int) -> int | None:
    """Return the largest timestamp (Unix ms) of the batch that holds an offset, or of the next one.
    None if there is no such batch, or it has no timestamp.
    """
    for segment in segments_from(segments, offset):
        window = segment.window(_WALK)
        position, size = _seek(window, segment, offset)
        if size:
            at = window.find(position, FIELDS.size)
            timestamp: int = FIELDS.unpack_from(window.view, at)[-1]
            return timestamp if timestamp >= 0 else None
    return None


def bytes_from(segments: Sequence[Segment], offset: int) -> int:
    """Estimate how many bytes follow an offset, from the index; reads no file."""
    found = segments_from(segments, offset)
    position = found[0].index.floor(max(0, offset - found[0].base_offset)) if found else 0
    return sum(segment.size for segment in found) - position


def _end_of_batches(window: Window, end: int, limit: int) -> int:
    """Return the end of the last whole batch before `limit`; a batch begins or ends at `end`."""
    if limit >= window.size:
        return window.size
    while (at := window.find(end, LENGTH_OVERHEAD)) >= 0:
        following = end + LENGTH_OVERHEAD + int.from_bytes(window.view[at + 8 : at + 12], "big")
        if following > limit:
            break
        end = following
    return end
