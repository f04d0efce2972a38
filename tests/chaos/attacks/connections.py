"""Connections: too many, too fast, and such that send or read almost nothing."""

import contextlib
import socket
import time

from groupkeeper.protocol.messages.api_versions import ApiVersionsRequest
from tests.chaos.attacks.support import fetch_page, produce, store, topics
from tests.chaos.target import BUDGET_MIB, MIB, Attack, Limits, Play, Steps, Target, check
from tests.chaos.wire import Client, bound, closed_within, dial, dialled
from tests.support.requests import heartbeat, join_request, records_request, sync_request
from tests.support.wire import frame
from tests.topics.scene import batch

FAMILY = "connections"
SHARE_MIB = 64 / 1024
"""Of memory for one connection: its buffers, and what the kernel does not hold."""
TIMEOUT_SECONDS = 42
"""What the server allows a begun frame of 250 KB and an unread answer: 30 s, 4 s for the size, and
5 s until it looks."""


def connect_drop(target: Target) -> Steps:
    yield
    for _ in range(10_000):
        with contextlib.suppress(OSError):
            dial(target.kafka).close()
    return ""


def _burst(target: Target, count: int) -> list[socket.socket]:
    """As many connections as fast as they can be asked for."""
    made = []
    for _ in range(count):
        sock = bound()
        sock.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            sock.connect(target.kafka)
        made.append(sock)
    return made


def connect_burst(target: Target) -> Steps:
    yield
    for count in (1_000, 4_000, 8_000):
        made = _burst(target, count)
        time.sleep(1.0)
        for sock in made:
            sock.close()
        time.sleep(0.5)
    return "1,000, 4,000 and 8,000"


def few_descriptors(target: Target) -> Steps:
    yield
    made = []
    for _ in range(400):
        with contextlib.suppress(OSError):
            made.append(dial(target.kafka))
    for _ in range(4):
        time.sleep(1.0)
        status = fetch_page(target, "/healthz", 1.0)
        check(status == 200, f"/healthz meanwhile: {status or 'no answer within 1 s'}")
    for sock in made:
        sock.close()
    return f"{len(made)} connections"


def slowloris(target: Target) -> Steps:
    data = frame(3, heartbeat("nobody", 1, "nowhere"))
    yield
    with dialled(target.kafka, 2_000) as socks:
        for at in range(10):
            for sock in socks:
                with contextlib.suppress(OSError):
                    sock.send(data[at : at + 1])
            time.sleep(1.0)
    return "2,000, a byte a second"


def _announce(size: int) -> bytes:
    """The beginning of a Produce request of so many bytes."""
    head = frame(7, produce("topic", batch("v")))
    return size.to_bytes(4, "big") + head[4:]


def slow_senders(target: Target) -> Steps:
    yield
    socks = [dial(target.kafka) for _ in range(2_000)]
    piece = bytes(4_000)
    for sock in socks:
        sock.setblocking(False)
        sock.send(_announce(1_000_000))
    refused = 0
    for _ in range(100):  # 800 MB in the end, if it is let
        for at, sock in enumerate(socks):
            try:
                sock.send(piece)
            except BlockingIOError:
                pass
            except OSError:
                refused += 1
                socks[at] = socket.socket()
        time.sleep(0.02)
    for sock in socks:
        sock.close()
    return f"{refused} sends refused"


def _send_some(socks: list[socket.socket], size: int, seconds: float) -> int:
    """Send so many bytes on each, as far as the server takes them; bytes taken by the kernel."""
    piece, sent = bytes(1 << 18), dict.fromkeys(socks, 0)
    end = time.monotonic() + seconds
    for sock in socks:
        sock.setblocking(False)
    while time.monotonic() < end and any(count < size for count in sent.values()):
        progress = 0
        for sock in [sock for sock, count in sent.items() if count < size]:
            try:
                progress += (count := sock.send(piece))
                sent[sock] += count
            except BlockingIOError:
                continue
            except OSError:
                sent[sock] = size
        if not progress:
            time.sleep(0.01)
    return sum(sent.values())


def _half_frames(count: int, size: int, sent: int) -> Play:
    """So many connections that announce a frame, and send a part of it."""

    def play(target: Target) -> Steps:
        yield
        with dialled(target.kafka, count) as socks:
            for sock in socks:
                sock.sendall(_announce(size))
            taken = _send_some(socks, sent, 8.0)
            time.sleep(1.0)
        return f"{taken / MIB:.0f} MiB sent"

    return play


def _eight_megabytes(target: Target) -> bytes:
    """A topic of 8 MB; the request that fetches all of it."""
    topics(target, ["large"])
    store(target, "large", [batch("v" * 1_000_000)] * 8)
    return frame(11, records_request("large", 0, max_bytes=8_400_000))


def _unread(count: int, times: int) -> Play:
    """So many connections that ask so often for 8 MB, and read nothing."""

    def play(target: Target) -> Steps:
        request = _eight_megabytes(target)
        yield
        with dialled(target.kafka, count, receive_bytes=4_096) as socks:
            for sock in socks:
                sock.sendall(request * times)
            time.sleep(5.0)
        return f"{count} x {times} x 8 MB"

    return play


