"""A file read forward in large pieces, for scans over its batches or rounds.

Holds one piece; going back reads again.
"""

from typing import Final

from groupkeeper.storage.files.files import Files

PIECE: Final = 1024 * 1024
"""Bytes."""


class Window:
    """The bytes of an open file up to `size`; `buffer` is the current piece, `view` its view."""

    __slots__ = ("_read", "_start", "buffer", "files", "handle", "piece", "size", "view")

    def __init__(
        self, files: Files, handle: int, size: int, piece: int = PIECE, *, cached: bool = False
    ) -> None:
        """`cached`: read from memory only; methods raise NotCached then."""
        self._read = files.read_cached if cached else files.read
        self.files = files
        self.handle = handle
        self.size = size
        self.piece = piece
        self.buffer = b""
        self.view = memoryview(self.buffer)
        self._start = 0

    def find(self, position: int, length: int) -> int:
        """Where in `buffer` the `length` bytes at `position` are; -1 if the file ends before.

        Reads the next piece if need be.
        """
        if position + length > self.size:
            return -1
        at = position - self._start
        if at < 0 or at + length > len(self.buffer):
            wanted = min(max(self.piece, length), self.size - position)
            self.buffer = self._read(self.handle, wanted, position)
            self.view = memoryview(self.buffer)
            self._start = position
            at = 0
        return at if at + length <= len(self.buffer) else -1

    def read(self, position: int, length: int) -> bytes:
        """Bytes before the end; fewer if the file ends early."""
        at = self.find(position, length)
        return self.buffer[at : at + length] if at >= 0 else self.buffer[:length]

    def again(self) -> "Window":
        """A second window on the same file, so that this one keeps its piece."""
        return Window(self.files, self.handle, self.size)
