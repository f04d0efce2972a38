"""The two indexes of a segment, as in Kafka: offset to position, and timestamp to offset.

They are in memory while the segment is in use. Their files are written as a whole when the segment
is rolled or closed, are extended at each recovery point (recovery_point.py), are verified when
read, and can be rebuilt from the batches.

Rule: before a batch is added, if more than index.interval.bytes were appended since the last entry,
the offset index gets (last offset of the batch, its position), and the time index gets (largest
timestamp so far, last offset of its batch) if that timestamp exceeds the one in its last entry. A
closed segment has one more time entry under the same condition.

Source: Kafka's LogSegment.append and LogSegment.recover, OffsetIndex, TimeIndex.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from itertools import pairwise
from struct import Struct
from typing import Final, NamedTuple

OFFSET_ENTRY: Final = 8
TIME_ENTRY: Final = 12
_TIME: Final = Struct(">qi")
_NO_TIMESTAMP: Final = -1


def timestamp_of(entry: bytes) -> int:
    """Return the timestamp in an entry of a time index file; -1 if there is none."""
    timestamp: int = _TIME.unpack(entry)[0] if len(entry) == TIME_ENTRY else _NO_TIMESTAMP
    return timestamp


class IndexState(NamedTuple):
    """The extent of a segment's indexes at some time. Indexes only grow."""

    offsets: int
    """Number of entries in the offset index."""
    times: int
    """Number of entries in the time index."""
    max_timestamp: int
    max_offset: int
    """The relative last offset of the batch with that timestamp."""


class TimeIndex:
    """Entries of (largest timestamp so far in ms, relative last offset of its batch)."""

    __slots__ = ("entries", "max_offset", "max_timestamp", "packed", "saved")

    def __init__(self, packed: bytes = b"") -> None:
        """Load `packed`: whole entries in the format of the file."""
        self.packed = bytearray(packed)
        self.entries: list[tuple[int, int]] = list(_TIME.iter_unpack(packed))
        last = self.entries[-1:] or [(_NO_TIMESTAMP, 0)]
        [(self.max_timestamp, self.max_offset)] = last
        self.saved = 0
        """Number of entries that are in the file already."""

    def add(self, last: int, timestamp: int) -> None:
        """Add a batch after all others: its relative last offset and largest timestamp."""
        if timestamp > self.max_timestamp:
            self.max_timestamp, self.max_offset = timestamp, last

    def enter(self) -> None:
        """Append an entry, unless the last entry has the same timestamp."""
        if self.lags:
            self.packed += _TIME.pack(self.max_timestamp, self.max_offset)
            self.entries.append((self.max_timestamp, self.max_offset))

    @property
    def lags(self) -> bool:
        """Whether a timestamp exceeds the one in the last entry."""
        last = self.entries[-1][0] if self.entries else _NO_TIMESTAMP
        return self.max_timestamp > last


class Index:
    """Both indexes. Offsets are relative to the segment's base. Other threads may do lookups."""

    __slots__ = ("_interval", "_offsets", "_positions", "_since", "saved", "times")

    def __init__(self, interval_bytes: int) -> None:
        self._interval = interval_bytes
        self.clear()

    def clear(self) -> None:
        """Drop all entries, so that the batches can be added again."""
        self._since = 0
        self._offsets = array("I")
        self._positions = array("I")
        self.times = TimeIndex()
        self.saved = 0
        """Number of entries of the offset index that are in the file already."""

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp of the batches, or -1. It counts when its record is deleted."""
        return self.times.max_timestamp

    def add(self, last: int, position: int, size: int, timestamp: int) -> None:
        """Add a batch: relative last offset, position, size in bytes, largest timestamp."""
        self.times.add(last, timestamp)
        if self._since > self._interval:
            self._positions.append(position)
            self._offsets.append(last)
            self.times.enter()
            self._since = 0
        self._since += size

    def is_full(self, index_bytes: int) -> bool:
        """Return whether one more entry would bring an index file to this size."""
        offsets_full = len(self._offsets) >= index_bytes // OFFSET_ENTRY
        return offsets_full or len(self.times.entries) >= index_bytes // TIME_ENTRY - 1

    def floor(self, relative_offset: int) -> int:
        """Return a position at or before the batch that contains the offset."""
        entry = bisect_right(self._offsets, relative_offset)
        # An entry has the last offset of its batch, so an exact match may be that very batch.
        return self._positions[entry - 1] if entry else 0

    def floor_by_position(self, position: int) -> int:
        """Return the position of a batch that starts at or before `position`."""
        entry = bisect_right(self._positions, position)
        return self._positions[entry - 1] if entry else 0

    def floor_by_time(self, timestamp: int) -> int:
        """Return a position at or before the first batch with at least this timestamp."""
        times = self.times.entries
        entry = bisect_left(times, timestamp, key=lambda time: time[0])
        if entry < len(times):
            # The batch of this entry is recent enough, but the first such batch may precede it: do
            # not start at the batch's own entry in the offset index.
            return self.floor(times[entry][1] - 1)
        return self._positions[-1] if self._positions else 0

    @property
    def state(self) -> IndexState:
        """The current extent of the indexes. For the thread that appends."""
        times = self.times
        return IndexState(
            len(self._offsets), len(times.entries), times.max_timestamp, times.max_offset
        )

    def offset_file(self, count: int | None = None) -> bytes:
        """Return the contents of the offset index file, limited to `count` entries."""
        count = len(self._offsets) if count is None else count
        entries = array("I", bytes(count * OFFSET_ENTRY))
        entries[0::2] = self._offsets[:count]
        entries[1::2] = self._positions[:count]
        return _big_endian(entries).tobytes()

    def time_file(self) -> bytes:
        """Return the contents of the time index file of a closed segment."""
        times = self.times
        closing = _TIME.pack(times.max_timestamp, times.max_offset) if times.lags else b""
        return bytes(times.packed) + closing

    def resume(self, offsets: bytes, times: bytes, state: IndexState, segment_size: int) -> None:
        """Load trusted contents of the files, as of when the segment had `segment_size` bytes."""
        entries = _big_endian(array("I", offsets))
        self._offsets, self._positions, self.times = entries[0::2], entries[1::2], TimeIndex(times)
        self.times.max_timestamp, self.times.max_offset = state.max_timestamp, state.max_offset
        self.saved, self.times.saved = state.offsets, state.times
        self._since = segment_size - (self._positions[-1] if self._positions else 0)

    def load(self, offsets: bytes, times: bytes, segment_size: int) -> bool:
        """Load the files of a closed segment. Returns False and loads nothing if they are wrong."""
        if len(offsets) % OFFSET_ENTRY or len(times) % TIME_ENTRY:
            return False
        entries = _big_endian(array("I", offsets))
        relative, positions = entries[0::2], entries[1::2]
        time_index = TimeIndex(times)
        rising = [time for time, _ in time_index.entries]
        if not (_rises(relative) and _rises(positions) and _rises(rising)):
            return False
        if positions and positions[-1] >= segment_size:
            return False
        if not rising:
            return False
        self._offsets, self._positions, self.times = relative, positions, time_index
        return True


def _rises(numbers: "array[int] | list[int]") -> bool:
    return all(one < other for one, other in pairwise(numbers))


def _big_endian(numbers: "array[int]") -> "array[int]":
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers
