"""The HTTP adapter over loopback sockets, spoken to in raw bytes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from groupkeeper.server import http
from groupkeeper.server.http import HttpServer

Ask = Callable[..., Awaitable[bytes]]


def broken() -> http.Page:
    raise RuntimeError("a bug in a page")


PAGES = {"/hello": lambda: (200, "text/plain", b"hi\n"), "/broken": broken}


@pytest.fixture
async def address() -> AsyncIterator[tuple[str, int]]:
    server = HttpServer(PAGES, timeout_s=0.3)
    yield await server.start(("127.0.0.1", 0))
    await server.close()


@pytest.fixture
def ask(address: tuple[str, int]) -> Ask:
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


async def test_a_page_is_served(ask: Ask) -> None:
    answer = await ask(get("/hello"))
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Content-Type: text/plain\r\nContent-Length: 3\r\n" in answer
    assert answer.endswith(b"\r\n\r\nhi\n")


async def test_the_query_does_not_matter(ask: Ask) -> None:
    assert (await ask(get("/hello?x=1"))).startswith(b"HTTP/1.1 200 OK")


async def test_head_has_the_length_and_no_body(ask: Ask) -> None:
    answer = await ask(get("/hello", "HEAD"))
    assert b"Content-Length: 3" in answer
    assert answer.endswith(b"\r\n\r\n")


async def test_a_connection_is_kept_alive(ask: Ask) -> None:
    answer = await ask(get("/hello") + get("/hello", "HEAD") + get("/hello"))
    assert answer.count(b"200 OK") == 3
    assert answer.count(b"hi\n") == 2


async def test_a_connection_is_closed_on_request(ask: Ask) -> None:
    answer = await ask(get("/hello", more="Connection: close\r\n") + get("/hello"), close=False)
    assert answer.count(b"200 OK") == 1


async def test_http_1_0_is_answered_and_closed(ask: Ask) -> None:
    assert b"hi\n" in await ask(b"GET /hello HTTP/1.0\r\n\r\n", close=False)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
async def test_other_methods_are_405_and_told_which_are_good(ask: Ask, method: str) -> None:
    answer = await ask(get("/hello", method))
    assert answer.startswith(b"HTTP/1.1 405 Method Not Allowed")
    assert b"Allow: GET, HEAD" in answer


async def test_an_unknown_path_is_404(ask: Ask) -> None:
    assert (await ask(get("/nothing"))).startswith(b"HTTP/1.1 404 Not Found")


async def test_a_page_that_fails_is_500_and_the_next_one_works(ask: Ask) -> None:
    answer = await ask(get("/broken") + get("/hello"))
    assert answer.startswith(b"HTTP/1.1 500 Internal Server Error")
    assert answer.endswith(b"hi\n")


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x00\x00\x00\x10\x00\x12kafka\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\nbad header\r\n\r\n",
    ],
)
async def test_what_is_not_http_is_400(ask: Ask, request_bytes: bytes) -> None:
    assert (await ask(request_bytes, close=False)).startswith(b"HTTP/1.1 400 Bad Request")


async def test_endless_headers_are_cut_off(ask: Ask) -> None:
    request = b"GET /hello HTTP/1.1\r\nX: " + b"x" * 3 * http.HEADER_BYTES
    assert (await ask(request, close=False)).startswith(b"HTTP/1.1 431 ")


async def test_a_small_body_is_ignored_and_a_large_one_is_refused(ask: Ask) -> None:
    small = get("/hello", more="Content-Length: 4\r\n") + b"data" + get("/hello")
    assert (await ask(small)).count(b"200 OK") == 2
    size = 2 * http.BODY_BYTES
    large = get("/hello", more=f"Content-Length: {size}\r\n") + bytes(size)
    assert b"200 OK" not in await ask(large, close=False)


@pytest.mark.parametrize("start", [b"", b"GET /hel"])
async def test_a_slow_client_is_cut_off(ask: Ask, start: bytes) -> None:
    async with asyncio.timeout(5):
        assert await ask(start, close=False) == b""


async def test_more_connections_than_allowed_are_closed_at_once(
    address: tuple[str, int], ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "CONNECTIONS", 1)
    _, first = await asyncio.open_connection(*address)
    assert await ask(get("/hello"), close=False) == b""
    first.close()


async def test_closing_ends_open_connections(address: tuple[str, int]) -> None:
    server = HttpServer(PAGES, timeout_s=60)
    reader, writer = await asyncio.open_connection(*await server.start(("127.0.0.1", 0)))
    writer.write(get("/hello"))
    await reader.readuntil(b"hi\n")
    await server.close()
    assert await reader.read() == b""
    writer.close()
