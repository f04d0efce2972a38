"""Folders with all that is in them, and copies of files: for backups, restores and repairs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from crc32c import crc32c

from groupkeeper.storage.files import Files, FileStat, parent_of
from groupkeeper.storage.window import PIECE


def walk(files: Files, folder: str) -> Iterator[tuple[str, FileStat | None]]:
    """The paths of all that is in a folder and below, and what the files are; None for a folder,
    which follows what is in it. What was found may be removed meanwhile.
    """
    for name in files.list_folder(folder):
        path = f"{folder}/{name}"
        found = files.look(path)
        if found is None:
            yield from walk(files, path)
        yield path, found


def remove_tree(files: Files, folder: str) -> None:
    """Remove a folder and all in it. Raises OSError."""
    for path, found in walk(files, folder):
        (files.remove if found else files.remove_folder)(path)
    files.remove_folder(folder)


def sync_tree(files: Files, folder: str) -> None:
    """Make a folder and all in it durable, but for its own name. Raises OSError."""
    files.write_back()
    for path, found in walk(files, folder):
        if found is None:
            files.sync_folder(path)
            continue
        with opened(files, path) as handle:
            files.sync(handle)
    files.sync_folder(folder)


def parents_to_sync(files: Files, path: str) -> list[str]:
    """The folders that get a new name when a path is made, with its parents."""
    parents = [parent_of(path)]
    while not files.stamp(parents[-1]):
        parents.append(parent_of(parents[-1]))
    return parents


@contextmanager
def opened(files: Files, path: str, *, create: bool = False) -> Iterator[int]:
    """The handle of a file, which is closed at the end of the `with` block."""
    handle = files.open(path, create=create)
    try:
        yield handle
    finally:
        files.close(handle)


def copy_file(files: Files, path: str, to: str) -> None:
    """Copy a file, synced; what was at `to` is replaced. Raises OSError."""
    with opened(files, path) as source, opened(files, to, create=True) as target:
        files.truncate(target, 0)
        files.copy(source, 0, files.size(source), target, 0)
        files.sync(target)


@dataclass(slots=True, frozen=True)
class Pair:
    """An open file and an open copy of it, with the `Files` that their handles are of."""

    source: Files
    reading: int
    target: Files
    writing: int

    def copy(self, told: Callable[[int], None], start: int = 0, crc: int = 0) -> tuple[int, int]:
        """Copy what the file has by now from a position on, and cut the copy off behind it.

        Returns the size of the copy, and `crc`, a CRC-32C, continued over what was copied. `told`
        is called with the size of each piece.
        """
        end = self.source.size(self.reading)
        while start < end and (data := self.source.read(self.reading, PIECE, start)):
            self.target.write(self.writing, data, start)
            start, crc = start + len(data), crc32c(data, crc)
            told(len(data))
        self.target.truncate(self.writing, start)
        return start, crc

    def is_same(self, start: int, end: int) -> bool:
        """Whether both have the same bytes between two positions."""
        found = self.source.read(self.reading, end - start, start)
        return found == self.target.read(self.writing, end - start, start)
