"""The connections of the HTTP port: h11 parses requests and frames answers.

This module protects the server from clients: bytes are processed in turns, requests that are too
long or too slow are refused, answers that are not read are cut off after a timeout, and connections
and answers are limited in number.

Imported in a thread when the first client connects: see `http_server`.
"""

import asyncio
from collections import Counter
from collections.abc import Collection
from contextlib import aclosing, suppress
from dataclasses import replace
from email.utils import formatdate
from http import HTTPStatus
from typing import Final, NamedTuple

import h11

from groupkeeper.observe.http_exchange import (
    ANSWERS,
    BODY_BYTES,
    CONNECTIONS,
    DROPPED_BYTES,
    HEADER_BYTES,
    HEALTH,
    JSON,
    UNCHECKED,
    Apis,
    Gate,
    HttpAnswer,
    HttpRequest,
    Page,
    Pieces,
    error_answer,
    media_type,
)
from groupkeeper.observe.http_host import strange
from groupkeeper.observe.logs import Logger
from groupkeeper.observe.seldom import Seldom
from groupkeeper.turns import Turns

LAST_READS: Final = 8
"""Reads of remaining input, when a connection is to be closed."""

_CLOSE: Final = {"Connection": "close"}
_TOO_LONG: Final = error_answer(
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    f"the body is longer than {BODY_BYTES} bytes: send less at a time",
)
_ALL_BUSY: Final = error_answer(
    HTTPStatus.SERVICE_UNAVAILABLE,
    f"{ANSWERS} requests are in progress: try again when one has ended",
    {"Retry-After": "1"},
)

_log = Logger("http")


class _Closed(Exception):
    """The connection ends now."""


