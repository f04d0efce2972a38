"""The connections and answers of the HTTP port.

Tornado parses requests, finds the page and writes the answer. This module adds the limits: which
connection is closed for a new one, and which requests are refused before the application sees them.
Imported in a thread after the ready line: see `http_server`.
"""

import asyncio
import errno
import re
import socket
from collections import Counter
from collections.abc import Awaitable, Collection, Sequence
from contextlib import aclosing
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, cast

from tornado.http1connection import HTTP1Connection
from tornado.httpserver import HTTPServer
from tornado.httputil import (
    HTTPConnection,
    HTTPHeaders,
    HTTPMessageDelegate,
    HTTPServerConnectionDelegate,
)
from tornado.iostream import StreamClosedError
from tornado.web import Application, HTTPError, RequestHandler

from groupkeeper.observe.http_exchange import (
    JSON,
    Api,
    Apis,
    HttpRequest,
    Page,
    Pieces,
    is_foreign,
    json_line,
)
from groupkeeper.observe.http_host import strange
from groupkeeper.observe.http_limits import (
    ANSWERS,
    CONNECTIONS,
    DROPPED_BYTES,
    HEADER_BYTES,
    HEALTH,
    UNCHECKED,
)
from groupkeeper.observe.http_request import Request
from groupkeeper.observe.http_stream import Stream
from groupkeeper.observe.logs import Logger
from groupkeeper.observe.seldom import Seldom
from groupkeeper.turns import Turns

ACCEPTS: Final = 4
"""Connections accepted in one iteration of the loop."""
ACCEPT_REST_S: Final = 1.0
"""Pause after a connection could not be accepted, because files or memory had run out."""

_OUT_OF = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

_log = Logger("http")


class Site(HTTPServerConnectionDelegate):
    """All connections of one port."""

    def __init__(
        self,
        apis: Apis,
        turns: Turns,
        timeout_s: float,
        counts: Counter[tuple[str, ...]],
        names: Collection[str] | None = None,
    ) -> None:
        self._turns = turns
        self.counts = counts
        self._timeout_s = timeout_s
        self._names = names
        self.seldom = Seldom()
        self._loop = asyncio.get_running_loop()
        self._streams: dict[Stream, None] = {}
        self._listening: Sequence[socket.socket] = ()
        self._apis = apis
        self._application = Application(
            [
                (re.escape(path) + ".*" * path.endswith("/"), _Handler, {"start": path, "api": api})
                for path, api in apis.items()
            ],
            default_handler_class=_NoHandler,
            log_function=lambda _: None,  # no line for every request
        )
        self._server = HTTPServer(
            self,
            max_header_size=HEADER_BYTES,
            max_body_size=DROPPED_BYTES,
            chunk_size=HEADER_BYTES,
            idle_connection_timeout=timeout_s,
            body_timeout=timeout_s,
        )

    def accept(self, listening: Sequence[socket.socket]) -> None:
        """Accept connections from these listening sockets."""
        self._listening = listening
        for each in listening:
            self._loop.add_reader(each, self._accept, each)

    async def close(self) -> None:
        """Accept no more connections, and close all."""
        for each in self._listening:
            self._loop.remove_reader(each)
        self._listening = ()
        for api in self._apis.values():
            if isinstance(api, Page):
                api.close()
        await self._server.close_all_connections()

    def abandon(self) -> None:
        """See `HttpServer.abandon`."""
        for stream in self._streams:
            stream.socket.close()

    # -- places ----------------------------------------------------------------------------------

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTS):
            if not self._has_room():
                return
            try:
                connection, address = listening.accept()
            except OSError as error:  # none is waiting, or the client has gone
                if error.errno in _OUT_OF:
                    self._rest(listening, error)
                return
            stream = Stream(connection, self._turns, self._timeout_s, self, str(address[0]))
            self._streams[stream] = None
            self._server.handle_stream(stream, address)

    def _has_room(self) -> bool:
        """Whether one more can be accepted; if necessary, close the one that is idle for longest.

        ANSWERS leaves some connections idle, so False holds only for a moment.
        """
        if len(self._streams) < CONNECTIONS:
            return True
        idle = [(since, each) for each in self._streams if (since := each.idle_since())]
        if idle:
            self.counts["limits_reached", "CONNECTIONS"] += 1
            if times := self.seldom.due("CONNECTIONS"):
                limit = {"limit": "CONNECTIONS", "most": CONNECTIONS, "times": times}
                _log.info("connection closed to make room", **limit)
            min(idle, key=lambda pair: pair[0])[1].close()
        return bool(idle)

    def _rest(self, listening: socket.socket, error: OSError) -> None:
        _log.error("cannot accept", error=str(error), retry_s=ACCEPT_REST_S)
        self._loop.remove_reader(listening)
        self._loop.call_later(ACCEPT_REST_S, self._resume, listening)

    def _resume(self, listening: socket.socket) -> None:
        if listening in self._listening:
            self._loop.add_reader(listening, self._accept, listening)

    def closed(self, stream: Stream) -> None:
        """The connection is closed."""
        self._streams.pop(stream, None)

    def not_taken(self) -> None:
        """An answer was not read in time."""
        self.counts["limits_reached", "TIMEOUT_S"] += 1

    def has_place(self, path: str) -> bool:
        """Whether a request for this path may be answered now."""
        busy = sum(each.waiting_since is None for each in self._streams)
        return busy < ANSWERS or path in HEALTH

    def stranger(self, path: str, remote: str, headers: HTTPHeaders) -> str | None:
        """Why the request is not answered, in a line: it may be from a page of another site."""
        if self._names is None or path in UNCHECKED:
            return None
        line = strange(headers, self._names)
        if line is not None and (times := self.seldom.due(("host", remote))):
            _log.warning("page refused", path=path, client=remote, reason=line, times=times)
        return line

    # -- requests --------------------------------------------------------------------------------

    def start_request(
        self, server_conn: object, request_conn: HTTPConnection
    ) -> HTTPMessageDelegate:
        connection = cast(HTTP1Connection, request_conn)
        inner = self._application.start_request(server_conn, request_conn)
        return Request(self, connection, inner, self._timeout_s)


