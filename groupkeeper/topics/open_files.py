"""The files of topic logs, of which only a limited number is open at a time.

The least recently used file is closed for another, and the next use of its handle reopens it.
Closing loses nothing: written data is in the page cache and can be synced through any handle. Not
for logs that must learn of every error of the disk.
"""

import errno
from collections import OrderedDict
from collections.abc import Callable
from threading import RLock
from typing import Concatenate, Final, ParamSpec, TypeVar

from groupkeeper.storage.errors import NotCached
from groupkeeper.storage.files.files import Files, FileStat

P = ParamSpec("P")
T = TypeVar("T")

_SHORTAGES: Final = frozenset((errno.EMFILE, errno.ENFILE))
CACHED_MOST: Final = 256 * 1024
"""Maximum bytes of one `read_cached`: beyond, copying out of its buffer costs too much."""

_SHED: Final = 4
"""If the system has no descriptor left, one in this many open files is closed."""


class _File:
    """A file with a handle."""

    __slots__ = ("closed", "descriptor", "path", "removed", "users")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.descriptor: int | None = descriptor
        """The real handle; None while the file is not open."""
        self.users = 0
        """Current calls, in any thread; the file stays open meanwhile."""
        self.removed = False
        """Its path may be another file's: once closed, it cannot be reopened."""
        self.closed = False


