"""The HTTP port: bound before the ready line, served by Tornado a moment later.

Importing an HTTP library takes longer than everything else that a client waits for. So the port
listens first, a thread imports, and what arrives meanwhile waits in the kernel's queue. Here are
the port, its limits and its life; what a client gets is in ``web`` (the only module that knows
Tornado), and what the pages say in ``pages``.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final

from groupkeeper.observe.logs import Logger
from groupkeeper.settings.options import Address
from groupkeeper.turns import Turns

if TYPE_CHECKING:
    from groupkeeper.observe.http_site import Site

Page = tuple[int, str, bytes]
"""Status, content type, body."""

Pages = Mapping[str, Callable[[], Page | Awaitable[Page]]]
"""Path -> what makes the page. What takes more than a millisecond is a coroutine that works in
slices; its page is kept for :data:`KEPT_S`."""

HEADER_BYTES: Final = 8 * 1024
"""Request line and headers. As many tiny headers as fit are parsed in 3 ms."""
BODY_BYTES: Final = 64 * 1024
"""Of a request. No page has a use for it yet."""
CONNECTIONS: Final = 64
"""Open at a time. One more takes the place of the one that has been idle longest."""
ANSWERS: Final = 56
"""Of the connections, how many may be busy with an answer. The others can always make room for a
new one, and are for :data:`HEALTH`."""
HEALTH: Final = frozenset({"/healthz", "/readyz"})
"""Paths that are answered even while :data:`ANSWERS` are under way."""
TIMEOUT_S: Final = 10.0
"""For a whole request to arrive, idle time before it included; and for an answer to be taken."""
KEPT_S: Final = 1.0
"""So long a page that was made in slices is good for whoever asks next."""
BACKLOG: Final = 128
"""Connections that wait in the kernel to be accepted."""

_log = Logger("http")


class HttpServer:
    """A listening port and its connections."""

    serving: asyncio.Task[None]
    """Done when what waited in the kernel's queue is accepted."""

    def __init__(
        self, pages: Pages, turns: Turns | None = None, *, timeout_s: float = TIMEOUT_S
    ) -> None:
        self._pages = pages
        self._turns = turns or Turns()
        self._timeout_s = timeout_s
        self._sockets: list[socket.socket] = []
        self._site: Site | None = None

    async def start(self, address: Address) -> Address:
        """Listen; returns the address really bound. Raises OSError.

        The library is imported as soon as the caller lets the loop go on.
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

    async def _serve(self) -> None:
        try:
            await asyncio.to_thread(import_module, "groupkeeper.observe.http_site")
            from groupkeeper.observe.http_site import Site

            self._site = Site(self._pages, self._turns, self._timeout_s)
            self._site.accept(self._sockets)
        except Exception:  # noqa: BLE001  # Kafka's port goes on; probes see that nobody listens
            _log.exception("the HTTP port is closed: it cannot be served")
            self._stop_listening()

    def _stop_listening(self) -> None:
        for listening in self._sockets:
            listening.close()
        self._sockets.clear()
