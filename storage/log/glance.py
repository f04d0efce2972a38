"""A cheap look at a log that is not open: where it begins and ends, how large it is, and when the
record at an offset was written.

Reads names and sizes, the end of an index, and the headers of some batches; checks nothing and
changes nothing. What opening the log would cut off or restore is not known here: a batch that is
torn counts if its header is there and the file is long enough.
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
"""Bytes read at once: the index points at most one interval before a batch."""

_FAR: Final = 256 * 1024
"""Bytes from which on a walk reads them in large pieces."""


class Glance(NamedTuple):
    """A log as it was at a look."""

    start_offset: int
    """The first offset that is kept."""
    end_offset: int
    """The offset after the last one: the high watermark."""
    size: int
    """Bytes of all segments."""
    stamp: tuple[int, ...] = ()
    """Of the names in the folder."""
    last: tuple[str, int] | None = None
    """Path and size of the last segment."""


def glance(files: Files, folder: str, known: Glance | None = None) -> Glance:
    """Look at the log of a folder. `known` is the last look: if nothing has changed since, it costs
    two calls of the system and is returned.

    A missing folder is an empty log. Raises Corrupt for a damaged start, and OSError.
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
    """The largest timestamp (Unix milliseconds) of the batch that holds an offset, or of the next
    batch of its segment; None if there is none, or if it has no timestamp. Raises OSError.
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
    """The offset after the last whole batch of the last segment, whose file has `size` bytes."""
    position, end = 0, base
    with suppress(Corrupt):  # it is of a newer version: whoever opens the log says so
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
    """Last offset, size and largest timestamp of the whole batch at a position; None: no batch."""
    at = window.find(position, HEADER_SIZE)
    if at < 0:
        return None
    first, length, _, magic, _, delta, timestamp = FIELDS.unpack_from(window.view, at)
    size = length + LENGTH_OVERHEAD
    if magic != MAGIC or size < HEADER_SIZE or first < base or delta < 0:
        return None
    return (first + delta, size, timestamp) if position + size <= window.size else None


def _indexed(files: Files, folder: str, base: int, relative: int | None) -> int:
    """A position at or before the batch that holds an offset, by the offset index; None: by its
    last entry. 0 if there is no index. Entries are read when they are asked for.
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
