"""Finds, in the log of a consumed topic partition, its end offset at a given time and the batch
that holds an offset.

The log may belong to a running broker, and files may go away. The answer is None if it cannot be
determined: an offset or a time before the first record left, damaged segments, other formats.

Only batch headers are read. A walk starts from the `.index`, whose entries (int32 last offset of a
batch, relative to the segment's base; int32 position of that batch or an earlier one) are thinned
to one in BLOCK_BYTES. Bytes without entries, such as the end of a segment being written, are walked
once. The `.timeindex` (int64 largest timestamp so far; int32 relative last offset of its batch)
excludes batches by time. Neither has a checksum: an entry is used only if the headers confirm it.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from struct import Struct
from typing import BinaryIO, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from groupkeeper.analytics.reading import files
from groupkeeper.analytics.reading.files import AnyPath
from groupkeeper.analytics.reading.walk import disagreeing
from groupkeeper.protocol.record_batch import HEADER_SIZE, LENGTH_OVERHEAD, MAGIC

BLOCK_BYTES: Final = 64 * 1024
"""Approximate number of bytes that one lookup reads."""
UNINDEXED_MOST: Final = 64 * 1024 * 1024
"""A segment with more than this many bytes after its last `.index` entry is not walked."""

_Kind = np.dtype[np.void]
Entries = npt.NDArray[np.void]

_FIELDS: Final = Struct(">qi4xb4xhiqq14xi")
_ENTRY: Final[_Kind] = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIME: Final[_Kind] = np.dtype([("time", ">i8"), ("offset", ">i4")])
_BLOCKS: Final = 64
"""Blocks cached per segment: successive groups look up the same ones."""


class NotKnown(Exception):
    """A segment, or part of it, is unusable: damaged, of another format, or too long to walk."""


class _Batch(NamedTuple):
    """A batch with offsets [base, until); times are epoch milliseconds, -1 if absent."""

    base: int
    until: int
    attributes: int
    base_time: int
    max_time: int
    records: int


class _Block(NamedTuple):
    batches: list[_Batch]
    next: int
    """Position of the batch after the block."""


class TopicSegment:
    """A segment of `size` bytes and base offset `base`. Its offsets are below `until`, which is
    None for the last segment. Methods raise OSError and NotKnown.
    """

    def __init__(self, path: AnyPath, base: int, size: int, until: int | None) -> None:
        self.base = base
        self._until = until
        self._size = size
        self._file: BinaryIO = path.open("rb")
        self._blocks: dict[int, _Block] = {}
        self._times, self._time_offsets = _times(path, base)
        self._cursor = (-1, 0)
        """Time and block: all batches before that block have timestamps up to that time."""
        lasts, positions = _marks(path, base, size)
        self._lasts, self._positions = [base, *lasts], [0, *positions]
        self._indexed = len(lasts)
        try:
            self.end = self._walk_tail()
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        self._file.close()

    def from_offset(self, offset: int) -> Iterator[_Batch]:
        """Return the batches that end after an offset."""
        mark = bisect_right(self._lasts, offset) - 1
        return (each for each in self._batches(max(mark, 0)) if each.until > offset)

    def end_at(self, time: int) -> int | None:
        """Return the end offset at a time: a batch counts as written at the largest timestamp of
        the segment up to it. None if records are missing there.
        """
        mark = self._start_at(time)
        reached = self._block(mark - 1).batches[-1].until if mark else self.base
        for number in range(mark, len(self._positions)):
            for each in self._block(number).batches:
                if each.max_time > time:
                    self._cursor = time, number
                    return each.base if each.base == reached else None
                reached = each.until
        self._cursor = time, len(self._positions) - 1
        return self.end if self._until in (None, self.end) else None

    def place_of(self, since: int) -> tuple[int, int]:
        """Position and base of a batch: no earlier batch has records from `since` on."""
        mark = self._start_at(since - 1)
        batches = self._block(mark).batches
        return (self._positions[mark], batches[0].base) if batches else (0, self.base)

    def _start_at(self, time: int) -> int:
        """Return a block: no batch before it has a timestamp later than `time`."""
        known, number = self._cursor
        if time < known:
            number = 0
        entry = bisect_right(self._times, time) - 1
        if entry >= 0:
            offset = self._time_offsets[entry]
            mark = bisect_right(self._lasts, offset) - 1
            if mark > number and self._says(offset, self._times[entry]):
                number = mark
        return number

    def _says(self, offset: int, time: int) -> bool:
        found = next(self.from_offset(offset), None)
        return found is not None and found.base <= offset and found.max_time == time

    def _walk_tail(self) -> int:
        """Add blocks after the last index entry. Returns the end offset."""
        if self._size - self._positions[-1] > UNINDEXED_MOST:
            raise NotKnown("too many bytes without index entries")
        end = self.base
        while True:
            block = self._block(len(self._positions) - 1)
            end = block.batches[-1].until if block.batches else end
            if block.next >= self._size:
                return end
            self._lasts.append(end)
            self._positions.append(block.next)

    def _batches(self, mark: int) -> Iterator[_Batch]:
        for number in range(mark, len(self._positions)):
            yield from self._block(number).batches

    def _block(self, mark: int) -> _Block:
        found = self._blocks.pop(mark, None)
        if found is None:
            is_last = mark + 1 == len(self._positions)
            start = self._positions[mark]
            stop = start + BLOCK_BYTES if is_last else self._positions[mark + 1]
            found = self._read(start, min(stop, self._size))
            batches = found.batches
            is_wrong = not is_last and found.next != stop
            if 0 < mark <= self._indexed:
                is_wrong |= not batches or batches[0].base > self._lasts[mark]
            if is_wrong:
                raise NotKnown("its index is wrong, or a batch is damaged")
            while len(self._blocks) >= _BLOCKS:
                del self._blocks[next(iter(self._blocks))]
        self._blocks[mark] = found
        return found

    def _read(self, start: int, stop: int) -> _Block:
        """Read the headers of batches that begin in [start, stop)."""
        found: list[_Batch] = []
        position, begin, data, before = start, start, b"", self.base
        highest = self._until if self._until is not None else 2**63 - 1
        while position < stop:
            if position - begin + HEADER_SIZE > len(data):
                self._file.seek(position)
                begin, data = position, self._file.read(BLOCK_BYTES)
            if len(data) < HEADER_SIZE:
                return self._torn(found)
            fields = _FIELDS.unpack_from(data, position - begin)
            base, length, magic, attributes, delta, base_time, max_time, records = fields
            size, until = length + LENGTH_OVERHEAD, base + delta + 1
            if size < HEADER_SIZE or magic != MAGIC or position + size > self._size:
                return self._torn(found)
            if not before <= base < until <= highest:
                raise NotKnown("offsets do not rise")
            found.append(_Batch(base, until, attributes, base_time, max_time, records))
            position, before = position + size, until
        return _Block(found, position)

    def _torn(self, found: list[_Batch]) -> _Block:
        """End a block at bytes that are not a batch. In the last segment they may be an unfinished
        batch or preallocated zeros.
        """
        if self._until is not None:
            raise NotKnown("bytes that are not a batch")
        return _Block(found, self._size)


def place_of(path: AnyPath, base: int, size: int, since: int) -> tuple[int, int]:
    """See `TopicSegment.place_of`; the start of the segment if that fails."""
    with suppress(OSError, NotKnown), closing(TopicSegment(path, base, size, None)) as segment:
        return segment.place_of(since)
    return 0, base


def first_time(path: AnyPath) -> int:
    """The largest timestamp of a segment's first batch; -1 if it has none. Raises OSError."""
    with path.open("rb") as file:
        data = file.read(HEADER_SIZE)
    if len(data) < HEADER_SIZE:
        return -1
    _, _, magic, _, _, _, max_time, _ = _FIELDS.unpack_from(data)
    return int(max_time) if magic == MAGIC else -1


