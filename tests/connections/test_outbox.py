"""Answers leave in order, in pieces, and as fast as the client takes them."""

from typing import Any

import pytest

from groupkeeper.connections.budget import Budget
from groupkeeper.connections.outbox import PIECE_BYTES, Outbox


class Socket:
    """As much of a transport as an outbox knows; has room for so many bytes."""

    def __init__(self, outbox: Outbox, room: int) -> None:
        self.outbox = outbox
        self.room = room
        self.taken = b""
        self.waiting = b""
        outbox.transport = self  # type: ignore[assignment]  # no more of it is needed

    def write(self, data: Any) -> None:
        self.waiting += bytes(data)
        self._move()
        if self.waiting:
            self.outbox.paused()

    def _move(self) -> None:
        size = min(self.room, len(self.waiting))
        self.taken += self.waiting[:size]
        self.waiting, self.room = self.waiting[size:], self.room - size

    def read(self, size: int) -> None:
        """The client takes so much more."""
        self.room += size
        self._move()
        if not self.waiting:
            self.outbox.resumed()

    def get_write_buffer_size(self) -> int:
        return len(self.waiting)


BIG = bytes(range(256)) * (4 * PIECE_BYTES // 256)


@pytest.fixture
def budget() -> Budget:
    return Budget(1 << 30)


@pytest.fixture
def outbox(budget: Budget) -> Outbox:
    return Outbox(budget)


def test_what_was_answered_together_leaves_in_one_write(outbox: Outbox) -> None:
    socket = Socket(outbox, 1_000)
    outbox.frames += [b"one", b"two"]
    outbox.flush()
    assert socket.taken == b"onetwo"
    assert outbox.unsent == 0


def test_a_large_answer_is_given_to_the_transport_as_there_is_room(
    outbox: Outbox, budget: Budget
) -> None:
    socket = Socket(outbox, PIECE_BYTES + 10)
    outbox.frames.append(BIG)
    outbox.flush()
    assert len(socket.waiting) < PIECE_BYTES
    waiting = len(BIG) - PIECE_BYTES - 10
    gone = 2 * PIECE_BYTES  # to the transport, and kept with the rest
    assert outbox.unsent == budget.used == waiting + gone
    while outbox.unsent:
        socket.read(PIECE_BYTES // 2)
    assert socket.taken == BIG
    assert budget.used == 0


def test_what_is_answered_meanwhile_stands_behind_it(outbox: Outbox) -> None:
    socket = Socket(outbox, 10)
    outbox.frames.append(BIG)
    outbox.flush()
    outbox.frames.append(b"small")
    outbox.flush()
    outbox.send([b"in ", b"pieces"])
    while outbox.unsent:
        socket.read(PIECE_BYTES)
    assert socket.taken == BIG + b"small" + b"in pieces"


def test_a_look_tells_whether_the_client_took_something(outbox: Outbox) -> None:
    socket = Socket(outbox, 10)
    outbox.frames.append(BIG)
    outbox.flush()
    assert not outbox.look()
    socket.room += 5
    socket._move()
    assert outbox.look()
    assert not outbox.look()


def test_what_is_left_when_the_client_goes_counts_no_more(outbox: Outbox, budget: Budget) -> None:
    Socket(outbox, 10)
    outbox.frames.append(BIG)
    outbox.flush()
    outbox.close()
    outbox.frames.append(b"late")
    outbox.flush()
    outbox.send([b"later"])
    assert outbox.unsent == budget.used == 0
