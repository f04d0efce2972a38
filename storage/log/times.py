"""Lookups by timestamp, and the time index of a log after its first records were deleted.

Implemented as generators that yield None after about every millisecond of work, so that an event
loop can run other work in between. They hold references to their segments. Records are not read:
the header of a batch promises the largest timestamp in it, and a client may have set it wrongly.
"""

from collections.abc import Generator, Iterator, Sequence
from typing import Final, TypeVar

from groupkeeper.storage.log.index import TimeIndex
from groupkeeper.storage.log.reading import seek
from groupkeeper.storage.log.scan import Batch, valid_batches
from groupkeeper.storage.log.segment import Segment
from groupkeeper.storage.log.window import PIECE

T = TypeVar("T")

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


def recomputed_times(segment: Segment, from_offset: int) -> Generator[None, None, None]:
    """Recompute the time index of a segment whose records before an offset will be deleted.

    Skipped unless the index would mislead lookups because the deleted records are newer than many
    that stay.
    """
    index, base = segment.index, segment.base_offset
    cut = _holder(segment, from_offset)
    whole = from_offset if cut is None else cut.last_offset + 1
    position = index.floor(max(0, whole - base))
    youngest = index.next_youngest(whole - base, segment.size)
    if youngest < segment.size and youngest - position <= PIECE:
        return
    kept = TimeIndex()
    left = BATCHES
    while position < segment.size:  # more may be appended between two pieces
        before = position
        for batch in valid_batches(segment.window(), position, base):
            position = batch.position + batch.size
            if batch.base_offset >= whole:
                kept.add(batch.last_offset - base, batch.max_timestamp)
                if index.has_entry_at(batch.position):
                    kept.enter()
            left -= 1 + batch.size // _LARGE
            if left <= 0:
                left = BATCHES
                yield
        if position == before:
            break  # damaged: the next read raises Corrupt
    index.times = kept


def run_to_end(pieces: Generator[None, None, T]) -> T:
    """Run a generator to its end, and return its result."""
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            result: T = end.value
            return result


def _holder(segment: Segment, offset: int) -> Batch | None:
    """Return the batch that begins before an offset and ends at or after it, or None."""
    position, size = seek(segment, offset)
    batch = next(valid_batches(segment.window(size), position, 0), None) if size else None
    return batch if batch is not None and batch.base_offset < offset else None
