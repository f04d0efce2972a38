"""Finds where in a segment the records from a time on begin, with Kafka's `.timeindex`.

Its 12-byte entries (int64 largest timestamp so far, int32 offset minus the segment's base) say that
all records with a larger timestamp have a larger offset, also where times do not rise with offsets.
No checksum covers an index: an entry counts if the batch with its offset says the same.
"""

from struct import Struct
from typing import BinaryIO, Final

from groupkeeper.analytics.reading import walk
from groupkeeper.analytics.reading.files import Place
from groupkeeper.protocol.record_batch import HEADER_SIZE, CorruptBatch, read_header

_TIMES: Final = Struct(">qi")
_OFFSETS: Final = Struct(">ii")

_NOTHING: Final = (-1, -1)

Entries = list[tuple[int, int]]


def start_of(path: Place, base: int, size: int, since: int) -> tuple[int, int]:
    """Position and base offset of a batch: all records from `since` (epoch milliseconds) on are in
    it or behind it. The beginning of the segment if nothing else is sure.
    """
    begins = 0, base
    times = _entries(path.with_suffix(".timeindex"), _TIMES)
    latest, relative = max((each for each in times if each[0] < since), default=_NOTHING)
    places = _entries(path.with_suffix(".index"), _OFFSETS)
    # Of the last batch that ends at or before that offset.
    _, position = max((each for each in places if each[0] <= relative), default=_NOTHING)
    if not 0 < position < size:
        return begins
    try:
        with path.open("rb") as file:
            # In order of offsets with those around it: no checksum covers where it begins.
            indexed = walk.read_index(path, size)
            found = walk.boundary(file, size, indexed, 0, position)
            return found if _says(file, found[0], size, base + relative, latest) else begins
    except OSError:
        return begins


def _entries(path: Place, kind: Struct) -> Entries:
    """The entries up to the padding with zeros; none without an index."""
    try:
        data = path.read_bytes()
    except OSError:
        return []
    used = -(-len(data.rstrip(b"\0")) // kind.size) * kind.size
    if used > len(data):
        return []
    return list(kind.iter_unpack(data[:used]))


def _says(file: BinaryIO, position: int, size: int, offset: int, latest: int) -> bool:
    """Whether the batch with an offset is at a position or behind it, and has that largest
    timestamp.
    """
    for found in walk.headers(file, position, size):
        if found.until > offset:
            is_it = found.base <= offset and walk.is_sound(file, found.position, size)
            return is_it and _time(file, found) == latest
    return False


def _time(file: BinaryIO, found: walk.Header) -> int | None:
    file.seek(found.position)
    try:
        return read_header(file.read(HEADER_SIZE)).max_timestamp
    except CorruptBatch:
        return None
