"""All file-system calls of the storage, in one class that tests replace to inject failures.

No other module of the storage makes system calls. Methods take paths and file descriptors, raise
OSError as the system does, and do not interpret bytes.
"""

import errno
import os
import stat
import sys
from contextlib import suppress
from importlib.util import find_spec
from typing import Final, NamedTuple

from groupkeeper.storage.errors import NotCached, StorageError

FOLDER_MODE = 0o750
FILE_MODE = 0o640
"""Permissions before the umask: the owner reads and writes; the group reads, for backups."""

COPY_BYTES: Final = 1024 * 1024
"""Bytes copied at a time."""


_NOWAIT: Final[int] = getattr(os, "RWF_NOWAIT", 0)
"""The flag for reads that do not wait for a disk; 0 if the system has none."""

_NO_NOWAIT: Final = frozenset((errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS, errno.EPERM))
"""Errors with which a file system, kernel or sandbox rejects that flag."""

HAS_LOCKS: Final = find_spec("fcntl") is not None
"""Whether the system can lock files: not on Windows. Files in memory need no system locks."""
if HAS_LOCKS:
    import fcntl


class FileStat(NamedTuple):
    """Metadata of a file."""

    size: int
    modified_ms: int
    """Time of the last write; Unix milliseconds."""
    identity: tuple[int, int]
    """Device and inode number: equal for all names of one file."""


def parent_of(path: str) -> str:
    return os.path.dirname(path) or "."


