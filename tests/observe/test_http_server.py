"""The HTTP port over loopback sockets, spoken to in raw bytes."""

import asyncio
import errno
import json
import socket
import struct
from asyncio import constants
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from types import ModuleType
from typing import Any, Self

import pytest

from groupkeeper.observe import http_exchange, http_server
from groupkeeper.observe.http_exchange import (
    ANSWERS,
    CONNECTIONS,
    Apis,
    HttpAnswer,
    HttpRequest,
    Page,
    SlowPage,
)
from groupkeeper.observe.http_server import HttpServer
from tests.support.served import Lines

Ask = Callable[..., Awaitable[bytes]]
Address = tuple[str, int]


def broken(_: HttpRequest) -> HttpAnswer:
    raise RuntimeError("a bug in a page")


async def slow() -> HttpAnswer:
    """A page that takes more than one iteration of the loop."""
    made.append("slow")
    for _ in range(10):
        await asyncio.sleep(0)
    return HttpAnswer(200, b"slow\n", "text/plain")


def hello(_: HttpRequest) -> HttpAnswer:
    made.append("hello")
    return HttpAnswer(200, b"hi\n", "text/plain")


made: list[str] = []
CHANGING = ("POST", "PUT", "DELETE")


def pages() -> Apis:
    return {
        "/hello": Page(hello),
        "/broken": Page(broken),
        "/slow": SlowPage(slow),
        "/large": Page(lambda _: HttpAnswer(200, bytes(8_000_000))),
        "/pieces": Page(lambda _: HttpAnswer(200, [bytes([each]) * 300_000 for each in b"abc"])),
        "/healthz": Page(lambda _: HttpAnswer(200, b"{}")),
    }


@pytest.fixture
async def address() -> AsyncIterator[Address]:
    made.clear()
    server = HttpServer(pages(), timeout_s=0.3)
    yield await server.start(("127.0.0.1", 0))
    await server.close()


@pytest.fixture
async def patient() -> AsyncIterator[Address]:
    """A port at which nothing ends because of its time."""
    server = HttpServer(pages(), timeout_s=60)
    yield await server.start(("127.0.0.1", 0))
    await server.close()


@pytest.fixture
def ask(address: Address) -> Ask:
    async def ask(request: bytes, *, close: bool = True) -> bytes:
        """Send raw bytes, read to the end of the connection."""
        reader, writer = await asyncio.open_connection(*address)
        writer.write(request)
        if close and writer.can_write_eof():
            writer.write_eof()
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""
        finally:
            writer.close()

    return ask


def get(path: str, method: str = "GET", more: str = "") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: here\r\n{more}\r\n".encode()


async def test_requests_have_the_answers_of_http(ask: Ask) -> None:
    """Request, what the answer begins with, and what is in it."""
    large = http_exchange.HEADER_BYTES * b"x" * 3
    for request, start, *rest in (
        (get("/hello"), b"200 OK", b"Content-Type: text/plain\r\nContent-Length: 3\r\n"),
        (get("/hello"), b"200 OK", b"Cache-Control: no-store\r\n", b"\r\n\r\nhi\n"),
        (get("/hello?x=1"), b"200 OK"),
        (get("/nothing"), b"404 Not Found", b"Cache-Control: no-store\r\n"),
        (get("/broken"), b"500 Internal Server Error", b"Cache-Control: no-store\r\n"),
        (get("/broken") + get("/hello"), b"500 Internal Server Error", b"\r\n\r\nhi\n"),
        *((get("/hello", each), b"405 Method", b"Allow: GET, HEAD") for each in CHANGING),
        (b"\x00\x00\x00\x10\x00\x12kafka\r\n\r\n", b"400 Bad Request"),
        (b"GET\r\n\r\n", b"400 Bad Request"),
        (b"GET / HTTP/1.1\r\nbad header\r\n\r\n", b"400 Bad Request"),
        (b"GET /hello HTTP/1.1\r\nX: " + large, b"431 "),
    ):
        answer = await ask(request)
        assert answer.startswith(b"HTTP/1.1 " + start), request[:80]
        assert [each for each in rest if each not in answer] == [], request[:80]
    head, _, body = (await ask(get("/hello", "HEAD"))).partition(b"\r\n\r\n")
    assert (b"Content-Length: 3" in head, body) == (True, b"")
    assert b"hi\n" in await ask(b"GET /hello HTTP/1.0\r\n\r\n", close=False)


