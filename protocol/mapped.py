"""Arrays of messages that are made while they are written: for answers of a hundred thousand rows.

An encoder reads an array once, from its beginning. What it reads need not be there before, and so
takes neither time nor memory in the step that answers.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast

T = TypeVar("T")


class Mapped(Sequence[T]):
    """What :func:`mapped` makes."""

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


def mapped(make: Callable[..., T], *columns: Sequence[Any]) -> list[T]:
    """``make(a, b, ...)`` for the items of the columns, anew each time that it is read.

    The columns have the same length and do not change any more. It is no list, whatever its type
    says: fields of messages are lists, and this does what an encoder asks of them. It has a length
    and items, and can be gone through; it cannot be changed, and is equal to no list.
    """
    return cast("list[T]", Mapped(make, columns))