class _Connection:
    """Answers the requests of one connection in sequence."""

    def __init__(
        self, site: "Site", reader: asyncio.StreamReader, writer: asyncio.StreamWriter, since: float
    ) -> None:
        self._site = site
        self._reader = reader
        self._writer = writer
        self._remote = str((writer.get_extra_info("peername") or [""])[0])
        self._http = h11.Connection(h11.SERVER, HEADER_BYTES)
        self._seconds = asyncio.get_running_loop().time
        self.waiting_since: float | None = since
        """Loop time; None while a request is being answered."""
        self._unread_since: float | None = None
        """Since when an answer has been waiting for the client to read."""

    def idle_since(self) -> tuple[bool, float] | None:
        """Return a sort key for closing connections: the smallest is closed first. Connections that
        wait for a request come before those whose client does not read. None while busy.
        """
        if self.waiting_since is not None:
            return False, self.waiting_since
        return None if self._unread_since is None else (True, self._unread_since)

    async def run(self) -> None:
        """Serve until the connection ends, which is not an error."""
        self._writer.transport.set_write_buffer_limits(0)  # `drain` waits until all is taken
        try:
            while await self._serve():
                await self._site.turns.wait()
            await self._linger()
        except (OSError, TimeoutError, _Closed) as gone:  # the client left, or was too slow
            gone.with_traceback(None)  # its frames refer to the reader, which keeps it: a cycle
        finally:
            self._writer.transport.abort()
            with suppress(OSError):
                await self._writer.wait_closed()
            if (error := self._reader.exception()) is not None:
                error.with_traceback(None)

    async def _serve(self) -> bool:
        """Answer a request; return whether another one may follow."""
        try:
            async with asyncio.timeout(self._site.timeout_s):
                asked = await self._request()
        except h11.RemoteProtocolError as problem:
            problem.with_traceback(None)  # a frame of h11 refers to it: a cycle
            if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                status = HTTPStatus(problem.error_status_hint)
                await self._send("", error_answer(status, str(problem), _CLOSE))
            return False
        if asked is not None:
            await self._answer(asked)
        self.waiting_since = self._seconds()
        if not self._http.our_state is self._http.their_state is h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    async def _linger(self) -> None:
        """Let the client read its answer: closing with unread input would reset the connection."""
        self._writer.write_eof()
        async with asyncio.timeout(self._site.timeout_s):
            for _ in range(LAST_READS):
                if not await self._reader.read(HEADER_BYTES):
                    return

    # -- requests --------------------------------------------------------------------------------

    async def _next(self) -> object:
        """Return the next event of h11. Raises RemoteProtocolError for anything other than HTTP."""
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._http.they_are_waiting_for_100_continue:
                go_on = h11.InformationalResponse(status_code=HTTPStatus.CONTINUE, headers=[])
                self._writer.write(self._http.send(go_on))
            data = await self._reader.read(HEADER_BYTES)
            await self._site.turns.wait()
            self._http.receive_data(data)
        return event

    async def _request(self) -> HttpRequest | None:
        """Return the next request; None if it is refused and answered, or there are no more. The
        body of a refused request is read and dropped, so that its client reads the answer.
        """
        start = await self._next()
        if not isinstance(start, h11.Request):
            return None
        asked = self._asked(start)
        refusal = self._refusal(asked)
        if refusal is None:
            admitted = self._site.admit(asked)
            if isinstance(admitted, HttpAnswer):
                refusal = admitted
            else:
                asked = admitted
        if refusal is not None:
            await self._send(asked.method, refusal)
            if "Connection" in refusal.headers:  # then its body is not read
                return None
        takes_body = media_type(asked.headers) == JSON
        body, size = bytearray(), 0
        while isinstance(event := await self._next(), h11.Data):
            size += len(event.data)
            if size > DROPPED_BYTES:
                raise _Closed
            if size > BODY_BYTES and refusal is None:  # its length was not declared
                refusal = _TOO_LONG
                await self._send(asked.method, refusal)
            if takes_body and refusal is None:
                body += event.data
        return None if refusal else replace(asked, body=bytes(body))

    def _asked(self, start: h11.Request) -> HttpRequest:
        headers: dict[str, str] = {}
        for name, value in (
            (name.decode(), value.decode("latin-1")) for name, value in start.headers
        ):
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        path, _, query = start.target.decode().partition("?")
        return HttpRequest(start.method.decode(), path, query, headers, self._remote)

    def _refusal(self, asked: HttpRequest) -> HttpAnswer | None:
        """Return an answer that needs no body; None if the page or API has to be called."""
        headers = asked.headers
        length = headers.get("content-length")
        if length and "transfer-encoding" in headers:
            return error_answer(HTTPStatus.BAD_REQUEST, "the body has two lengths", _CLOSE)
        if int(length or 0) > BODY_BYTES:
            is_coming = int(length or 0) <= DROPPED_BYTES and "expect" not in headers
            return _TOO_LONG if is_coming else replace(_TOO_LONG, headers=_CLOSE)
        return None

    # -- answers ---------------------------------------------------------------------------------

    async def _answer(self, asked: HttpRequest) -> None:
        has_place = self._site.has_place(asked)
        self.waiting_since = None
        answer = await self._site.answer(asked) if has_place else _ALL_BUSY
        await self._send(asked.method, answer, asked)

    async def _send(
        self, method: str, answer: HttpAnswer, asked: HttpRequest | None = None
    ) -> None:
        body = [answer.body] if isinstance(answer.body, bytes) else answer.body
        headers = {"Content-Type": answer.content_type}
        if not isinstance(body, list):
            headers |= _CLOSE
        elif answer.status != HTTPStatus.NOT_MODIFIED:
            headers["Content-Length"] = str(sum(map(len, body)))
        headers |= {"Cache-Control": "no-store", "Date": formatdate(usegmt=True), **answer.headers}
        reason = HTTPStatus(answer.status).phrase
        start = h11.Response(status_code=answer.status, headers=[*headers.items()], reason=reason)
        data = self._http.send(start) or b""
        is_without = method == "HEAD" or answer.status == HTTPStatus.NOT_MODIFIED
        if isinstance(body, list):
            for piece in () if is_without else body:
                data += self._http.send(h11.Data(data=piece)) or b""
                await self._write(data)  # the next piece is copied when this one is taken
                data = b""
            await self._write(data + (self._http.send(h11.EndOfMessage()) or b""))
            return
        async with aclosing(body):
            await self._write(data)
            if not is_without:
                await self._stream(body, asked)
            await self._write(self._http.send(h11.EndOfMessage()) or b"")

    async def _stream(self, pieces: Pieces, asked: HttpRequest | None) -> None:
        """Send pieces until there are no more, the client has gone, or its token is removed."""

        async def send() -> None:
            async for piece in pieces:
                if asked is not None and not self._site.admits_still(asked):
                    return
                await self._write(self._http.send(h11.Data(data=piece)) or b"")

        async def until_gone() -> None:
            while await self._reader.read(HEADER_BYTES):
                pass

        tasks = asyncio.create_task(send()), asyncio.create_task(until_gone())
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            problem, _ = await asyncio.gather(*tasks, return_exceptions=True)
        if problem is not None:
            if not isinstance(problem, OSError | _Closed | asyncio.CancelledError):
                _log.error("page failed", client=self._remote, exc_info=problem)
            raise _Closed

    async def _write(self, data: bytes) -> None:
        """Send data, and wait until the client has taken it."""
        self._writer.write(data)
        self._unread_since = self._seconds()
        try:
            async with asyncio.timeout(self._site.timeout_s):
                await self._writer.drain()
        except TimeoutError:
            self._site.not_taken()
            raise _Closed from None
        finally:
            self._unread_since = None


