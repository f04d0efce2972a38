"""Selects the finished segments of a log that are worth compacting now.

Source: Kafka's LogCleanerManager, `cleanableOffsets` and `grabFilthiestCompactedLog`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from groupkeeper.storage.compaction.pieces import SourceSegment
from groupkeeper.storage.log.log import Log
from groupkeeper.storage.log.segment import Segment
from groupkeeper.topics.log_policy import LogPolicy


class Candidate(NamedTuple):
    """Segments that can be compacted together. Candidates compare by need."""

    overdue: bool
    """Whether it has records older than the policy's `max_lag_ms`."""
    dirty_ratio: float
    sources: Sequence[SourceSegment]
    """The oldest segments of the log, whether compacted before or not."""


def candidate(log: Log, policy: LogPolicy, now_ms: int) -> Candidate | None:
    """Return the segments that need compaction at a time (epoch ms); None if none do.

    The active segment is never included.
    """
    sources: list[SourceSegment] = []
    dirty: list[Segment] = []
    for segment, end in log.finished:
        if end > log.first_dirty:
            if policy.min_lag_ms and segment.index.max_timestamp > now_ms - policy.min_lag_ms:
                break
            dirty.append(segment)
        crc = segment.finished.crc if segment.finished is not None else None
        sources.append(SourceSegment(segment.base_offset, end, segment.size, crc))
    dirty_bytes = sum(segment.size for segment in dirty)
    if not dirty_bytes:
        return None
    ratio = dirty_bytes / sum(source.size for source in sources)
    overdue = _has_older(dirty, now_ms - policy.max_lag_ms)
    if not overdue and ratio <= policy.min_dirty_ratio:
        return None
    return Candidate(overdue, ratio, sources)


def _has_older(segments: Sequence[Segment], timestamp_ms: int) -> bool:
    """Return whether a segment begins with a batch before a time."""
    if timestamp_ms < 0:
        return False
    for segment in segments:
        if segment.first_timestamp < 0:
            segment.read_first_timestamp()
    return any(0 <= segment.first_timestamp < timestamp_ms for segment in segments)
