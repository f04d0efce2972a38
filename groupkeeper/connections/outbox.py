"""The encoded answers of one connection, and the number of bytes that the client has not read.

An asyncio transport buffers without limit; the outbox gives it only as much as it has room for.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Final

from groupkeeper.connections.budget import Budget

_Piece = bytes | memoryview

LARGE_ANSWER_BYTES: Final = 4 * 1024
"""Larger answers are written at once, to notice a client that reads none before many pile up."""
PIECE_BYTES: Final = 256 * 1024
"""Maximum bytes in one write: the transport copies what the socket does not accept."""


class Outbox:
    """Frames, in the order of their requests."""

    __slots__ = ("_budget", "_gone", "_tail", "frames", "transport", "unsent")

    def __init__(self, budget: Budget) -> None:
        """`budget`: `ConnectionLimits.unsent`."""
        self._budget = budget
        self.transport: asyncio.Transport | None = None
        """None if no client is connected; then everything is dropped."""
        self.frames: list[bytes] = []
        """Whole answers to be sent together with the next `flush`."""
        self._tail: deque[_Piece] | None = None
        """Pieces of an answer for which there was no room; None: an empty deque takes 0.7 KiB."""
        self._gone = 0
        """Bytes already written of the first piece's answer: the whole answer stays in memory until
        its last piece is written."""
        self.unsent = 0
        """Bytes that the client has not read; 0 while it keeps up."""

    def add(self, frame: bytes) -> None:
        self.frames.append(frame)
        if len(frame) > LARGE_ANSWER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write all frames at once."""
        frames, transport = self.frames, self.transport
        if not frames:
            return
        data = frames[0] if len(frames) == 1 else b"".join(frames)
        frames.clear()
        if transport is not None:
            if self._tail or len(data) > PIECE_BYTES:
                self.send([data])
            else:
                transport.write(data)

    def send(self, pieces: Iterable[bytes]) -> None:
        """Write the pieces of one answer, after earlier ones, as far as the transport has room."""
        self.flush()
        if self.transport is None:
            return
        if self._tail is None:
            self._tail = deque()
        for piece in pieces:
            if len(piece) > PIECE_BYTES:
                whole, size = memoryview(piece), len(piece)
                self._tail += [whole[at : at + PIECE_BYTES] for at in range(0, size, PIECE_BYTES)]
            else:
                self._tail.append(piece)
        self._write_tail()

    def paused(self) -> None:
        """Called when the transport's buffer is full."""
        self._count(max(self._kept(), 1))

    def resumed(self) -> None:
        """Called when the transport has room."""
        self._count(0)
        self._write_tail()

    def look(self) -> bool:
        """Update the count; return whether the client has read something since the last look."""
        before, now = self.unsent, self._kept()
        if before:
            self._count(max(now, 1))
        return now < before

    def close(self) -> None:
        """Drop everything, when the client is gone."""
        self.transport = None
        self.frames.clear()
        self._tail = None
        self._gone = 0
        self._count(0)

    def _write_tail(self) -> None:
        tail, transport = self._tail, self.transport
        while tail and not self.unsent and transport is not None:
            piece = tail.popleft()
            is_last = not (tail and isinstance(piece, memoryview) and _is_part(tail[0], piece))
            self._gone = 0 if is_last else self._gone + len(piece)
            transport.write(piece)
        if tail:
            self._count(self._kept())
        else:
            self._tail = None

    def _kept(self) -> int:
        """Return the bytes in the transport and in the tail."""
        written = 0 if self.transport is None else self.transport.get_write_buffer_size()
        return written + self._gone + sum(map(len, self._tail or ()))

    def _count(self, size: int) -> None:
        if size != self.unsent:
            by, self.unsent = size - self.unsent, size
            self._budget.change(by)


def _is_part(piece: _Piece, other: memoryview) -> bool:
    """Return whether both are pieces of the same answer."""
    return isinstance(piece, memoryview) and piece.obj is other.obj
