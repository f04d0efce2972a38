"""A cheap look at a log without opening it: start and end offset, size, and timestamps by offset.

Reads names and sizes, the end of an index, and the headers of some batches; verifies nothing and
changes nothing. Truncations and repairs that opening the log would make are not foreseen: a torn
batch counts if its header is there and the file is long enough.
"""

from bisect import bisect_right
from contextlib import suppress
from struct import Struct
from typing import Final, NamedTuple

from groupkeeper.protocol.record_batch import HEADER_SIZE, LENGTH_OVERHEAD, MAGIC
from groupkeeper.storage.errors import Corrupt
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.files.whole import opened
from groupkeeper.storage.log.index import OFFSET_ENTRY
from groupkeeper.storage.log.scan import FIELDS
from groupkeeper.storage.log.segment import base_of, segment_path, segment_stem
from groupkeeper.storage.log.start import FILE_NAME as START_FILE
from groupkeeper.storage.log.start import peek_start
from groupkeeper.storage.log.window import Window
from groupkeeper.storage.recovery.manifest import ManifestFile

_ENTRY: Final = Struct(">II")

_WALK: Final = 8 * 1024
"""Bytes per read: a batch is at most one index interval away from the indexed position."""

_FAR: Final = 256 * 1024
"""Distance in bytes from which a walk reads in large pieces."""


class Glance(NamedTuple):
    """A log as seen by one look."""

    start_offset: int
    """The first offset that is kept."""
    end_offset: int
    """The offset after the last record: the high watermark."""
    size: int
    """Total bytes of all segments."""
    stamp: tuple[int, ...] = ()
    """Stamp of the folder, which changes with the names in it."""
    last: tuple[str, int] | None = None
    """Path and size of the last segment."""


def glance(files: Files, folder: str, known: Glance | None = None) -> Glance:
    """Look at the log of a folder.

    If nothing has changed since the previous look `known`, that is returned after two system calls.
    A missing folder is an empty log. Raises Corrupt for a damaged start checkpoint, and OSError.
    """
    stamp = files.stamp(folder)
    if known is not None and known.stamp == stamp and _is_as_large(files, known):
        return known
    names = files.list_folder(folder)
    start = peek_start(files, folder) if START_FILE in names else 0
    bases = [base for base in map(base_of, names) if base is not None]
    if not bases:
        return Glance(start, start, 0, stamp)
    sizes = [files.stat(segment_path(folder, base)).size for base in bases]
    end = _end_of(files, folder, bases[-1], sizes[-1])
    last = segment_path(folder, bases[-1]), sizes[-1]
    start = max(start, bases[0])
    return Glance(start, max(start, end), sum(sizes), stamp, last)


def _is_as_large(files: Files, known: Glance) -> bool:
    if known.last is None:
        return True
    path, size = known.last
    found = files.look(path)
    return found is not None and found.size == size


def time_at(files: Files, folder: str, offset: int) -> int | None:
    """Return the largest timestamp (Unix ms) of the batch at an offset, or of the segment's next.
    None if there is no such batch, or it has no timestamp. Raises OSError.
    """
    bases = [base for base in map(base_of, files.list_folder(folder)) if base is not None]
    for base in bases[max(0, bisect_right(bases, offset) - 1) :]:
        path = segment_path(folder, base)
        with opened(files, path) as handle:
            position = _indexed(files, folder, base, offset - base)
            window = Window(files, handle, files.size(handle), _WALK)
            while (batch := _batch_at(window, position, base)) is not None:
                last, size, timestamp = batch
                if last >= offset:
                    return timestamp if timestamp >= 0 else None
                position += size
    return None


def _end_of(files: Files, folder: str, base: int, size: int) -> int:
    """Return the offset after the last whole batch of the last segment, which has `size` bytes."""
    position, end = 0, base
    with suppress(Corrupt):  # made by a newer version: opening the log reports this
        mark = ManifestFile(files, folder).on_disk.mark
        if mark is not None and mark.base == base and mark.size <= size:
            position, end = mark.size, mark.end
    last = _indexed(files, folder, base, None)
    position = max(position, last if last < size else 0)
    with opened(files, segment_path(folder, base)) as handle:
        window = Window(files, handle, size, _FAR if size - position > _FAR else _WALK)
        while (batch := _batch_at(window, position, base)) is not None:
            end = batch[0] + 1
            position += batch[1]
    return end


def _batch_at(window: Window, position: int, base: int) -> tuple[int, int, int] | None:
    """Return last offset, size and largest timestamp of the whole batch at a position, or None."""
    at = window.find(position, HEADER_SIZE)
    if at < 0:
        return None
    first, length, _, magic, _, delta, timestamp = FIELDS.unpack_from(window.view, at)
    size = length + LENGTH_OVERHEAD
    if magic != MAGIC or size < HEADER_SIZE or first < base or delta < 0:
        return None
    return (first + delta, size, timestamp) if position + size <= window.size else None


def _indexed(files: Files, folder: str, base: int, relative: int | None) -> int:
    """Return a position at or before the batch that holds an offset, from the offset index.

    Without an offset, the position of the last entry. 0 without an index. Reads only the entries
    that the search compares.
    """

    def entry(number: int) -> tuple[int, int]:
        relative, position = _ENTRY.unpack(files.read(handle, OFFSET_ENTRY, number * OFFSET_ENTRY))
        return relative, position

    with (
        suppress(FileNotFoundError),
        opened(files, f"{segment_stem(folder, base)}.index") as handle,
    ):
        count = files.size(handle) // OFFSET_ENTRY
        if relative is not None:
            count = bisect_right(range(count), relative, key=lambda number: entry(number)[0])
        return entry(count - 1)[1] if count else 0
    return 0
