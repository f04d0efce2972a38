"""
Times of records: which batches promise a record of some time, and what a log still has of its times
when its beginning was deleted.

These are generators that yield None after every piece of about a millisecond, so that an event loop
can do other things between two of them. They hold the segments that they go through. Records are
not looked at: a header says what the largest time in its batch is, and may lie.
"""

from collections.abc import Generator, Iterator, Sequence
from typing import Final, TypeVar

from groupkeeper.storage.index import Times
from groupkeeper.storage.reading import seek
from groupkeeper.storage.scan import Batch, valid_batches
from groupkeeper.storage.segment import Segment
from groupkeeper.storage.window import PIECE

T = TypeVar("T")

BATCHES: Final = 200
"""Batches passed in one piece of work, or fewer if they are large."""

_LARGE: Final = 32 * 1024
"""So many bytes take about as long to check as a batch takes besides."""


def promising(
    segments: Sequence[Segment], timestamp_ms: int, from_offset: int
) -> Iterator[tuple[Segment, Batch] | None]:
    """
    Every batch, in order, whose header promises a record that is not older; records before an
    offset are deleted. Reads little more than what it finds.
    """
    whole = from_offset
    for segment in segments:
        # The times of a batch that lost a part of its records are in no index.
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


def kept_times(segment: Segment, from_offset: int) -> Generator[None, None, None]:
    """
    Records before an offset are about to be deleted. If the index is led astray by them, as they
    are younger than many of those that stay, it forgets them.
    """
    index, base = segment.index, segment.base_offset
    cut = _holder(segment, from_offset)
    whole = from_offset if cut is None else cut.last_offset + 1
    position = index.floor(max(0, whole - base))
    youngest = index.next_youngest(whole - base, segment.size)
    if youngest < segment.size and youngest - position <= PIECE:
        return
    kept = Times()
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
            break  # damaged: whoever reads it will say so
    index.times = kept


def run_to_end(pieces: Generator[None, None, T]) -> T:
    """All pieces of some work, one after another; its result."""
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            result: T = end.value
            return result


def _holder(segment: Segment, offset: int) -> Batch | None:
    """The batch that begins before an offset and ends behind it."""
    position, size = seek(segment, offset)
    batch = next(valid_batches(segment.window(size), position, 0), None) if size else None
    return batch if batch is not None and batch.base_offset < offset else None
