"""Lookups by timestamp.

Implemented as generators that yield None after about every millisecond of work, so that an event
loop can run other work in between. They hold references to their segments. Records are not read:
the header of a batch promises the largest timestamp in it, and a client may have set it wrongly.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from groupkeeper.storage.log.reading import seek
from groupkeeper.storage.log.scan import Batch, valid_batches
from groupkeeper.storage.log.segment import Segment

BATCHES: Final = 200
"""Batches scanned between two yields; fewer if they are large."""

_LARGE: Final = 32 * 1024
"""Batch size in bytes whose checksum takes about as long as the rest of the work for a batch."""


def promising(
    segments: Sequence[Segment], timestamp_ms: int, from_offset: int
) -> Iterator[tuple[Segment, Batch] | None]:
    """Yield the batches, in order, whose headers promise a record of that time or later.

    Records before `from_offset` are deleted. Reads little more than the batches it yields.
    """
    whole = from_offset
    for segment in segments:
        # The index lacks the timestamp of a batch whose first records are deleted.
        cut = _holder(segment, from_offset) if segment.base_offset < from_offset else None
        if cut is not None:
            whole = cut.last_offset + 1
            if cut.max_timestamp >= timestamp_ms:
                yield segment, cut
        if segment.index.max_timestamp < timestamp_ms:
            continue
        position = max(
            segment.index.floor_by_time(timestamp_ms),
            segment.index.floor(max(0, whole - segment.base_offset)),
        )
        left = BATCHES
        for batch in valid_batches(segment.window(), position, segment.base_offset):
            if batch.max_timestamp >= timestamp_ms and batch.base_offset >= whole:
                yield segment, batch
            left -= 1 + batch.size // _LARGE
            if left <= 0:
                left = BATCHES
                yield None


def newest(segments: Sequence[Segment], from_offset: int) -> Iterator[tuple[Segment, Batch] | None]:
    """Yield the batches whose headers promise a record of the largest timestamp that is kept.

    Records before `from_offset` are deleted, but still count in the index of their segment.
    """
    largest = [segment.index.max_timestamp for segment in segments]
    if segments and segments[0].base_offset < from_offset:
        largest[0] = -1
        for promise in promising(segments[:1], max(largest), from_offset):
            if promise is None:
                yield None
            elif promise[1].base_offset >= from_offset:
                largest[0] = max(largest[0], promise[1].max_timestamp)
    yield from promising(segments, max(largest, default=-1), from_offset)


def _holder(segment: Segment, offset: int) -> Batch | None:
    """Return the batch that begins before an offset and ends at or after it, or None."""
    position, size = seek(segment, offset)
    batch = next(valid_batches(segment.window(size), position, 0), None) if size else None
    return batch if batch is not None and batch.base_offset < offset else None
