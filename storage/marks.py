"""
How far a log was known to be on the disk at some time, for whoever opens it later.

A mark is a lower bound, and stays one: what was durable once must be there, whatever happened
since. So nobody has to take it back before the next append. It is kept in the journal (journal.py)
and in the manifest of the log's folder (manifest.py).
"""

from struct import Struct
from typing import Final, NamedTuple

SECTOR: Final = 512
"""What a disk writes in one go. Whatever else is in a sector may go when a write to it is torn."""

_FIELDS: Final = Struct(">QQQI")


class Mark(NamedTuple):
    """
    The first `size` bytes of a segment, with this CRC-32C, and all before it. `tail` repeats those
    that are in one sector with the bytes of the next append.
    """

    base: int
    size: int
    end: int
    """The offset after the last one."""
    crc: int
    tail: bytes

    def to_bytes(self) -> bytes:
        return _FIELDS.pack(self.base, self.size, self.end, self.crc) + self.tail

    @classmethod
    def from_bytes(cls, data: bytes) -> "Mark":
        base, size, end, crc = _FIELDS.unpack_from(data)
        return cls(base, size, end, crc, data[_FIELDS.size :])


def newest(*marks: Mark | None) -> Mark | None:
    """The one that reaches farthest."""
    return max((mark for mark in marks if mark), key=lambda mark: mark.end, default=None)


def whole_sectors(size: int) -> int:
    """The first multiple of a sector that is no less."""
    return -(-size // SECTOR) * SECTOR
