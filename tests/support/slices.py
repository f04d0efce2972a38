"""Work in slices, done at once."""

import itertools
from math import inf
from typing import TypeVar

from groupkeeper.turns import Slices, Work

T = TypeVar("T")


def whole(slices: Slices[T]) -> T:
    """The result, however many slices it takes."""
    work = Work(slices)
    assert work.run(lambda: 0.0, inf)
    return work.result


def counted(slices: Slices[T]) -> tuple[T, int]:
    """The result, and how many slices it took."""
    for count in itertools.count(1):
        try:
            next(slices)
        except StopIteration as end:
            return end.value, count
    raise AssertionError("counting does not end")
