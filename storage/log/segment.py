"""One file of a log and its indexes: batches back to back, named by the offset of the first.

Does appends, reads and lookups. log.py decides when to roll and when to sync, opening.py how to
handle damage.

Source: Kafka's LogSegment and LogFileUtils.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from crc32c import crc32c

from groupkeeper.storage.files.files import Files
from groupkeeper.storage.files.whole import opened, overwrite, read_whole, write_after
from groupkeeper.storage.log.index import OFFSET_ENTRY, TIME_ENTRY, Index, IndexState, timestamp_of
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.log.scan import FIELDS, Batch, valid_batches
from groupkeeper.storage.log.window import PIECE, Window
from groupkeeper.storage.recovery.manifest import FinishedSegment
from groupkeeper.storage.recovery.marks import SECTOR, Mark, RecoveryPoint

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIXES: Final = (".index", ".timeindex")
DIGITS: Final = 20
MAX_RELATIVE_OFFSET: Final = 2**31 - 1


def base_of(name: str) -> int | None:
    """Return the base offset in the name of a segment's `.log` file; None for all other files."""
    stem, suffix = name[:DIGITS], name[DIGITS:]
    return int(stem) if suffix == LOG_SUFFIX and len(stem) == DIGITS and stem.isdigit() else None


def segment_stem(folder: str, base_offset: int) -> str:
    """Return the path of a segment's files without their suffixes."""
    return f"{folder}/{base_offset:0{DIGITS}d}"


def segment_path(folder: str, base_offset: int) -> str:
    return segment_stem(folder, base_offset) + LOG_SUFFIX


def last_timestamp(files: Files, folder: str, base_offset: int) -> int:
    """Return the largest timestamp (ms) in a time index; -1 if empty or missing. Raises OSError."""
    path = f"{segment_stem(folder, base_offset)}.timeindex"
    with suppress(FileNotFoundError), opened(files, path) as handle:
        entries = files.size(handle) // TIME_ENTRY
        return timestamp_of(files.read(handle, TIME_ENTRY, max(0, entries - 1) * TIME_ENTRY))
    return -1


class Stand(NamedTuple):
    """The end of a segment at some time, taken by the appending thread between two appends."""

    segment: "Segment"
    size: int
    end: int
    """The offset after the last record."""
    crc: int
    """CRC-32C of all bytes."""
    indexes: IndexState


