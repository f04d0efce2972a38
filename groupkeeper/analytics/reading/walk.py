"""Walks the batch headers of a segment file without reading the records, also past damage.

Used to find where a segment can be cut, where its offsets end, and whether it was compacted.
Checksums are verified only where a decision depends on one batch.

No checksum covers base offsets and leader epochs. In a log, offsets rise from batch to batch, so a
damaged base offset is one that disagrees with most others, not the first at which they stop rising:
the largest consistent set is kept.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import pairwise
from struct import Struct
from typing import BinaryIO, Final, NamedTuple

import numpy as np

from groupkeeper.analytics.reading.files import AnyPath
from groupkeeper.protocol.record_batch import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    CorruptBatch,
    check_crc,
    read_header,
)

SMALLEST_OLD: Final = 26
"""Size of the smallest message of magic 0, including offset and length."""
_FIELDS: Final = Struct(">qi4xb4xhi30xi")
_ENTRY: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])
_WINDOW: Final = 1024 * 1024
_SMALLEST_LENGTH: Final = HEADER_SIZE - LENGTH_OVERHEAD
_MAGIC_AT: Final = 16
TAIL: Final = 64
"""Number of batches compared to find those with a damaged base offset."""
AROUND: Final = 2
RELATIVE_LIMIT: Final = 2**31
"""Offsets in a segment exceed its base by an int32 at most, the format of its index."""
_QUIET: Final = 64 * 1024
"""Number of bytes before a boundary in which batches are compared with it."""


class Header(NamedTuple):
    """A batch at `position` with `records` records and offsets [base, until)."""

    position: int
    base: int
    until: int
    records: int


def headers(file: BinaryIO, start: int, size: int, quiet: int = 0) -> Iterator[Header]:
    """Yield batches of magic 2 from `start` on, except those before position `quiet`. After invalid
    bytes, continues at the next whole batch with a good checksum.
    """
    position, window_start, window, last = start, start, b"", -1
    unpack = _FIELDS.unpack_from
    while position + HEADER_SIZE <= size:
        at = position - window_start
        if at > last:
            file.seek(position)
            window_start, window, at = position, file.read(_WINDOW), 0
            last = len(window) - HEADER_SIZE
            if last < 0:
                return
        base, length, magic, _, delta, count = unpack(window, at)
        end = position + length + LENGTH_OVERHEAD
        fits = end <= size and length >= _SMALLEST_LENGTH
        if fits and magic == MAGIC and base >= 0 and delta >= 0 and count >= 0:
            if position >= quiet:
                yield Header(position, base, base + delta + 1, count)
            position = end
        elif end <= size and length + LENGTH_OVERHEAD >= SMALLEST_OLD and 0 <= magic < MAGIC:
            position = end
        else:
            position = _next_sound(file, position + 1, size)


def _next_sound(file: BinaryIO, position: int, size: int) -> int:
    """Return the position of the next whole batch with a good checksum, or `size`."""
    while position + HEADER_SIZE <= size:
        file.seek(position)
        window = file.read(_WINDOW)
        if len(window) < HEADER_SIZE:
            break
        at = window.find(MAGIC, _MAGIC_AT)
        while 0 <= at <= len(window) - HEADER_SIZE + _MAGIC_AT:
            length = _FIELDS.unpack_from(window, at - _MAGIC_AT)[1]
            start = position + at - _MAGIC_AT
            if start + length + LENGTH_OVERHEAD <= size and is_sound(file, start, size):
                return start
            at = window.find(MAGIC, at + 1)
        position += len(window) - HEADER_SIZE + 1
    return size


def is_sound(file: BinaryIO, position: int, size: int) -> bool:
    """Return whether a whole batch with a good checksum is at `position`: an index may be wrong."""
    file.seek(position)
    head = file.read(HEADER_SIZE)
    try:
        header = read_header(head)
        if position + header.size > size:
            return False
        return check_crc(head + file.read(header.size - HEADER_SIZE), header)
    except CorruptBatch:
        return False


def read_index(path: AnyPath, size: int) -> list[int]:
    """Return the rising positions in a segment's index; empty without an index.

    Zero padding, or garbage, begins at the first entry that does not rise.
    """
    try:
        data = path.with_suffix(".index").read_bytes()
    except OSError:
        return []
    whole = len(data) // _ENTRY.itemsize
    positions = np.frombuffer(data, _ENTRY, whole)["position"].astype(np.int64)
    fits = (np.diff(positions, prepend=0) > 0) & (positions < size)
    count = whole if fits.all() else int(fits.argmin())
    return positions[:count].tolist()  # type: ignore[no-any-return]  # of integers


def boundary(
    file: BinaryIO, size: int, places: list[int], start: int, wanted: int
) -> tuple[int, int]:
    """Return position and base offset of the first batch at or after `wanted` that is sound and in
    offset order with its neighbours; (size, 0) if there is none.

    The walk begins at the last of `places` before `wanted`, or at `start`.
    """
    number = bisect_left(places, wanted) - 1
    near = places[number] if number >= 0 else start
    if near < start or not is_sound(file, near, size):
        near = start
    around: deque[Header] = deque(maxlen=2 * AROUND + 1)

    def fits(found: Header) -> bool:
        wide = found.position >= wanted and _rises(around)
        return wide and is_sound(file, found.position, size)

    for header in headers(file, near, size, wanted - _QUIET):
        around.append(header)
        if len(around) > AROUND and fits(found := around[-1 - AROUND]):
            return found.position, found.base
    last = next(filter(fits, [*around][-AROUND:]), None)
    return (last.position, last.base) if last else (size, 0)


def _rises(around: deque[Header]) -> bool:
    return all(one.until <= other.base for one, other in pairwise([*around]))


def end_offset(path: AnyPath, base: int, size: int) -> int:
    """Return the offset after a segment's last batch; `base` if it has none. Raises OSError."""
    places = read_index(path, size)
    with path.open("rb") as file:
        near = next((place for place in reversed(places) if is_sound(file, place, size)), 0)
        tail = deque(headers(file, near, size), TAIL)
    # A damaged base offset may be any number: it must not be taken for the end.
    return max((each.until for each in in_order(tail, base)), default=base)


