"""Loops over the items of a request, which may be thousands, in slices (`turns`).

The caller runs the slices in turns with other work.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Final, TypeVar

from groupkeeper.turns import Slices

Item = TypeVar("Item")
_Group = TypeVar("_Group")
_Result = TypeVar("_Result")
Whole = TypeVar("Whole")
_Key = TypeVar("_Key", bound=Hashable)

ITEMS: Final = 200
"""Items processed in one slice, about 5 us each."""


class Pace:
    """Determines when a slice is full."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = ITEMS

    def spent(self, items: int = 1) -> bool:
        """Count processed items; True when it is time to yield."""
        self._left -= items
        if self._left > 0:
            return False
        self._left = ITEMS
        return True


def each(items: Iterable[Item], work: Callable[[Item], _Result]) -> Slices[list[_Result]]:
    """Return `work(item)` of every item."""
    results = []
    for count, item in enumerate(items, 1):
        results.append(work(item))
        if not count % ITEMS:
            yield
    return results


def counts(items: Iterable[Item], key: Callable[[Item], _Key]) -> Slices[dict[_Key, int]]:
    """Return how often each key occurs, in the order of first occurrence."""
    times: dict[_Key, int] = {}
    for count, item in enumerate(items, 1):
        its_key = key(item)
        times[its_key] = times.get(its_key, 0) + 1
        if not count % ITEMS:
            yield
    return times


def each_within(
    groups: Iterable[_Group],
    items_of: Callable[[_Group], Iterable[Item]],
    work: Callable[[_Group, Item], _Result],
    together: Callable[[_Group, list[_Result]], Whole],
) -> Slices[list[Whole]]:
    """Return `together(group, [work(group, item), ...])` of every group: partitions by topic."""
    pace = Pace()
    results = []
    for group in groups:
        of_group: list[_Result] = []
        for item in items_of(group):
            of_group.append(work(group, item))
            if pace.spent():
                yield
        results.append(together(group, of_group))
        if pace.spent():
            yield
    return results


def visit_within(
    groups: Iterable[_Group],
    items_of: Callable[[_Group], Iterable[Item]],
    visit: Callable[[_Group, Item], object],
) -> Slices[None]:
    """Call `visit(group, item)` for every item of every group."""
    yield from each_within(groups, items_of, visit, lambda *_: None)
