"""A file system in memory, with all calls of `Files`, for a process that keeps nothing on disk.

Names lead to files as on a disk: a file has any number of names, and without any it lives on while
it is open. Nothing is ever unsynced, and everything ends with the process. Thread-safe.
tests/support/fake_files.py has a disk that loses, tears and fails writes.
"""

import errno
import os
from collections.abc import Callable
from itertools import count
from threading import Lock, RLock

from groupkeeper.storage.files.files import Files, FileStat


class File:
    """The bytes of a file, and the handle that has locked it."""

    __slots__ = ("data", "holder", "lock", "modified_ms")

    def __init__(self, modified_ms: int) -> None:
        self.data = bytearray()
        self.modified_ms = modified_ms
        self.holder: int | None = None
        self.lock = Lock()
        """Held while the bytes are read or changed."""

    @property
    def size(self) -> int:
        return len(self.data)

    def read(self, size: int, position: int) -> bytes:
        return bytes(memoryview(self.data)[position : position + size])

    def write(self, data: bytes, position: int) -> None:
        gap = position - len(self.data)
        if data and gap > 0:
            self.data += bytes(gap)
        self.data[position : position + len(data)] = data

    def truncate(self, size: int) -> None:
        del self.data[size:]
        self.data += bytes(size - len(self.data))