class Admission(NamedTuple):
    """Conditions that requests have to meet."""

    names: Collection[str] | None = None
    """Names of the server for the Host header; None if the APIs check it themselves."""
    gate: Gate | None = None


class Site:
    """All connections of one port."""

    def __init__(
        self,
        apis: Apis,
        turns: Turns,
        timeout_s: float,
        counts: Counter[tuple[str, ...]],
        admission: Admission,
    ) -> None:
        self._apis = apis
        self.turns = turns
        self.timeout_s = timeout_s
        self._counts = counts
        self._admission = admission
        self._seldom = Seldom()
        self._connections: dict[_Connection, asyncio.Task[None]] = {}

    async def close(self) -> None:
        for api in self._apis.values():
            if isinstance(api, Page):
                api.close()
        tasks = [*self._connections.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, since: float
    ) -> None:
        """Answer the requests of a connection, open since a time of the loop, until it ends."""
        self._make_room()
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        connection = _Connection(self, reader, writer, since)
        self._connections[connection] = task
        try:
            await connection.run()
        finally:
            self._connections.pop(connection, None)

    # -- places ----------------------------------------------------------------------------------

    def _make_room(self) -> None:
        """Close the longest idle connection if there are too many. ANSWERS leaves some idle."""
        idle = [(since, each) for each in self._connections if (since := each.idle_since())]
        if len(self._connections) < CONNECTIONS or not idle:
            return
        if times := self._reached("http_connections"):
            limit = {"limit": "http_connections", "most": CONNECTIONS, "times": times}
            _log.info("connection closed to make room", **limit)
        _, oldest = min(idle, key=lambda pair: pair[0])
        self._connections.pop(oldest).cancel()

    def _reached(self, limit: str) -> int:
        """Count a reached limit; return how often since the last line, or 0 if no line is due."""
        self._counts["limits_reached", limit] += 1
        return self._seldom.due(limit)

    # -- for connections -------------------------------------------------------------------------

    def not_taken(self) -> None:
        """Note that an answer was not read in time."""
        self._counts["limits_reached", "http_timeout"] += 1
        _log.info("answer not taken in time", limit="http_timeout", seconds=self.timeout_s)

    def has_place(self, asked: HttpRequest) -> bool:
        """Return whether a request may be answered now; otherwise it is counted and logged."""
        busy = sum(each.waiting_since is None for each in self._connections)
        if busy < ANSWERS or asked.path in HEALTH:
            return True
        if times := self._reached("http_answers"):
            where = {"path": asked.path, "client": asked.remote, "times": times}
            _log.warning("page refused", limit="http_answers", most=ANSWERS, **where)
        return False

    def admit(self, asked: HttpRequest) -> HttpRequest | HttpAnswer:
        """Return a request that may be answered; or the answer to one that is sent for a foreign
        page, or without the right to ask.
        """
        names, gate = self._admission
        if names is not None and asked.path not in UNCHECKED:
            line = strange(asked.method, asked.headers, names)
            if line is not None:
                if times := self._seldom.due(("host", asked.remote)):
                    where = {"path": asked.path, "client": asked.remote}
                    _log.warning("page refused", **where, reason=line, times=times)
                return error_answer(HTTPStatus.FORBIDDEN, line)
        return asked if gate is None else gate.admit(asked)

    def admits_still(self, asked: HttpRequest) -> bool:
        """Return whether a request that was admitted would be now."""
        gate = self._admission.gate
        return gate is None or gate.admits_still(asked)

    async def answer(self, asked: HttpRequest) -> HttpAnswer:
        """Return the answer of the page or API for the path; 500 if that fails, with a log line."""
        for start, api in self._apis.items():
            if asked.path == start or (start.endswith("/") and asked.path.startswith(start)):
                try:
                    return await api(replace(asked, path=asked.path.removeprefix(start)))
                except Exception:  # noqa: BLE001  # a bug in one page must not end the others
                    _log.exception("page failed", path=asked.path, query=asked.query)
                    return error_answer(HTTPStatus.INTERNAL_SERVER_ERROR)
        return error_answer(HTTPStatus.NOT_FOUND)
