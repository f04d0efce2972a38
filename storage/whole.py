"""Small files that are read and written as a whole.

What they hold, and whether a missing one is an error, is up to the caller.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from crc32c import crc32c

from groupkeeper.storage.files import Files


@contextmanager
def opened(files: Files, path: str, *, create: bool = False) -> Iterator[int]:
    """The handle of a file, which is closed at the end of the `with` block. Raises OSError."""
    handle = files.open(path, create=create)
    try:
        yield handle
    finally:
        files.close(handle)


def checksum(data: bytes) -> bytes:
    """The CRC-32C of some bytes, in eight hexadecimal digits."""
    return b"%08x" % crc32c(data)


def read_whole(files: Files, path: str) -> bytes:
    """All bytes of a file. Raises OSError, FileNotFoundError among them."""
    with opened(files, path) as handle:
        return files.read(handle, files.size(handle), 0)


def overwrite(files: Files, path: str, data: bytes, *, sync: bool) -> None:
    """Write all of a file in place; a crash, or an OSError, leaves any part of it."""
    with opened(files, path, create=True) as handle:
        files.write(handle, data, 0)
        files.truncate(handle, len(data))
        if sync:
            files.sync(handle)


def write_after(files: Files, path: str, kept: int, data: bytes) -> None:
    """Write into a file after its first `kept` bytes; what follows stays. Raises OSError."""
    with opened(files, path, create=True) as handle:
        files.write(handle, data, kept)


def replace_whole(files: Files, path: str, data: bytes) -> None:
    """Replace a file, which may be missing, by a new one that is synced. Raises OSError.

    A crash leaves the old file or the new one. It is durable when its folder is synced.
    """
    overwrite(files, f"{path}.tmp", data, sync=True)
    files.rename(f"{path}.tmp", path)
