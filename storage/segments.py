"""The list of a log's segments, oldest first: a part of it, or with some of them replaced."""

from collections.abc import Sequence
from typing import NamedTuple

from groupkeeper.storage.segment import Segment


class Replacement(NamedTuple):
    """A compacted segment, and the base offsets of those whose places it takes."""

    segment: Segment
    sources: tuple[int, ...]


def segments_from(segments: Sequence[Segment], offset: int) -> Sequence[Segment]:
    """The segment that holds an offset, and all after it."""
    number = len(segments) - 1
    while number > 0 and segments[number].base_offset > offset:
        number -= 1
    return segments[max(number, 0) :]


def spliced(
    segments: Sequence[Segment], replacements: Sequence[Replacement]
) -> tuple[Segment, ...] | None:
    """The segments with compacted ones in the places of their sources; None if one is gone."""
    result = list(segments)
    for segment, sources in replacements:
        bases = [each.base_offset for each in result[:-1]]
        first = bases.index(sources[0]) if sources[0] in bases else 0
        after = first + len(sources)
        if tuple(bases[first:after]) != sources:
            return None
        result[first:after] = [segment]
    return tuple(result)
