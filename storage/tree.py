"""Folders with all that is in them, and copies of files: for backups, restores and repairs."""

from collections.abc import Callable, Iterator

from crc32c import crc32c

from groupkeeper.storage.files import Files, parent_of
from groupkeeper.storage.whole import opened
from groupkeeper.storage.window import PIECE


def walk(files: Files, folder: str) -> Iterator[tuple[str, bool]]:
    """The paths of all that is in a folder and below, and whether each is a file; a folder follows
    what is in it. What was found may be removed meanwhile.
    """
    for name in files.list_folder(folder):
        path = f"{folder}/{name}"
        is_file = files.look(path) is not None
        if not is_file:
            yield from walk(files, path)
        yield path, is_file


def remove_tree(files: Files, folder: str) -> None:
    """Remove a folder and all in it. Raises OSError."""
    for path, is_file in walk(files, folder):
        (files.remove if is_file else files.remove_folder)(path)
    files.remove_folder(folder)


def sync_tree(files: Files, folder: str) -> None:
    """Make a folder and all in it durable, but for its own name. Raises OSError."""
    files.write_back()
    for path, is_file in walk(files, folder):
        if is_file:
            sync_file(files, path)
        else:
            files.sync_folder(path)
    files.sync_folder(folder)


def sync_file(files: Files, path: str) -> None:
    """Make a file durable, but for its name. Raises OSError."""
    with opened(files, path) as handle:
        files.sync(handle)


def parents_to_sync(files: Files, path: str) -> list[str]:
    """The folders that get a new name when a path is made, with its parents."""
    parents = [parent_of(path)]
    while not files.stamp(parents[-1]):
        parents.append(parent_of(parents[-1]))
    return parents


def copy_file(
    source: Files,
    path: str,
    target: Files,
    to: str,
    told: Callable[[int], None] = lambda size: None,
    begun: tuple[int, int] = (0, 0),
) -> tuple[int, int]:
    """Copy what a file has by now, and cut the copy off behind it; returns the copy's size and
    CRC-32C.

    `begun` is that of a copy to go on with. `told` is called with the size of each piece.
    """
    with opened(source, path) as reading, opened(target, to, create=True) as writing:
        at, crc = begun
        end = source.size(reading)
        while at < end and (data := source.read(reading, PIECE, at)):
            target.write(writing, data, at)
            at, crc = at + len(data), crc32c(data, crc)
            told(len(data))
        target.truncate(writing, at)
    return at, crc
