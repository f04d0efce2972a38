"""Plans which bytes of which segments to read, cut into splits and packed into chunks.

A partition folder `__consumer_offsets-<n>` holds segments `<20 digits>.log` and sparse `.index`
files, whose 8-byte entries (int32 offset minus the segment's base, int32 position) give positions
where a batch starts. Segments larger than a chunk are cut at such positions, or, without an index,
after a walk over batch headers; small ones are packed together. The folder may belong to a running
broker: its newest index is padded with zeros, its last batch may be torn, and files may be deleted
at any time.
"""

import os
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from struct import Struct
from typing import BinaryIO, Final

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.protocol.record_batch import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    CorruptBatch,
    check_crc,
    read_header,
)

TOPIC: Final = "__consumer_offsets"
ARCHIVE: Final = "archive"
"""The folder in a data folder that keeps segments as they were before compaction."""
SMALLEST_CHUNK: Final = 4 * 1024 * 1024
LARGEST_CHUNK: Final = 64 * 1024 * 1024
CHUNKS_PER_CORE: Final = 3

_FOLDER: Final = re.compile(re.escape(TOPIC) + r"-(\d+)")
_SEGMENT: Final = re.compile(r"\d{20}\.log")
_ENTRY: Final = Struct(">ii")
_LENGTH: Final = Struct(">i")
_OFFSET_BYTES: Final = 8
_WALK_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Split:
    """Bytes [start, end) of one segment. `last`: the log ends here, so a torn batch is still being
    written.
    """

    path: str
    partition: int
    start: int
    end: int
    last: bool

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A `.log` file with `size` in bytes and first offset `base`. The partition is -1 if the folder
    does not name one.
    """

    path: Path
    partition: int
    base: int
    size: int


Chunk = tuple[Split, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Chunks to read in parallel, in the order of the log; no chunk is empty."""

    chunks: tuple[Chunk, ...]
    partitions: int
    segments: int
    size: int


def plan(paths: Iterable[Path], chunk_bytes: int | None = None) -> Plan:
    """Plan the reading of everything under `paths`: data folders, partition folders or single
    segments.

    A split ends at the first batch boundary at or after `chunk_bytes` bytes. The plan is empty if
    all segments are empty. Raises AnalyticsError for a path that is missing or has no offsets log,
    and for a partition found in two folders.
    """
    segments = find_segments(paths)
    size = sum(segment.size for segment in segments)
    limit = chunk_bytes or _chunk_bytes(size)
    last = {segment.partition: segment.path for segment in segments}
    splits = (
        split
        for segment in segments
        for split in cut(segment, limit, last=last[segment.partition] == segment.path)
    )
    chunks = tuple(pack(splits, limit))
    return Plan(chunks, len(last), len(segments), size)


def _chunk_bytes(size: int) -> int:
    """A few chunks per core, so that cores finish together, but none so small that starting its
    task costs more than reading it.
    """
    wanted = size // (CHUNKS_PER_CORE * (os.cpu_count() or 1))
    return min(max(wanted, SMALLEST_CHUNK), LARGEST_CHUNK)


# ---------------------------------------------------------------- finding


def find_segments(paths: Iterable[Path]) -> list[SegmentFile]:
    """Segments that are not empty, by partition and base offset. Raises AnalyticsError.

    Of a partition and its archive, the archive counts where it has the records: there they are as
    they were before compaction.
    """
    folders: dict[int, Path] = {}
    archives: dict[int, Path] = {}
    found: set[Path] = set()
    for path in paths:
        files = list(_log_files(path))
        if not files:
            raise AnalyticsError(
                f"nothing to read in {path}: no {TOPIC}-<n> folder with segments (*.log)"
            )
        for file in files:
            partition, folder = partition_of(file.parent), file.parent.resolve()
            is_archive = folder.parent.name == ARCHIVE
            known = (archives if is_archive else folders).setdefault(partition, folder)
            if known != folder:
                raise _twice(partition, known, folder)
            found.add(file.resolve())
    for partition, archive in archives.items():
        live = folders.get(partition, archive)
        if live not in (archive, archive.parents[1] / archive.name):
            raise _twice(partition, live, archive)
    segments = _without_archived(list(filter(None, map(_segment_file, found))))
    return sorted(segments, key=lambda segment: (segment.partition, segment.base))


def _twice(partition: int, one: Path, other: Path) -> AnalyticsError:
    return AnalyticsError(f"partition {partition} is there twice, in {one} and {other}: name one")


def _without_archived(segments: Iterable[SegmentFile]) -> Iterator[SegmentFile]:
    """The segments, but of those that also have archived records only what is before these."""
    archived: dict[int, list[int]] = {}
    for each in segments:
        if each.path.parent.parent.name == ARCHIVE:
            archived.setdefault(each.partition, []).append(each.base)
    for each in segments:
        bases = archived.get(each.partition, [])
        if each.path.parent.parent.name == ARCHIVE or not bases or each.base > max(bases):
            yield each
        elif size := _size_before(each, min(bases)):
            yield replace(each, size=size)


