"""Retention: how much of a log is kept, by the age and the size of its segments.

Whole segments are deleted, oldest first, including the last one unless it is empty.
Source: Kafka's `UnifiedLog.deleteOldSegments` and `LogSegment.largestTimestamp`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

from groupkeeper.storage.files.files import Files
from groupkeeper.storage.log.log import Log
from groupkeeper.storage.log.segment import base_of, last_timestamp, segment_path


class RetentionLimits(NamedTuple):
    """The retention limits at a moment. A negative limit means unlimited."""

    now_ms: int
    """Unix milliseconds."""
    retention_ms: int
    """A segment is deleted if its largest timestamp is older than this."""
    retention_bytes: int
    """The oldest segment is deleted if the others have at least this many bytes."""
    server_times: bool = False
    """All timestamps come from this server's clock: see `Limits`. A timestamp in the future is
    wrong, and its segment is deleted together with a later one that is too old."""

    def expired(self, largest_timestamp: int) -> bool:
        """Return whether a segment is too old. A timestamp in the future is never too old."""
        return 0 <= self.retention_ms < self.now_ms - largest_timestamp

    def in_doubt(self, largest_timestamp: int) -> bool:
        """Return whether a segment's age is unknown, so that later segments decide about it."""
        return self.server_times and largest_timestamp > self.now_ms

    def excess(self, sizes: Iterable[int]) -> int:
        """Return by how many bytes these segment sizes exceed the limit; negative: not at all."""
        return sum(sizes) - self.retention_bytes if self.retention_bytes >= 0 else -1


def expired_before(log: Log, limits: RetentionLimits) -> int | None:
    """Return the new start offset of a log once expired segments are deleted; None if none are.

    Raises OSError.
    """
    segments, gone = log.segments, 0
    excess = limits.excess(segment.size for segment in segments)
    for number, segment in enumerate(segments, 1):
        if not segment.size:
            break
        largest = segment.largest_timestamp
        if excess >= segment.size or limits.expired(largest):
            gone = number
        elif not limits.in_doubt(largest):
            break
        excess -= segment.size
    start = segments[gone].base_offset if gone < len(segments) else log.next_offset
    return start if start > log.start_offset else None


def kept_together(logs: Mapping[int, Log], most: int) -> Mapping[int, int]:
    """Return the bytes to keep per log, where logs together exceed `most` bytes.

    Logs that lose nothing are not in the result. The next segment to be deleted is always the
    oldest one of the largest log. So a log with less than an equal share of `most` loses nothing,
    whatever the size of the others.
    """
    sizes = {index: sum(segment.size for segment in log.segments) for index, log in logs.items()}
    excess = sum(sizes.values()) - most
    left = [(-size, index) for index, size in sizes.items() if size]
    heapify(left)
    gone = Counter[int]()
    while excess > 0 and left:
        negative, index = left[0]
        size = logs[index].segments[gone[index]].size
        gone[index] += 1
        excess -= size
        if negative + size < 0:
            heapreplace(left, (negative + size, index))
        else:
            heappop(left)
        sizes[index] -= size
    return {index: sizes[index] for index in gone}


def may_delete(files: Files, folder: str, limits: RetentionLimits) -> bool:
    """Return whether a closed log may have segments to delete, by names, sizes and one index entry.

    `expired_before` gives the exact answer for an open log. After a crash the time index of the
    last segment may be missing. Then the time of the last write counts, so a log of old messages
    that were written recently may be kept longer. Raises OSError.
    """
    bases = [base for base in map(base_of, files.list_folder(folder)) if base is not None]
    if not bases:
        return False
    oldest = segment_path(folder, bases[0])
    size = files.stat(oldest).size
    if not size:
        return False
    if limits.excess(files.stat(segment_path(folder, base)).size for base in bases) >= size:
        return True
    return limits.retention_ms >= 0 and limits.expired(_largest_timestamp(files, folder, bases[0]))


def _largest_timestamp(files: Files, folder: str, base: int) -> int:
    """Return the largest timestamp in a segment's time index, or else its last write time."""
    largest = last_timestamp(files, folder, base)
    return largest if largest >= 0 else files.stat(segment_path(folder, base)).modified_ms
