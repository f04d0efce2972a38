"""Marks: how far a log was durable at some time, and where a scan of it may begin.

A mark is a lower bound and stays true, also after further appends: bytes that were once durable
must be there whenever the log is opened. Marks are kept in the journal (journal.py) and in the
manifest of the log's folder (manifest.py).
"""

from struct import Struct
from typing import Final, NamedTuple

from groupkeeper.storage.log.index import IndexState

SECTOR: Final = 512
"""Bytes that a disk writes as a unit. A torn write may lose any byte of its sectors."""

_FIELDS: Final = Struct(">QQQI")
_POINT: Final = Struct(">QQIIIqII")


class RecoveryPoint(NamedTuple):
    """Summary of a segment up to some byte, so that a scan need not begin before it.

    Source: Kafka's recovery-point-offset-checkpoint.
    """

    size: int
    """Number of bytes before the point: whole batches."""
    end: int
    """The offset after these bytes."""
    crc: int
    """CRC-32C of these bytes."""
    indexes: IndexState
    """Extent of the indexes for these bytes."""
    check: int
    """CRC-32C of the index entries for these bytes, and of the epochs that begin before `end`."""

    def to_bytes(self) -> bytes:
        return _POINT.pack(self.size, self.end, self.crc, *self.indexes, self.check)

    @classmethod
    def from_bytes(cls, data: bytes) -> "RecoveryPoint":
        size, end, crc, *indexes, check = _POINT.unpack(data)
        return cls(size, end, crc, IndexState(*indexes), check)


class Mark(NamedTuple):
    """States that the first `size` bytes of a segment, and all segments before it, are durable."""

    base: int
    """Base offset of the segment."""
    size: int
    end: int
    """The offset after these bytes."""
    crc: int
    """CRC-32C of these bytes."""
    tail: bytes
    """The last of these bytes, which share a sector with the next append."""
    point: RecoveryPoint | None = None
    """The segment's newest recovery point; None: a scan begins with the segment."""

    def to_bytes(self) -> bytes:
        point = self.point.to_bytes() if self.point is not None else b""
        return _FIELDS.pack(self.base, self.size, self.end, self.crc) + self.tail + point

    @classmethod
    def from_bytes(cls, data: bytes) -> "Mark":
        base, size, end, crc = _FIELDS.unpack_from(data)
        tail, point = data[_FIELDS.size :][: size % SECTOR], data[_FIELDS.size + size % SECTOR :]
        return cls(base, size, end, crc, tail, RecoveryPoint.from_bytes(point) if point else None)


def newest(*marks: Mark | None) -> Mark | None:
    """Return the mark with the largest end; among equals, that with the newest recovery point."""
    return max(filter(None, marks), key=_age, default=None)


def _age(mark: Mark) -> tuple[int, int]:
    return mark.end, mark.point.end if mark.point is not None else -1


def whole_sectors(size: int) -> int:
    """Round a size up to a multiple of a sector."""
    return -(-size // SECTOR) * SECTOR
