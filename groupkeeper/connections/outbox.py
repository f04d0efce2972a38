"""The answers of one connection on their way out, and how much of them the client does not take.

Not the encoding. A transport takes whatever it is given; here is the bound.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Final

from groupkeeper.connections.budget import Budget

Piece = bytes | memoryview

PIECE_BYTES: Final = 256 * 1024
"""More than that is not given to the transport at a time: it would copy what the socket does not
take."""


class Outbox:
    """Frames in the order of their answers."""

    __slots__ = ("_budget", "_gone", "_tail", "frames", "transport", "unsent")

    def __init__(self, budget: Budget) -> None:
        """``budget`` is that of unsent bytes."""
        self._budget = budget
        self.transport: asyncio.Transport | None = None
        """None: there is no client (any more), and everything is dropped."""
        self.frames: list[bytes] = []
        """Whole answers that leave together, with the next :meth:`flush`."""
        self._tail: deque[Piece] = deque()
        """Pieces of an answer for which the transport had no room."""
        self._gone = 0
        """Bytes written of what the first of them is a piece of: it is kept until the last one."""
        self.unsent = 0
        """Bytes that the client does not take; 0 while it takes its answers."""

    def flush(self) -> None:
        """One write for everything that was answered together."""
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
        """Write one answer in pieces, as far as there is room, behind what waits already."""
        self.flush()
        if self.transport is None:
            return
        for piece in pieces:
            if len(piece) > PIECE_BYTES:
                whole, size = memoryview(piece), len(piece)
                self._tail += [whole[at : at + PIECE_BYTES] for at in range(0, size, PIECE_BYTES)]
            else:
                self._tail.append(piece)
        self._write_tail()

    def paused(self) -> None:
        """The transport has more than it should, and will say when it has room again."""
        self._count(max(self._kept(), 1))

    def resumed(self) -> None:
        """The transport has room."""
        self._count(0)
        self._write_tail()

    def look(self) -> bool:
        """Count anew; True when the client has taken something since the last look."""
        before, now = self.unsent, self._kept()
        if before:
            self._count(max(now, 1))
        return now < before

    def close(self) -> None:
        """The client is gone."""
        self.transport = None
        self.frames.clear()
        self._tail.clear()
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

    def _kept(self) -> int:
        """Bytes that the transport has, and those that wait for it."""
        written = 0 if self.transport is None else self.transport.get_write_buffer_size()
        return written + self._gone + sum(map(len, self._tail))

    def _count(self, size: int) -> None:
        if size != self.unsent:
            by, self.unsent = size - self.unsent, size
            self._budget.change(by)


def _is_part(piece: Piece, other: memoryview) -> bool:
    """Are both of the same answer?"""
    return isinstance(piece, memoryview) and piece.obj is other.obj
