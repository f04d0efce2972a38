"""Arrays whose messages are created while they are encoded, for responses with many rows.

An encoder reads an array once, in order. Its items need not exist before, so that the step that
makes the response spends neither time nor memory on them.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast

T = TypeVar("T")


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


def mapped(make: Callable[..., T], *columns: Sequence[Any]) -> list[T]:
    """A sequence of `make(a, b, ...)` for the rows of the columns; each read makes the items anew.

    The columns must have the same length and must not change any more. The return type is `list`
    because fields of messages are; the result has length, items and iteration, but cannot be
    changed and equals no list.
    """
    return cast("list[T]", Mapped(make, columns))
