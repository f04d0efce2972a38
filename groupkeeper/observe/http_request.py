"""A request of the HTTP port, checked against the limits before the application sees it."""

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable
from http import HTTPStatus
from typing import Final, Protocol, cast

from tornado.http1connection import HTTP1Connection
from tornado.httputil import (
    HTTPHeaders,
    HTTPMessageDelegate,
    RequestStartLine,
    ResponseStartLine,
)

from groupkeeper.observe.http_exchange import JSON, json_line, media_type
from groupkeeper.observe.http_limits import ANSWERS, BODY_BYTES, DROPPED_BYTES
from groupkeeper.observe.http_stream import Stream
from groupkeeper.observe.logs import Logger
from groupkeeper.observe.seldom import Seldom

_TOO_LONG: Final = (
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    f"the body is longer than {BODY_BYTES} bytes: send less at a time",
)
_ALL_BUSY: Final = (
    HTTPStatus.SERVICE_UNAVAILABLE,
    f"{ANSWERS} requests are under way: ask again when one has ended",
)

_log = Logger("http")


class RequestOwner(Protocol):
    """The port that the request came to."""

    counts: Counter[tuple[str, ...]]
    seldom: Seldom
    """When lines about what clients repeat are due."""

    def has_place(self, path: str) -> bool:
        """Whether a request for this path may be answered now."""

    def stranger(self, path: str, remote: str, headers: HTTPHeaders) -> str | None:
        """Why it is not answered, as it gives another name than this server's; None if it is."""


class Request(HTTPMessageDelegate):
    """One request, checked against the limits before the application sees it."""

    def __init__(
        self,
        site: RequestOwner,
        connection: HTTP1Connection,
        application: HTTPMessageDelegate,
        timeout_s: float,
    ) -> None:
        self._site = site
        self._connection = connection
        self._application = application
        self._timeout_s = timeout_s
        self._stream = cast(Stream, connection.stream)
        self._stream.await_request()
        self._method = self._path = ""
        self._takes_body = self._is_refused = False
        self._size = 0
        """Of the body."""

    def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> Awaitable[None] | None:
        self._stream.headers_came = True
        request_line = cast(RequestStartLine, start_line)
        self._method, self._path = request_line.method, request_line.path.partition("?")[0]
        length = headers.get("Content-Length", "")
        if re.fullmatch("[0-9]+", length) and (len(length) > 9 or int(length) > BODY_BYTES):
            is_coming = len(length) <= 9 and int(length) <= DROPPED_BYTES
            if not is_coming or "Expect" in headers:
                self._refuse(*_TOO_LONG, {"Connection": "close"})
                self._connection.finish()
                return None
            self._refuse(*_TOO_LONG)
        elif line := self._site.stranger(self._path, self._stream.remote, headers):
            self._refuse(HTTPStatus.FORBIDDEN, line)
        self._takes_body = media_type(headers) == JSON
        waited = asyncio.get_running_loop().time() - (self._stream.waiting_since or 0.0)
        self._connection.set_body_timeout(max(0.0, self._timeout_s - waited))
        if self._is_refused:
            return None
        return self._application.headers_received(start_line, headers)

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        """Dropped unless it is JSON: the library would parse forms at once, which takes long."""
        self._size += len(chunk)
        if self._size > BODY_BYTES and not self._is_refused:  # its length was not said before
            self._refuse(*_TOO_LONG)
        if self._is_refused or not self._takes_body:
            return None
        return self._application.data_received(chunk)

    def finish(self) -> None:
        has_place = self._site.has_place(self._path)
        self._stream.await_answer()
        if self._is_refused:
            self._connection.finish()
        elif has_place:
            self._application.finish()
        else:
            self._site.counts["limits_reached", "ANSWERS"] += 1
            if times := self._site.seldom.due("ANSWERS"):
                where = {"path": self._path, "client": self._stream.remote, "times": times}
                _log.warning("page refused", limit="ANSWERS", most=ANSWERS, **where)
            self._refuse(*_ALL_BUSY, {"Retry-After": "1"})
            self._connection.finish()

    def on_connection_close(self) -> None:
        if not self._is_refused:
            self._application.on_connection_close()

    def _refuse(self, status: HTTPStatus, line: str, more: dict[str, str] | None = None) -> None:
        """Write this answer; `line` says what to do. To be finished when the body is here."""
        self._is_refused = True
        body = json_line({"error": line})
        headers = HTTPHeaders(
            {"Content-Type": JSON, "Content-Length": str(len(body)), **(more or {})}
        )
        start = ResponseStartLine("HTTP/1.1", status.value, status.phrase)
        self._connection.write_headers(start, headers, b"" if self._method == "HEAD" else body)
