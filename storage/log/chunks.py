"""Chunks of whole, verified batches, for replay.

Theory of operation. Most bytes are covered by one known checksum: that of a finished segment, or of
the part scanned when the log was opened. Verifying it once replaces the checksums of the batches
and also covers their headers; then only batch boundaries have to be found. Bytes that do not match
are scanned batch by batch to locate the damage.

Stateless functions of segments: safe on any thread while another one appends.
"""

from collections.abc import Generator, Iterator, Sequence
from struct import Struct
from typing import Final

from crc32c import crc32c

from groupkeeper.protocol.record_batch import LENGTH_OVERHEAD
from groupkeeper.storage.errors import Corrupt, remedy
from groupkeeper.storage.files.files import parent_of
from groupkeeper.storage.log.scan import FIELDS, valid_batches
from groupkeeper.storage.log.segment import Segment, segments_from

CHUNK: Final = 1024 * 1024
"""Approximate number of bytes per chunk."""

_LENGTH_AND_EPOCH: Final = Struct(">8xii")


def checked_chunks(segments: Sequence[Segment], from_offset: int) -> Iterator[bytes]:
    """Yield chunks of whole, verified batches from the one at an offset on. Raises Corrupt."""
    epoch = -1
    for segment in segments_from(segments, from_offset):
        whole = from_offset <= segment.base_offset
        sound = _sound_size(segment) if whole else 0
        epoch = yield from _sound_chunks(segment, sound, epoch)
        epoch = yield from _scanned_chunks(segment, sound, from_offset, epoch)


def _sound_size(segment: Segment) -> int:
    """Return how many leading bytes are known to be sound; reads a finished segment to find out."""
    finished = segment.finished
    if finished is None or finished.crc is None or segment.sound_size == segment.size:
        return segment.sound_size
    if segment.size != finished.size or not segment.is_as_written(segment.size, finished.crc):
        return 0
    segment.sound_size = segment.size
    return segment.size


def _sound_chunks(segment: Segment, end: int, epoch: int) -> Generator[bytes, None, int]:
    """Yield chunks of sound batches up to a position. Returns the epoch of the last batch."""
    position = 0
    while position < end:
        data = segment.read(position, min(CHUNK, end - position))
        size, epoch = _whole_batches(segment.path, data, epoch)
        if not size and len(data) >= LENGTH_OVERHEAD:  # larger than a chunk
            length = int.from_bytes(data[8:LENGTH_OVERHEAD], "big")
            data = segment.read(position, LENGTH_OVERHEAD + length)
            size, epoch = _whole_batches(segment.path, data, epoch)
        if not size:  # changed since it was verified
            _check_whole(segment, position, None)
            break
        yield data[:size]
        position += size
    return epoch


def _whole_batches(path: str, data: bytes, epoch: int) -> tuple[int, int]:
    """Return the end of the last whole batch in some data, and its epoch."""
    at, last = 0, len(data) - _LENGTH_AND_EPOCH.size
    while at <= last:
        length, found = _LENGTH_AND_EPOCH.unpack_from(data, at)
        following = at + LENGTH_OVERHEAD + length
        if not at < following <= len(data):
            break
        if found != epoch:
            check_epoch(path, FIELDS.unpack_from(data, at)[0], found, epoch)
            epoch = found
        at = following
    return at, epoch


def _scanned_chunks(
    segment: Segment, position: int, from_offset: int, epoch: int
) -> Generator[bytes, None, int]:
    """Yield chunks of batches from a position or from the batch at an offset, whichever is later.
    Every batch is verified. Returns the epoch of the last batch.
    """
    position = max(position, segment.index.floor(max(0, from_offset - segment.base_offset)))
    start, crc = position, 0
    whole = not position and from_offset <= segment.base_offset
    for batch in valid_batches(segment.window(), position, segment.base_offset):
        check_epoch(segment.path, batch.base_offset, batch.epoch, epoch)
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
    _check_whole(segment, position, crc if whole else None)
    return epoch


def _check_whole(segment: Segment, end: int, crc: int | None) -> None:
    """Raise Corrupt if a segment is unsound at `end` or does not match its known checksum."""
    known = segment.finished.crc if segment.finished is not None else None
    if end < segment.size:
        what = f"the batch at byte {end} is damaged"
    elif None not in (crc, known) and crc != known:
        what = f"the header of a batch before byte {end} is damaged"
    else:
        return
    raise Corrupt(f"{segment.path}: {what}: {remedy(parent_of(segment.path))}")


def check_epoch(path: str, offset: int, found: int, epoch: int) -> None:
    """Raise Corrupt if a batch's epoch `found` is older than the previous batch's `epoch`."""
    if found < epoch:
        raise Corrupt(
            f"{path}: offset {offset} was written in epoch {found}, "
            f"after epoch {epoch}: {remedy(parent_of(path))}"
        )
