"""A segment that is open: where its batches with given offsets are, and where its log ends.

What was in the file when it was opened stays readable after compaction has replaced or retention
has removed it. Positions come from the index, from a batch that was seen before, or from a walk
over batch headers.
"""

import os
from bisect import bisect_left
from collections import deque
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from groupkeeper.analytics.reading import walk
from groupkeeper.analytics.reading.coverage import RELATIVE_LIMIT
from groupkeeper.analytics.reading.walk import Header, misplaced
from groupkeeper.protocol.record_batch import HEADER_SIZE, BatchHeader, read_header

_CLOSE: Final = 128 * 1024
"""Up to so many bytes are walked rather than looked up in the index."""
_AROUND: Final = 2
_TAIL: Final = 64
"""How many batches are compared to find those with a damaged base offset."""
_END: Final = 2**63 - 1


class Known(NamedTuple):
    """A batch that was found before: inode of its file, position and base offset."""

    inode: int
    position: int
    base: int


class Spot(NamedTuple):
    """Where the batches before an offset end in a segment."""

    position: int
    before: Header | None
    """The last one of them, unless it is not near."""
    after: Header | None
    """The first batch that ends behind the offset; it may begin before it."""


class OpenSegment:
    """Reads the file at `path` as it is at this moment. Raises OSError."""

    def __init__(self, path: Path, base: int, known: Known | None = None) -> None:
        self.path = path
        self.base = base
        self._file = path.open("rb")
        status = os.fstat(self._file.fileno())
        self.size = status.st_size
        self.inode = status.st_ino
        self._known = known if known is not None and known.inode == self.inode else None
        self._index: list[int] | None = None

    def close(self) -> None:
        self._file.close()

    def read(self, start: int, end: int) -> bytes:
        """Fewer bytes if the file was cut off since it was opened."""
        self._file.seek(start)
        return self._file.read(end - start)

    def locate(self, offset: int) -> Spot:
        """Batches with a base offset that cannot be right are passed over."""
        near, lowest = self._near(offset)
        tail: deque[Header] = deque(maxlen=_TAIL)
        beyond = 0
        for header in walk.headers(self._file, near, self.size):
            tail.append(header)
            beyond += header.base >= offset
            if beyond > _AROUND:
                break
        good = _in_order(tail, lowest)
        before = next((each for each in reversed(good) if each.until <= offset), None)
        if before is not None:
            self._known = Known(self.inode, before.position, before.base)
        after = next((each for each in good if each.until > offset), None)
        return Spot(self.header(before).end if before else near, before, after)

    def last(self) -> Header | None:
        """The last batch that is whole and sound. None without one.

        No checksum covers base offsets: a batch behind a gap counts once another one follows it, or
        if there are more gaps, as compaction leaves them.
        """
        near, lowest = self._near(_END)
        tail: deque[Header] = deque(maxlen=_TAIL)
        tail.extend(walk.headers(self._file, near, self.size))
        good = _in_order(tail, lowest)
        gaps = [other for one, other in pairwise(good) if one.until < other.base]
        if good and good[0].position == 0 and good[0].base > self.base:
            gaps.append(good[0])
        holes = len(gaps) > 1 or any(each.records < each.until - each.base for each in good)
        for number, each in enumerate(reversed(good)):
            is_doubtful = number == 0 and each in gaps and not holes
            if not is_doubtful and walk.is_sound(self._file, each.position, self.size):
                return each
        return None

    def boundary(self, start: int, wanted: int) -> int | None:
        """The base offset of the first batch at or behind the position `wanted`, if a batch starts
        at `start`; None without one.
        """
        position, base = walk.boundary(self._file, self.size, self._places(), start, wanted)
        return base if position < self.size else None

    def header(self, found: Header) -> BatchHeader:
        """All of the header of a batch, with its place in the file as position."""
        header = read_header(self.read(found.position, found.position + HEADER_SIZE))
        header.position = found.position
        return header

    def is_sound(self, found: Header) -> bool:
        return walk.is_sound(self._file, found.position, self.size)

    def _near(self, offset: int) -> tuple[int, int]:
        """Position of a sound batch that begins before `offset`, not far from it, or of the first
        one; and the lowest offset that can be there.
        """
        near, lowest = 0, self.base
        known = self._known
        if known and known.base < offset and self._base_at(known.position) == known.base:
            near, lowest = known.position, known.base
        if self.size - near > _CLOSE:
            places = self._places()
            number = bisect_left(places, offset, key=self._base_at) - 1
            place = places[number] if number >= 0 else 0
            if place > near and walk.is_sound(self._file, place, self.size):
                return place, self.base
        return near, lowest

    def _places(self) -> list[int]:
        if self._index is None:
            self._index = walk.read_index(self.path, self.size)
        return self._index

    def _base_at(self, position: int) -> int:
        return int.from_bytes(self.read(position, position + 8), "big", signed=True)


def _in_order(tail: deque[Header], lowest: int) -> list[Header]:
    """Those of neighbouring batches whose base offsets agree."""
    bases = [each.base for each in tail]
    spans = [each.until - each.base for each in tail]
    wrong = set(misplaced(bases, spans, lowest, lowest + RELATIVE_LIMIT))
    return [each for number, each in enumerate(tail) if number not in wrong]
