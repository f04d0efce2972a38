"""Checks what a test passes to its broker, so that a mistake is one line at once, and not an error
from deep inside, or a wait for what can never be.

All functions raise TypeError for a value of another kind, and ValueError for one that cannot be.
"""

from collections.abc import Collection, Iterable, Mapping
from math import isfinite
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final

from groupkeeper.testing.errors import WrongArgument

FOREVER_S: Final = 366 * 24 * 3600.0
"""Longer than any test waits: a year."""

MOST: Final = 2**31 - 1
"""Of most numbers: those in messages have 32 bits."""
LONGEST: Final = 2**63 - 1
"""Offsets and times have 64 bits in the protocol."""


# Any: what a test has written.
def text(value: Any, what: str) -> str:
    """A str that UTF-8 can encode."""
    if not isinstance(value, str):
        raise TypeError(f"{what} is a str, not {value!r}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} has a lone surrogate, which UTF-8 has not: {value!r}") from None
    return value


def names(value: Any, what: str) -> list[str]:
    """One, or several."""
    if isinstance(value, str):
        return [text(value, what)]
    if not isinstance(value, Iterable):
        raise TypeError(f"{what} is a name or a list of names, not {value!r}")
    return [text(each, f"a name of {what}") for each in value]


def folder(value: Any) -> Path | None:
    """A directory, or None."""
    if value is None:
        return None
    if not isinstance(value, str | PathLike) or not isinstance(fspath(value), str):
        raise TypeError(f"data= is a directory, not {value!r}")
    if not fspath(value):
        raise ValueError("data= is empty: name a directory, or leave it out to keep all in memory")
    return Path(value)


def whole(value: Any, what: str, least: int | None = None, most: int | None = None) -> int:
    """A whole number between two others."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{what} is a whole number, not {value!r}")
    if least is not None and value < least:
        raise ValueError(f"{what} is {least} or more, not {value}")
    if most is not None and value > most:
        raise ValueError(f"{what} is {most} or less, not {value}")
    return value


def number(value: Any, what: str) -> float:
    """A number that is finite."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{what} is a number, not {value!r}")
    if not isfinite(value):
        raise ValueError(f"{what} is a number, not {value}")
    return value


def positive(value: Any, name: str) -> None:
    """A number of more than 0. Raises WrongArgument."""
    if number(value, f"{name}=") <= 0:
        raise WrongArgument(f"{name}={value}: must be more than 0")
    if value > MOST:
        raise WrongArgument(f"{name}={value}: must be {MOST} or less")


def flag(value: Any, what: str) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{what} is True or False, not {value!r}")
    return value


def timeout_of(value: Any) -> float:
    """Seconds to wait; None or infinity: as long as it takes."""
    if value is None or value == float("inf"):
        return FOREVER_S
    return max(number(value, "timeout"), 0)


def topics(given: Any, what: str = "topics=") -> dict[str, int]:
    """Names, and numbers of partitions."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{what} is a dict such as {{'orders': 6}}, not {given!r}")
    return {
        text(name, "a topic's name"): whole(count, f"the number of partitions of '{name}'", 1)
        for name, count in given.items()
    }


def offsets(given: Any, what: str) -> dict[tuple[str, int], int]:
    """By topic and partition."""
    example = f"{what} is a dict such as {{('orders', 0): 5}}"
    if not isinstance(given, Mapping):
        raise TypeError(f"{example}, not {given!r}")
    for place in given:
        if not isinstance(place, tuple) or list(map(type, place)) != [str, int]:
            raise TypeError(f"{example}: {place!r} is no topic with a partition")
        text(place[0], "a topic's name")
    return {
        place: whole(offset, f"the offset of {place[0]}-{place[1]}", 0, LONGEST)
        for place, offset in given.items()
    }


def partitions(given: Any, what: str) -> None:
    """{"orders": [0, 1]}, or the same by member."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{what} is a dict such as {{'orders': [0, 1]}}, not {given!r}")
    for name, some in given.items():
        if isinstance(some, Mapping):
            partitions(some, f"{what} of {name!r}")
        elif isinstance(some, str) or not isinstance(some, Collection):
            raise TypeError(f"{what}: the partitions of {name!r} are a list, not {some!r}")
        else:
            for each in some:
                whole(each, f"{what}: a partition of {name!r}")
