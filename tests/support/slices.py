"""Work in slices, done at once."""

from math import inf
from typing import TypeVar

from groupkeeper.turns import Slices, Work

T = TypeVar("T")


def whole(slices: Slices[T]) -> T:
    """The result, however many slices it takes."""
    work = Work(slices)
    assert work.run(lambda: 0.0, inf)
    return work.result