class Files:
    """The real file system, of Linux and macOS."""

    may_block = True
    """Whether calls may wait for a disk: a server's event loop may then only call `fill_cached`."""

    fills_cached = bool(_NOWAIT)
    """Whether `fill_cached` can work: False after a file system has rejected it."""

    def __init__(self) -> None:
        """Raise StorageError where files cannot be locked."""
        if not HAS_LOCKS:
            raise StorageError(
                "data directories need the file locks (flock) of Linux or macOS, and this system "
                "has none: use --memory, in tests a Broker without data="
            )

    def process_id(self) -> int:
        return os.getpid()

    def boot_id(self) -> str:
        """Return an id of the current boot of the machine, without spaces; `-` if unknown."""
        try:
            with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
                return file.read().strip() or "-"
        except OSError:
            return "-"

    def random_bytes(self, size: int) -> bytes:
        return os.urandom(size)

    def make_folder(self, path: str) -> None:
        """Create a folder and its parents; no error if it exists."""
        try:
            os.mkdir(path, FOLDER_MODE)
        except FileExistsError:
            if not os.path.isdir(path):
                raise
        except FileNotFoundError:
            # Not os.makedirs: it gives parents the default mode.
            self.make_folder(parent_of(path))
            with suppress(FileExistsError):
                os.mkdir(path, FOLDER_MODE)

    def list_folder(self, path: str) -> list[str]:
        """Return the names in a folder, sorted; empty if the folder is missing."""
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []

    def open(self, path: str, *, create: bool = False) -> int:
        """Open for reading and writing; child processes do not inherit the handle."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return os.open(path, flags, FILE_MODE)

    def close(self, handle: int) -> None:
        os.close(handle)

    def is_at(self, handle: int, path: str) -> bool:
        """Return whether a path leads to the open file; False if the system cannot tell."""
        try:
            return os.path.samestat(os.fstat(handle), os.stat(path))
        except OSError:
            return False

    def look(self, path: str) -> FileStat | None:
        """Return the file at a path; None if it is missing or a folder. Raises OSError."""
        try:
            found = os.stat(path)
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(found.st_mode):
            return None
        identity = found.st_dev, found.st_ino
        return FileStat(found.st_size, found.st_mtime_ns // 1_000_000, identity)

    def stamp(self, folder: str) -> tuple[int, ...]:
        """Return a value that changes when a name in the folder is created, renamed or removed.

        It differs between folders, and is empty if the folder is missing. A change within some
        milliseconds of an earlier one may go unnoticed.
        """
        try:
            found = os.stat(folder)
        except OSError:
            return ()
        return found.st_dev, found.st_ino, found.st_ctime_ns

    def space(self, folder: str) -> tuple[int, int]:
        """Return total and available bytes of a folder's file system; -1 if unknown."""
        try:
            found = os.statvfs(folder)
        except OSError:
            return -1, -1
        if not found.f_blocks:  # in memory, or on a network, without a limit
            return -1, -1
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize

    def size(self, handle: int) -> int:
        return os.fstat(handle).st_size

    def stat(self, path: str) -> FileStat:
        """Return the file at a path. Raises OSError, such as FileNotFoundError."""
        found = self.look(path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return found

    def read(self, handle: int, size: int, position: int) -> bytes:
        """Read up to `size` bytes; fewer only at the end of the file."""
        data = os.pread(handle, size, position)
        while data and len(data) < size:
            more = os.pread(handle, size - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def fill_cached(self, handle: int, buffer: memoryview, position: int) -> bool:
        """Fill the buffer with bytes from the page cache, without waiting for a disk. Returns False
        if that failed for any reason; `read` raises the actual error.
        """
        try:
            # Linux 5.9 and 5.10 return 0 where bytes are missing: preadv(2).
            return os.preadv(handle, (buffer,), position, _NOWAIT) == len(buffer)
        except OSError as error:
            if error.errno in _NO_NOWAIT:
                self.fills_cached = False
            return False

    def read_cached(self, handle: int, size: int, position: int) -> bytes:
        """Read from the page cache only, without waiting for a disk or a lock. Raises NotCached, in
        this class always; `OpenFiles` in topics/open_files.py implements it.
        """
        raise NotCached

    def write(self, handle: int, data: bytes, position: int) -> None:
        """Write all of `data`; after an OSError, any part of it may be written."""
        written = os.pwrite(handle, data, position)
        while written < len(data):
            more = os.pwrite(handle, memoryview(data)[written:], position + written)
            if not more:
                raise OSError(errno.EIO, "the write made no progress")
            written += more

    def copy(self, source: int, start: int, size: int, target: int, position: int) -> None:
        """Copy bytes of an open file into another one; fewer only at the end of the file.

        After an OSError, any part of them may be written.
        """
        done = 0
        while data := self.read(source, min(COPY_BYTES, size - done), start + done):
            self.write(target, data, position + done)
            done += len(data)

    def truncate(self, handle: int, size: int) -> None:
        os.ftruncate(handle, size)

    def sync(self, handle: int) -> None:
        """Wait until the bytes and the size of a file are on disk; see also `sync_folder`."""
        if sys.platform == "darwin":  # fsync leaves them in the drive's cache: fcntl(2)
            fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
        else:
            os.fdatasync(handle)

    def sync_folder(self, path: str) -> None:
        """Wait until the names in a folder are on disk."""
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def write_back(self) -> None:
        """Write the unwritten data of all files to disk, as far as possible.

        Errors are not reported: sync each file afterwards, which is then quick.
        """
        os.sync()

    def rename(self, path: str, to: str) -> None:
        """Move a file or a folder; `to` is replaced if it is a file or an empty folder."""
        os.replace(path, to)

    def link(self, path: str, to: str) -> None:
        """Give a file a second name, which must be free: both names lead to the same bytes.

        Raises OSError, such as FileExistsError, and EXDEV for a name on another file system.
        """
        os.link(path, to)

    def remove(self, path: str) -> None:
        """Remove a file; no error if it is missing."""
        with suppress(FileNotFoundError):
            os.remove(path)

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder; no error if it is missing."""
        with suppress(FileNotFoundError):
            os.rmdir(path)

    def lock(self, handle: int) -> bool:
        """Lock an open file exclusively, until it is closed or the process ends.

        Returns False if another process, or another open file of this one, holds the lock.
        """
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class FilesToRead(Files):
    """The real file system for read-only use, by an account that need not have write permission."""

    def open(self, path: str, *, create: bool = False) -> int:
        """Open for reading. `create` is ignored."""
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
