"""Arrays whose messages are created while they are encoded, or freed in slices, for responses with
many rows.

An encoder reads an array once, in order. Items of a `mapped` array are made only then, so that the
step that makes the response spends neither time nor memory on them. Items of a `bulk` array are
freed some at a time, as to free a hundred thousand objects takes 10 to 70 ms.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, Final, TypeVar, cast

T = TypeVar("T")

FREED_IN_A_SLICE: Final = 500
"""How many rows are freed in a slice, in less than half a millisecond."""


class Mapped(Sequence[T]):
    """The result of `mapped`."""

    __slots__ = ("_make", "columns")

    def __init__(self, make: Callable[..., T], columns: tuple[Sequence[Any], ...]) -> None:
        self._make = make
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns[0])

    def __iter__(self) -> Iterator[T]:
        return map(self._make, *self.columns)

    def __getitem__(self, index: Any) -> Any:
        return self._make(*(column[index] for column in self.columns))

    def __repr__(self) -> str:
        return repr(list(self))


class Bulk(Sequence[T]):
    """The result of `bulk`."""

    __slots__ = ("_order", "_rows")

    def __init__(self, rows: list[T], order: Sequence[int]) -> None:
        self._rows = rows
        self._order = order

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[T]:
        return map(self._rows.__getitem__, self._order)

    def __getitem__(self, index: Any) -> Any:
        return self._rows[self._order[index]]

    def free(self) -> Generator[None, None, None]:
        """Free the rows, in slices; the array is empty then."""
        rows, self._order = self._rows, ()
        while len(rows) > FREED_IN_A_SLICE:
            del rows[-FREED_IN_A_SLICE:]
            yield
        rows.clear()


def mapped(make: Callable[..., T], *columns: Sequence[Any]) -> list[T]:
    """Return a sequence of `make(a, b, ...)` for the rows of the columns; each read makes the items
    anew.

    The columns must have the same length and must not change any more. The return type is `list`
    because fields of messages are; the result has length, items and iteration, but cannot be
    changed and equals no list.
    """
    return cast("list[T]", Mapped(make, columns))


def bulk(rows: list[T], order: Sequence[int] | None = None) -> list[T]:
    """Return a sequence of rows that `free` may free, because nothing else refers to the list: in
    the order of these indexes, which may repeat, or as they are. For the return type see `mapped`.
    """
    return cast("list[T]", Bulk(rows, range(len(rows)) if order is None else order))


# Any: a message of any class.
def free(response: Any) -> Generator[None, None, None]:
    """Free the `bulk` arrays of a response, in slices, after it was encoded or dropped."""
    for name in response.__slots__:
        array = getattr(response, name)
        for rows in array.columns if isinstance(array, Mapped) else (array,):
            if isinstance(rows, Bulk):
                yield from rows.free()
