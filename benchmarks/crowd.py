"""Many connections, each following a script of its own, over one epoll and without threads.

Knows requests and answers as bytes only: what a member says is in members.py.
"""

import contextlib
import heapq
import itertools
import select
import socket
import struct
import time
from collections.abc import Generator, Iterable

from benchmarks import wire

# A script sends by yielding a Request and is resumed with the bytes behind the answer's correlation
# id. A yielded float is a pause in seconds; REDIAL closes the connection and opens a new one. These
# two resume with b"".
Script = Generator[wire.Request | float | str, bytes, None]
REDIAL = "redial"

_FRAME_HEAD = struct.Struct(">ii")
_PATIENCE_S = 90.0
_BACKLOG = (
    20  # connections opened before one of them is seen to be served; Kafka's listen backlog is 50
)


class Link:
    """One connection. Sending blocks; receiving is up to the caller."""

    __slots__ = ("_address", "_rest", "_socket", "correlation_id", "fd")

    def __init__(self, port: int) -> None:
        self._address = ("127.0.0.1", port)
        self._open()

    def _open(self) -> None:
        self._socket = socket.create_connection(self._address, timeout=10)
        self._socket.settimeout(None)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = bytearray()
        self.correlation_id = 0
        self.fd = self._socket.fileno()

    def redial(self) -> None:
        self.close()
        self._open()

    def close(self) -> None:
        self._socket.close()

    def send(self, request: wire.Request) -> None:
        self.correlation_id += 1
        self._socket.sendall(wire.frame(request, self.correlation_id))

    def receive(self) -> bytes | None:
        """One read; the answer behind its correlation id once it is whole. Only one request may be
        in flight.
        """
        data = self._socket.recv(1 << 18)
        if not data:
            raise wire.WrongAnswerError("the server closed a connection")
        if self._rest:
            self._rest += data
            data = bytes(self._rest) if self._whole(self._rest) else b""
        elif not self._whole(data):
            self._rest += data
            data = b""
        if not data:
            return None
        size, correlation_id = _FRAME_HEAD.unpack_from(data)
        if correlation_id != self.correlation_id or len(data) != 4 + size:
            raise wire.WrongAnswerError(
                f"answer out of step: {correlation_id}, not {self.correlation_id}"
            )
        self._rest.clear()
        return data[8:]

    @staticmethod
    def _whole(data: bytes | bytearray) -> bool:
        return len(data) >= 8 and len(data) >= 4 + int.from_bytes(data[:4], "big")

    def call(self, request: wire.Request, timeout: float = _PATIENCE_S) -> bytes:
        """Sends one request and waits for its answer. Raises OSError when none comes."""
        self._socket.settimeout(timeout)
        self.send(request)
        while (answer := self.receive()) is None:
            pass
        self._socket.settimeout(None)
        return answer


def dial(port: int, count: int) -> list[Link]:
    """Opens connections no faster than the server accepts them."""
    links = []
    for number in range(1, count + 1):
        links.append(Link(port))
        if number % _BACKLOG == 0:
            wire.offered(links[-1].call(wire.api_versions()))
    return links


class Crowd:
    """Runs scripts side by side until all have ended."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._running: dict[int, tuple[Link, Script]] = {}  # by file descriptor
        self._due: list[tuple[float, int, Link, Script]] = []
        self._order = itertools.count()
        self._left = 0

    def run(self, scripts: Iterable[tuple[Link, Script]], timeout: float = _PATIENCE_S) -> None:
        """Raises wire.WrongAnswerError when a script does, or when they have not ended in time."""
        started = list(scripts)
        self._left = len(started)
        for link, script in started:
            self._register(link, script)
        for link, script in started:
            self._resume(link, script, None)
        give_up = time.monotonic() + timeout
        while self._left:
            self._turn()
            if time.monotonic() > give_up:
                raise wire.WrongAnswerError(
                    f"{self._left} members are not done after {timeout:.0f} s"
                )
        self._poll.close()

    def _turn(self) -> None:
        wait = max(0.0, self._due[0][0] - time.monotonic()) if self._due else 1.0
        for fd, _event in self._poll.poll(wait):
            link, script = self._running[fd]
            answer = link.receive()
            if answer is not None:
                self._resume(link, script, answer)
        while self._due and self._due[0][0] <= time.monotonic():
            _at, _order, link, script = heapq.heappop(self._due)
            self._resume(link, script, b"")

    def _register(self, link: Link, script: Script) -> None:
        self._running[link.fd] = link, script
        self._poll.register(link.fd, select.EPOLLIN)

    def _forget(self, link: Link) -> None:
        self._poll.unregister(link.fd)
        del self._running[link.fd]

    def _resume(self, link: Link, script: Script, answer: bytes | None) -> None:
        with contextlib.suppress(StopIteration):
            while True:
                wanted = next(script) if answer is None else script.send(answer)
                if isinstance(wanted, wire.Request):
                    link.send(wanted)
                    return
                if isinstance(wanted, float):
                    due = time.monotonic() + wanted, next(self._order), link, script
                    heapq.heappush(self._due, due)
                    return
                self._forget(link)
                link.redial()
                self._register(link, script)
                answer = b""
        self._forget(link)
        self._left -= 1
