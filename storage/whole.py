"""
Small files that are read and replaced as a whole.

What is in them, and whether a missing one is an error, is the caller's to know.
"""

from groupkeeper.storage.files import Files


def read_whole(files: Files, path: str) -> bytes:
    """All bytes of a file. Raises OSError, FileNotFoundError among them."""
    handle = files.open(path)
    try:
        return files.read(handle, files.size(handle), 0)
    finally:
        files.close(handle)


def replace_whole(files: Files, path: str, data: bytes) -> None:
    """
    Put a new file, synced, in the place of one that may be there: a crash leaves either of them.
    Durable when its folder is synced. Raises OSError.
    """
    handle = files.open(f"{path}.tmp", create=True)
    try:
        files.write(handle, data, 0)
        files.truncate(handle, len(data))
        files.sync(handle)
    finally:
        files.close(handle)
    files.rename(f"{path}.tmp", path)
