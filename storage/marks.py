"""Marks: how far a log was known to be on the disk at some time.

A mark is a lower bound and stays true: what was durable once must be there when the log is opened
later, so no mark has to be withdrawn before the next append. It is kept in the journal (journal.py)
and in the manifest of the log's folder (manifest.py).
"""

from struct import Struct
from typing import Final, NamedTuple

SECTOR: Final = 512
"""What a disk writes at once. When a write is torn, any byte of its sectors may be lost."""

_FIELDS: Final = Struct(">QQQI")


class Mark(NamedTuple):
    """The first `size` bytes of a segment, with this checksum, and all before it, are durable."""

    base: int
    """Base offset of the segment."""
    size: int
    end: int
    """The offset after the last one."""
    crc: int
    """CRC-32C."""
    tail: bytes
    """The last of those bytes: they share a sector with the next append."""

    def to_bytes(self) -> bytes:
        return _FIELDS.pack(self.base, self.size, self.end, self.crc) + self.tail

    @classmethod
    def from_bytes(cls, data: bytes) -> "Mark":
        base, size, end, crc = _FIELDS.unpack_from(data)
        return cls(base, size, end, crc, data[_FIELDS.size :])


def newest(*marks: Mark | None) -> Mark | None:
    """The mark with the largest end."""
    return max((mark for mark in marks if mark), key=lambda mark: mark.end, default=None)


def whole_sectors(size: int) -> int:
    """A size rounded up to a multiple of a sector."""
    return -(-size // SECTOR) * SECTOR
