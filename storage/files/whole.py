"""Files that are read, written and copied as a whole, and folder trees.

Interpreting the contents, and deciding whether a missing file is an error, is up to the caller.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from crc32c import crc32c

from groupkeeper.storage.files.files import Files, parent_of
from groupkeeper.storage.log.window import PIECE


@contextmanager
def opened(files: Files, path: str, *, create: bool = False) -> Iterator[int]:
    """Open a file for the duration of a `with` block, and yield its handle. Raises OSError."""
    handle = files.open(path, create=create)
    try:
        yield handle
    finally:
        files.close(handle)


def checksum(data: bytes) -> bytes:
    """Return the CRC-32C of some bytes in eight hexadecimal digits."""
    return b"%08x" % crc32c(data)


def read_whole(files: Files, path: str) -> bytes:
    """Return all bytes of a file. Raises OSError, such as FileNotFoundError."""
    with opened(files, path) as handle:
        return files.read(handle, files.size(handle), 0)


def overwrite(files: Files, path: str, data: bytes, *, sync: bool) -> None:
    """Write all of a file in place; a crash, or an OSError, may leave any part of it."""
    with opened(files, path, create=True) as handle:
        files.write(handle, data, 0)
        files.truncate(handle, len(data))
        if sync:
            files.sync(handle)


def write_after(files: Files, path: str, kept: int, data: bytes) -> None:
    """Write into a file after its first `kept` bytes; later bytes stay. Raises OSError."""
    with opened(files, path, create=True) as handle:
        files.write(handle, data, kept)


def replace_whole(files: Files, path: str, data: bytes) -> None:
    """Replace a file, which may be missing, by a new, synced one. Raises OSError.

    A crash leaves the old file or the new one. It is durable once its folder is synced.
    """
    overwrite(files, f"{path}.tmp", data, sync=True)
    files.rename(f"{path}.tmp", path)


def walk(files: Files, folder: str) -> Iterator[tuple[str, bool]]:
    """Yield the paths of everything below a folder, and whether each is a file. Contents of a
    folder come before the folder. Entries may be removed during the iteration.
    """
    for name in files.list_folder(folder):
        path = f"{folder}/{name}"
        is_file = files.look(path) is not None
        if not is_file:
            yield from walk(files, path)
        yield path, is_file


def remove_tree(files: Files, folder: str) -> None:
    """Remove a folder and everything in it. Raises OSError."""
    for path, is_file in walk(files, folder):
        (files.remove if is_file else files.remove_folder)(path)
    files.remove_folder(folder)


def sync_tree(files: Files, folder: str) -> None:
    """Make a folder and everything in it durable, except for its own name. Raises OSError."""
    files.write_back()
    for path, is_file in walk(files, folder):
        if is_file:
            sync_file(files, path)
        else:
            files.sync_folder(path)
    files.sync_folder(folder)


def sync_file(files: Files, path: str) -> None:
    """Make a file durable, except for its name. Raises OSError."""
    with opened(files, path) as handle:
        files.sync(handle)


def parents_to_sync(files: Files, path: str) -> list[str]:
    """Return the folders that get a new name when a path and its parents are created."""
    parents = [parent_of(path)]
    while not files.stamp(parents[-1]):
        parents.append(parent_of(parents[-1]))
    return parents


def copy_file(
    source: Files, path: str, target: Files, to: str, begun: tuple[int, int] = (0, 0)
) -> tuple[int, int]:
    """Copy the current contents of a file, truncate the copy there; return its size and CRC-32C.

    `begun` is the result of a partial copy to continue.
    """
    with opened(source, path) as reading, opened(target, to, create=True) as writing:
        at, crc = begun
        end = source.size(reading)
        while at < end and (data := source.read(reading, PIECE, at)):
            target.write(writing, data, at)
            at, crc = at + len(data), crc32c(data, crc)
        target.truncate(writing, at)
    return at, crc
