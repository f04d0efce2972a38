"""A file system whose changes stay in memory: what is not changed is read from another one.

For trying out what would change files, such as opening a damaged log without the lost part. Bytes
that are copied from file to file (`Files.copy`), or written over equal ones, take no memory. The
other file system must not change meanwhile. One thread at a time.
"""

import errno
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from typing import NamedTuple
from weakref import WeakValueDictionary

from groupkeeper.storage.files import Files, FileStat, parent_of


class _Original:
    """A file below, open as long as something refers to it."""

    def __init__(self, files: Files, path: str) -> None:
        self.files = files
        self.path = path
        self.handle = files.open(path)

    def __del__(self) -> None:
        with suppress(AttributeError, OSError):  # no handle if it could not be opened
            self.files.close(self.handle)


class _Extent(NamedTuple):
    """Bytes `start` to `end` of a file, which are in `source` from `at` on."""

    start: int
    end: int
    source: _Original | bytearray
    at: int

    def read(self, start: int, end: int) -> bytes:
        at = self.at + start - self.start
        if isinstance(self.source, bytearray):
            return bytes(self.source[at : at + end - start])
        return self.source.files.read(self.source.handle, end - start, at)

    def part(self, start: int, end: int) -> "_Extent":
        """What of it lies between two positions."""
        start, end = max(start, self.start), min(end, self.end)
        return _Extent(start, end, self.source, self.at + start - self.start)


class _File:
    """The bytes of one file; zeros where no extent is. It may have any number of names."""

    def __init__(self, original: _Original | None) -> None:
        self.original = original
        self.is_changed = original is None
        self.size = 0
        self._extents: list[_Extent] = []
        if original is not None:
            self.size = original.files.size(original.handle)
            self._extents.append(_Extent(0, self.size, original, 0))

    def read(self, size: int, position: int) -> bytes:
        end = min(position + size, self.size)
        pieces: list[bytes] = []
        for extent in self.extents(position, end):
            pieces.append(bytes(extent.start - position))
            pieces.append(extent.read(extent.start, extent.end))
            position = extent.end
        pieces.append(bytes(max(0, end - position)))
        return b"".join(pieces)

    def extents(self, start: int, end: int) -> Iterator[_Extent]:
        """The extents between two positions, cut at these."""
        first = bisect_right(self._extents, start, key=lambda extent: extent.end)
        for extent in self._extents[first:]:
            if extent.start >= end:
                break
            yield extent.part(start, end)

    def write(self, data: bytes, position: int) -> None:
        last = self._extents[-1] if self._extents else None
        if last is not None and position == self.size == last.end:
            source, length = last.source, last.end - last.start
            if isinstance(source, bytearray) and last.at + length == len(source):
                source += data
                self.size += len(data)
                self._extents[-1] = last._replace(end=self.size)
                return
        self.place(_Extent(position, position + len(data), bytearray(data), 0))

    def place(self, extent: _Extent) -> None:
        """Put an extent over what was there."""
        self._replace(extent.start, extent.end, [extent])

    def clear(self, start: int, end: int) -> None:
        """Put zeros over what was there."""
        self._replace(start, end, [])

    def _replace(self, start: int, end: int, extents: list[_Extent]) -> None:
        first = bisect_right(self._extents, start, key=lambda other: other.end)
        after = bisect_left(self._extents, end, key=lambda other: other.start)
        covered = self._extents[first:after]
        before = [other.part(0, start) for other in covered if other.start < start]
        behind = [other.part(end, other.end) for other in covered if other.end > end]
        self._extents[first:after] = [*before, *extents, *behind]
        self.size = max(self.size, end)

    def truncate(self, size: int) -> None:
        self._extents = list(self.extents(0, size))
        self.size = size


