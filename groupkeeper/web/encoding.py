"""Encodes responses as JSON in slices, since a group may have a hundred thousand members, and a
member thousands of partitions.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

from groupkeeper.turns import Slices

VALUES: Final = 1_000
"""Maximum number of values, nested ones included, per slice; takes about half a millisecond."""
CHARACTERS: Final = 200
"""Number of characters of a string that count as one value."""
PIECE_BYTES: Final = 64 * 1024
"""Size of the pieces of a response; copying megabytes at once would take milliseconds."""


class Raw(bytes):
    """A value that is already encoded as JSON."""

    __slots__ = ()


# Any: JSON, with `Raw` in it.
def encoded(value: Any) -> Slices[list[bytes]]:
    """Encode a value and a line feed, in pieces of about `PIECE_BYTES`."""
    pieces, parts, size = list[bytes](), list[bytes](), 0
    for part in _parts(value):
        if part is None:
            yield
            continue
        parts.append(part)
        size += len(part)
        if size >= PIECE_BYTES:
            pieces.append(b"".join(parts))
            parts, size = [], 0
    return [*pieces, b"".join((*parts, b"\n"))]


def _parts(value: Any) -> Iterator[bytes | None]:
    """Yield parts of the JSON text, and None at the end of each slice."""
    if isinstance(value, Raw):
        yield value
    elif not isinstance(value, dict | list | tuple) or _left(value, VALUES) >= 0:
        yield json.dumps(value).encode()
    else:
        yield from _long(value)
    yield None


def _long(value: Any) -> Iterator[bytes | None]:
    """Encode a large object or list, with as many items per slice as fit."""
    is_object = isinstance(value, dict)
    items = value.items() if is_object else value
    yield b"{" if is_object else b"["
    some, left, comma = list[Any](), VALUES, b""
    for item in items:
        left = _left(item, left)
        if left >= 0:
            some.append(item)
            continue
        if some:
            yield comma + _inside(some, is_object)
            yield None
            comma = b", "
        some, left = [item], _left(item, VALUES)
        if left < 0:
            name, held = item if is_object else (None, item)
            yield comma + (json.dumps(name).encode() + b": " if is_object else b"")
            yield from _parts(held)
            some, left, comma = [], VALUES, b", "
    if some:
        yield comma + _inside(some, is_object)
    yield b"}" if is_object else b"]"


def _inside(some: list[Any], is_object: bool) -> bytes:
    return json.dumps(dict(some) if is_object else some)[1:-1].encode()


def _left(value: Any, left: int) -> int:
    """Return how many more values fit into the slice; negative if this one does not fit."""
    if isinstance(value, Raw):
        return -1
    left -= 1
    if isinstance(value, str):
        return left - len(value) // CHARACTERS
    if isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            left = _left(item, left)
            if left < 0:
                break
    return left
