"""Which offsets the segments of one partition hold: gaps between them, and what two of them hold.

A compaction that a copy caught half-way leaves segments whose offsets overlap: the later segment
counts. Offsets between two segments are removed by compaction, or a segment is missing: it was
compaction if compaction also left holes in a segment before the gap or behind it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from groupkeeper.analytics.reading import walk
from groupkeeper.analytics.reading.problems import Problem
from groupkeeper.analytics.reading.segments import SegmentFile
from groupkeeper.analytics.reading.walk import RELATIVE_LIMIT

Range = tuple[int, int]
Note = tuple[Problem, int, int]
"""A problem with the offsets [first, until) that are not there."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """A segment whose offsets are below `until`. Those in ranges [first, until) of `elsewhere` are
    in other segments, too.
    """

    segment: SegmentFile
    until: int
    elsewhere: tuple[Range, ...]
    notes: tuple[Note, ...]


def cover(segments: Sequence[SegmentFile]) -> Iterator[Coverage]:
    """What each segment of one partition has to give, in the order of base offsets."""
    ends = [_end(each) for each in segments[:-1]]
    ends.append(_end(segments[-1]) if _overlap(segments, ends) else None)
    reached = 0
    for number, segment in enumerate(segments):
        notes: tuple[Note, ...] = ()
        if number == 0 and segment.base > 0:
            notes = ((Problem.BEGINS, 0, segment.base),)
        elif reached < segment.base and number and ends[number - 1] is not None:
            kind = kind_of_gap(segments[number - 1 :])
            notes = ((kind, reached, segment.base),)
        limit = segment.base + RELATIVE_LIMIT
        later = segments[number + 1 :]
        until = min(limit, later[0].base) if later else limit
        elsewhere: tuple[Range, ...] = ()
        end = ends[number]
        # An end beyond those of all later segments is a damaged offset, and no overlap.
        if end is not None and until < end <= max(each or 0 for each in (0, *ends[number + 1 :])):
            elsewhere = _held(end, later, ends[number + 1 :])
            until = next((each.base for each in later if each.base >= end), limit)
        reached = max(reached, min(end or segment.base, until))
        yield Coverage(segment, until, elsewhere, notes)


def _end(segment: SegmentFile) -> int | None:
    """The offset after the segment's last; None if it cannot be read."""
    try:
        return walk.end_offset(segment.path, segment.base, segment.size)
    except OSError:
        return None


def _overlap(segments: Sequence[SegmentFile], ends: Sequence[int | None]) -> bool:
    """Whether a segment seems to reach into the next one."""
    bases = (each.base for each in segments[1:])
    return any(end is not None and end > base for end, base in zip(ends, bases, strict=True))


def _held(end: int, later: Sequence[SegmentFile], ends: Sequence[int | None]) -> tuple[Range, ...]:
    """Ranges below `end` that later segments hold."""
    return tuple(
        (each.base, stop)
        for each, stop in zip(later, ends, strict=True)
        if stop is not None and each.base < end
    )


def kind_of_gap(segments: Sequence[SegmentFile]) -> Problem:
    """Compaction takes a log from its beginning: holes behind a gap tell of it as well."""
    for each in segments:
        try:
            if walk.is_compacted(each.path, each.base, each.size):
                return Problem.COMPACTED
        except OSError:
            continue
    return Problem.MISSING
