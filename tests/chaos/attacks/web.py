"""The HTTP port: full, flooded, and read slowly. A probe gets its answer within a second."""

import contextlib
import socket
import time

from tests.chaos.attacks.support import fetch_page
from tests.chaos.target import Attack, Limits, Steps, Target, check
from tests.chaos.wire import closed_within, dial, dialled

FAMILY = "http"
HOLD_SECONDS = 5
PROBE_SECONDS = 1.0


def _probe(target: Target, seconds: int) -> None:
    """Raises Complaint unless /healthz answers, again and again."""
    for _ in range(seconds):
        status = fetch_page(target, "/healthz", PROBE_SECONDS)
        check(status == 200, f"/healthz: {status or 'no answer within 1 s'}")
        time.sleep(1.0)


def _get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def http_idle(target: Target) -> Steps:
    yield
    with dialled(target.http, 64):
        _probe(target, HOLD_SECONDS)
    return "64"


def http_slow(target: Target) -> Steps:
    """Requests that arrive a byte at a time."""
    yield
    with dialled(target.http, 200) as socks:
        for byte in _get("/metrics")[:HOLD_SECONDS]:
            for sock in socks:
                with contextlib.suppress(OSError):
                    sock.send(bytes([byte]))
            _probe(target, 1)
    return "200"


def http_pipelined(target: Target) -> Steps:
    yield
    answered = 0
    for path in ("/metrics", "/readyz", "/"):
        sock = dial(target.http)
        sock.sendall(_get(path) * 400)
        sock.shutdown(socket.SHUT_WR)
        sock.settimeout(20.0)
        with contextlib.suppress(OSError):
            while part := sock.recv(1 << 18):
                answered += part.count(b"HTTP/1.1 200")
        sock.close()
    _probe(target, 1)
    return f"{answered} of 1200 answered"


def http_unread(target: Target) -> Steps:
    yield
    with dialled(target.http, 50, receive_bytes=4_096) as socks:
        for sock in socks:
            sock.setblocking(False)
            with contextlib.suppress(OSError):
                sock.send(_get("/metrics") * 100)
        _probe(target, HOLD_SECONDS)
    return "50 x 100 pages"


_ODD = {
    "no HTTP": bytes(range(256)) * 8,
    "huge header": b"GET / HTTP/1.1\r\nX: " + b"x" * 1_000_000,
    "two lengths": b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "TE and CL": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "huge body": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999999\r\n\r\n"
    + b"x" * 1_000_000,
    "TLS": b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + bytes(500),
}


def http_odd(target: Target) -> Steps:
    yield
    for name, data in _ODD.items():
        sock = dial(target.http)
        with contextlib.suppress(OSError):
            sock.sendall(data)
        check(closed_within(sock, 15.0), f"{name}: not closed")
        sock.close()
    _probe(target, 1)
    return f"{len(_ODD)} kinds"


ATTACKS = (
    Attack("http-idle", FAMILY, "64 idle connections to the HTTP port", http_idle),
    Attack("http-slow", FAMILY, "200 connections that send a byte a second", http_slow),
    Attack("http-pipelined", FAMILY, "400 pipelined GET of each page", http_pipelined),
    Attack(
        "http-unread",
        FAMILY,
        "50 connections that ask for 100 pages each and read nothing",
        http_unread,
        limits=Limits(growth_mib=64),
    ),
    Attack("http-odd", FAMILY, "bytes that are not HTTP, or HTTP that must not be", http_odd),
)