class _NoHandler(RequestHandler):
    """Answers paths that do not exist; the base of the other."""

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        self.set_header("Cache-Control", "no-store")

    def prepare(self) -> Awaitable[None] | None:
        raise HTTPError(HTTPStatus.NOT_FOUND)

    def compute_etag(self) -> str | None:
        """None: every answer differs."""
        return None

    def send(self, status: int, content_type: str, body: bytes) -> None:
        self.set_status(status)
        self.clear_header("Content-Type")
        self.set_header("Content-Type", content_type)
        self.finish(body or None)  # 304 has none

    def write_error(self, status_code: int, **more: Any) -> None:  # Any: as the library has it
        if status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            self.set_header("Allow", "GET, HEAD")
        problem = more.get("exc_info", (None, None))[1]
        phrase = HTTPStatus(status_code).phrase
        text = (problem.log_message if isinstance(problem, HTTPError) else None) or phrase
        self.send(status_code, JSON, json_line({"error": text}))

    def send_error(self, status_code: int = 500, **more: Any) -> None:  # Any: as the library has it
        """Answer with an error. Where the answer has begun, and mostly its client is gone, end the
        connection: the library would write a line of level error that names nobody.
        """
        if not self._headers_written:
            super().send_error(status_code, **more)
        elif not self._finished:
            cast(HTTP1Connection, self.request.connection).stream.close()

    def log_exception(
        self, typ: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        """A page that fails is answered 500 and gets one line; a client that has gone, none."""
        if not isinstance(value, HTTPError | StreamClosedError | asyncio.CancelledError):
            _log.error("page failed", target=self.request.uri, exc_info=value)


class _Handler(_NoHandler):
    """Passes requests to what answers their path, and the answers back."""

    def initialize(self, start: str, api: Api) -> None:
        self._start = start
        self._api = api
        self._sending: asyncio.Task[Any] | None = None  # Any: a handler's coroutine
        self._is_closed = False

    def prepare(self) -> Awaitable[None] | None:
        # Tornado has such a check from 6.6 on; before, its setting does nothing.
        if is_foreign(self.request.method or "", self.request.headers):
            raise HTTPError(HTTPStatus.FORBIDDEN, "this was sent for a page of another origin")
        return None

    async def get(self) -> None:
        asked = self.request
        answer = await self._api(
            HttpRequest(
                method=asked.method or "",
                path=asked.path.removeprefix(self._start),
                query=asked.query,
                headers=asked.headers,
                remote=asked.remote_ip or "",
                body=asked.body,
            )
        )
        for name, value in answer.headers.items():
            self.set_header(name, value)
        body = answer.body
        if isinstance(body, bytes):
            self.send(answer.status, answer.content_type, body)
            return
        self.set_status(answer.status)
        self.set_header("Content-Type", answer.content_type)
        if isinstance(body, list):
            self.set_header("Content-Length", sum(map(len, body)))
            for piece in body:
                self.write(piece)
                await self.flush()  # the next piece is copied when this one is taken
        else:
            await self._stream(body)

    head = post = put = patch = delete = options = get

    async def _stream(self, pieces: Pieces) -> None:
        """Send pieces until there are no more, or the connection is closed."""
        self._sending = asyncio.current_task()
        try:
            async with aclosing(pieces):
                await self.flush()
                if self.request.method != "HEAD":
                    async for piece in pieces:
                        self.write(piece)
                        await self.flush()  # waits until it is taken
        except asyncio.CancelledError:
            if not self._is_closed or self._sending is None or self._sending.uncancel():
                raise

    def on_connection_close(self) -> None:
        self._is_closed = True
        if self._sending is not None:
            self._sending.cancel()
