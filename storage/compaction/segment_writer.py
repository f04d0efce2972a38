"""Writes a compacted segment beside those of the log, under names that a start ignores.

Source: Kafka's `UnifiedLog.createNewCleanedSegment`.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from crc32c import crc32c

from groupkeeper.protocol.record_batch import LENGTH_OVERHEAD
from groupkeeper.storage.compaction.pieces import FIELDS, Fields
from groupkeeper.storage.errors import StorageError
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.files.whole import overwrite
from groupkeeper.storage.log.index import Index
from groupkeeper.storage.log.segment import DIGITS, LOG_SUFFIX
from groupkeeper.storage.log.window import PIECE
from groupkeeper.storage.recovery.manifest import FinishedSegment

MAX_BYTES: Final = 2**31 - 1
"""Maximum size of a segment: its indexes hold positions as int32."""


CLEANED: Final = ".cleaned"
"""Suffix of the names of files that a compaction is writing."""


def cleaned_suffix(token: str) -> str:
    """Return the suffix of the file names of one compaction."""
    return f".{token}{CLEANED}"


def remove_cleaned(files: Files, folder: str, token: str | None = None) -> None:
    """Remove the files of one compaction, or of all, as far as the system permits."""
    suffix = CLEANED if token is None else cleaned_suffix(token)
    for name in files.list_folder(folder):
        if name.endswith(suffix):
            with suppress(OSError):
                files.remove(f"{folder}/{name}")


class SegmentWriter:
    """One new segment, to be closed in any case. Methods raise OSError."""

    def __init__(self, files: Files, folder: str, base: int, token: str, interval: int) -> None:
        """Create the file. `interval`: bytes between two entries of the indexes."""
        self._files = files
        self._stem = f"{folder}/{base:0{DIGITS}d}"
        self._suffix = cleaned_suffix(token)
        self._base = base
        self._index = Index(interval)
        self._parts: list[bytes] = []
        self._unwritten = 0
        self._position = 0
        self._crc = 0
        self.records = 0
        """Number of records written."""
        self.next_offset = base
        """The offset after the last batch."""
        self._handle = files.open(self._path(LOG_SUFFIX), create=True)

    @property
    def size(self) -> int:
        return self._position + self._unwritten

    def add_batch(self, data: bytes) -> None:
        """Write one batch, or nothing if it is empty."""
        if data:
            self.add(data, (FIELDS.unpack_from(data),))

    def add(self, data: bytes, batches: Iterable[Fields]) -> None:
        """Write consecutive whole batches."""
        if not data:
            return
        position, first, add = self.size, self._base, self._index.add
        records = last = 0
        for base, length, _, _, _, _, delta, timestamp, _, count in batches:
            last = base + delta
            size = length + LENGTH_OVERHEAD
            add(last - first, position, size, timestamp)
            position += size
            records += count
        self.records += records
        self.next_offset = last + 1
        self._parts.append(data)
        self._unwritten += len(data)
        if self._unwritten >= PIECE:
            self._write()

    def finish(self, end: int) -> FinishedSegment:
        """Write and sync all three files; return the entry for the manifest.

        The segment ends at offset `end`, like the last of its sources. The names are durable once
        the folder is synced.
        """
        self._write()
        self._files.truncate(self._handle, self._position)
        self._files.sync(self._handle)
        offsets, times = self._index.offset_file(), self._index.time_file()
        overwrite(self._files, self._path(".index"), offsets, sync=True)
        overwrite(self._files, self._path(".timeindex"), times, sync=True)
        index_crc = crc32c(times, crc32c(offsets))
        return FinishedSegment(self._base, end, self._position, self._crc, index_crc, True)

    def close(self) -> None:
        self._files.close(self._handle)

    def _write(self) -> None:
        data = b"".join(self._parts)
        if self._position + len(data) > MAX_BYTES:
            raise StorageError(
                f"{self._path(LOG_SUFFIX)}: a segment must be smaller than 2 GiB, and the delete "
                f"horizons of its tombstones make this one larger: use smaller segments"
            )
        if data:
            self._files.write(self._handle, data, self._position)
        self._crc = crc32c(data, self._crc)
        self._position += len(data)
        self._parts, self._unwritten = [], 0

    def _path(self, suffix: str) -> str:
        return self._stem + suffix + self._suffix