def _marks(path: AnyPath, base: int, size: int) -> tuple[list[int], list[int]]:
    """Return offsets and positions of index entries, at most one in BLOCK_BYTES."""
    entries = _entries(path.with_suffix(".index"), _ENTRY)
    positions = entries["position"].astype(np.int64)
    rising = _rising(positions, 0, size)
    positions, offsets = positions[:rising], entries["offset"][:rising].astype(np.int64) + base
    _, first = np.unique(positions // BLOCK_BYTES, return_index=True)
    first = first[positions[first] >= BLOCK_BYTES]
    return offsets[first].tolist(), positions[first].tolist()


def _times(path: AnyPath, base: int) -> tuple[list[int], list[int]]:
    entries = _entries(path.with_suffix(".timeindex"), _TIME)
    times = entries["time"].astype(np.int64)
    rising = _rising(times, -1, 2**63 - 1)
    offsets = entries["offset"][:rising].astype(np.int64) + base
    return times[:rising].tolist(), offsets.tolist()


def _entries(path: AnyPath, kind: _Kind) -> Entries:
    try:
        data = path.read_bytes()
    except OSError:
        return np.zeros(0, kind)
    return np.frombuffer(data, kind, len(data) // kind.itemsize)


def _rising(numbers: npt.NDArray[np.int64], lowest: int, highest: int) -> int:
    """Count the leading entries that rise; zeros of preallocated space follow them."""
    falls = np.flatnonzero((np.diff(numbers, prepend=lowest) <= 0) | (numbers >= highest))
    return int(falls[0]) if len(falls) else len(numbers)


_SEGMENT: Final = re.compile(r"\d{20}\.log")
_OPEN_MOST: Final = 4
"""Maximum number of open segments: the last, and those in which slow groups read."""
_HOUR_MS: Final = 3_600_000


class TopicLog:
    """The segments in one folder. Close it after use. Raises OSError."""

    def __init__(self, folder: AnyPath) -> None:
        found = sorted((int(each.stem), each) for each in _segments_in(folder))
        self._paths = [path for _, path in found]
        self._bases = [base for base, _ in found]
        self._sizes = [files.status(path).size for path in self._paths]
        self._open: dict[int, TopicSegment] = {}
        self._times: list[int] | None = None
        self._dated: list[int] = []

    @property
    def length(self) -> tuple[int, int]:
        """Sort key: of two copies of a log, the longer has the greater value."""
        return (self._bases[-1], self._sizes[-1]) if self._bases else (-1, -1)

    @property
    def start(self) -> int | None:
        """The first offset; None without segments."""
        return self._bases[0] if self._bases else None

    def close(self) -> None:
        for each in self._open.values():
            each.close()
        self._open.clear()

    def end_at(self, time: int) -> int | None:
        """Return the end offset at a time in epoch ms; None if unknown.

        Searches the last segment whose first batch is not later. First timestamps out of order by
        an hour or more are ignored.
        """
        with suppress(OSError, NotKnown):
            times = self._first_times()
            number = bisect_right(times, time) - 1
            if number >= 0:
                return self._segment(self._dated[number]).end_at(time)
            is_whole = bool(times) and self._dated[0] == 0 and self.start == 0
            return 0 if is_whole else None
        return None

    def end(self) -> tuple[int, int] | None:
        """Return the end offset and the largest timestamp of the last batch, -1 without one; None
        if unknown.
        """
        with suppress(OSError, NotKnown):
            segment = self._segment(len(self._bases) - 1)
            last = self.from_offset(segment.end - 1) if segment.end > self._bases[0] else None
            return segment.end, -1 if last is None else last.max_time
        return None

    def from_offset(self, offset: int) -> _Batch | None:
        """The first batch that ends after an offset, None if none. Raises NotKnown and OSError."""
        first = max(bisect_right(self._bases, offset) - 1, 0)
        for number in range(first, len(self._bases)):
            found = next(self._segment(number).from_offset(offset), None)
            if found is not None:
                return found
        return None

    def _first_times(self) -> list[int]:
        """Return the rising first timestamps of the segments in `_dated`."""
        if self._times is None:
            times = [first_time(path) for path in self._paths]
            hours = [each // _HOUR_MS for each in times]
            wrong = {*disagreeing(hours, 0, 2**63)}
            self._dated = [number for number in range(len(times)) if number not in wrong]
            self._times = []
            for number in self._dated:
                self._times.append(max([times[number], *self._times[-1:]]))
        return self._times

    def _segment(self, number: int) -> TopicSegment:
        found = self._open.pop(number, None)
        if found is None:
            if len(self._open) >= _OPEN_MOST:
                self._open.pop(next(iter(self._open))).close()
            until = self._bases[number + 1] if number + 1 < len(self._bases) else None
            path, base, size = self._paths[number], self._bases[number], self._sizes[number]
            found = TopicSegment(path, base, size, until)
        self._open[number] = found
        return found


def _segments_in(folder: AnyPath) -> Iterable[AnyPath]:
    return (each for each in folder.iterdir() if _SEGMENT.fullmatch(each.name))


class TopicLogs:
    """The logs of topics in several data folders, each of which is listed once."""

    def __init__(self, data: Iterable[str]) -> None:
        self._data = [files.place(each) for each in data]
        self._folders: dict[str, list[AnyPath]] | None = None

    def open(self, topic: str, partition: int) -> TopicLog | None:
        """Open a topic partition's log, the longest of several copies; None if there is none."""
        found: TopicLog | None = None
        for folder in self._listed().get(f"{topic}-{partition}", ()):
            with suppress(OSError):
                one = TopicLog(folder)
                if one.start is not None and (found is None or one.length > found.length):
                    found = one
        return found

    def _listed(self) -> dict[str, list[AnyPath]]:
        if self._folders is None:
            self._folders = {}
            for data in self._data:
                with suppress(OSError):
                    for each in data.iterdir():
                        self._folders.setdefault(each.name, []).append(each)
        return self._folders
