"""Encodes answers as JSON in slices: a group may have a hundred thousand members."""

import json
from collections.abc import Iterator
from typing import Any, Final

from groupkeeper.turns import Slices

ROWS_IN_A_SLICE: Final = 100
"""Items of a list that are encoded at a time, about half a millisecond."""


class Raw(bytes):
    """JSON that is encoded already."""

    __slots__ = ()


# Any: JSON, with `Raw` in lists.
def encoded(value: Any) -> Slices[bytes]:
    """The value, and a line feed."""
    parts: list[bytes] = []
    for part in _parts(value):
        if part is None:
            yield
        else:
            parts.append(part)
    return b"".join(parts) + b"\n"


def _parts(value: Any) -> Iterator[bytes | None]:
    """Pieces of JSON; None where a slice ends."""
    if isinstance(value, dict):
        start = b"{"
        for name, item in value.items():
            yield start + _dumped(name) + b": "
            yield from _parts(item)
            start = b", "
        yield b"}" if value else b"{}"
    elif isinstance(value, list) and value and isinstance(value[0], Raw):
        yield b"[" + b", ".join(value) + b"]"
    elif isinstance(value, list) and len(value) > ROWS_IN_A_SLICE:
        start = b"["
        for first in range(0, len(value), ROWS_IN_A_SLICE):
            yield start + _dumped(value[first : first + ROWS_IN_A_SLICE])[1:-1]
            yield None
            start = b", "
        yield b"]"
    else:
        yield _dumped(value)


def _dumped(value: Any) -> bytes:
    return json.dumps(value).encode()