class OpenFiles(Files):
    """Files whose handles outlive their descriptors; thread-safe."""

    def __init__(self, files: Files, most: int) -> None:
        """`most`: maximum number of idle descriptors kept open; calls in progress may need more."""
        self._files = files
        self._most = most
        self._lock = RLock()  # a finalizer of a segment may call in here
        self._next = 0
        self._held: dict[int, _File] = {}
        self._by_path: dict[str, set[_File]] = {}
        self._open: OrderedDict[_File, None] = OrderedDict()
        """Files that may be closed, least recently used first."""
        self._buffer = memoryview(b"")
        """Buffer of `read_cached`: creating one for each call costs more than the read."""

    def __len__(self) -> int:
        return len(self._open)

    def open(self, path: str, *, create: bool = False) -> int:
        file = _File(path, self._descriptor(path, create=create))
        with self._lock:
            self._next += 1
            self._held[self._next] = file
            self._by_path.setdefault(path, set()).add(file)
            self._open[file] = None
            return self._next

    def close(self, handle: int) -> None:
        with self._lock:
            file = self._held.pop(handle, None)
            if file is None:
                raise OSError(errno.EBADF, "Bad file descriptor")
            file.closed = True
            same = self._by_path[file.path]
            same.discard(file)
            if not same:
                del self._by_path[file.path]
            if not file.users:
                self._let_go(file)

    def size(self, handle: int) -> int:
        return self._call(self._files.size, handle)

    def look(self, path: str) -> FileStat | None:
        return self._files.look(path)

    def stamp(self, folder: str) -> tuple[int, ...]:
        return self._files.stamp(folder)

    def space(self, folder: str) -> tuple[int, int]:
        return self._files.space(folder)

    def read(self, handle: int, size: int, position: int) -> bytes:
        return self._call(self._files.read, handle, size, position)

    def read_cached(self, handle: int, size: int, position: int) -> bytes:
        files = self._files
        if not (files.may_block and files.fills_cached) or size > CACHED_MOST:
            raise NotCached
        if not self._lock.acquire(blocking=False):  # it is held while files are closed and renamed
            raise NotCached
        try:
            file = self._held.get(handle)
            if file is None or file.descriptor is None:
                raise NotCached
            if file in self._open:
                self._open.move_to_end(file)
            if size > len(self._buffer):
                self._buffer = memoryview(bytearray(size))
            part = self._buffer[:size]
            if not files.fill_cached(file.descriptor, part, position):
                raise NotCached
            return bytes(part)
        finally:
            self._lock.release()

    def write(self, handle: int, data: bytes, position: int) -> None:
        self._call(self._files.write, handle, data, position)

    def truncate(self, handle: int, size: int) -> None:
        self._call(self._files.truncate, handle, size)

    def sync(self, handle: int) -> None:
        self._call(self._files.sync, handle)

    def make_folder(self, path: str) -> None:
        self._files.make_folder(path)

    def list_folder(self, path: str) -> list[str]:
        try:
            return self._files.list_folder(path)
        except OSError as error:
            if error.errno not in _SHORTAGES:
                raise
            self._make_way()
            return self._files.list_folder(path)

    def sync_folder(self, path: str) -> None:
        try:
            self._files.sync_folder(path)
        except OSError as error:
            if error.errno not in _SHORTAGES:
                raise
            self._make_way()
            self._files.sync_folder(path)

    def rename(self, path: str, to: str) -> None:
        self._lose(to)
        with self._lock:  # no file is reopened by its old name meanwhile
            self._files.rename(path, to)
            moved = self._by_path.pop(path, set())
            for file in moved:
                file.path = to
            if moved:
                self._by_path.setdefault(to, set()).update(moved)

    def link(self, path: str, to: str) -> None:
        self._files.link(path, to)

    def remove(self, path: str) -> None:
        self._lose(path)
        self._files.remove(path)

    def remove_folder(self, path: str) -> None:
        self._files.remove_folder(path)

    # -- descriptors

    def _call(
        self,
        call: Callable[Concatenate[int, P], T],
        handle: int,
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Do a call of the file system below with the descriptor of a file."""
        file, descriptor = self._borrow(handle)
        try:
            return call(descriptor, *args, **kwargs)
        finally:
            self._give_back(file)

    def _borrow(self, handle: int) -> tuple[_File, int]:
        """Return the file, kept open until `_give_back`, and its descriptor. Raises OSError."""
        with self._lock:
            file = self._held.get(handle)
            if file is None:
                raise OSError(errno.EBADF, "Bad file descriptor")
            if file.removed and file.descriptor is None:
                raise FileNotFoundError(errno.ENOENT, "Removed", file.path)
            file.users += 1
            if file.descriptor is not None:
                if file in self._open:
                    self._open.move_to_end(file)
                return file, file.descriptor
        try:
            return file, self._opened_again(file)
        except BaseException:
            self._give_back(file)
            raise

    def _opened_again(self, file: _File) -> int:
        path = file.path
        try:
            descriptor = self._descriptor(path)
        except FileNotFoundError:
            if file.path == path:
                raise
            descriptor = self._descriptor(file.path)  # renamed meanwhile
        with self._lock:
            if file.descriptor is None and not file.removed:
                file.descriptor = descriptor
                self._open[file] = None
                return descriptor
            other = file.descriptor
        # Another thread was faster.
        self._files.close(descriptor)
        if other is None:
            raise FileNotFoundError(errno.ENOENT, "Removed", file.path)
        return other

    def _give_back(self, file: _File) -> None:
        with self._lock:
            file.users -= 1
            if file.closed and not file.users:
                self._let_go(file)

    def _descriptor(self, path: str, *, create: bool = False) -> int:
        """Return a new descriptor, for which another may be closed. Raises OSError."""
        with self._lock:
            self._shed(len(self._open) + 1 - self._most)
        try:
            return self._files.open(path, create=create)
        except OSError as error:
            if error.errno not in _SHORTAGES:
                raise
            self._make_way()
            return self._files.open(path, create=create)

    def _make_way(self) -> None:
        """Close some files, as the system has no descriptor left."""
        with self._lock:
            self._shed(len(self._open) // _SHED + 1)

    def _shed(self, count: int) -> None:
        """Close up to `count` files that are not in use."""
        if count <= 0:
            return
        idle = []
        for file in self._open:
            if not file.users:
                idle.append(file)
                if len(idle) == count:
                    break
        for file in idle:
            self._let_go(file)

    def _let_go(self, file: _File) -> None:
        self._open.pop(file, None)
        descriptor, file.descriptor = file.descriptor, None
        if descriptor is not None:
            self._files.close(descriptor)

    def _lose(self, path: str) -> None:
        """Prepare for the path to be removed, or to become another file's."""
        with self._lock:
            for file in self._by_path.get(path, ()):
                file.removed = True
                self._open.pop(file, None)
