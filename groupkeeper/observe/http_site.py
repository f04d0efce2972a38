"""The connections of the HTTP port, and what they share: places, limits, and who answers a path.

Imported in a thread when the first client connects: see `http_server`.
"""

import asyncio
import errno
import socket
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Final

from groupkeeper.observe.http_connection import Connection
from groupkeeper.observe.http_exchange import Apis, HttpAnswer, HttpRequest, Page, error_answer
from groupkeeper.observe.http_host import strange
from groupkeeper.observe.http_limits import ANSWERS, CONNECTIONS, HEALTH, UNCHECKED
from groupkeeper.observe.logs import Logger
from groupkeeper.observe.seldom import Seldom
from groupkeeper.turns import Turns

ACCEPTS: Final = 4
"""Connections accepted in one iteration of the loop."""
ACCEPT_REST_S: Final = 1.0
"""Pause after a connection could not be accepted, because files or memory had run out."""

_OUT_OF = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

_log = Logger("http")


class Site:
    """All connections of one port."""

    def __init__(
        self,
        apis: Apis,
        turns: Turns,
        timeout_s: float,
        counts: Counter[tuple[str, ...]],
        names: Collection[str] | None = None,
    ) -> None:
        self._apis = apis
        self.turns = turns
        self.timeout_s = timeout_s
        self._counts = counts
        self._names = names
        self._seldom = Seldom()
        self._loop = asyncio.get_running_loop()
        self._connections: dict[Connection, None] = {}
        self._listening: Sequence[socket.socket] = ()

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
        tasks = [each.task for each in self._connections]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- places ----------------------------------------------------------------------------------

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTS):
            if not self._has_room():
                return
            try:
                accepted, address = listening.accept()
            except OSError as error:  # none is waiting, or the client has gone
                if error.errno in _OUT_OF:
                    self._rest(listening, error)
                return
            accepted.setblocking(False)
            self._connections[Connection(self, accepted, str(address[0]))] = None

    def _has_room(self) -> bool:
        """Whether one more can be accepted; if necessary, close the one that is idle for longest.

        ANSWERS leaves some connections idle, so False holds only for a moment.
        """
        if len(self._connections) < CONNECTIONS:
            return True
        idle = [(since, each) for each in self._connections if (since := each.idle_since())]
        if idle:
            limit = {"limit": "CONNECTIONS", "most": CONNECTIONS}
            if times := self._reached("CONNECTIONS"):
                _log.info("connection closed to make room", **limit, times=times)
            _, oldest = min(idle, key=lambda pair: pair[0])
            oldest.task.cancel()
            self.closed(oldest)
        return bool(idle)

    def _rest(self, listening: socket.socket, error: OSError) -> None:
        _log.error("cannot accept", error=str(error), retry_s=ACCEPT_REST_S)
        self._loop.remove_reader(listening)
        self._loop.call_later(ACCEPT_REST_S, self._resume, listening)

    def _resume(self, listening: socket.socket) -> None:
        if listening in self._listening:
            self._loop.add_reader(listening, self._accept, listening)

    def closed(self, connection: Connection) -> None:
        """It is closed, or about to be."""
        self._connections.pop(connection, None)

    def _reached(self, limit: str) -> int:
        """Count that a limit was reached; how often since the last line, 0 if no line is due."""
        self._counts["limits_reached", limit] += 1
        return self._seldom.due(limit)

    # -- for connections -------------------------------------------------------------------------

    def not_taken(self) -> None:
        """An answer was not read in time."""
        self._counts["limits_reached", "TIMEOUT_S"] += 1
        _log.info("answer not taken in time", limit="TIMEOUT_S", seconds=self.timeout_s)

    def has_place(self, asked: HttpRequest) -> bool:
        """Whether a request may be answered now; one that may not be is counted and told."""
        busy = sum(each.waiting_since is None for each in self._connections)
        if busy < ANSWERS or asked.path in HEALTH:
            return True
        if times := self._reached("ANSWERS"):
            where = {"path": asked.path, "client": asked.remote, "times": times}
            _log.warning("page refused", limit="ANSWERS", most=ANSWERS, **where)
        return False

    def stranger(self, asked: HttpRequest) -> str | None:
        """Why the request is not answered, in a line; None if it is. It may be from a page of
        another site.
        """
        if self._names is None or asked.path in UNCHECKED:
            return None
        line = strange(asked.headers, self._names)
        if line is not None and (times := self._seldom.due(("host", asked.remote))):
            where = {"path": asked.path, "client": asked.remote}
            _log.warning("page refused", **where, reason=line, times=times)
        return line

    async def answer(self, asked: HttpRequest) -> HttpAnswer:
        """Of the page or API that has the path; 500 if that fails, which is one line."""
        for start, api in self._apis.items():
            if asked.path == start or (start.endswith("/") and asked.path.startswith(start)):
                try:
                    return await api(replace(asked, path=asked.path.removeprefix(start)))
                except Exception:  # noqa: BLE001  # a bug of one page must not end the others
                    _log.exception("page failed", path=asked.path, query=asked.query)
                    return error_answer(HTTPStatus.INTERNAL_SERVER_ERROR)
        return error_answer(HTTPStatus.NOT_FOUND)
