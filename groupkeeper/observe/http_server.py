"""The HTTP port: bound before the ready line, served by Tornado a moment later.

Importing Tornado takes longer than everything else that a client waits for at a start. So the port
listens first, a thread imports the library, and requests that arrive meanwhile wait in the kernel's
queue. `http_site` serves them, and `pages` makes the pages.
"""

import asyncio
import socket
from collections import Counter
from collections.abc import Collection
from importlib import import_module
from typing import TYPE_CHECKING

from groupkeeper.observe.http_exchange import Apis
from groupkeeper.observe.http_limits import BACKLOG, TIMEOUT_S, Pages
from groupkeeper.observe.logs import Logger
from groupkeeper.settings.options import Address
from groupkeeper.turns import Turns

if TYPE_CHECKING:
    from groupkeeper.observe.http_site import Site

_log = Logger("http")


class HttpServer:
    """A listening port and its connections."""

    serving: asyncio.Task[None]
    """Done when the connections of the kernel's queue are accepted."""

    def __init__(
        self,
        pages: Pages,
        turns: Turns | None = None,
        *,
        apis: Apis | None = None,
        names: Collection[str] | None = None,
        counts: Counter[tuple[str, ...]] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """`counts` counts what limits refuse, under `("limits_reached", <limit>)`. `names`: those
        of this server (`http_host.own_names`); None if the APIs check the Host header themselves.
        """
        self._pages = pages
        self._apis = apis or {}
        self._names = names
        self._counts = Counter() if counts is None else counts
        self._turns = turns or Turns()
        self._timeout_s = timeout_s
        self._sockets: list[socket.socket] = []
        self._site: Site | None = None

    async def start(self, address: Address) -> Address:
        """Listen on an address and return the one that was bound. Raises OSError.

        The import of Tornado begins when the caller returns to the event loop.
        """
        host, port = address
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, _, _, _, where in dict.fromkeys(found):
                listening = socket.create_server(where, family=family, backlog=BACKLOG)
                listening.setblocking(False)
                self._sockets.append(listening)
        except OSError:
            self._stop_listening()
            raise
        self.serving = asyncio.create_task(self._serve())
        bound = self._sockets[0].getsockname()
        return bound[0], bound[1]

    async def close(self) -> None:
        """Stop listening and end every connection."""
        self.serving.cancel()
        await asyncio.gather(self.serving, return_exceptions=True)
        if self._site is not None:
            await self._site.close()
        self._stop_listening()

    def abandon(self) -> None:
        """The loop has ended without `close`: close what was open on it. Any thread may call."""
        self._stop_listening()
        if self._site is not None:
            self._site.abandon()

    async def _serve(self) -> None:
        try:
            await asyncio.to_thread(import_module, "groupkeeper.observe.http_site")
            from groupkeeper.observe.http_site import Site

            self._site = Site(
                self._pages, self._apis, self._turns, self._timeout_s, self._counts, self._names
            )
            self._site.accept(self._sockets)
        except Exception:  # noqa: BLE001  # the Kafka port goes on; probes fail
            _log.exception("HTTP port closed: it cannot be served")
            self._stop_listening()

    def _stop_listening(self) -> None:
        for listening in self._sockets:
            listening.close()
        self._sockets.clear()
