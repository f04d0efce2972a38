"""Finds the offsets in the bytes of an OffsetCommit whose like was decoded before.

All other bytes repeat when a consumer commits the same partitions again.
"""

from struct import Struct

from groupkeeper.protocol.wire import read_varint

FIRST_VERSION = 2
"""First supported version: earlier ones have a timestamp for each partition, or no member."""
_FLEXIBLE, _RETENTION, _LEADER_EPOCH, _INSTANCE = 8, (2, 4), 6, 7
"""Versions: the first with compact fields, those with a retention, and those that added a field."""

_int16_at, _int32_at = Struct(">h").unpack_from, Struct(">i").unpack_from
_INDEX, _OFFSET, _EPOCH = 4, 8, 4


class _Reader:
    """Walks over fields."""

    def __init__(self, data: bytes, pos: int, version: int) -> None:
        self.data = data
        self.pos = pos
        self.is_plain = True
        """No tagged field so far."""
        self._flexible = version >= _FLEXIBLE

    def string(self) -> None:
        """A string, or null."""
        if self._flexible:
            length, self.pos = read_varint(self.data, self.pos)
            self.pos += max(0, length - 1)
        else:
            (length,) = _int16_at(self.data, self.pos)
            self.pos += 2 + max(0, length)

    def count(self) -> int:
        """The number of items of an array."""
        if self._flexible:
            length, self.pos = read_varint(self.data, self.pos)
            return length - 1
        (count,) = _int32_at(self.data, self.pos)
        self.pos += 4
        return int(count)

    def tags(self) -> None:
        """The tagged fields at the end of a struct."""
        if self._flexible:
            count, self.pos = read_varint(self.data, self.pos)
            self.is_plain = self.is_plain and not count


def offsets_at(data: bytes, pos: int, version: int, most: int) -> list[int] | None:
    """Return the positions of the committed offsets, 8 bytes each, in the request whose body is at
    `pos`. None if there are more than `most`, or if it has tagged fields.
    """
    reader, found = _Reader(data, pos, version), list[int]()
    reader.string()
    reader.pos += 4
    reader.string()
    if version >= _INSTANCE:
        reader.string()
    if _RETENTION[0] <= version <= _RETENTION[1]:
        reader.pos += 8
    for _ in range(reader.count()):
        reader.string()
        for _ in range(reader.count()):
            found.append(reader.pos + _INDEX)
            reader.pos += _INDEX + _OFFSET + (_EPOCH if version >= _LEADER_EPOCH else 0)
            reader.string()
            reader.tags()
            if len(found) > most or not reader.is_plain:
                return None
        reader.tags()
    return found if reader.is_plain else None
