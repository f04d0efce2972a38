"""Sockets that speak Kafka to a server process: one that asks and waits, and many at once.

What is sent is not judged here.
"""

import contextlib
import selectors
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from tests.support import wire
from tests.support.wire import ANSWER_S, Address

ATTACKER = "127.0.0.2"
"""Where attacks come from: limits per address must not reach the others, on 127.0.0.1."""
READ_BYTES = 1 << 18

_BIND_ADDRESS_NO_PORT = 24  # IP_BIND_ADDRESS_NO_PORT of Linux: a port is taken by connect alone


def bound(source: str = ATTACKER) -> socket.socket:
    """A socket that will connect from this address."""
    made = socket.socket()
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with contextlib.suppress(OSError):
        made.setsockopt(socket.IPPROTO_IP, _BIND_ADDRESS_NO_PORT, 1)
    made.bind((source, 0))
    return made


def dial(address: Address, source: str = ATTACKER, receive_bytes: int = 0) -> socket.socket:
    """A connected socket. `receive_bytes`: size of its receive buffer, 0 for the kernel's own."""
    made = bound(source)
    made.settimeout(ANSWER_S)
    if receive_bytes:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    try:
        made.connect(address)
    except OSError:
        made.close()
        raise
    return made


@contextlib.contextmanager
def dialled(address: Address, count: int, receive_bytes: int = 0) -> Iterator[list[socket.socket]]:
    """So many connected sockets, which are closed in the end."""
    socks = [dial(address, receive_bytes=receive_bytes) for _ in range(count)]
    yield socks
    for sock in socks:
        sock.close()


def closed_within(sock: socket.socket, seconds: float) -> bool:
    """Whether the server ends the connection in that time; what it sends before is thrown away."""
    end = time.monotonic() + seconds
    try:
        while True:
            sock.settimeout(max(0.001, end - time.monotonic()))
            if not sock.recv(READ_BYTES):
                return True
    except TimeoutError:
        return False
    except OSError:
        return True


class Client(wire.Client):
    """One connection that sends a request and waits for its answer."""

    def __init__(self, address: Address, source: str = ATTACKER, timeout: float = ANSWER_S) -> None:
        super().__init__(dial(address, source), timeout)


class Stream:
    """A connection with requests on their way, that counts the answers; see `pump`."""

    def __init__(
        self,
        sock: socket.socket,
        data: bytes = b"",
        answers: int = 0,
        take: Callable[[bytes], None] | None = None,
    ) -> None:
        """`data` is sent, `answers` frames are expected; `take` is given each, without its size."""
        sock.setblocking(False)
        self.socket = sock
        self.unsent = memoryview(data)
        self.expected = answers
        self.answers = 0
        self.received = 0
        self.closed = False
        self._take = take
        self._head = b""
        self._left = 0
        self._body = bytearray()

    @property
    def is_done(self) -> bool:
        return self.closed or (self.answers >= self.expected and not self.unsent)

    def write(self) -> None:
        try:
            self.unsent = self.unsent[self.socket.send(self.unsent[: 1 << 20]) :]
        except BlockingIOError:
            return
        except OSError:
            self.closed = True

    def read(self) -> None:
        try:
            data = self.socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self.closed = not data
        self.received += len(data)
        self._count(data)

    def _count(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            if self._left:
                part = data[at : at + self._left]
                at += len(part)
                self._left -= len(part)
                if self._take is not None:
                    self._body += part
                if not self._left:
                    self._whole()
                continue
            need = 4 - len(self._head)
            self._head += data[at : at + need]
            at += need
            if len(self._head) == 4:
                self._left, self._head = int.from_bytes(self._head, "big"), b""

    def _whole(self) -> None:
        self.answers += 1
        if self._take is not None:
            body, self._body = bytes(self._body), bytearray()
            self._take(body)


def pump(streams: Iterable[Stream], seconds: float) -> bool:
    """Send and read on all of them; whether everything was sent and answered in time.

    A connection that was closed is done; `Stream.closed` and `Stream.answers` tell.
    """
    end = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            if not stream.is_done:
                selector.register(stream.socket, _wanted(stream), stream)
        while selector.get_map():
            left = end - time.monotonic()
            if left <= 0:
                return False
            for key, events in selector.select(left):
                _move(selector, key.data, events)
    return True


def _wanted(stream: Stream) -> int:
    return selectors.EVENT_READ | (selectors.EVENT_WRITE if stream.unsent else 0)


def _move(selector: selectors.BaseSelector, stream: Stream, events: int) -> None:
    if events & selectors.EVENT_WRITE:
        stream.write()
        if not stream.unsent and not stream.is_done:
            selector.modify(stream.socket, selectors.EVENT_READ, stream)
    if events & selectors.EVENT_READ and not stream.closed:
        stream.read()
    if stream.is_done:
        selector.unregister(stream.socket)


def ask_all(
    address: Address, frames: Sequence[bytes], connections: int = 20, seconds: float = 60.0
) -> int:
    """Send these requests over so many connections at once; how many were answered."""
    streams = [
        Stream(dial(address), b"".join(mine), len(mine))
        for mine in (frames[at::connections] for at in range(connections))
        if mine
    ]
    pump(streams, seconds)
    for stream in streams:
        stream.socket.close()
    return sum(stream.answers for stream in streams)
