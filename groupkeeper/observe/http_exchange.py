"""Requests and answers of the HTTP port, the interface of its pages and APIs, and its limits.

A page has one path, an API all paths under a prefix.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

HEADER_BYTES: Final = 8 * 1024
"""Maximum size of request line and headers. The most headers that fit are parsed in 3 ms."""
BODY_BYTES: Final = 64 * 1024
"""Maximum size of a request's body."""
DROPPED_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of an oversized body that is read and dropped, so that its client gets the answer.
For larger ones the connection is closed, which may reset it before the client has read the answer.
"""
CONNECTIONS: Final = 64
"""Maximum number of open connections. For another one, the longest idle connection is closed."""
ANSWERS: Final = 56
"""Maximum connections busy with an answer. The rest is for `HEALTH`, or closed to make room."""
HEALTH: Final = frozenset({"/healthz", "/readyz"})
"""Paths that are answered even if `ANSWERS` is reached."""
UNCHECKED: Final = HEALTH | {"/metrics"}
"""Paths that are answered whatever the Host header: probes and scrapers use names that the server
does not know, and these pages reveal nothing about the contents of groups or about clients."""
TIMEOUT_S: Final = 10.0
"""Time limit for a whole request to arrive, including idle time, and for an answer to be read."""
ACCEPTS: Final = 4
"""Connections accepted in one iteration of the loop."""
BACKLOG: Final = 128
"""Connections that the kernel queues until they are accepted."""
JSON: Final = "application/json"
KEPT_S: Final = 1.0
"""How long a page that was made in slices is served again."""


@dataclass(slots=True, frozen=True)
class HttpRequest:
    """One request as received: nothing is decoded."""

    method: str
    path: str
    """Without the prefix of an API; percent-encoded."""
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    """By name in lower case."""
    remote: str = ""
    """Address of the client."""
    body: bytes = b""
    """Empty unless it was sent as JSON."""
    principal: str = ""
    """Whose token came with it, such as `Token:ops`; empty without tokens."""
    may_write: bool | None = None
    """Whether the token's role is `write`; None without tokens, where `http.api.write` decides."""


class Pieces(Protocol):
    """The body of an answer that is sent incrementally."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Return an iterator; a piece is requested once the client has taken earlier ones."""

    async def aclose(self) -> None:
        """Called once, when everything is sent or the connection is closed."""


@dataclass(slots=True, frozen=True)
class HttpAnswer:
    """The answer to a request."""

    status: int
    body: bytes | list[bytes] | Pieces
    """In pieces if it is long; `Pieces` if its length is not known yet."""
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


_Api = Callable[[HttpRequest], Awaitable[HttpAnswer]]
"""Answers every request of its path; works in slices."""


class Gate(Protocol):
    """Decides who may ask, before the body of a request is read."""

    def admit(self, request: HttpRequest) -> HttpRequest | HttpAnswer:
        """Return the request with its principal, or the answer that refuses it."""

    def admits_still(self, request: HttpRequest) -> bool:
        """Return whether a request that was admitted would be now: asked before each piece of an
        answer without an end.
        """


Apis = Mapping[str, _Api]
"""By path, or by a prefix, which ends with a slash; the first match counts."""


def json_line(value: Any) -> bytes:  # Any: JSON
    """Return a JSON body with a line feed."""
    return json.dumps(value).encode() + b"\n"


def error_answer(
    status: int, text: str = "", headers: Mapping[str, str] | None = None
) -> HttpAnswer:
    """Return an answer with what is wrong and what to do, or else the status phrase."""
    if not text:
        from http import HTTPStatus  # not at a start

        text = HTTPStatus(status).phrase
    return HttpAnswer(status, json_line({"error": text}), headers=headers or {})


class Page:
    """A page for GET and HEAD, made in less than a millisecond."""

    def __init__(self, make: Callable[[HttpRequest], HttpAnswer]) -> None:
        self._make = make

    async def __call__(self, request: HttpRequest) -> HttpAnswer:
        """Answer a request, as an `_Api`."""
        if request.method not in ("GET", "HEAD"):
            return error_answer(405, headers={"Allow": "GET, HEAD"})
        return await self._answer(request)

    async def _answer(self, request: HttpRequest) -> HttpAnswer:
        return self._make(request)

    def close(self) -> None:
        """Called when the port closes."""


class SlowPage(Page):
    """A page made in slices: concurrent requests, and those just after, share one run."""

    def __init__(self, make: Callable[[], Awaitable[HttpAnswer]]) -> None:
        self._run = make
        self._until = 0.0
        """Loop time until which the page is served again."""
        self._made: asyncio.Future[HttpAnswer] | None = None

    async def _answer(self, request: HttpRequest) -> HttpAnswer:
        made = self._made
        if made is None or (made.done() and asyncio.get_running_loop().time() >= self._until):
            made = self._made = asyncio.ensure_future(self._run())
            made.add_done_callback(self._ended)
        return await asyncio.shield(made)

    def _ended(self, made: "asyncio.Future[HttpAnswer]") -> None:
        failed = made.cancelled() or made.exception() is not None
        self._until = 0.0 if failed else made.get_loop().time() + KEPT_S

    def close(self) -> None:
        if self._made is not None:
            self._made.cancel()


def media_type(headers: Mapping[str, str]) -> str:
    """Return the media type of the body, without its parameters."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()
