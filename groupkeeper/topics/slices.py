"""Loops over the items of a request, which may be thousands, in slices (`turns`).

The caller runs the slices in turns with other work.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Final, TypeVar

from groupkeeper.turns import Slices

Item = TypeVar("Item")
Group = TypeVar("Group")
Result = TypeVar("Result")
Whole = TypeVar("Whole")
Key = TypeVar("Key", bound=Hashable)

ITEMS: Final = 200
"""Items processed in one slice, about 5 us each."""


class Pace:
    """Says when a slice is full."""

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


def each(items: Iterable[Item], work: Callable[[Item], Result]) -> Slices[list[Result]]:
    """`work(item)` of every item."""
    results = []
    for count, item in enumerate(items, 1):
        results.append(work(item))
        if not count % ITEMS:
            yield
    return results


def counts(items: Iterable[Item], key: Callable[[Item], Key]) -> Slices[dict[Key, int]]:
    """How often each key occurs, in the order of first occurrence."""
    times: dict[Key, int] = {}
    for count, item in enumerate(items, 1):
        its_key = key(item)
        times[its_key] = times.get(its_key, 0) + 1
        if not count % ITEMS:
            yield
    return times


def each_within(
    groups: Iterable[Group],
    items_of: Callable[[Group], Iterable[Item]],
    work: Callable[[Group, Item], Result],
    together: Callable[[Group, list[Result]], Whole],
) -> Slices[list[Whole]]:
    """`together(group, [work(group, item) of its items])` of every group: partitions by topic."""
    pace = Pace()
    results = []
    for group in groups:
        of_group: list[Result] = []
        for item in items_of(group):
            of_group.append(work(group, item))
            if pace.spent():
                yield
        results.append(together(group, of_group))
        if pace.spent():
            yield
    return results


def visit_within(
    groups: Iterable[Group],
    items_of: Callable[[Group], Iterable[Item]],
    visit: Callable[[Group, Item], object],
) -> Slices[None]:
    """`visit(group, item)` for every item of every group."""
    yield from each_within(groups, items_of, visit, lambda *_: None)
