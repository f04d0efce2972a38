"""The connections of the HTTP port, and what they share: places, limits, and who answers a path.

Imported in a thread when the first client connects: see `http_server`.
"""

import asyncio
from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from http import HTTPStatus

from groupkeeper.observe.http_connection import Connection
from groupkeeper.observe.http_exchange import Apis, HttpAnswer, HttpRequest, Page, error_answer
from groupkeeper.observe.http_host import strange
from groupkeeper.observe.http_limits import ANSWERS, CONNECTIONS, HEALTH, UNCHECKED
from groupkeeper.observe.logs import Logger
from groupkeeper.observe.seldom import Seldom
from groupkeeper.turns import Turns

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
        self._connections: dict[Connection, asyncio.Task[None]] = {}

    async def close(self) -> None:
        """Close all connections."""
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
        connection = Connection(self, reader, writer, since)
        self._connections[connection] = task
        try:
            await connection.run()
        finally:
            self._connections.pop(connection, None)

    # -- places ----------------------------------------------------------------------------------

    def _make_room(self) -> None:
        """For one more: close the one that is idle for longest, if there are too many. ANSWERS
        leaves some idle.
        """
        idle = [(since, each) for each in self._connections if (since := each.idle_since())]
        if len(self._connections) < CONNECTIONS or not idle:
            return
        if times := self._reached("CONNECTIONS"):
            limit = {"limit": "CONNECTIONS", "most": CONNECTIONS, "times": times}
            _log.info("connection closed to make room", **limit)
        _, oldest = min(idle, key=lambda pair: pair[0])
        self._connections.pop(oldest).cancel()

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
