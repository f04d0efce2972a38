"""Reading the segments of a log: by offset for Fetch, in checked chunks for replay.

Functions of segments, without state: safe on any thread while another one appends.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from crc32c import crc32c

from groupkeeper.protocol.record_batch import LENGTH_OVERHEAD
from groupkeeper.storage.errors import Corrupt, remedy
from groupkeeper.storage.files import parent_of
from groupkeeper.storage.scan import FIELDS, Batch, valid_batches
from groupkeeper.storage.segment import Segment
from groupkeeper.storage.window import Window

CHUNK: Final = 1024 * 1024
"""About so many bytes are replayed at once."""

_WALK: Final = 8 * 1024
"""Bytes read at once to find a batch: the index points at most one interval before it."""


def read_batches(
    segments: Sequence[Segment], offset: int, max_bytes: int, *, at_least_one: bool
) -> bytes:
    """Whole batches of one segment from the one that holds an offset on, or from the next one.

    Raises Corrupt.
    """
    for segment in segments_from(segments, offset):
        window = segment.window(_WALK)
        position, size = _seek(window, segment, offset)
        if size > max_bytes and not at_least_one:
            break
        if size:
            limit = position + max(max_bytes, size)
            known = max(position + size, segment.index.floor_by_position(limit))
            data = segment.read(position, _end_of_batches(window, known, limit) - position)
            _check_order(segment, data, position, offset)
            return data
        _check_order(segment, b"", position, offset)
    return b""


def _check_order(segment: Segment, data: bytes, position: int, offset: int) -> None:
    """Raise Corrupt if the offsets of batches read at an offset are not consecutive.

    For finished segments with a known checksum: no checksum of a batch, which a client could
    verify, covers its base offset. In compacted segments they have to rise.
    """
    finished = segment.finished
    if finished is None or finished.crc is None:
        return
    if not segment.base_offset <= offset < finished.end:
        return
    at, following = 0, -1
    while at < len(data):
        base, length, _, _, _, delta, _ = FIELDS.unpack_from(data, at)
        if finished.compacted:
            right = base >= following and base + delta >= offset
        else:
            right = base == following if at else base <= offset <= base + delta
        if length <= 0 or not right:
            break
        following = base + delta + 1
        at += length + LENGTH_OVERHEAD
    if at < len(data) or not data or following > finished.end:
        raise Corrupt(
            f"{segment.path}: the header of the batch at byte {position + at}, or of the one "
            f"before it, is damaged: {remedy(parent_of(segment.path))}"
        )


def seek(segment: Segment, offset: int) -> tuple[int, int]:
    """Position and size of the batch that holds an offset, or of the next one; size 0: none."""
    return _seek(segment.window(_WALK), segment, offset)


def _seek(window: Window, segment: Segment, offset: int) -> tuple[int, int]:
    position = segment.index.floor(max(0, offset - segment.base_offset))
    while (at := window.find(position, FIELDS.size)) >= 0:
        base, length, _, _, _, delta, _ = FIELDS.unpack_from(window.view, at)
        if base + delta >= offset:
            return position, length + LENGTH_OVERHEAD
        position += length + LENGTH_OVERHEAD
    return position, 0


def bytes_from(segments: Sequence[Segment], offset: int) -> int:
    """About how many bytes follow an offset, by the index: reads no file."""
    found = segments_from(segments, offset)
    position = found[0].index.floor(max(0, offset - found[0].base_offset)) if found else 0
    return sum(segment.size for segment in found) - position


def _end_of_batches(window: Window, end: int, limit: int) -> int:
    """The end of the last whole batch before `limit`; a batch begins or ends at `end`."""
    if limit >= window.size:
        return window.size
    while (at := window.find(end, LENGTH_OVERHEAD)) >= 0:
        following = end + LENGTH_OVERHEAD + int.from_bytes(window.view[at + 8 : at + 12], "big")
        if following > limit:
            break
        end = following
    return end


def checked_chunks(segments: Sequence[Segment], from_offset: int) -> Iterator[bytes]:
    """Chunks of whole, checked batches from the one that holds an offset on. Raises Corrupt."""
    epoch = -1
    for segment in segments_from(segments, from_offset):
        position = start = segment.index.floor(max(0, from_offset - segment.base_offset))
        crc = 0
        for batch in valid_batches(segment.window(), position, segment.base_offset):
            check_epoch(segment.path, batch, epoch)
            epoch = batch.epoch
            position = batch.position + batch.size
            if batch.last_offset < from_offset:
                start = position
            elif position - start >= CHUNK:
                yield (data := segment.read(start, position - start))
                crc, start = crc32c(data, crc), position
        if position > start:
            yield (data := segment.read(start, position - start))
            crc = crc32c(data, crc)
        _check_whole(segment, position, crc if from_offset <= segment.base_offset else None)


def _check_whole(segment: Segment, end: int, crc: int | None) -> None:
    """Raise Corrupt if a segment has unsound bytes at `end`, or another checksum than known."""
    known = segment.finished.crc if segment.finished is not None else None
    if end < segment.size:
        what = f"the batch at byte {end} is damaged"
    elif None not in (crc, known) and crc != known:
        what = f"the header of a batch before byte {end} is damaged"
    else:
        return
    raise Corrupt(f"{segment.path}: {what}: {remedy(parent_of(segment.path))}")


def check_epoch(path: str, batch: Batch, epoch: int) -> None:
    """Raise Corrupt if the epoch of a batch is older than `epoch`, that of the batch before."""
    if batch.epoch < epoch:
        raise Corrupt(
            f"{path}: offset {batch.base_offset} was written in epoch {batch.epoch}, "
            f"after epoch {epoch}: {remedy(parent_of(path))}"
        )


def segments_from(segments: Sequence[Segment], offset: int) -> Sequence[Segment]:
    """The segment that holds an offset, and all after it."""
    number = len(segments) - 1
    while number > 0 and segments[number].base_offset > offset:
        number -= 1
    return segments[max(number, 0) :]
