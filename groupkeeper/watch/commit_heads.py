"""A short cut for plain batches of one commit each, which most batches of most clusters are.

    heads = CommitHeads()
    heads.learn(data, position, end, place)     # of a batch that was decoded in full
    stretch = heads.read(data, position, next_offset, epoch)

The head of a record is all of it before its value. Where a batch has the same head, size and
attributes as one that was decoded, nothing but offset and time differs.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

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
_OFFSET: Final = slice(2, 10)
"""Where a value has the committed offset."""
_BATCH: Final = Struct(">qiibIhiq22xi")
"""Base offset, length, leader epoch, magic, checksum, attributes, last offset delta, base timestamp
and record count."""

CommitPlace = tuple[str, str, int]
"""Group, topic and partition of a commit."""


class LoneRun:
    """Commits for one place, each in a batch of its own. What is told of them has the effect of all
    of them.
    """

    __slots__ = (
        *("_commits", "_epoch", "_first_ms", "_first_offset", "_first_value", "_is_repeated"),
        *("_last_ms", "_last_offset", "_last_value", "_longest_ms", "place"),
    )

    def __init__(self, place: CommitPlace, offset: int, ms: int, epoch: int, value: bytes) -> None:
        self.place, self._commits, self._epoch, self._longest_ms = place, 1, epoch, 0
        self._first_offset = self._last_offset = offset
        self._first_ms = self._last_ms = ms
        self._first_value = self._last_value = value
        self._is_repeated = False

    def add(self, offset: int, ms: int, value: bytes) -> None:
        """Add the next commit."""
        self._commits += 1
        self._last_offset = offset
        pause = ms - self._last_ms
        if pause > 0:  # else the clock of the leader was set back
            self._last_ms = ms
            self._longest_ms = max(self._longest_ms, pause)
        self._is_repeated |= value[_OFFSET] == self._last_value[_OFFSET]
        self._last_value = value

    @property
    def run(self) -> CommitRun:
        """Where and when the commits were."""
        times = self._first_ms, self._last_ms
        about = self._commits, self._longest_ms, self._epoch
        return CommitRun(self._first_offset, self._last_offset, *self.place, *times, *about)

    @property
    def values(self) -> list[tuple[CommitPlace, bytes]]:
        """Values for `CommittedOffsets.put`: the first may repeat an earlier one, the last is the
        newest, and stands twice if any was committed twice in a row.
        """
        first, last = (self.place, self._first_value), (self.place, self._last_value)
        if self._is_repeated:
            return [first, last, last]
        return [first] if self._commits == 1 else [first, last]


class CommitStretch(NamedTuple):
    """Consecutive records, all of which are commits, of one leader epoch."""

    end: int
    """Position behind the last batch."""
    runs: Sequence[LoneRun] = ()
    """One run for each place."""
    first_offset: int = 0
    next_offset: int = 0
    """Offset behind the last record; `first_offset` if there is none."""
    first_ms: int = -1
    last_ms: int = -1
    """Times of the first and the last record; -1 if there is none."""


class CommitHeads:
    """Heads of the records of commits of one partition of the log."""

    def __init__(self) -> None:
        self._places: dict[bytes, CommitPlace] = {}

    def __len__(self) -> int:
        return len(self._places)

    def learn(self, data: bytes, position: int, end: int, place: CommitPlace) -> None:
        """Remember the head of a plain batch of one commit for a place (group, topic, partition),
        whose value has `VALUE_SIZE`, whose record has the time of the batch, and no headers.
        """
        if len(self._places) >= HEADS_MOST:
            self._places.clear()
        self._places[data[position + HEADER_SIZE : end - _TAIL]] = place

    def read(self, data: bytes, position: int, next_offset: int, epoch: int) -> CommitStretch:
        """Read batches of a leader epoch with known heads, from an offset on without a gap, up to
        the first other batch.
        """
        runs, places = dict[CommitPlace, LoneRun](), self._places
        offset, first_ms, last_ms = next_offset, -1, -1
        most = len(data) - HEADER_SIZE - _TAIL
        while position < most:
            fields = _BATCH.unpack_from(data, position)
            base, length, its_epoch, magic, crc, attributes, delta, ms, count = fields
            if magic != MAGIC or attributes or delta or count != 1 or base != offset:
                break
            end = position + length + LENGTH_OVERHEAD
            place = places.get(data[position + HEADER_SIZE : end - _TAIL])
            if place is None or end > len(data) or data[end - 1] or not 0 <= ms <= LAST_MS:
                break
            if its_epoch != epoch or crc32c(data[position + CRC_START : end]) != crc:
                break
            value, run = data[end - _TAIL : end - 1], runs.get(place)
            if run is None:
                runs[place] = LoneRun(place, base, ms, epoch, value)
            else:
                run.add(base, ms, value)
            first_ms, last_ms = (ms if first_ms < 0 else first_ms), ms
            position, offset = end, base + 1
        return CommitStretch(position, [*runs.values()], next_offset, offset, first_ms, last_ms)
