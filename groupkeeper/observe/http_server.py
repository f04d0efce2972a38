"""The HTTP port: bound before the ready line, served from the first connection on.

What serves it is imported by a thread when somebody connects: a start does not wait for it, and
requests that arrive meanwhile wait in the kernel's queue. `http_site` has the connections, and
`pages` makes the pages.
"""

import asyncio
import socket
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from groupkeeper.observe.http_exchange import Apis
from groupkeeper.observe.http_limits import BACKLOG, TIMEOUT_S
from groupkeeper.observe.logs import Logger
from groupkeeper.settings.options import Address
from groupkeeper.turns import Turns

if TYPE_CHECKING:
    from groupkeeper.observe.http_site import Site

IMPORT_REST_S: Final = 1.0
"""Pause after the library could not be imported, because files, threads or memory had run out."""

_log = Logger("http")


class HttpServer:
    """A listening port and its connections."""

    serving: asyncio.Task[None]
    """Done when the connections of the kernel's queue are accepted."""

    def __init__(
        self,
        apis: Apis,
        turns: Turns | None = None,
        *,
        names: Collection[str] | None = None,
        counts: Counter[tuple[str, ...]] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """`counts` counts what limits refuse, under `("limits_reached", <limit>)`. `names`: those
        of this server (`http_host.own_names`); None if the APIs check the Host header themselves.
        """
        self._apis = apis
        self._names = names
        self._counts = Counter() if counts is None else counts
        self._turns = turns or Turns()
        self._timeout_s = timeout_s
        self._sockets: list[socket.socket] = []
        self._site: Site | None = None

    async def start(self, address: Address) -> Address:
        """Listen on an address and return the one that was bound. Raises OSError.

        What serves connections is imported when the first client connects.
        """
        host, port = address
        try:
            for family, _, _, _, where in dict.fromkeys(await _resolved(host, port)):
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
        """The loop has ended without `close`, and its tasks with it: close the sockets. Any thread
        may call.
        """
        self._stop_listening()

    async def _serve(self) -> None:
        await self._connected()
        await self._import()
        from groupkeeper.observe.http_site import Site

        self._site = Site(self._apis, self._turns, self._timeout_s, self._counts, self._names)
        self._site.accept(self._sockets)

    async def _connected(self) -> None:
        """Return when a connection waits to be accepted."""
        loop = asyncio.get_running_loop()
        waits = asyncio.Event()
        for each in self._sockets:
            loop.add_reader(each, waits.set)
        try:
            await waits.wait()
        finally:
            for each in self._sockets:
                loop.remove_reader(each)

    async def _import(self) -> None:
        """Import what serves connections, again and again until that succeeds."""
        while True:
            try:
                await asyncio.to_thread(import_module, "groupkeeper.observe.http_site")
                return
            except Exception:  # noqa: BLE001  # of whatever: the Kafka port goes on
                _log.exception("HTTP port cannot be served yet", retry_s=IMPORT_REST_S)
            await asyncio.sleep(IMPORT_REST_S)

    def _stop_listening(self) -> None:
        for listening in self._sockets:
            listening.close()
        self._sockets.clear()


# Any: an address has parts of several types.
async def _resolved(host: str, port: int) -> list[tuple[Any, ...]]:
    """As getaddrinfo: on a thread for a name, but without one, and without codecs of international
    names, for an address.
    """
    how: dict[str, int] = {"type": socket.SOCK_STREAM, "flags": socket.AI_PASSIVE}
    with suppress(socket.gaierror, UnicodeEncodeError):
        numeric = {**how, "flags": socket.AI_PASSIVE | socket.AI_NUMERICHOST}
        return [*socket.getaddrinfo(host.encode("ascii"), port, **numeric)]
    return [*await asyncio.get_running_loop().getaddrinfo(host, port, **how)]
