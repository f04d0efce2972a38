"""
The few file-system calls in use, as methods of one class, so that tests can tear, lose and refuse
them.

Not a convenience layer: no paths are joined and no bytes are interpreted here. Every method
raises OSError as the system does. Files are named by paths, open files by small integers. This is
the only module of the storage that calls the system.
"""

import errno
import fcntl
import os
from contextlib import suppress

FOLDER_MODE = 0o750
FILE_MODE = 0o640
"""Records are nobody's business but the owner's and, for backups, the group's. Less the umask."""


def parent_of(path: str) -> str:
    """The folder that a path's name is in."""
    return os.path.dirname(path) or "."


class Files:
    """The real file system."""

    def process_id(self) -> int:
        return os.getpid()

    def boot_id(self) -> str:
        """What tells this start of the machine from all others, without spaces; `-` if unknown."""
        try:
            with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
                return file.read().strip() or "-"
        except OSError:
            return "-"

    def random_bytes(self, size: int) -> bytes:
        """Bytes that nobody can foresee."""
        return os.urandom(size)

    def make_folder(self, path: str) -> None:
        """The folder and its parents; no error if it is there."""
        try:
            os.mkdir(path, FOLDER_MODE)
        except FileExistsError:
            if not os.path.isdir(path):
                raise
        except FileNotFoundError:
            # Not os.makedirs: its parents would get the mode that the umask leaves.
            self.make_folder(parent_of(path))
            with suppress(FileExistsError):
                os.mkdir(path, FOLDER_MODE)

    def list_folder(self, path: str) -> list[str]:
        """Names in a folder, sorted; none if there is no such folder."""
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []

    def open(self, path: str, *, create: bool = False) -> int:
        """Open for reading and writing; the handle is not inherited by child processes."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return os.open(path, flags, FILE_MODE)

    def close(self, handle: int) -> None:
        os.close(handle)

    def is_at(self, handle: int, path: str) -> bool:
        """Whether a path leads to the open file; no if nobody can tell any more."""
        try:
            return os.path.samestat(os.fstat(handle), os.stat(path))
        except OSError:
            return False

    def stamp(self, folder: str) -> tuple[int, ...]:
        """
        Another one after a name in the folder was made, renamed or removed, and for another
        folder; empty if nobody can tell any more. What happens within some milliseconds of an
        earlier change may not show.
        """
        try:
            found = os.stat(folder)
        except OSError:
            return ()
        return found.st_dev, found.st_ino, found.st_ctime_ns

    def size(self, handle: int) -> int:
        return os.fstat(handle).st_size

    def read(self, handle: int, size: int, position: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""
        data = os.pread(handle, size, position)
        while data and len(data) < size:
            more = os.pread(handle, size - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def write(self, handle: int, data: bytes, position: int) -> None:
        """All of `data`, or an OSError after any part of it."""
        written = os.pwrite(handle, data, position)
        while written < len(data):
            more = os.pwrite(handle, memoryview(data)[written:], position + written)
            if not more:
                raise OSError(errno.EIO, "the write made no progress")
            written += more

    def truncate(self, handle: int, size: int) -> None:
        os.ftruncate(handle, size)

    def sync(self, handle: int) -> None:
        """
        Wait until the file's bytes and size are on the disk. Says nothing about its name: see
        sync_folder.
        """
        os.fdatasync(handle)

    def sync_folder(self, path: str) -> None:
        """Wait until names made, renamed and removed in the folder are on the disk."""
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def rename(self, path: str, to: str) -> None:
        os.replace(path, to)

    def remove(self, path: str) -> None:
        """Remove a file; no error if there is none."""
        with suppress(FileNotFoundError):
            os.remove(path)

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder; no error if there is none."""
        with suppress(FileNotFoundError):
            os.rmdir(path)

    def lock(self, handle: int) -> bool:
        """
        Take the exclusive lock of an open file, held until it is closed or the process dies.
        False: another has it.
        """
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
