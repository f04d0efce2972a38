"""The HTTP port: a handful of read-only pages over h11 and asyncio.

It answers GET and HEAD from a table of callables and refuses the rest. It has no routing, no
bodies, no TLS; what the pages say is in ``pages``. Every wait and every buffer has a limit, because
a port that reports on a server must not be a way to hurt it.
"""

import asyncio
from collections.abc import Callable, Mapping
from http import HTTPStatus

import h11

from groupkeeper.server.logs import Log
from groupkeeper.server.options import Address

Page = tuple[int, str, bytes]
"""Status, content type, body."""

Pages = Mapping[str, Callable[[], Page]]
"""Path -> what makes the page. A page is made on the event loop: it must be quick."""

HEADER_BYTES = 16 * 1024
BODY_BYTES = 64 * 1024
"""What a request may carry uselessly before it is cut off."""
CONNECTIONS = 64
TIMEOUT_S = 10.0
"""For a whole request to arrive, idle time before it included; and for a response to be taken."""

_TEXT = "text/plain; charset=utf-8"
_log = Log("http")


class HttpServer:
    """A listening port and its connections."""

    def __init__(self, pages: Pages, *, timeout_s: float = TIMEOUT_S) -> None:
        self._pages = pages
        self._timeout_s = timeout_s
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, address: Address) -> Address:
        """Listen; returns the address really bound. Raises OSError."""
        host, port = address
        self._server = await asyncio.start_server(self._accept, host, port, limit=HEADER_BYTES)
        bound = self._server.sockets[0].getsockname()
        return bound[0], bound[1]

    async def close(self) -> None:
        """Stop listening and end every connection."""
        if self._server is not None:
            self._server.close()
        for task in [*self._tasks]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if len(self._tasks) <= CONNECTIONS:
                await self._converse(reader, writer)
        except TimeoutError:
            writer.transport.abort()
        except (OSError, asyncio.CancelledError):
            pass  # The client is gone, or close() was called: there is nobody to tell.
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Requests of one connection, one after another, while the client keeps it alive."""
        peer = h11.Connection(h11.SERVER, max_incomplete_event_size=HEADER_BYTES)
        while True:
            async with asyncio.timeout(self._timeout_s):
                try:
                    request = await _next_request(peer, reader)
                except h11.RemoteProtocolError as problem:
                    status = HTTPStatus(problem.error_status_hint)
                    self._send(peer, writer, "GET", _plain(status, f"{problem}\n"))
                    return await writer.drain()
                if request is None:
                    return None
                method, target = request.method.decode(), request.target.decode("latin-1")
                self._send(peer, writer, method, self._page(method, target))
                await writer.drain()
            if peer.our_state is h11.MUST_CLOSE:
                return None
            peer.start_next_cycle()

    def _page(self, method: str, target: str) -> Page:
        make = self._pages.get(target.partition("?")[0])
        if make is None:
            return _plain(HTTPStatus.NOT_FOUND)
        if method not in ("GET", "HEAD"):
            return _plain(HTTPStatus.METHOD_NOT_ALLOWED)
        try:
            return make()
        except Exception:  # noqa: BLE001  # one page's bug is its own 500, and one log line
            _log.exception("page failed", target=target)
            return _plain(HTTPStatus.INTERNAL_SERVER_ERROR)

    @staticmethod
    def _send(peer: h11.Connection, writer: asyncio.StreamWriter, method: str, page: Page) -> None:
        status, content_type, body = page
        headers = [
            ("Content-Type", content_type),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
        ]
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            headers.append(("Allow", "GET, HEAD"))
        reason = HTTPStatus(status).phrase
        head = peer.send(h11.Response(status_code=status, headers=headers, reason=reason))
        writer.write(head or b"")
        if method != "HEAD":
            writer.write(peer.send(h11.Data(data=body)) or b"")
        writer.write(peer.send(h11.EndOfMessage()) or b"")


async def _next_request(peer: h11.Connection, reader: asyncio.StreamReader) -> h11.Request | None:
    """The next request, its useless body read and dropped; None when the client is done."""
    request: h11.Request | None = None
    dropped = 0
    while True:
        event = peer.next_event()
        if event is h11.NEED_DATA:
            peer.receive_data(await reader.read(HEADER_BYTES))
        elif isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.Data):
            dropped += len(event.data)
            if dropped > BODY_BYTES:
                raise h11.RemoteProtocolError("the request is too large", 413)
        elif isinstance(event, h11.EndOfMessage):
            return request
        else:
            return None


def _plain(status: HTTPStatus, text: str = "") -> Page:
    return status, _TEXT, (text or f"{status.value} {status.phrase}\n").encode()
