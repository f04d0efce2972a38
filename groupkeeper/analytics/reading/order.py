"""Finds batches whose base offset or leader epoch cannot be right. No checksum covers these two.

In a log, offsets rise from batch to batch. A damaged base offset is the one that disagrees with all
others, not the first at which they stop rising: the largest set that agrees is kept.
"""

from bisect import bisect_right
from collections.abc import Sequence


def rooms(bases: Sequence[int], spans: Sequence[int]) -> list[int]:
    """How many offsets are unused before each batch, from offset 0 on, if all batches before it are
    where they belong: in a sound log these numbers never fall. `spans` are numbers of offsets.
    """
    found = []
    used = 0
    for base, span in zip(bases, spans, strict=True):
        found.append(base - used)
        used += span
    return found


def misplaced(bases: Sequence[int], spans: Sequence[int], first: int, until: int) -> list[int]:
    """Indexes of batches whose base offset disagrees with the others, or with [first, until)."""
    highest = until - sum(spans)
    return disagreeing(rooms(bases, spans), first, highest)


def disagreeing(numbers: Sequence[int], lowest: int, highest: int) -> list[int]:
    """Indexes of the fewest numbers without which the rest never falls and is in [lowest, highest].

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