def left_alone(target: Target) -> Steps:
    """Begun frames and unread answers are given up on after a while, and their memory with them."""
    request = _eight_megabytes(target)
    yield
    begun = [dial(target.kafka) for _ in range(100)]
    for sock in begun:
        sock.sendall(_announce(250_000))
        sock.sendall(bytes(200_000))
    unread = [dial(target.kafka, receive_bytes=4_096) for _ in range(20)]
    for sock in unread:
        sock.sendall(request * 10)  # more than fits into the kernel's buffers
    time.sleep(TIMEOUT_SECONDS)
    kept = sum(not closed_within(sock, 0.2) for sock in begun)
    check(not kept, f"{kept} of 100 begun frames open after {TIMEOUT_SECONDS} s")
    # Reading is what they must not do: a connection that was reset tells so when it is written to.
    kept = sum(not _reset(sock) for sock in unread)
    check(not kept, f"{kept} of 20 unread answers open after {TIMEOUT_SECONDS} s")
    return "all closed"


def _reset(sock: socket.socket) -> bool:
    """Whether the server has given this connection up."""
    sock.setblocking(False)
    try:
        for _ in range(3):
            sock.send(b"\0")
            time.sleep(0.05)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return False


def dead_joiners(target: Target) -> Steps:
    client = Client(target.kafka)
    request = join_request("round", session_timeout_ms=1_800_000, rebalance_timeout_ms=2**31 - 1)
    request.group_instance_id = "static"
    joined = client.call(5, request)
    who, generation = joined.member_id, joined.generation_id
    sync = sync_request(who, generation, "round", {who: b"share"})
    sync.group_instance_id = "static"
    assert client.call(3, sync).error_code == 0
    request = join_request("round", session_timeout_ms=1_800_000, rebalance_timeout_ms=2**31 - 1)
    yield
    for _ in range(55):
        with contextlib.suppress(OSError):
            sock = dial(target.kafka)
            sock.sendall(frame(3, request) + frame(3, heartbeat("nobody", 1, "nowhere")))
            time.sleep(0.01)
            sock.close()
    time.sleep(1.0)
    problem = ""
    for _ in range(10):
        try:
            fresh = Client(target.kafka, timeout=5.0)
            fresh.call(0, ApiVersionsRequest())
            fresh.close()
        except OSError as error:
            problem = f"a new client: {type(error).__name__}"
    check(not problem, problem)
    return "55 dead sockets, new clients come in"


def one_address(target: Target) -> Steps:
    """A hundred connections from one address are allowed, and no more."""
    yield
    socks = []
    for _ in range(400):
        with contextlib.suppress(OSError):
            socks.append(dial(target.kafka))
    time.sleep(1.0)
    closed = sum(closed_within(sock, 0.001) for sock in socks)
    for sock in socks:
        sock.close()
    check(closed == 300, f"{closed} of 400 closed")
    return "300 of 400 closed"


def idle(target: Target) -> Steps:
    """500 connections that ask once and then stay silent for more than the two seconds allowed."""
    request = frame(0, ApiVersionsRequest())
    yield
    with dialled(target.kafka, 500) as socks:
        for sock in socks:
            sock.sendall(request)
        time.sleep(6.0)
        closed = sum(closed_within(sock, 0.001) for sock in socks)
    check(closed == 500, f"{closed} of 500 closed")
    return "all closed"


ATTACKS = (
    Attack("connect-drop", FAMILY, "10,000 connections opened and dropped", connect_drop),
    Attack(
        "connect-burst",
        FAMILY,
        "1,000, 4,000 and 8,000 connections at once",
        connect_burst,
        limits=Limits(growth_mib=64 + 8_000 * SHARE_MIB),
    ),
    Attack(
        "few-descriptors",
        FAMILY,
        "400 connections to a server with 256 file descriptors",
        few_descriptors,
        descriptors=256,
    ),
    Attack(
        "slowloris",
        FAMILY,
        "2,000 connections that send a byte a second",
        slowloris,
        limits=Limits(growth_mib=64 + 2_000 * SHARE_MIB),
    ),
    Attack(
        "slow-senders",
        FAMILY,
        "2,000 connections that send a frame of 1 MB in small pieces",
        slow_senders,
        limits=Limits(growth_mib=BUDGET_MIB + 64 + 2_000 * SHARE_MIB),
    ),
    Attack(
        "half-frames",
        FAMILY,
        "8 connections with 60 of 100 MB of a frame",
        _half_frames(8, 100_000_000, 60_000_000),
        limits=Limits(growth_mib=BUDGET_MIB + 64),
    ),
    Attack(
        "half-frames-200",
        FAMILY,
        "200 connections with 4 of 8 MB of a frame",
        _half_frames(200, 8_000_000, 4_000_000),
        limits=Limits(growth_mib=BUDGET_MIB + 64),
    ),
    Attack(
        "unread-answers",
        FAMILY,
        "200 connections ask four times for 8 MB and read nothing",
        _unread(200, 4),
        limits=Limits(growth_mib=BUDGET_MIB + 64 + 200 * SHARE_MIB),
    ),
    Attack(
        "unread-pipelined",
        FAMILY,
        "20 connections ask a hundred times for 8 MB and read nothing",
        _unread(20, 100),
        limits=Limits(growth_mib=BUDGET_MIB + 64),
    ),
    Attack(
        "left-alone",
        FAMILY,
        "100 begun frames and 20 unread answers are closed after a while",
        left_alone,
        limits=Limits(growth_mib=2 * BUDGET_MIB),
    ),
    Attack(
        "one-address",
        FAMILY,
        "400 connections from one address; max.connections.per.ip is 100",
        one_address,
        settings={"max.connections.per.ip": "100"},
    ),
    Attack(
        "idle",
        FAMILY,
        "500 connections fall silent; connections.max.idle.ms is 2,000",
        idle,
        settings={"connections.max.idle.ms": "2000"},
    ),
    Attack(
        "dead-joiners",
        FAMILY,
        "55 dead sockets wait in a long round; max.connections is 50",
        dead_joiners,
        settings={"max.connections": "50"},
    ),
)
