"""A short cut for plain batches of one commit each, which most batches of most clusters are.

    heads = CommitHeads()
    heads.learn(data, position, end, place)     # of a batch that was decoded in full
    end, commits, values, epoch = heads.read(data, position, next_offset)

The head of a record is all of it before its value. Where a batch has the same head, size and
attributes as one that was decoded, nothing but offset and time differs.
"""

from struct import Struct
from typing import Final

from crc32c import crc32c

from groupkeeper.history.fields import LAST_MS
from groupkeeper.history.records import CommitRun
from groupkeeper.protocol.record_batch import CRC_START, HEADER_SIZE, LENGTH_OVERHEAD, MAGIC

HEADS_MOST: Final = 100_000
"""Maximum number of heads to keep; if there are more, all are dropped."""
VALUE_SIZE: Final = 24
"""Size of the value of a commit without metadata, of version 3."""
_TAIL: Final = VALUE_SIZE + 1
"""Size of what follows a head: the value, and the number of headers."""
_BATCH: Final = Struct(">qiibIhiq22xi")
"""Base offset, length, leader epoch, magic, checksum, attributes, last offset delta, base timestamp
and record count."""


class CommitHeads:
    """Heads of the records of commits of one partition of the log."""

    def __init__(self) -> None:
        self._places: dict[bytes, tuple[str, str, int]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def learn(self, data: bytes, position: int, end: int, place: tuple[str, str, int]) -> None:
        """Remember the head of a plain batch of one commit for a place (group, topic, partition),
        whose value has `VALUE_SIZE`, whose record has the time of the batch, and no headers.
        """
        if len(self._places) >= HEADS_MOST:
            self._places.clear()
        self._places[data[position + HEADER_SIZE : end - _TAIL]] = place

    def read(
        self, data: bytes, position: int, next_offset: int
    ) -> tuple[int, list[CommitRun], list[bytes], int]:
        """Read batches with known heads, from an offset on without a gap. Returns where the first
        other batch begins, a run for each commit, their values, and the leader epoch of the last;
        -1 without any.
        """
        found, values = list[CommitRun](), list[bytes]()
        places, last_epoch = self._places, -1
        most = len(data) - HEADER_SIZE - _TAIL
        while position < most:
            fields = _BATCH.unpack_from(data, position)
            base, length, epoch, magic, crc, attributes, delta, ms, count = fields
            if magic != MAGIC or attributes or delta or count != 1 or base != next_offset:
                break
            end = position + length + LENGTH_OVERHEAD
            place = places.get(data[position + HEADER_SIZE : end - _TAIL])
            if place is None or end > len(data) or data[end - 1] or not 0 <= ms <= LAST_MS:
                break
            if crc32c(data[position + CRC_START : end]) != crc:
                break
            found.append(CommitRun(base, base, *place, ms, ms, 1, 0, epoch))
            values.append(data[end - _TAIL : end - 1])
            position, next_offset, last_epoch = end, base + 1, epoch
        return position, found, values, last_epoch