class OverlayFiles(Files):
    """The files of another file system, with changes that only this object knows."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._handles: dict[int, _File] = {}
        self._numbers = count(3)
        self._names: dict[str, _File | None] = {}
        """What was made, changed or renamed; None: removed, a file or a folder."""
        self._folders: set[str] = set()
        """Folders that were made."""
        self._unchanged: WeakValueDictionary[str, _File] = WeakValueDictionary()
        """Files below that are in use, by path."""
        self._changes = 0
        self.overwritten: set[str] = set()
        """The paths of files below that were written to in place, if only with equal bytes."""

    def forget(self, folder: str) -> None:
        """Undo all changes in a folder; open files keep them."""
        below = [name for name in self._names if name == folder or parent_of(name) == folder]
        for name in below:
            del self._names[name]
        self._folders.discard(folder)
        self.overwritten = {path for path in self.overwritten if parent_of(path) != folder}

    # -- what is asked of the other file system --------------------------------------------------

    def process_id(self) -> int:
        return self._files.process_id()

    def boot_id(self) -> str:
        return self._files.boot_id()

    def random_bytes(self, size: int) -> bytes:
        return self._files.random_bytes(size)

    def lock(self, handle: int) -> bool:
        """True: as all changes, it is known here only."""
        return True

    # -- names -----------------------------------------------------------------------------------

    def make_folder(self, path: str) -> None:
        if self._is_folder(path):
            return
        if parent_of(path) != path:
            self.make_folder(parent_of(path))
        self._names.pop(path, None)
        self._folders.add(path)
        self._changes += 1

    def list_folder(self, path: str) -> list[str]:
        names = set() if self._is_removed(path) else set(self._files.list_folder(path))
        for name, file in self._names.items():
            if parent_of(name) == path:
                names.add(name.rpartition("/")[2])
                if file is None:
                    names.discard(name.rpartition("/")[2])
        names |= {name.rpartition("/")[2] for name in self._folders if parent_of(name) == path}
        return sorted(names)

    def _is_removed(self, path: str) -> bool:
        return self._names.get(path, self) is None

    def _is_folder(self, path: str) -> bool:
        if path in self._folders:
            return True
        return path not in self._names and bool(self._files.stamp(path))

    def _find(self, path: str) -> _File:
        if path in self._names:
            file = self._names[path]
            if file is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            return file
        file = self._unchanged.get(path)
        if file is None:
            file = self._unchanged[path] = _File(_Original(self._files, path))
        return file

    def _check_folder_of(self, path: str) -> None:
        if not self._is_folder(parent_of(path)):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def _name(self, path: str, file: _File | None) -> None:
        self._names[path] = file
        self._changes += 1

    def open(self, path: str, *, create: bool = False) -> int:
        try:
            file = self._find(path)
        except FileNotFoundError:
            if not create:
                raise
            self._check_folder_of(path)
            file = _File(None)
            self._name(path, file)
        handle = next(self._numbers)
        self._handles[handle] = file
        return handle

    def close(self, handle: int) -> None:
        if self._handles.pop(handle, None) is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    def is_at(self, handle: int, path: str) -> bool:
        try:
            return self._find(path) is self._handles[handle]
        except OSError:
            return False

    def look(self, path: str) -> FileStat | None:
        if path not in self._names:
            return self._files.look(path)
        file = self._names[path]
        if file is None:
            return None
        if file.original is not None and not file.is_changed:
            return self._files.look(file.original.path)
        return FileStat(file.size, 0, (0, id(file)))

    def stamp(self, folder: str) -> tuple[int, ...]:
        if not self._is_folder(folder):
            return ()
        return *self._files.stamp(folder), self._changes

    def rename(self, path: str, to: str) -> None:
        file = self._find(path)
        self._check_folder_of(to)
        self._name(path, None)
        self._name(to, file)

    def link(self, path: str, to: str) -> None:
        file = self._find(path)
        self._check_folder_of(to)
        if to.rpartition("/")[2] in self.list_folder(parent_of(to)):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), to)
        self._name(path, file)
        self._name(to, file)

    def remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self._find(path)
            self._name(path, None)

    def remove_folder(self, path: str) -> None:
        if not self._is_folder(path):
            return
        if self.list_folder(path):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        self._folders.discard(path)
        self._name(path, None)

    # -- bytes -----------------------------------------------------------------------------------

    def size(self, handle: int) -> int:
        return self._handles[handle].size

    def read(self, handle: int, size: int, position: int) -> bytes:
        return self._handles[handle].read(size, position)

    def fill_cached(self, handle: int, buffer: memoryview, position: int) -> bool:
        return False

    def write(self, handle: int, data: bytes, position: int) -> None:
        file = self._handles[handle]
        if file.read(len(data), position) != data:
            file.write(data, position)
            self._keep(file)
        elif file.original is not None:  # recovery writes again what may not be synced
            self.overwritten.add(file.original.path)

    def copy(self, source: int, start: int, size: int, target: int, position: int) -> None:
        file, origin = self._handles[target], self._handles[source]
        size = min(size, origin.size - start)
        if size > 0:
            extents = list(origin.extents(start, start + size))
            file.clear(position, position + size)
            for extent in extents:
                at = position + extent.start - start
                file.place(_Extent(at, at + extent.end - extent.start, extent.source, extent.at))
            self._keep(file)

    def truncate(self, handle: int, size: int) -> None:
        file = self._handles[handle]
        if size != file.size:
            file.truncate(size)
            self._keep(file)

    def _keep(self, file: _File) -> None:
        """Remember that a file has changed."""
        if file.is_changed or file.original is None:
            return
        file.is_changed = True
        self._unchanged.pop(file.original.path, None)
        self.overwritten.add(file.original.path)
        self._names.setdefault(file.original.path, file)  # unless it was removed or renamed

    def sync(self, handle: int) -> None:
        """Nothing is durable here."""

    def sync_folder(self, path: str) -> None:
        if not self._is_folder(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
