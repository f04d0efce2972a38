"""A file read forward in large pieces, for scans over batches or flushes.

Holds one piece at a time; moving back reads again.
"""

from typing import Final

from groupkeeper.storage.files.files import Files

PIECE: Final = 1024 * 1024
"""Default size of a piece in bytes."""


class Window:
    """The bytes of an open file up to `size`. `buffer` holds one piece, `view` is a view of it."""

    __slots__ = ("_read", "_start", "buffer", "files", "handle", "piece", "size", "view")

    def __init__(
        self, files: Files, handle: int, size: int, piece: int = PIECE, *, cached: bool = False
    ) -> None:
        """Start with no piece. `cached`: read from memory only; methods may raise NotCached."""
        self._read = files.read_cached if cached else files.read
        self.files = files
        self.handle = handle
        self.size = size
        self.piece = piece
        self.buffer = b""
        self.view = memoryview(self.buffer)
        self._start = 0

    def find(self, position: int, length: int) -> int:
        """Return where the bytes at `position` are in `buffer`, reading a piece if necessary.

        -1 if the file ends before `position + length`.
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
        """Return `length` bytes at a position; fewer if the file ends early."""
        at = self.find(position, length)
        return self.buffer[at : at + length] if at >= 0 else self.buffer[:length]

    def again(self) -> "Window":
        """Return a second window on the same file, so that this one keeps its piece."""
        return Window(self.files, self.handle, self.size)
