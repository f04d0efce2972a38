"""Files in a folder on any pyarrow file system. On local disks they are synced, so that they
survive a power failure.

Only one run at a time writes to a folder of tables: see `locked`.
"""

import errno
import os
import socket
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Final, TypeVar
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs

from groupkeeper.analytics.errors import AnalyticsError, one_line
from groupkeeper.analytics.reading.files import AnyPath, located

_Item = TypeVar("_Item")

PRIVATE: Final = "_groupkeeper"
"""Folder of files other than tables: Spark, Arrow and others skip names with this prefix."""
_AT_ONCE: Final = 16
"""File systems batch concurrent syncs, which takes a tenth of the time on ext4. Object stores
handle this many requests at once."""


class DurableFiles:
    """Paths are relative to the folder, with slashes. Methods raise OSError."""

    def __init__(self, place: AnyPath) -> None:
        self.place = place
        system, root = located(place)
        self.system = fs.SubTreeFileSystem(root, system)
        # An object store has no folders: creating one would add an object.
        self._has_folders = system.type_name not in {"s3", "gcs", "abfs"}

    def sizes(self, under: str = "", *, recursive: bool = True) -> dict[str, int]:
        """Return path -> bytes of files at any depth; if not `recursive`, of direct entries."""
        chosen = fs.FileSelector(under, allow_not_found=True, recursive=recursive)
        found = self.system.get_file_info(chosen)
        return {
            each.path: each.size
            for each in sorted(found, key=lambda each: each.path)
            if each.is_file or not recursive
        }

    def read(self, path: str) -> bytes | None:
        """Return the content of a file; None if it does not exist."""
        try:
            with self.system.open_input_stream(path, compression=None) as file:
                return bytes(file.read())
        except FileNotFoundError:
            return None

    def writer(self, path: str) -> pa.NativeFile:
        """Open a new file, which is not synced yet."""
        self._make_folder_of(path)
        return self.system.open_output_stream(path, compression=None)

    def write(self, path: str, data: bytes) -> None:
        """Write a whole file, without syncing it."""
        with self.writer(path) as file:
            file.write(data)

    def replace(self, path: str, data: bytes) -> None:
        """Replace a file atomically, also across a power failure."""
        attempt = f"{PRIVATE}/attempt-{uuid4().hex}"
        self.write(attempt, data)
        self.sync([attempt])
        self.move(attempt, path)
        self.sync([str(PurePosixPath(path).parent)])

    def move(self, path: str, target: str) -> None:
        """Move a file: atomic on a file system, a copy and a removal in an object store."""
        self._make_folder_of(target)
        self.system.move(path, target)

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with its content, if it exists."""
        kind = self.system.get_file_info(path).type
        if kind is fs.FileType.Directory:
            self.system.delete_dir(path)
        elif kind is not fs.FileType.NotFound:
            self.system.delete_file(path)

    def sync(self, paths: Iterable[str]) -> None:
        """Sync files, and folders for their entries, on a local disk."""
        if isinstance(self.place, Path):
            each(_sync, [self.place / path for path in paths])

    def _make_folder_of(self, path: str) -> None:
        if self._has_folders:
            self.system.create_dir(str(PurePosixPath(path).parent))


def each(step: Callable[[_Item], object], items: Iterable[_Item]) -> None:
    """Apply a function to all items concurrently."""
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        for _ in threads.map(step, items):
            pass


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some network file systems can only sync files.
        if error.errno != errno.EINVAL or not path.is_dir():
            raise
    finally:
        os.close(handle)


LOCK: Final = f"{PRIVATE}/lock"
"""Holds the writer of an object store, and the time it began."""


@contextmanager
def locked(files: DurableFiles) -> Iterator[Callable[[], None]]:
    """Lock the folder; raises AnalyticsError if another run holds the lock. Yields a check that
    raises AnalyticsError if another run has taken the lock since.
    """
    if isinstance(files.place, Path):
        handle = _lock(files.place)
        try:
            yield lambda: None
        finally:
            os.close(handle)
        return
    ours = _put_lock(files)

    def check() -> None:
        if files.read(LOCK) != ours:
            raise AnalyticsError(f"another analysis has begun to write to {files.place}")

    try:
        yield check
    finally:
        if files.read(LOCK) == ours:
            files.remove(LOCK)


def _lock(folder: Path) -> int:
    """Take a lock that ends with the process."""
    if find_spec("fcntl") is None:  # Windows
        raise AnalyticsError(
            "--out needs the file locks (flock) of Linux or macOS, and this system has none: use "
            "--csv or --json instead"
        )
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        said = f"{folder} cannot be locked: {one_line(error)}"
        if isinstance(error, BlockingIOError):
            said = f"another analysis writes to {folder}: wait until it ends"
        raise AnalyticsError(said) from None
    return handle


def _put_lock(files: DurableFiles) -> bytes:
    """Write the lock of an object store. pyarrow has no conditional write: if two runs begin at the
    same moment, the later one gets the lock, and the other fails at its end.
    """
    found = files.read(LOCK)
    if found:
        raise AnalyticsError(
            f"another analysis writes to {files.place}, {found.decode()}: wait until it ends; if "
            f"it was killed, remove {LOCK} there"
        )
    now = datetime.now(UTC)
    ours = f"process {os.getpid()} on {socket.gethostname()} since {now:%Y-%m-%dT%H:%M:%S.%fZ}"
    files.write(LOCK, ours.encode())
    return ours.encode()