class Folder:
    """Names of files and folders."""

    __slots__ = ("changes", "names", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.names: dict[str, File | Folder] = {}
        self.changes = 0

    def put(self, name: str, node: "File | Folder") -> None:
        self.names[name] = node
        self.changes += 1

    def drop(self, name: str) -> None:
        del self.names[name]
        self.changes += 1


_Node = File | Folder


class MemoryFiles(Files):
    """A private file system. Errors are those of the system."""

    may_block = False

    def __init__(self, wall_ms: Callable[[], int] = lambda: 0) -> None:
        """Take `wall_ms`, the clock for the modification times of files."""
        self._wall_ms = wall_ms
        self._lock = RLock()
        """Held while names and open files are looked up or changed. Reentrant: a segment closes its
        file when it is garbage-collected, possibly in the middle of a call."""
        self._numbers = count(1)
        self._root = Folder(0)
        self._open: dict[int, File] = {}

    def boot_id(self) -> str:
        return "-"

    # -- names ---------------------------------------------------------------------------------

    def _node(self, path: str) -> _Node:
        node: _Node = self._root
        for name in _parts(path):
            if isinstance(node, File):
                raise _error(errno.ENOTDIR, path)
            if name not in node.names:
                raise _error(errno.ENOENT, path)
            node = node.names[name]
        return node

    def _folder(self, path: str) -> Folder:
        node = self._node(path)
        if isinstance(node, File):
            raise _error(errno.ENOTDIR, path)
        return node

    def _place(self, path: str) -> tuple[Folder, str]:
        """Return the folder that a path ends in, which must exist, and the last name."""
        *above, name = _parts(path) or [""]
        if not name:
            raise _error(errno.EBUSY, path)  # the root stays
        return self._folder("/".join(above)), name

    def make_folder(self, path: str) -> None:
        with self._lock:
            node: _Node = self._root
            for name in _parts(path):
                if isinstance(node, File):
                    raise _error(errno.ENOTDIR, path)
                if name not in node.names:
                    node.put(name, Folder(next(self._numbers)))
                node = node.names[name]
            if isinstance(node, File):
                raise _error(errno.EEXIST, path)

    def list_folder(self, path: str) -> list[str]:
        with self._lock:
            try:
                return sorted(self._folder(path).names)
            except FileNotFoundError:
                return []

    def space(self, folder: str) -> tuple[int, int]:
        return -1, -1

    def stamp(self, folder: str) -> tuple[int, ...]:
        with self._lock:
            try:
                found = self._folder(folder)
            except OSError:
                return ()
            return found.number, found.changes

    def is_at(self, handle: int, path: str) -> bool:
        with self._lock:
            try:
                return self._node(path) is self._file(handle)
            except OSError:
                return False

    def look(self, path: str) -> FileStat | None:
        with self._lock:
            try:
                node = self._node(path)
            except FileNotFoundError:
                return None
            if isinstance(node, Folder):
                return None
            return FileStat(node.size, node.modified_ms, (0, id(node)))

    def write_back(self) -> None:
        """Do nothing: nothing is ever unsynced."""

    def rename(self, path: str, to: str) -> None:
        with self._lock:
            folder, name = self._place(path)
            target, new = self._place(to)
            node, there = self._node(path), target.names.get(new)
            if there is node:
                return
            code = _forbids(path, node, to, there)
            if code:
                raise _error(code, to)
            folder.drop(name)
            target.put(new, node)

    def link(self, path: str, to: str) -> None:
        with self._lock:
            node = self._node(path)
            folder, name = self._place(to)
            if name in folder.names:
                raise _error(errno.EEXIST, to)
            if isinstance(node, Folder):
                raise _error(errno.EPERM, path)
            folder.put(name, node)

    def remove(self, path: str) -> None:
        with self._lock:
            try:
                node = self._node(path)
            except FileNotFoundError:
                return
            if isinstance(node, Folder):
                raise _error(errno.EISDIR, path)
            folder, name = self._place(path)
            folder.drop(name)

    def remove_folder(self, path: str) -> None:
        with self._lock:
            try:
                found = self._folder(path)
            except FileNotFoundError:
                return
            if found.names:
                raise _error(errno.ENOTEMPTY, path)
            folder, name = self._place(path)
            folder.drop(name)

    def sync_folder(self, path: str) -> None:
        with self._lock:
            self._folder(path)

    # -- open files ----------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> int:
        with self._lock:
            folder, name = self._place(path)
            node = folder.names.get(name)
            if node is None:
                if not create:
                    raise _error(errno.ENOENT, path)
                node = self._new_file()
                folder.put(name, node)
            if isinstance(node, Folder):
                raise _error(errno.EISDIR, path)
            handle = next(self._numbers)
            self._open[handle] = node
            return handle

    def close(self, handle: int) -> None:
        with self._lock:
            file = self._file(handle)
            del self._open[handle]
            if file.holder == handle:
                file.holder = None

    def lock(self, handle: int) -> bool:
        with self._lock:
            file = self._file(handle)
            if file.holder not in (None, handle):
                return False
            file.holder = handle
            return True

    def _file(self, handle: int) -> File:
        file = self._open.get(handle)
        if file is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return file

    def _new_file(self) -> File:
        return File(self._wall_ms())

    def size(self, handle: int) -> int:
        return self._file(handle).size

    def read(self, handle: int, size: int, position: int) -> bytes:
        file = self._file(handle)
        with file.lock:  # or a view of the bytes keeps another thread from appending
            return file.read(size, position)

    def fill_cached(self, handle: int, buffer: memoryview, position: int) -> bool:
        return False

    def write(self, handle: int, data: bytes, position: int) -> None:
        file = self._file(handle)
        with file.lock:
            file.modified_ms = self._wall_ms()
            file.write(data, position)

    def truncate(self, handle: int, size: int) -> None:
        file = self._file(handle)
        with file.lock:
            file.modified_ms = self._wall_ms()
            file.truncate(size)

    def sync(self, handle: int) -> None:
        self._file(handle)


def _parts(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _forbids(path: str, node: _Node, to: str, there: _Node | None) -> int:
    """Return the errno that forbids renaming a node to a path, where another may be; 0: allowed."""
    if _is_below(to, path):
        return errno.EINVAL
    if _is_below(path, to):
        return errno.ENOTEMPTY
    if isinstance(there, Folder):
        if isinstance(node, File):
            return errno.EISDIR
        return errno.ENOTEMPTY if there.names else 0
    return errno.ENOTDIR if there and isinstance(node, Folder) else 0


def _is_below(path: str, folder: str) -> bool:
    """Return whether a path goes through a folder."""
    above = _parts(folder)
    return _parts(path)[: len(above)] == above


def _error(code: int, path: str) -> OSError:
    """Return an OSError of the class that belongs to the code, such as FileNotFoundError."""
    return OSError(code, os.strerror(code), path)
