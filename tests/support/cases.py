"""One test for many cases: thousands of pytest items cost more time than what they check."""

from collections.abc import Callable, Iterable
from typing import Any

Check = Callable[..., None]


def each(cases: Iterable[tuple[Any, ...]]) -> Callable[[Check], Callable[[], None]]:
    """Call the decorated test with every case, as one item; a failure has a note with its case."""
    every = tuple(cases)

    def decorate(check: Check) -> Callable[[], None]:
        def test() -> None:
            for case in every:
                try:
                    check(*case)
                except BaseException as error:
                    error.add_note(f"case: {', '.join(map(_name, case))}")
                    raise

        test.__name__, test.__qualname__ = check.__name__, check.__qualname__
        test.__doc__, test.__module__ = check.__doc__, check.__module__
        return test

    return decorate


def _name(value: object) -> str:
    return value.__name__ if isinstance(value, type) else str(value)
