"""Copies of the folders of a data directory, while another process may write to them.

Theory of operation. The copy of a folder is right if it has the names that the folder had at one
moment, each with the bytes of the file that it led to: that is what a killed process would have
left, and a start goes on from there, in the middle of a roll, of a deletion or of the swap of a
compaction. So the names and identities of the files are noted before and after the copying, with
the contents of the small files. If both are equal, they were so all the time in between; if not,
what has changed is copied again.

Other files are replaced under their names, too, but only the last segment and its indexes grow.
The segment grows by whole batches, of which a reader may see the last one in part. So its end is
checked, batch by batch, and read again until it is sound. A torn or damaged end that stays is
copied as it is: what a start does about it, it does in the copy, too.
"""

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from crc32c import crc32c

from groupkeeper.storage.epochs import FILE_NAME as EPOCHS
from groupkeeper.storage.errors import ACCEPT_FILE, StorageError
from groupkeeper.storage.files import Files, FileStat
from groupkeeper.storage.folders import FILE_NAME as FOLDER_LIST
from groupkeeper.storage.format import FILE_NAME as FORMAT
from groupkeeper.storage.manifest import FILE_NAME as MANIFEST
from groupkeeper.storage.scan import valid_batches
from groupkeeper.storage.segment import DIGITS, LOG_SUFFIX, base_of
from groupkeeper.storage.segment_writer import CLEANED
from groupkeeper.storage.start import FILE_NAME as START
from groupkeeper.storage.tree import Pair, opened
from groupkeeper.storage.whole import overwrite, read_whole
from groupkeeper.storage.window import Window

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
    """The position of the last batch, if the copy was checked and ends with a whole one; else -1.
    """
    next_offset: int = 0
    """The offset after the last sound batch that was found."""

    def is_continued(self, found: FileStat, pair: Pair) -> bool:
        """Whether a file still begins with what was copied: a start cuts off what it refuses."""
        assert isinstance(self.made_of, FileStat), "the contents of small files are compared"
        same = self.last >= 0 and self.made_of.identity == found.identity
        return same and pair.is_same(self.last, self.size)


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
                before = self._look(folder)
                for name in copies.keys() - before:
                    self.target.remove(_join(self.copy_dir, folder, name))
                    del copies[name]
                last = max((name for name in before if base_of(name) is not None), default="")
                for name in sorted(before):  # an index, which may know no more, before its segment
                    path, known = _join(folder, name), copies.get(name)
                    copies[name] = self._copy(path, before[name], known, told, grows=name == last)
                if self._look(folder) == before:
                    return
            self.pause()
        raise StorageError(
            f"{_join(self.data_dir, folder)} changed during each of {TRIES} copies: try again when "
            "less is going on, or stop the server"
        )

    def is_same(self, folder: str) -> bool:
        """Whether a folder that was copied by contents still has these."""
        with suppress(FileNotFoundError):
            copies = {name: copy.made_of for name, copy in self.folders[folder].items()}
            return self._look(folder) == copies
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

    def _look(self, folder: str) -> dict[str, tuple[int, int] | bytes]:
        """Identities of the files in a folder, and contents of the small ones.

        Raises FileNotFoundError if a name goes meanwhile.
        """
        found: dict[str, tuple[int, int] | bytes] = {}
        for name in self.source.list_folder(_join(self.data_dir, folder)):
            path = _join(self.data_dir, folder, name)
            if name.endswith(LEFT_OUT) or not (folder or name in ROOT):
                continue
            if name in SMALL or folder in self.by_contents:
                found[name] = read_whole(self.source, path)
            else:
                found[name] = self.source.stat(path).identity
        return found

    def _copy(
        self,
        name: str,
        found: tuple[int, int] | bytes,
        known: FileCopy | None,
        told: Callable[[int], None],
        *,
        grows: bool,
    ) -> FileCopy:
        """Copy a file, by its path in the data directory, unless the known copy is equal."""
        path, to = _join(self.data_dir, name), _join(self.copy_dir, name)
        made_of = found if isinstance(found, bytes) else self.source.stat(path)
        if known is not None and known.made_of == made_of:
            return known
        if isinstance(made_of, bytes):
            overwrite(self.target, to, made_of, sync=False)
            told(len(made_of))
            return FileCopy(made_of, len(made_of), crc32c(made_of))
        with (
            opened(self.source, path) as reading,
            opened(self.target, to, create=True) as writing,
        ):
            pair = Pair(self.source, reading, self.target, writing)
            if not grows:
                return FileCopy(made_of, *pair.copy(told))
            if known is None or not known.is_continued(made_of, pair):
                known = FileCopy(made_of, 0, 0, -1, int(name[-DIGITS - len(LOG_SUFFIX) :][:DIGITS]))
            return self._follow(pair, made_of, known, told)

    def _follow(
        self, pair: Pair, made_of: FileStat, known: FileCopy, told: Callable[[int], None]
    ) -> FileCopy:
        """Copy what was appended to the last segment since it had the size of `known`."""
        copy = known
        for _ in range(TAIL_TRIES):
            size, crc = pair.copy(told, known.size, known.crc)
            last, end, next_offset = known.last, known.size, known.next_offset
            for batch in valid_batches(Window(pair.target, pair.writing, size), end, next_offset):
                last, end = batch.position, batch.position + batch.size
                next_offset = batch.last_offset + 1
            copy = FileCopy(made_of, size, crc, last if end == size else -1, next_offset)
            if end == size:
                break
            self.pause()
        return copy


def _join(*names: str) -> str:
    """A path; an empty name adds nothing."""
    return "/".join(filter(None, names))
