"""A file system in memory on top of another one, which stays unchanged.

For trying out changes to files, such as opening a damaged log without the lost part. Bytes of the
files below stay on disk: they are read from there, and take no memory when copied to another file.
The file system below must not change meanwhile. For one thread at a time.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from groupkeeper.storage.files.files import Files
from groupkeeper.storage.files.memory import File, MemoryFiles
from groupkeeper.storage.files.whole import opened


class _Below(NamedTuple):
    """A file of the file system below."""

    files: Files
    path: str

    def read(self, start: int, end: int) -> bytes:
        with opened(self.files, self.path) as handle:
            return self.files.read(handle, end - start, start)


class _Piece(NamedTuple):
    """Bytes `start` to `end` of a file, found in `source` from `at` on."""

    start: int
    end: int
    source: _Below | bytearray
    at: int

    def read(self) -> bytes:
        end = self.at + self.end - self.start
        if isinstance(self.source, bytearray):
            return bytes(self.source[self.at : end])
        return self.source.read(self.at, end)

    def part(self, start: int, end: int) -> "_Piece":
        """Return the part of the piece between two positions."""
        start, end = max(start, self.start), min(end, self.end)
        return _Piece(start, end, self.source, self.at + start - self.start)


class _ShownFile(File):
    """A file made of consecutive pieces."""

    def __init__(self, modified_ms: int, below: _Below | None = None, size: int = 0) -> None:
        super().__init__(modified_ms)
        self.below = below
        """The file below; None for a file created in the overlay."""
        self._pieces = [_Piece(0, size, below, 0)] if below is not None and size else []

    @property
    def size(self) -> int:
        return self._pieces[-1].end if self._pieces else 0

    def pieces(self, start: int, end: int) -> Iterator[_Piece]:
        """Yield the pieces between two positions, cut to them."""
        first = bisect_right(self._pieces, start, key=lambda piece: piece.end)
        for at in range(first, len(self._pieces)):
            piece = self._pieces[at]
            if piece.start >= end:
                return
            yield piece.part(start, end)

    def put(self, pieces: Sequence[_Piece]) -> None:
        if not pieces:
            return
        start, end = pieces[0].start, pieces[-1].end
        if start > self.size:
            self.truncate(start)
        if start < self.size:
            self._pieces = [*self.pieces(0, start), *pieces, *self.pieces(end, self.size)]
        else:
            self._pieces += pieces

    def read(self, size: int, position: int) -> bytes:
        return b"".join(piece.read() for piece in self.pieces(position, position + size))

    def write(self, data: bytes, position: int) -> None:
        last = self._pieces[-1] if self._pieces else _Piece(0, 0, bytearray(), 0)
        at = last.at + last.end - last.start
        if (
            0 < last.end == position
            and isinstance(last.source, bytearray)
            and at == len(last.source)
        ):
            last.source.extend(data)  # an append costs only its own size
            self._pieces[-1] = last._replace(end=last.end + len(data))
        elif data:
            self.put([_Piece(position, position + len(data), bytearray(data), 0)])

    def truncate(self, size: int) -> None:
        if size > self.size:
            self.write(bytes(size - self.size), self.size)
        else:
            self._pieces = [*self.pieces(0, size)]


class OverlayFiles(MemoryFiles):
    """Shows folders of another file system, and keeps changes to itself."""

    def __init__(self, files: Files) -> None:
        super().__init__()
        self._below = files
        self.overwritten: set[str] = set()
        """Paths of files below that were written to in place since the last `show`."""

    def show(self, folder: str) -> None:
        """Show a folder with its files as they are below; its subfolders start out empty.

        Earlier changes in the folder are discarded. Raises OSError.
        """
        self.overwritten.clear()
        with suppress(FileNotFoundError):
            self._folder(folder).names.clear()
        if not self._below.stamp(folder):
            self.remove_folder(folder)
            return
        self.make_folder(folder)
        shown = self._folder(folder)
        for name in self._below.list_folder(folder):
            path = f"{folder}/{name}"
            found = self._below.look(path)
            if found is None:
                self.make_folder(path)
            else:
                file = _ShownFile(found.modified_ms, _Below(self._below, path), found.size)
                shown.put(name, file)

    def _new_file(self) -> File:
        return _ShownFile(0)

    def boot_id(self) -> str:
        return self._below.boot_id()

    def copy(self, source: int, start: int, size: int, target: int, position: int) -> None:
        by = position - start
        pieces = self._shown(source).pieces(start, start + size)
        moved = [piece._replace(start=piece.start + by, end=piece.end + by) for piece in pieces]
        self._changing(target).put(moved)

    def write(self, handle: int, data: bytes, position: int) -> None:
        self._changing(handle).write(data, position)

    def truncate(self, handle: int, size: int) -> None:
        self._changing(handle).truncate(size)

    def _shown(self, handle: int) -> _ShownFile:
        file = self._file(handle)
        assert isinstance(file, _ShownFile), "all files are created here"
        return file

    def _changing(self, handle: int) -> _ShownFile:
        file = self._shown(handle)
        if file.below is not None:
            self.overwritten.add(file.below.path)
        return file