def in_order(tail: Sequence[Header], lowest: int) -> list[Header]:
    """Return the successive batches whose base offsets agree."""
    bases = [each.base for each in tail]
    spans = [each.until - each.base for each in tail]
    wrong = set(misplaced(bases, spans, lowest, lowest + RELATIVE_LIMIT))
    return [each for number, each in enumerate(tail) if number not in wrong]


def is_compacted(path: AnyPath, base: int, size: int) -> bool:
    """Return whether a segment lacks records in its range of offsets. Raises OSError."""
    expected = base
    with path.open("rb") as file:
        for header in headers(file, 0, size):
            if header.base > expected or header.records < header.until - header.base:
                return True
            expected = header.until
    return False


def size_before(path: AnyPath, size: int, offset: int) -> int:
    """The bytes of a segment before the first batch from an offset on; all if unreadable."""
    if int(path.stem) >= offset:
        return 0
    try:
        with path.open("rb") as file:
            found = None
            for header in headers(file, 0, size):
                if header.base < offset:
                    found = None
                elif found is not None:
                    # Confirmed by a second batch: a single base offset may be damaged.
                    return found
                else:
                    found = header.position
            return size if found is None else found
    except OSError:
        return size


def rooms(bases: Sequence[int], spans: Sequence[int]) -> list[int]:
    """Return how many offsets below each batch are unused, if all batches before it are in place:
    in a sound log these numbers never fall. `spans` are numbers of offsets.
    """
    found = []
    used = 0
    for base, span in zip(bases, spans, strict=True):
        found.append(base - used)
        used += span
    return found


def misplaced(bases: Sequence[int], spans: Sequence[int], first: int, until: int) -> list[int]:
    """Return indexes of batches whose base offset disagrees with the others or [first, until)."""
    highest = until - sum(spans)
    return disagreeing(rooms(bases, spans), first, highest)


def disagreeing(numbers: Sequence[int], lowest: int, highest: int) -> list[int]:
    """Return the fewest indexes whose removal leaves numbers that never fall, in [lowest, highest].

    Takes O(n log n): `ends[k]` is the smallest number that ends k + 1 numbers in order.
    """
    ends: list[int] = []
    at_end: list[int] = []
    before: list[int] = [-1] * len(numbers)
    for index, number in enumerate(numbers):
        if not lowest <= number <= highest:
            continue
        length = bisect_right(ends, number)
        before[index] = at_end[length - 1] if length else -1
        ends[length : length + 1] = [number]
        at_end[length : length + 1] = [index]
    kept = set()
    index = at_end[-1] if at_end else -1
    while index >= 0:
        kept.add(index)
        index = before[index]
    return [index for index in range(len(numbers)) if index not in kept]
