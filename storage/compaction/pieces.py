"""Closed segments read in pieces of whole, verified batches, for a compaction.

Damage raises Corrupt: a compaction computes new checksums, which would make damage look valid.
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from groupkeeper.protocol.record_batch import CRC_START, HEADER_SIZE, LENGTH_OVERHEAD, MAGIC
from groupkeeper.storage.errors import Corrupt, remedy
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.files.whole import opened
from groupkeeper.storage.log.segment import segment_path
from groupkeeper.storage.log.window import PIECE

Fields = tuple[int, int, int, int, int, int, int, int, int, int]
"""Fields of a batch: base offset, length, leader epoch, magic, checksum, attributes, last offset
delta, largest timestamp (ms), producer id, record count.

A plain tuple: a segment has hundreds of thousands of batches."""

FIELDS: Final = Struct(">qiibIhi8xqq6xi")
UNREADABLE: Final = "the records of the batch cannot be read"
_LEAST_LENGTH: Final = HEADER_SIZE - LENGTH_OVERHEAD


class SourceSegment(NamedTuple):
    """A closed segment of a log."""

    base: int
    end: int
    """The base offset of the next segment."""
    size: int
    """Bytes."""
    crc: int | None
    """CRC-32C of all its bytes, if known."""


class Piece(NamedTuple):
    """Consecutive whole batches in `buffer`, from `position` of their file."""

    folder: str
    segment: SourceSegment
    position: int
    buffer: bytes
    batches: list[Fields]

    def damaged(self, at: int, what: str) -> Corrupt:
        """Return the error for damage at a place in `buffer`."""
        return _damaged(self.folder, self.segment, self.position + at, what)


def read_pieces(
    files: Files, folder: str, segment: SourceSegment, check: Callable[[], None]
) -> Iterator[Piece]:
    """Yield all batches of a segment, in pieces of about 1 MiB, or one larger batch.

    Calls `check` before each piece. Raises Corrupt at the first damaged batch, and at the end if
    the checksum of the whole differs: nothing of this segment can be trusted then. Raises OSError,
    such as FileNotFoundError.
    """
    reader = _Reader(folder, segment)
    with opened(files, segment_path(folder, segment.base)) as handle:
        if (size := files.size(handle)) != segment.size:
            what = f"the file has {size} bytes instead of {segment.size}"
            raise _damaged(folder, segment, min(size, segment.size), what)
        position = 0
        while position < segment.size:
            check()
            buffer = files.read(handle, min(reader.wanted, segment.size - position), position)
            piece, used = reader.take(buffer, position)
            if used:
                yield piece
                position += used
    reader.check_whole()


class _Reader:
    """Verifies the batches of one segment in order."""

    def __init__(self, folder: str, segment: SourceSegment) -> None:
        self._folder = folder
        self._segment = segment
        self._next_offset = segment.base
        self._epoch = -1
        self._crc = 0
        self.wanted = PIECE
        """How many bytes to read next."""

    def take(self, buffer: bytes, position: int) -> tuple[Piece, int]:
        """Return the whole batches at the start of `buffer`, maybe none, and their size."""
        view = memoryview(buffer)
        batches: list[Fields] = []
        unpack, add = FIELDS.unpack_from, batches.append
        next_offset, epoch = self._next_offset, self._epoch
        at, size, needed = 0, len(buffer), HEADER_SIZE
        while at + HEADER_SIZE <= size:
            fields = unpack(buffer, at)
            base, length, leader_epoch, magic, crc, _, delta, _, _, count = fields
            if magic != MAGIC:
                raise self._odd_magic(position + at, magic)
            if length < _LEAST_LENGTH or delta < 0 or count < 0:
                raise self._damaged(position + at, "the batch is damaged")
            if base < next_offset or base + delta >= self._segment.end or leader_epoch < epoch:
                raise self._damaged(position + at, "the offset or the epoch of the batch is wrong")
            end = at + length + LENGTH_OVERHEAD
            if end > size:
                needed = end - at
                break
            if crc32c(view[at + CRC_START : end]) != crc:
                raise self._damaged(position + at, "the batch is damaged")
            add(fields)
            at, next_offset, epoch = end, base + delta + 1, leader_epoch
        left = self._segment.size - position
        if not at and (needed > left or size < min(self.wanted, left)):
            raise self._damaged(position, "the batch is cut off")
        self.wanted = max(PIECE, needed)
        self._next_offset, self._epoch = next_offset, epoch
        self._crc = crc32c(view[:at], self._crc)
        return Piece(self._folder, self._segment, position, buffer, batches), at

    def check_whole(self) -> None:
        """Raise Corrupt if the bytes taken do not have the checksum of the segment."""
        known = self._segment.crc
        if known is not None and known != self._crc:
            # The checksum of a batch does not cover its base offset and epoch.
            what = "the header of a batch before it is damaged"
            raise self._damaged(self._segment.size, what)

    def _damaged(self, position: int, what: str) -> Corrupt:
        return _damaged(self._folder, self._segment, position, what)

    def _odd_magic(self, position: int, magic: int) -> Corrupt:
        if magic not in (0, 1):
            return self._damaged(position, "the batch is damaged")
        path = segment_path(self._folder, self._segment.base)
        return Corrupt(
            f"{path}: at byte {position}: the batch has magic {magic}, and only 2 is read: "
            f"copy the records with a Kafka client, which rewrites them"
        )


def _damaged(folder: str, segment: SourceSegment, position: int, what: str) -> Corrupt:
    path = segment_path(folder, segment.base)
    return Corrupt(f"{path}: at byte {position}: {what}: {remedy(folder)}")