async def test_a_page_in_pieces_is_one_answer(ask: Ask) -> None:
    head, _, body = (await ask(get("/pieces", more="Connection: close\r\n"))).partition(b"\r\n\r\n")
    assert b"Content-Length: 900000" in head
    assert body == b"".join(bytes([each]) * 300_000 for each in b"abc")
    head, _, body = (await ask(get("/pieces", "HEAD"))).partition(b"\r\n\r\n")
    assert b"Content-Length: 900000" in head
    assert body == b""


async def test_a_connection_is_kept_alive(ask: Ask) -> None:
    answer = await ask(get("/hello") + get("/hello", "HEAD") + get("/hello"))
    assert answer.count(b"200 OK") == 3
    assert answer.count(b"hi\n") == 2


async def test_a_connection_is_closed_on_request(ask: Ask) -> None:
    answer = await ask(get("/hello", more="Connection: close\r\n") + get("/hello"), close=False)
    assert answer.count(b"200 OK") == 1


async def test_a_small_body_is_ignored_and_a_large_one_is_refused(ask: Ask) -> None:
    small = get("/hello", more="Content-Length: 4\r\n") + b"data" + get("/hello")
    assert (await ask(small)).count(b"200 OK") == 2
    size = 2 * http_exchange.BODY_BYTES
    large = get("/hello", more=f"Content-Length: {size}\r\n") + bytes(size)
    assert b"200 OK" not in await ask(large, close=False)


async def test_a_request_that_is_too_large_is_told_so(ask: Ask) -> None:
    more = f"Content-Length: {http_exchange.BODY_BYTES + 1}\r\n"
    for method, body in ("GET", b'{"er'), ("HEAD", b""):
        answer = await ask(get("/hello", method, more), close=False)
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert answer.partition(b"\r\n\r\n")[2][:4] == body


async def test_a_slow_client_is_cut_off(ask: Ask) -> None:
    async with asyncio.timeout(60):
        for start in (b"", b"GET /hel"):
            assert await ask(start, close=False) == b""


async def test_closing_ends_open_connections(patient: Address) -> None:
    server = HttpServer(pages(), timeout_s=60)
    reader, writer = await asyncio.open_connection(*await server.start(("127.0.0.1", 0)))
    writer.write(get("/hello"))
    await reader.readuntil(b"hi\n")
    await server.close()
    assert await reader.read() == b""
    writer.close()


# -- the port --------------------------------------------------------------------------------------


async def test_a_client_that_comes_before_the_library_is_imported_is_answered() -> None:
    server = HttpServer(pages())
    address = await server.start(("127.0.0.1", 0))
    with socket.create_connection(address) as early:
        early.sendall(get("/hello"))
        assert not server.serving.done()
        reader, writer = await asyncio.open_connection(sock=early)
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        writer.close()
    await server.close()


async def test_the_library_is_imported_when_the_first_client_connects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    imported: list[str] = []

    def noted(name: str) -> ModuleType:
        imported.append(name)
        return import_module(name)

    monkeypatch.setattr(http_server, "import_module", noted)
    server = HttpServer(pages())
    address = await server.start(("127.0.0.1", 0))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not imported
    async with Talk(address) as talk:
        assert (await talk.ask("/hello")).startswith(b"HTTP/1.1 200 OK")
    assert imported == ["groupkeeper.observe.http_site"]
    await server.close()


async def test_an_import_that_fails_is_told_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    failures = [OSError(errno.EMFILE, "no"), ImportError("no")]

    def failing(name: str) -> ModuleType:
        if failures:
            raise failures.pop()
        return import_module(name)

    monkeypatch.setattr(http_server, "IMPORT_REST_S", 0.01)
    monkeypatch.setattr(http_server, "import_module", failing)
    server = HttpServer(pages())
    async with Talk(await server.start(("127.0.0.1", 0))) as talk:
        assert (await talk.ask("/hello")).startswith(b"HTTP/1.1 200 OK")
    await server.close()
    assert [line["event"] for line in lines()] == ["HTTP port cannot be served yet"] * 2


