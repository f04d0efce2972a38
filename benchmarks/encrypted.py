"""Heartbeats over TLS, and many handshakes at once, for secure.py.

The load generator in C speaks no TLS. So one in Python sends the heartbeats, over plain connections
as over encrypted ones, and what is compared is the processor time of the server for each.
"""

import random
import select
import socket
import ssl
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final, NamedTuple

from benchmarks import wire
from benchmarks.members import Group, stable_groups
from benchmarks.processes import Meter
from benchmarks.targets import Server

HOST: Final = "127.0.0.1"
WAIT_S: Final = 20.0
BEAT_S: Final = 0.02
"""Interval of the heartbeats of others while many connect."""
WITHIN_S: Final = 1.0
"""Time over which the many connections begin."""
CONNECTORS: Final = 8
MOST_BYTES: Final = 16 * 1024


def plain_port(server: Server) -> int:
    return server.port


def tls_port(server: Server) -> int:
    """The port beside it, which nobody else has: see `free_port`."""
    return server.port + 1


class Line:
    """A connection that sends the same heartbeat again and again."""

    def __init__(self, port: int, frame: bytes, tls: ssl.SSLContext | None) -> None:
        self.socket = socket.create_connection((HOST, port), WAIT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._frame = frame
        self._received, self._sent = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = None if tls is None else self._encrypted(tls)

    def _encrypted(self, tls: ssl.SSLContext) -> ssl.SSLObject:
        session = tls.wrap_bio(self._received, self._sent, server_hostname=HOST)
        while True:
            try:
                session.do_handshake()
            except ssl.SSLWantReadError:
                self.socket.sendall(self._sent.read())
                self._received.write(self.socket.recv(MOST_BYTES))
            else:
                self.socket.sendall(self._sent.read())
                return session

    def request(self) -> bytes:
        """Return the bytes to send."""
        if self._tls is None:
            return self._frame
        self._tls.write(self._frame)
        return self._sent.read()

    def answer(self) -> bytes:
        """Return what has come, or nothing if that was not an answer yet."""
        data = self.socket.recv(MOST_BYTES)
        if self._tls is None:
            return data
        self._received.write(data)
        try:
            return self._tls.read(MOST_BYTES)
        except ssl.SSLWantReadError:  # a session ticket
            return b""


class Lines:
    """Connections that all send a heartbeat at once, and again when all are answered: the server
    has as many at a time whether the generator encrypts, which takes it longer, or not.
    """

    def __init__(self, port: int, groups: Sequence[Group], tls: ssl.SSLContext | None) -> None:
        self._poll = select.epoll()
        self._lines: dict[int, Line] = {}
        for member in (each for group in groups for each in group.members):
            line = Line(port, wire.frame(member.heartbeat(), 0), tls)
            self._lines[line.socket.fileno()] = line
            self._poll.register(line.socket, select.EPOLLIN)

    def run(self, seconds: float) -> int:
        """Send heartbeats; return how many were answered."""
        until, answered = time.monotonic() + seconds, 0
        while time.monotonic() < until:
            ready = [(line.socket, line.request()) for line in self._lines.values()]
            for to, request in ready:
                to.sendall(request)
            waiting = len(ready)
            while waiting:
                waiting -= self._take()
            answered += len(ready)
        return answered

    def _take(self) -> int:
        """Wait for answers; return how many came."""
        size, came = len(wire.heartbeat_answer()), 0
        for fd, _ in self._poll.poll(WAIT_S):
            if answer := self._lines[fd].answer():
                came += 1
                if len(answer) != size:
                    raise wire.WrongAnswerError(f"Heartbeat: {answer.hex()}")
        return came

    def close(self) -> None:
        for line in self._lines.values():
            line.socket.close()
        self._poll.close()


@contextmanager
def lines(port: int, groups: Sequence[Group], tls: ssl.SSLContext | None) -> Iterator[Lines]:
    made = Lines(port, groups, tls)
    try:
        yield made
    finally:
        made.close()


def cost_of_tls(
    server: Server, tls: ssl.SSLContext, members: int, rounds: int, seconds: float
) -> float:
    """Return the processor time of a heartbeat over TLS, as a ratio to a plain one: less than 1."""
    groups = stable_groups(server.port, members, 10)
    found: dict[bool, list[float]] = {False: [], True: []}
    with ExitStack() as stack:
        for group in groups:
            stack.callback(group.close)
        sides = {
            False: stack.enter_context(lines(plain_port(server), groups, None)),
            True: stack.enter_context(lines(tls_port(server), groups, tls)),
        }
        for _ in range(rounds):
            for is_tls, side in sides.items():
                side.run(0.3)
                meter = Meter(server.pid)
                answered = side.run(seconds)
                cores = meter.read()
                found[is_tls].append(cores.server * cores.seconds * 1e6 / answered)
    plain, encrypted = (statistics.median(found[each]) for each in (False, True))
    ratio = plain / encrypted
    print(
        f"a heartbeat: plain {plain:.1f} us, over TLS {encrypted:.1f} us of the server's processor"
    )
    return ratio


class Crowd(NamedTuple):
    """What happened while many connected."""

    seconds: float
    """From the first connection on until all had an answer."""
    beat_p99_ms: float
    """Of the heartbeats of others."""


def many_handshakes(server: Server, tls: ssl.SSLContext, count: int) -> Crowd:
    """Connect so many within a second, each with a handshake and a request, beside a member that
    sends heartbeats.
    """
    [group] = stable_groups(server.port, 1, 1)
    over = threading.Event()
    times: list[float] = []
    beating = threading.Thread(target=_beat, args=(server.port, group, over, times))
    beating.start()
    began, ends, failed = time.monotonic(), list[float](), list[BaseException]()
    due = [began + WITHIN_S * each / count for each in range(count)]
    threads = [
        threading.Thread(
            target=_connect_all, args=(server, tls, due[each::CONNECTORS], ends, failed)
        )
        for each in range(CONNECTORS)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    over.set()
    beating.join()
    group.close()
    if failed:
        raise failed[0]
    return Crowd(max(ends) - began, statistics.quantiles(times, n=100)[98] * 1000)


def _connect_all(
    server: Server,
    tls: ssl.SSLContext,
    due: Sequence[float],
    ends: list[float],
    failed: list[BaseException],
) -> None:
    request = wire.frame(wire.api_versions(), 0)
    try:
        with ExitStack() as stack:
            for when in due:
                time.sleep(max(0.0, when - time.monotonic()))
                raw = socket.create_connection((HOST, tls_port(server)), WAIT_S)
                line = stack.enter_context(tls.wrap_socket(raw, server_hostname=HOST))
                line.sendall(request)
                line.recv(4096)
                ends.append(time.monotonic())
    except (OSError, wire.WrongAnswerError) as error:
        failed.append(error)


def _beat(port: int, group: Group, over: threading.Event, times: list[float]) -> None:
    [member] = group.members
    frame = wire.frame(member.heartbeat(), 0)
    with socket.create_connection((HOST, port), WAIT_S) as line:
        while not over.wait(BEAT_S * random.uniform(0.5, 1.5)):  # noqa: S311
            began = time.monotonic()
            line.sendall(frame)
            line.recv(4096)
            times.append(time.monotonic() - began)
