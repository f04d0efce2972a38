"""Copies the folders of a data directory, while another process may write to them.

Theory of operation. The copy of a folder is right if it has the names that the folder had at one
moment, each with the bytes of its file: the state that a killed process would have left. A start
can continue from it, even in the middle of a roll, a deletion or the swap of a compaction. Small
files are compared by their contents, the others by their identities, as they are replaced under
their names. If nothing differs once all are copied, this is the moment; otherwise the changed files
are copied again.

Only the last segment and its indexes grow. The segment grows by whole batches, of which a reader
may see the last one in part. So its end is verified batch by batch, and read again until it is
sound. An end that stays torn or damaged is copied as it is: a start treats it in the copy as it
would in the original.
"""

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from crc32c import crc32c

from groupkeeper.storage.compaction.segment_writer import CLEANED
from groupkeeper.storage.errors import ACCEPT_FILE, StorageError
from groupkeeper.storage.files.files import Files, FileStat
from groupkeeper.storage.files.whole import copy_file, opened, overwrite, read_whole
from groupkeeper.storage.folders import FILE_NAME as FOLDER_LIST
from groupkeeper.storage.format import FILE_NAME as FORMAT
from groupkeeper.storage.log.epochs import FILE_NAME as EPOCHS
from groupkeeper.storage.log.scan import valid_batches
from groupkeeper.storage.log.segment import base_of
from groupkeeper.storage.log.start import FILE_NAME as START
from groupkeeper.storage.log.window import Window
from groupkeeper.storage.recovery.manifest import FILE_NAME as MANIFEST

TRIES: Final = 100
"""Attempts to copy a folder: a swap or a deletion takes a few."""

TAIL_TRIES: Final = 5
"""Attempts to read a sound end of a segment. A batch is written in microseconds."""

ROOT: Final = (FORMAT, FOLDER_LIST)
"""The copied files of the data directory itself."""

SMALL: Final = (*ROOT, MANIFEST, EPOCHS, START, ACCEPT_FILE, "partition.metadata")
"""Files that are read and written as a whole."""

LEFT_OUT: Final = (CLEANED, ".tmp", ".sound", ".deleted")
"""Suffixes of files that a start removes or rewrites."""


@dataclass(slots=True, frozen=True)
class FileCopy:
    """Source, size and checksum of the copy of one file."""

    made_of: FileStat | bytes
    """The file's metadata just before it was copied, or the contents of a small file."""
    size: int
    crc: int
    """CRC-32C."""
    last: int = -1
    """Position of the last batch, if this is a sound copy of a log's last segment; else -1."""
    next_offset: int = 0
    """The offset after the last sound batch found in such a segment."""


