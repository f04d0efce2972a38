"""Copies of the folders of a data directory, while another process may write to them.

Theory of operation. The copy of a folder is right if it has the names that the folder had at one
moment, each with the bytes of the file that it led to: that is what a killed process would have
left, and a start goes on from there, in the middle of a roll, of a deletion or of the swap of a
compaction. Small files are compared by their contents, the others by their identities, as they
are replaced under their names. If nothing differs once all are copied, this is the moment; else
what has changed is copied again.

Only the last segment and its indexes grow. The segment grows by whole batches, of which a reader
may see the last one in part. So its end is checked, batch by batch, and read again until it is
sound. A torn or damaged end that stays is copied as it is: what a start does about it, it does in
the copy, too.
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
"""How often a folder is copied before giving up: a swap or a deletion takes a few."""

TAIL_TRIES: Final = 5
"""How often the end of a segment is read until it is sound. A batch is written in microseconds."""

ROOT: Final = (FORMAT, FOLDER_LIST)
"""The files in the data directory itself that are copied."""

SMALL: Final = (*ROOT, MANIFEST, EPOCHS, START, ACCEPT_FILE, "partition.metadata")
"""Files that are read and written as a whole."""

LEFT_OUT: Final = (CLEANED, ".tmp", ".sound", ".deleted")
"""The ends of the names of files that a start removes or writes anew."""


@dataclass(slots=True, frozen=True)
class FileCopy:
    """What is known of the copy of one file."""

    made_of: FileStat | bytes
    """The file just before it was copied; the contents of a small one."""
    size: int
    crc: int
    """CRC-32C."""
    last: int = -1
    """The position of the last batch if the copy is of a log's last segment, and sound; else -1."""
    next_offset: int = 0
    """The offset after the last sound batch that was found in such a segment."""


@dataclass(slots=True, frozen=True)
class Copier:
    """Copies folders, each as it was at some moment, and knows what the copies have."""

    source: Files
    data_dir: str
    target: Files
    copy_dir: str
    by_contents: Collection[str]
    """The folders of which all files are compared and copied by their contents: the catalog."""
    pause: Callable[[], None]
    """Called before something that has changed meanwhile is tried again."""
    folders: dict[str, dict[str, FileCopy]] = field(default_factory=dict)
    """The copied files by name, of each folder by its path in the data directory; "" is that."""

    def update(self, folder: str, told: Callable[[int], None]) -> None:
        """Copy a folder, without folders in it; what is equal in the copy is not copied again.

        A folder that was removed meanwhile is empty in the copy. `told` is called with the size of
        each piece that is copied. Raises StorageError and OSError.
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
                # A manifest and an index may not know more than the segment that follows them.
                for name in sorted(names, key=lambda name: (name not in SMALL, name)):
                    found, known = self._look(folder, name), copies.get(name)
                    if known is None or known.made_of != found:
                        path = _join(folder, name)
                        copies[name] = self._copy(path, found, known, told, grows=name == last)
                if self.is_same(folder):
                    return
            self.pause()
        raise StorageError(
            f"{_join(self.data_dir, folder)} changed during each of {TRIES} copies: try again when "
            "less is going on, or stop the server"
        )

    def is_same(self, folder: str) -> bool:
        """Whether a folder has the files that were copied, and the small ones their contents."""
        with suppress(FileNotFoundError):
            found = {name: _identity(self._look(folder, name)) for name in self._names(folder)}
            copies = self.folders[folder].items()
            return found == {name: _identity(copy.made_of) for name, copy in copies}
        return False

    def next_offset(self, folder: str) -> int:
        """The offset after the last sound batch in the copy of a log; 0 without segments."""
        return max((copy.next_offset for copy in self.folders[folder].values()), default=0)

    def keep_only(self, folders: Collection[str]) -> None:
        """Remove the copies of all other folders."""
        for folder in self.folders.keys() - folders:
            for name in self.folders.pop(folder):
                self.target.remove(_join(self.copy_dir, folder, name))
            self.target.remove_folder(_join(self.copy_dir, folder))

    def _names(self, folder: str) -> list[str]:
        """The files in a folder that are copied."""
        names = self.source.list_folder(_join(self.data_dir, folder))
        return [n for n in names if not n.endswith(LEFT_OUT) and (folder or n in ROOT)]

    def _look(self, folder: str, name: str) -> FileStat | bytes:
        """The contents of a small file, and what the file system knows of another one."""
        path = _join(self.data_dir, folder, name)
        if name in SMALL or folder in self.by_contents:
            return read_whole(self.source, path)
        return self.source.stat(path)

    def _copy(
        self,
        name: str,
        found: FileStat | bytes,
        known: FileCopy | None,
        told: Callable[[int], None],
        *,
        grows: bool,
    ) -> FileCopy:
        """Copy a file, by its path in the data directory, of which a copy may be known."""
        path, to = _join(self.data_dir, name), _join(self.copy_dir, name)
        if isinstance(found, bytes):
            overwrite(self.target, to, found, sync=False)
            told(len(found))
            return FileCopy(found, len(found), crc32c(found))
        if not grows:
            return FileCopy(found, *copy_file(self.source, path, self.target, to, told))
        if known is None or not self._goes_on(known, found, path, to):
            base = base_of(name.rpartition("/")[2]) or 0
            known = FileCopy(found, 0, 0, next_offset=base)
        copy = known
        for _ in range(TAIL_TRIES):
            begun = known.size, known.crc
            size, crc = copy_file(self.source, path, self.target, to, told, begun)
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
        """Whether a segment still begins with what was copied: a start cuts off what it refuses."""
        if known.last < 0 or _identity(known.made_of) != found.identity:
            return False
        with opened(self.source, path) as one, opened(self.target, to) as other:
            size = known.size - known.last
            data = self.source.read(one, size, known.last)
            return data == self.target.read(other, size, known.last)


def _identity(found: FileStat | bytes) -> tuple[int, int] | bytes:
    return found if isinstance(found, bytes) else found.identity


def _join(*names: str) -> str:
    """A path; an empty name adds nothing."""
    return "/".join(filter(None, names))
