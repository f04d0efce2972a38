"""Checks the arguments of the public test API, so that a mistake is reported in one line instead of
as an internal error or an endless wait.

All functions raise TypeError for a wrong type, and ValueError for an impossible value.
"""

from collections.abc import Collection, Iterable, Mapping
from math import isfinite
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final

from groupkeeper.testing.errors import WrongArgument

FOREVER_S: Final = 366 * 24 * 3600.0
"""Stands for an unlimited timeout: a year."""

MOST: Final = 2**31 - 1
"""Largest int32, the type of most numbers in the protocol."""
LONGEST: Final = 2**63 - 1
"""Largest int64, the protocol's type of offsets and timestamps."""


# Any: unchecked arguments of a test.
def text(value: Any, what: str) -> str:
    """Check for a str that UTF-8 can encode, and return it."""
    if not isinstance(value, str):
        raise TypeError(f"{what} is a str, not {value!r}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} contains a lone surrogate, invalid in UTF-8: {value!r}") from None
    return value


def names(value: Any, what: str) -> list[str]:
    """Return one name, or several, as a list."""
    if isinstance(value, str):
        return [text(value, what)]
    if not isinstance(value, Iterable):
        raise TypeError(f"{what} is a name or a list of names, not {value!r}")
    return [text(each, f"a name of {what}") for each in value]


def folder(value: Any) -> Path | None:
    """Return the path of a directory, or None."""
    if value is None:
        return None
    if not isinstance(value, str | PathLike) or not isinstance(fspath(value), str):
        raise TypeError(f"data= is a directory, not {value!r}")
    if not fspath(value):
        raise ValueError("data= is empty: name a directory, or leave it out to keep all in memory")
    return Path(value)


def whole(value: Any, what: str, least: int | None = None, most: int | None = None) -> int:
    """Check for an int, from `least` to `most` if they are given, and return it."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{what} is a whole number, not {value!r}")
    if least is not None and value < least:
        raise ValueError(f"{what} is {least} or more, not {value}")
    if most is not None and value > most:
        raise ValueError(f"{what} is {most} or less, not {value}")
    return value


def number(value: Any, what: str) -> float:
    """Check for a finite number, and return it."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{what} is a number, not {value!r}")
    if not isfinite(value):
        raise ValueError(f"{what} is a finite number, not {value}")
    return value


def positive(value: Any, what: str) -> None:
    """Check for a number from above 0 to `MOST`. Raises WrongArgument."""
    if number(value, what) <= 0:
        raise WrongArgument(f"{what}{value}: must be more than 0")
    if value > MOST:
        raise WrongArgument(f"{what}{value}: must be {MOST} or less")


def flag(value: Any, what: str) -> bool:
    """Check for a bool, and return it."""
    if not isinstance(value, bool):
        raise TypeError(f"{what} is True or False, not {value!r}")
    return value


def timeout_of(value: Any) -> float:
    """Return a timeout in seconds; None and infinity become `FOREVER_S`."""
    if value is None or value == float("inf"):
        return FOREVER_S
    return max(number(value, "timeout"), 0)


def topics(given: Any, what: str = "topics=") -> dict[str, int]:
    """Check {topic: number of partitions}, and return a copy."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{what} is a dict such as {{'orders': 6}}, not {given!r}")
    return {
        text(name, "a topic's name"): whole(count, f"the number of partitions of '{name}'", 1)
        for name, count in given.items()
    }


def offsets(given: Any, what: str) -> dict[tuple[str, int], int]:
    """Check {(topic, partition): offset}, and return a copy."""
    example = f"{what} is a dict such as {{('orders', 0): 5}}"
    if not isinstance(given, Mapping):
        raise TypeError(f"{example}, not {given!r}")
    for place in given:
        if not isinstance(place, tuple) or list(map(type, place)) != [str, int]:
            raise TypeError(f"{example}: {place!r} is not a (topic, partition) pair")
        text(place[0], "a topic's name")
    return {
        place: whole(offset, f"the offset of {place[0]}-{place[1]}", 0, LONGEST)
        for place, offset in given.items()
    }


def partitions(given: Any, what: str) -> None:
    """Check {topic: [partitions]}, or {member: {topic: [partitions]}}."""
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