@dataclass(slots=True, frozen=True)
class Copier:
    """Copies folders, each as it was at some moment, and keeps track of the copies."""

    source: Files
    data_dir: str
    target: Files
    copy_dir: str
    by_contents: Collection[str]
    """Folders whose files are all compared and copied by contents: the catalog."""
    pause: Callable[[], None]
    """Called before a retry of something that has changed meanwhile."""
    folders: dict[str, dict[str, FileCopy]] = field(default_factory=dict)
    """Copied files by name, per folder by its path in the data directory, which itself is ""."""

    def update(self, folder: str) -> None:
        """Copy the files of a folder, except those that are unchanged since the last copy.

        A folder that is removed meanwhile is empty in the copy. Raises StorageError and OSError.
        """
        copies = self.folders.setdefault(folder, {})
        self.target.make_folder(_join(self.copy_dir, folder))
        for _ in range(TRIES):
            with suppress(FileNotFoundError):
                names = self._names(folder)
                for name in copies.keys() - names:
                    self.target.remove(_join(self.copy_dir, folder, name))
                    del copies[name]
                last = max((name for name in names if base_of(name) is not None), default="")
                # A manifest or an index must not cover more than the segment copied after it.
                for name in sorted(names, key=lambda name: (name not in SMALL, name)):
                    found, known = self._look(folder, name), copies.get(name)
                    if known is None or known.made_of != found:
                        path = _join(folder, name)
                        copies[name] = self._copy(path, found, known, grows=name == last)
                if self.is_same(folder):
                    return
            self.pause()
        raise StorageError(
            f"{_join(self.data_dir, folder)} changed during each of {TRIES} copies: try again when "
            "less is going on, or stop the server"
        )

    def is_same(self, folder: str) -> bool:
        """Return whether a folder still has the copied files, and small ones their contents."""
        with suppress(FileNotFoundError):
            found = {name: _identity(self._look(folder, name)) for name in self._names(folder)}
            copies = self.folders[folder].items()
            return found == {name: _identity(copy.made_of) for name, copy in copies}
        return False

    def next_offset(self, folder: str) -> int:
        """Return the offset after the last sound batch in a log's copy; 0 without segments."""
        return max((copy.next_offset for copy in self.folders[folder].values()), default=0)

    def keep_only(self, folders: Collection[str]) -> None:
        """Remove the copies of all other folders."""
        for folder in self.folders.keys() - folders:
            for name in self.folders.pop(folder):
                self.target.remove(_join(self.copy_dir, folder, name))
            self.target.remove_folder(_join(self.copy_dir, folder))

    def _names(self, folder: str) -> list[str]:
        """Return the files in a folder that are to be copied."""
        names = self.source.list_folder(_join(self.data_dir, folder))
        return [n for n in names if not n.endswith(LEFT_OUT) and (folder or n in ROOT)]

    def _look(self, folder: str, name: str) -> FileStat | bytes:
        """Return the contents of a small file, or the metadata of another one."""
        path = _join(self.data_dir, folder, name)
        if name in SMALL or folder in self.by_contents:
            return read_whole(self.source, path)
        return self.source.stat(path)

    def _copy(
        self, name: str, found: FileStat | bytes, known: FileCopy | None, *, grows: bool
    ) -> FileCopy:
        """Copy a file, given its path in the data directory and its earlier copy, if any."""
        path, to = _join(self.data_dir, name), _join(self.copy_dir, name)
        if isinstance(found, bytes):
            overwrite(self.target, to, found, sync=False)
            return FileCopy(found, len(found), crc32c(found))
        if not grows:
            return FileCopy(found, *copy_file(self.source, path, self.target, to))
        if known is None or not self._goes_on(known, found, path, to):
            base = base_of(name.rpartition("/")[2]) or 0
            known = FileCopy(found, 0, 0, next_offset=base)
        copy = known
        for _ in range(TAIL_TRIES):
            begun = known.size, known.crc
            size, crc = copy_file(self.source, path, self.target, to, begun)
            last, end, next_offset = known.last, known.size, known.next_offset
            with opened(self.target, to) as handle:
                for batch in valid_batches(Window(self.target, handle, size), end, next_offset):
                    last, end = batch.position, batch.position + batch.size
                    next_offset = batch.last_offset + 1
            copy = FileCopy(found, size, crc, last if end == size else -1, next_offset)
            if end == size:
                break
            self.pause()
        return copy

    def _goes_on(self, known: FileCopy, found: FileStat, path: str, to: str) -> bool:
        """Return whether a segment still starts with its copy: a start may truncate it."""
        if known.last < 0 or _identity(known.made_of) != found.identity:
            return False
        with opened(self.source, path) as one, opened(self.target, to) as other:
            size = known.size - known.last
            data = self.source.read(one, size, known.last)
            return data == self.target.read(other, size, known.last)


def _identity(found: FileStat | bytes) -> tuple[int, int] | bytes:
    return found if isinstance(found, bytes) else found.identity


def _join(*names: str) -> str:
    """Return a path; empty names add nothing."""
    return "/".join(filter(None, names))