class Segment:
    """One segment. Other threads may read up to `size`, which grows after the file.

    The file is closed with the last reference to the segment. If it were closed earlier, its file
    descriptor could be reused by the next open, and a reader in another thread would get that
    file's bytes.
    """

    __slots__ = (
        "_files",
        "_handle",
        "_stem",
        "base_offset",
        "crc",
        "finished",
        "first_timestamp",
        "index",
        "point",
        "size",
        "sound_size",
        "unread",
    )

    def __init__(
        self, files: Files, folder: str, base_offset: int, limits: Limits, named: str = ""
    ) -> None:
        """Open the `.log` file, or create it if missing. With `named`, a further suffix of a file
        that is renamed soon, the file must exist.
        """
        self._files = files
        self._stem = segment_stem(folder, base_offset)
        self._handle = files.open(self.path + named, create=not named)
        self.base_offset = base_offset
        self.index = Index(limits.index_interval_bytes)
        self.size = files.size(self._handle)
        self.crc = 0
        """CRC-32C of all bytes; maintained for the last segment of a log only."""
        self.first_timestamp = -1
        """The largest timestamp of the first batch that has one; -1 if none has, or if not known.
        Known for the last segment of a log."""
        self.finished: FinishedSegment | None = None
        """The segment's entry in the manifest."""
        self.point: RecoveryPoint | None = None
        """The newest recovery point."""
        self.sound_size = 0
        """Number of leading bytes verified since the file was opened."""
        self.unread: RecoveryPoint | None = None
        """Bytes before this point were not read when the log was opened: reads check offsets."""

    @property
    def largest_timestamp(self) -> int:
        """The largest timestamp of the batches or, as in Kafka, the last write. Raises OSError."""
        largest = self.index.max_timestamp
        return largest if largest >= 0 else self._files.stat(self.path).modified_ms

    @property
    def path(self) -> str:
        return self._stem + LOG_SUFFIX

    def has_room(self, size: int, last_offset: int, limits: Limits) -> bool:
        """Return whether batches of `size` bytes up to `last_offset` fit: always if it is empty."""
        if not self.size:
            return True
        if self.size + size > limits.segment_bytes:
            return False
        if self.index.is_full(limits.index_bytes):
            return False
        return last_offset - self.base_offset <= MAX_RELATIVE_OFFSET

    def is_too_old(self, timestamp: int, limits: Limits) -> bool:
        """Return whether a batch with this largest timestamp has to begin a new segment.

        If the first batch has no timestamp, Kafka uses the time since it opened the segment. Here
        the next batch with a timestamp counts instead: log files need no clock.
        """
        first, most = self.first_timestamp, limits.segment_ms
        return 0 <= first < timestamp - most or (limits.server_times and first > timestamp + most)

    def fitting(self, batches: Iterable[Batch], limits: Limits) -> int:
        """Return how many of these batches fit, or 1 if the first one needs a new segment."""
        size = count = 0
        for batch in batches:
            size += batch.size
            if not self.has_room(size, batch.last_offset, limits):
                break
            count += 1
        return max(count, 1)

    def append(self, data: bytes, batches: Sequence[Batch]) -> None:
        """Write whole batches at the end; their positions are ignored.

        After an OSError the file may contain part of them after `size`.
        """
        position = self.size
        self._files.write(self._handle, data, position)
        base, add = self.base_offset, self.index.add
        for _, size, _, last, _, timestamp in batches:
            add(last - base, position, size, timestamp)
            position += size
        if self.first_timestamp < 0:
            self.first_timestamp = batches[0].max_timestamp
        self.crc = crc32c(data, self.crc)
        self.size = position

    def read_first_timestamp(self) -> None:
        """Set `first_timestamp` by reading only the header of the first batch."""
        header = self.read(0, FIELDS.size)
        if len(header) == FIELDS.size:
            *_, self.first_timestamp = FIELDS.unpack(header)

    def note(self, batch: Batch) -> None:
        """Add a batch that is already in the file to the indexes."""
        relative = batch.last_offset - self.base_offset
        self.index.add(relative, batch.position, batch.size, batch.max_timestamp)

    def read(self, position: int, size: int) -> bytes:
        return self._files.read(self._handle, min(size, self.size - position), position)

    def is_as_written(self, size: int, crc: int) -> bool:
        """Return whether the first `size` bytes have this checksum."""
        found = 0
        for position in range(0, size, PIECE):
            found = crc32c(self.read(position, min(PIECE, size - position)), found)
        return found == crc

    def window(self, piece: int = PIECE, *, cached: bool = False) -> Window:
        """Return a window on the whole file. Keep a reference to the segment while using it."""
        return Window(self._files, self._handle, self.size, piece, cached=cached)

    def sync(self) -> None:
        self._files.sync(self._handle)

    def rewrite(self, data: bytes, position: int) -> None:
        """Rewrite bytes that should already be there, so that the next sync writes them out."""
        self._files.write(self._handle, data, position)

    def stand(self, end: int) -> Stand:
        """Return the current end, with `end` as the next offset. For the thread that appends."""
        return Stand(self, self.size, end, self.crc, self.index.state)

    def mark(self, stand: Stand) -> Mark:
        """Return the mark stating that everything before `stand` is on disk."""
        start = stand.size - stand.size % SECTOR
        tail = self.read(start, stand.size - start)
        return Mark(self.base_offset, stand.size, stand.end, stand.crc, tail, self.point)

    def to_manifest(self, end: int) -> FinishedSegment:
        """Return the manifest entry of this segment, if the next one begins at offset `end`."""
        return self.finished or FinishedSegment(self.base_offset, end, self.size, None, None)

    def finish(self, end: int) -> None:
        """Sync the batches, which end before offset `end`, and write and sync the indexes.

        From now on the index files are read instead of rebuilt, if their checksum is right.
        """
        self.sync()
        index = crc32c(self.index.time_file(), crc32c(self.index.offset_file()))
        self.write_index(sync=True)
        self.finished = FinishedSegment(self.base_offset, end, self.size, self.crc, index)

    def truncate(self, size: int) -> None:
        self._files.truncate(self._handle, size)
        self.size = size

    def remove(self) -> None:
        """Remove the files; a reader that holds the segment can continue. Raises OSError."""
        for suffix in (*INDEX_SUFFIXES, LOG_SUFFIX):  # no start removes indexes alone
            self._files.remove(self._stem + suffix)

    def __del__(self) -> None:
        with suppress(AttributeError, OSError):  # no handle if it could not be opened
            self._files.close(self._handle)

    def load_index(self) -> None:
        """Read the index files of a finished segment, or rebuild them if they are wrong."""
        if not self.read_index():
            for batch in valid_batches(self.window(), 0, self.base_offset):
                self.note(batch)
            self.write_index()

    def read_index(self, named: str = "") -> bool:
        """Read the index files. Returns False and reads nothing if they are wrong."""
        offsets, times = (self._contents(suffix + named) for suffix in INDEX_SUFFIXES)
        return offsets is not None and times is not None and self._fits(offsets, times)

    def _fits(self, offsets: bytes, times: bytes) -> bool:
        known = self.finished.index_crc if self.finished is not None else None
        if known is not None and crc32c(times, crc32c(offsets)) != known:
            return False
        return self.index.load(offsets, times, self.size)

    def write_index(self, *, sync: bool = False) -> None:
        """Write both index files. A failed write removes the file; the next start rebuilds it."""
        self._replace(".index", self.index.offset_file(), sync)
        self._replace(".timeindex", self.index.time_file(), sync)

    def _replace(self, suffix: str, data: bytes, sync: bool) -> None:
        try:
            overwrite(self._files, self._stem + suffix, data, sync=sync)
        except OSError:
            self._files.remove(self._stem + suffix)

    def save_index(self, stand: Stand) -> int | None:
        """Append the index entries up to `stand` to the index files. Thread-safe.

        A concurrent writer writes the same bytes. Returns the CRC-32C of the entries, offset index
        first; None if they could not be written.
        """
        index, times, had = self.index, self.index.times, stand.indexes
        if self.finished is not None:
            return None  # the files are complete
        offset_file = index.offset_file(had.offsets)
        time_file = bytes(times.packed[: had.times * TIME_ENTRY])
        try:
            self._extend(".index", offset_file, index.saved * OFFSET_ENTRY)
            self._extend(".timeindex", time_file, times.saved * TIME_ENTRY)
        except OSError:
            index.saved = times.saved = 0
            return None
        index.saved, times.saved = had.offsets, had.times
        return crc32c(time_file, crc32c(offset_file))

    def _extend(self, suffix: str, data: bytes, saved: int) -> None:
        if saved < len(data):
            write_after(self._files, self._stem + suffix, saved, data[saved:])

    def resume_index(self, point: RecoveryPoint, crc_of_epochs: Callable[[int], int]) -> bool:
        """Load the indexes as of a recovery point from their files; False if they are wrong."""
        offsets = (self._contents(".index") or b"")[: point.indexes.offsets * OFFSET_ENTRY]
        times = (self._contents(".timeindex") or b"")[: point.indexes.times * TIME_ENTRY]
        if (len(offsets), len(times)) != (
            point.indexes.offsets * OFFSET_ENTRY,
            point.indexes.times * TIME_ENTRY,
        ):
            return False
        if crc_of_epochs(crc32c(times, crc32c(offsets))) != point.check:
            return False
        self.index.resume(offsets, times, point.indexes, point.size)
        return True

    def _contents(self, suffix: str) -> bytes | None:
        try:
            return read_whole(self._files, self._stem + suffix)
        except FileNotFoundError:
            return None


class Replacement(NamedTuple):
    """A compacted segment, and the base offsets of the segments it replaces."""

    segment: Segment
    sources: tuple[int, ...]


def segments_from(segments: Sequence[Segment], offset: int) -> Sequence[Segment]:
    """Return the segment that holds an offset, and all after it."""
    number = len(segments) - 1
    while number > 0 and segments[number].base_offset > offset:
        number -= 1
    return segments[max(number, 0) :]


def spliced(
    segments: Sequence[Segment], replacements: Sequence[Replacement]
) -> tuple[Segment, ...] | None:
    """Return segments with compacted ones in place of their sources; None if a source is gone."""
    result = list(segments)
    for segment, sources in replacements:
        bases = [each.base_offset for each in result[:-1]]
        first = bases.index(sources[0]) if sources[0] in bases else 0
        after = first + len(sources)
        if tuple(bases[first:after]) != sources:
            return None
        result[first:after] = [segment]
    return tuple(result)