def _size_before(segment: SegmentFile, offset: int) -> int:
    """How many bytes of a segment are before the first batch from an offset on."""
    if segment.base >= offset:
        return 0
    with segment.path.open("rb") as file:
        for position in _walk(file, 0, segment.size):
            file.seek(position)
            if int.from_bytes(file.read(_OFFSET_BYTES), "big") >= offset:
                return position
    return segment.size


def partition_of(folder: Path) -> int:
    """The partition in a folder's name, or -1."""
    match = _FOLDER.fullmatch(folder.resolve().name)
    return int(match[1]) if match else -1


def _log_files(path: Path) -> Iterator[Path]:
    """Segments at or under `path`, without `.log.deleted`, `.log.swap` and `.log.cleaned`."""
    if not path.exists():
        raise AnalyticsError(f"no such file or folder: {path}")
    if path.is_file():
        if _SEGMENT.fullmatch(path.name):
            yield path
    elif _FOLDER.fullmatch(path.resolve().name):
        yield from _segments_in(path)
    else:
        for parent, folders, _ in os.walk(path):
            for name in filter(_FOLDER.fullmatch, folders):
                yield from _segments_in(Path(parent, name))
            # Partition folders have no subfolders: do not descend into those of other topics.
            folders[:] = [name for name in folders if not re.search(r"-\d+$", name)]


def _segments_in(folder: Path) -> Iterator[Path]:
    return (file for file in folder.iterdir() if _SEGMENT.fullmatch(file.name))


def _segment_file(file: Path) -> SegmentFile | None:
    """None for an empty file and for one that compaction has deleted."""
    try:
        size = file.stat().st_size
    except FileNotFoundError:
        return None
    return SegmentFile(file, partition_of(file.parent), int(file.stem), size) if size else None


# ---------------------------------------------------------------- cutting


def cut(segment: SegmentFile, limit: int, *, last: bool) -> Iterator[Split]:
    """Splits that cover the segment and start at batches, of at least `limit` bytes but for the
    last.
    """
    start = 0
    places = read_index(segment) if segment.size > limit * 3 // 2 else []
    # A remainder of less than half a chunk is not worth a split of its own.
    while segment.size - start > limit * 3 // 2:
        end = _boundary(segment, places, start, start + limit)
        if end >= segment.size:
            break
        yield Split(str(segment.path), segment.partition, start, end, last=False)
        start = end
    yield Split(str(segment.path), segment.partition, start, segment.size, last=last)


def read_index(segment: SegmentFile) -> list[int]:
    """Increasing positions from the segment's index; empty without an index.

    Zero padding, or garbage, begins at the first entry that does not increase.
    """
    try:
        data = segment.path.with_suffix(".index").read_bytes()
    except FileNotFoundError:
        return []
    places: list[int] = []
    before = 0
    for _, position in _ENTRY.iter_unpack(data[: len(data) // _ENTRY.size * _ENTRY.size]):
        if not before < position < segment.size:
            break
        places.append(position)
        before = position
    return places


def _boundary(segment: SegmentFile, places: list[int], start: int, wanted: int) -> int:
    """The first start of a batch at or after `wanted`, or the segment's end."""
    with segment.path.open("rb") as file:
        candidate = bisect_left(places, wanted)
        if candidate < len(places) and _starts_batch(file, places[candidate], segment.size):
            return places[candidate]
        return next(
            (pos for pos in _walk(file, start, segment.size) if pos >= wanted), segment.size
        )


def _starts_batch(file: BinaryIO, position: int, size: int) -> bool:
    """Whether a whole batch with a valid checksum is there: an index may be stale or damaged."""
    file.seek(position)
    head = file.read(HEADER_SIZE)
    try:
        header = read_header(head)
        if position + header.size > size:
            return False
        return check_crc(head + file.read(header.size - HEADER_SIZE), header)
    except CorruptBatch:
        return False


def _walk(file: BinaryIO, start: int, size: int) -> Iterator[int]:
    """Starts of the batches after the one at `start`. Ends early at an invalid length."""
    position, window_start, window = start, start, b""
    while position + LENGTH_OVERHEAD <= size:
        at = position - window_start
        if at + LENGTH_OVERHEAD > len(window):
            file.seek(position)
            window_start, window, at = position, file.read(_WALK_BYTES), 0
            if len(window) < LENGTH_OVERHEAD:
                return
        length = _LENGTH.unpack_from(window, at + 8)[0]
        if length <= 0:
            return
        position += length + LENGTH_OVERHEAD
        if position < size:
            yield position


# ---------------------------------------------------------------- packing


def pack(splits: Iterable[Split], limit: int) -> Iterator[Chunk]:
    """Pack consecutive splits into chunks of up to `limit` bytes; a larger split is one chunk."""
    waiting: list[Split] = []
    held = 0
    for split in splits:
        if waiting and held + split.size > limit:
            yield tuple(waiting)
            waiting, held = [], 0
        waiting.append(split)
        held += split.size
    if waiting:
        yield tuple(waiting)