async def test_it_can_be_closed_before_the_library_is_imported() -> None:
    server = HttpServer(pages())
    address = await server.start(("127.0.0.1", 0))
    await server.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*address)


async def test_an_ipv6_address_is_listened_on_and_told() -> None:
    server = HttpServer(pages())
    host, port = await server.start(("::1", 0))
    assert host == "::1"
    async with Talk((host, port)) as talk:
        assert (await talk.ask("/hello")).startswith(b"HTTP/1.1 200 OK")
    await server.close()


async def test_a_port_in_use_is_an_os_error(address: Address) -> None:
    with pytest.raises(OSError, match="in use"):
        await HttpServer(pages()).start(address)


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ECONNABORTED])
async def test_a_connection_that_cannot_be_accepted_waits_or_is_gone(
    address: Address, code: int, monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    async with Talk(address) as talk:
        await talk.ask("/hello")
    accept = socket.socket.accept
    failures = [OSError(code, "no")]

    def failing(self: socket.socket) -> Any:
        if failures:
            raise failures.pop()
        return accept(self)

    monkeypatch.setattr(constants, "ACCEPT_RETRY_DELAY", 0.01)
    monkeypatch.setattr(socket.socket, "accept", failing)
    async with Talk(address) as talk:
        assert (await talk.ask("/hello")).startswith(b"HTTP/1.1 200 OK")
    told = [line["event"].partition("\n")[0] for line in lines()]
    assert told == (["socket.accept() out of system resource"] if code == errno.EMFILE else [])


# -- limits ----------------------------------------------------------------------------------------


class Talk:
    """A client with a connection of its own."""

    def __init__(self, address: Address) -> None:
        self._address = address

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection(*self._address)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.transport.abort()

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def ask(self, path: str) -> bytes:
        """The first line of the answer."""
        await self.send(get(path))
        return await self.reader.readline()

    async def closed(self) -> bool:
        """Wait for the end of the connection."""
        try:
            while await self.reader.read(1 << 16):
                pass
        except ConnectionResetError:
            pass
        return True


@pytest.mark.parametrize("start", [b"", b"GET /hel", get("/hello", more="Content-Length: 9\r\n")])
async def test_idle_and_half_sent_requests_make_room_for_a_health_check(
    patient: Address, start: bytes
) -> None:
    async with AsyncExitStack() as stack:
        idle = []
        for _ in range(CONNECTIONS):
            idle.append(await stack.enter_async_context(Talk(patient)))
            await idle[-1].send(start)
        async with asyncio.timeout(60):
            check = await stack.enter_async_context(Talk(patient))
            assert await check.ask("/healthz") == b"HTTP/1.1 200 OK\r\n"
            assert await idle[0].closed()  # the one that has been idle longest


async def test_a_health_check_is_answered_while_nobody_reads(
    patient: Address, lines: Lines
) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(CONNECTIONS + 8):
            reader = await stack.enter_async_context(Talk(patient))
            await reader.send(get("/large") * 3)
        async with asyncio.timeout(60):
            for path in ("/healthz", "/healthz"):
                check = await stack.enter_async_context(Talk(patient))
                assert await check.ask(path) == b"HTTP/1.1 200 OK\r\n"
            check = await stack.enter_async_context(Talk(patient))
            assert await check.ask("/large") == b"HTTP/1.1 503 Service Unavailable\r\n"
    assert (
        {"http_answers"}
        <= {line["limit"] for line in lines()}
        <= {"http_answers", "http_connections"}
    )
    assert {line["most"] for line in lines()} <= {ANSWERS, CONNECTIONS}


async def test_a_flood_of_connections_does_not_hide_a_health_check(patient: Address) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(3 * CONNECTIONS):
            await stack.enter_async_context(Talk(patient))
        check = await stack.enter_async_context(Talk(patient))
        for _ in range(CONNECTIONS // 2):
            await stack.enter_async_context(Talk(patient))
        async with asyncio.timeout(60):
            assert await check.ask("/healthz") == b"HTTP/1.1 200 OK\r\n"


async def test_others_get_their_turn_between_pipelined_requests(patient: Address) -> None:
    async with Talk(patient) as greedy, Talk(patient) as other:
        await other.ask("/hello")
        await greedy.ask("/hello")
        made.clear()
        greedy.writer.write(get("/hello") * 400)
        other.writer.write(get("/healthz"))
        async with asyncio.timeout(60):
            await other.reader.readuntil(b"{}")
        assert len(made) < 20


async def test_an_answer_that_is_not_taken_in_time_ends_the_connection(
    address: Address, lines: Lines
) -> None:
    async with Talk(address) as talk, asyncio.timeout(60):
        await talk.send(get("/large") * 2)
        while not lines():  # noqa: ASYNC110  # a line is no event
            await asyncio.sleep(0.01)
        assert await talk.closed()
    assert [line["event"] for line in lines()] == ["answer not taken in time"]


async def test_a_request_that_trickles_in_is_cut_off(address: Address) -> None:
    async with Talk(address) as talk:

        async def trickle() -> None:
            while True:
                await talk.send(b"x")
                await asyncio.sleep(0.02)

        with pytest.raises(ConnectionError):
            await asyncio.wait_for(trickle(), 60)


async def test_a_page_that_takes_long_is_made_once_for_all(patient: Address) -> None:
    made.clear()
    async with AsyncExitStack() as stack:
        talks = [await stack.enter_async_context(Talk(patient)) for _ in range(10)]
        answers = await asyncio.gather(*(talk.ask("/slow") for talk in talks))
        assert set(answers) == {b"HTTP/1.1 200 OK\r\n"}
        assert made == ["slow"]


async def test_such_a_page_is_made_again_when_it_is_old(
    patient: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_exchange, "KEPT_S", 0.0)
    made.clear()
    for _ in range(2):
        async with Talk(patient) as talk:
            await talk.ask("/slow")
    assert made == ["slow", "slow"]


async def test_a_client_that_said_that_it_is_done_gets_a_slow_answer(ask: Ask) -> None:
    assert (await ask(get("/slow"))).endswith(b"slow\n")


async def test_a_body_of_two_lengths_ends_the_connection(ask: Ask) -> None:
    more = "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"
    answer = await ask(get("/hello", more=more) + b"0\r\n\r\n" + get("/hello"), close=False)
    assert answer.startswith(b"HTTP/1.1 400 Bad Request")
    assert answer.count(b"HTTP/1.1") == 1


async def test_a_chunked_body_is_ignored_and_a_large_one_is_refused(ask: Ask) -> None:
    head = get("/hello", more="Transfer-Encoding: chunked\r\n")
    small = head + b"4\r\ndata\r\n0\r\n\r\n" + get("/hello")
    assert (await ask(small)).count(b"200 OK") == 2
    large = head + b"10000\r\n" + bytes(0x10000) + b"\r\n"
    assert b"200 OK" not in await ask(large * 2, close=False)


async def test_a_client_that_asks_first_is_told_to_go_on(address: Address) -> None:
    async with Talk(address) as talk:
        await talk.send(get("/hello", more="Expect: 100-continue\r\nContent-Length: 4\r\n"))
        assert (await talk.reader.readline()).startswith(b"HTTP/1.1 100 ")
        await talk.reader.readline()
        await talk.send(b"data")
        assert await talk.reader.readline() == b"HTTP/1.1 200 OK\r\n"


async def test_a_client_that_asks_first_for_too_much_is_refused(ask: Ask) -> None:
    size = http_exchange.BODY_BYTES + 1
    more = f"Expect: 100-continue\r\nContent-Length: {size}\r\n"
    answer = await ask(get("/hello", more=more), close=False)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"HTTP/1.1 100" not in answer


# -- an API under a prefix -------------------------------------------------------------------------


class Stream:
    """Pieces of a body; `most` at once, and then none until it is closed."""

    def __init__(self, piece: bytes, most: int | None = None) -> None:
        self._piece = piece
        self._most = most
        self.asked = 0
        self.closed = asyncio.Event()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self.asked == self._most:
            await self.closed.wait()
        self.asked += 1
        return self._piece

    async def aclose(self) -> None:
        self.closed.set()


@asynccontextmanager
async def api_of(
    answer: HttpAnswer, asked: list[HttpRequest], timeout_s: float = 60.0
) -> AsyncIterator[tuple[Address, Counter[tuple[str, ...]]]]:
    async def api(request: HttpRequest) -> HttpAnswer:
        asked.append(request)
        await asyncio.sleep(0)
        return answer

    counts = Counter[tuple[str, ...]]()
    server = HttpServer({**pages(), "/api/": api}, counts=counts, timeout_s=timeout_s)
    yield await server.start(("127.0.0.1", 0)), counts
    await server.close()


async def send(address: Address, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(*address)
    writer.write(request)
    try:
        return await reader.read()
    finally:
        writer.close()


def post(body: bytes, kind: str, more: str = "") -> bytes:
    headers = f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{more}"
    return get("/api/x", "POST", headers) + body


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_a_long_body_is_read_to_its_end_and_refused_in_a_line(is_chunked: bool) -> None:
    size = 18_000_000
    more = "Transfer-Encoding: chunked\r\n" if is_chunked else f"Content-Length: {size}\r\n"
    piece = b"10000\r\n" + bytes(0x10000) + b"\r\n"
    body = piece * (size // 0x10000) + b"0\r\n\r\n" if is_chunked else bytes(size)
    async with api_of(HttpAnswer(200, b"{}"), asked := []) as (address, _):
        more += "Content-Type: application/json\r\n"
        sent = get("/api/x", "POST", more) + body + get("/hello", more="Connection: close\r\n")
        answer = await send(address, sent)
    head, _, rest = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 413 ")
    assert b"Content-Type: application/json" in head
    line, _, then = rest.partition(b"\n")
    assert json.loads(line) == {"error": "the body is longer than 65536 bytes: send less at a time"}
    assert then.startswith(b"HTTP/1.1 200 ")
    assert asked == []


async def test_a_body_without_end_is_not_read() -> None:
    size = http_exchange.DROPPED_BYTES + 1
    async with api_of(HttpAnswer(200, b"{}"), []) as (address, _):
        answer = await send(address, get("/api/x", "POST", f"Content-Length: {size}\r\n"))
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"Connection: close\r\n" in answer


async def test_an_api_that_is_refused_for_now_is_told_so_in_json() -> None:
    stream = Stream(b"x", 0)
    async with api_of(HttpAnswer(200, stream), []) as (address, _), AsyncExitStack() as opened:
        for _ in range(ANSWERS):
            talk = await opened.enter_async_context(Talk(address))
            await talk.send(get("/api/x"))
            await talk.reader.readline()
        answer = await send(address, get("/api/x", more="Connection: close\r\n"))
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2]) == {
        "error": f"{ANSWERS} requests are in progress: try again when one has ended"
    }


async def test_a_long_answer_of_an_api_is_sent_in_pieces() -> None:
    pieces = [bytes([65 + number]) * 100_000 for number in range(20)]
    async with api_of(HttpAnswer(200, pieces), []) as (address, _):
        for method, body in (("GET", b"".join(pieces)), ("HEAD", b"")):
            answer = await send(address, get("/api/x", method, "Connection: close\r\n"))
            head, _, sent = answer.partition(b"\r\n\r\n")
            assert b"Content-Length: 2000000\r\n" in head + b"\r\n"
            assert sent == body


async def test_an_api_gets_paths_and_queries_as_they_came() -> None:
    asked: list[HttpRequest] = []
    found = HttpAnswer(503, b"{}\n", headers={"Retry-After": "7"})
    async with api_of(found, asked) as (address, _):
        more = "Connection: close\r\nLast-Event-ID: 1.2\r\n"
        answer = await send(address, get("/api/a%2Fb/%ff?d=%20&e", more=more))
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"Content-Type: application/json\r\n" in answer
    assert b"Retry-After: 7\r\n" in answer
    assert answer.endswith(b"\r\n\r\n{}\n")
    [request] = asked
    assert (request.method, request.path, request.query) == ("GET", "a%2Fb/%ff", "d=%20&e")
    assert (request.headers["last-event-id"], request.remote) == ("1.2", "127.0.0.1")


async def test_only_json_bodies_reach_an_api() -> None:
    sent = b'{"a": 1}'
    for kind, body in (
        ("application/json", sent),
        ("Application/JSON; charset=utf-8", sent),
        ("application/x-www-form-urlencoded", b""),
        ("text/plain", b""),
    ):
        asked: list[HttpRequest] = []
        async with api_of(HttpAnswer(200, b"{}"), asked) as (address, _):
            await send(address, post(sent, kind))
        assert (asked[0].method, asked[0].body) == ("POST", body)


async def test_a_stream_is_sent_as_it_comes() -> None:
    stream = Stream(b"data: 1\n\n", most=2)
    async with api_of(HttpAnswer(200, stream, "text/event-stream"), []) as (address, _):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(get("/api/follow"))
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"Content-Type: text/event-stream\r\n" in head
        for _ in range(2):
            assert b"data: 1\n\n" in await reader.readuntil(b"\n\n")
        writer.close()
        await stream.closed.wait()


async def test_a_stream_ends_with_the_port(lines: Lines) -> None:
    stream = Stream(b"data: 1\n\n", most=1)
    async with api_of(HttpAnswer(200, stream, "text/event-stream"), []) as (address, _):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(get("/api/follow"))
        await reader.readuntil(b"\n\n")
    await stream.closed.wait()
    writer.close()
    assert lines() == []


async def test_head_of_a_stream_is_only_its_headers() -> None:
    stream = Stream(b"data: 1\n\n")
    async with api_of(HttpAnswer(200, stream, "text/event-stream"), []) as (address, _):
        answer = await send(address, get("/api/follow", "HEAD", "Connection: close\r\n"))
    assert answer.endswith(b"\r\n\r\n")
    assert (stream.asked, stream.closed.is_set()) == (0, True)


async def test_a_stream_that_is_not_read_is_closed_and_counted() -> None:
    stream = Stream(bytes(100_000))
    found = HttpAnswer(200, stream, "text/event-stream")
    async with api_of(found, [], timeout_s=0.3) as (address, counts):
        client = socket.create_connection(address)
        client.sendall(get("/api/follow"))
        await stream.closed.wait()
        client.close()
        assert counts == {("limits_reached", "http_timeout"): 1}
        assert stream.asked < 200  # what the kernel's buffers take, and no more


async def test_a_client_that_goes_in_the_middle_of_an_answer_is_no_error(lines: Lines) -> None:
    """The library would say that it cannot send an error, of which nobody can read whose it is."""
    answer = HttpAnswer(200, [bytes(1 << 20)] * 64)
    async with api_of(answer, []) as (address, _):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(get("/api/x"))
        await reader.read(100)
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()
        await asyncio.sleep(0.1)
        assert (await send(address, get("/health", more="Connection: close\r\n"))) != b""
    assert lines() == []


class Doorkeeper:
    """Admits every request, until it is told not to."""

    def __init__(self) -> None:
        self.is_shut = False

    def admit(self, request: HttpRequest) -> HttpRequest:
        return request

    def admits_still(self, request: HttpRequest) -> bool:
        assert request.headers["authorization"] == "Bearer x"
        return not self.is_shut


async def test_a_stream_ends_with_the_next_piece_once_its_token_is_removed() -> None:
    came = asyncio.Queue[bytes]()

    async def pieces() -> AsyncIterator[bytes]:
        while True:
            yield await came.get()

    async def api(_: HttpRequest) -> HttpAnswer:
        return HttpAnswer(200, pieces(), "text/event-stream")

    door = Doorkeeper()
    server = HttpServer({"/api/": api})
    reader, writer = await asyncio.open_connection(*await server.start(("127.0.0.1", 0), gate=door))
    async with asyncio.timeout(20):
        writer.write(get("/api/follow", more="Authorization: Bearer x\r\n"))
        came.put_nowait(b"first")
        await reader.readuntil(b"first")
        door.is_shut = True
        came.put_nowait(b"second")
        rest = await reader.read()
    assert b"second" not in rest
    assert rest.endswith(b"0\r\n\r\n"), "the end of the answer"
    writer.close()
    await server.close()
