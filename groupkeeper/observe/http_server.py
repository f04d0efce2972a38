"""The HTTP port: bound before the ready line, served from the first connection on.

The server code is imported by a thread when the first client connects: a start does not wait for
it, and data that clients send meanwhile waits. `http_site` has the connections, `pages` the pages.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection
from importlib import import_module
from typing import TYPE_CHECKING, Final

from groupkeeper.observe.http_exchange import ACCEPTS, BACKLOG, HEADER_BYTES, TIMEOUT_S, Apis, Gate
from groupkeeper.observe.logs import Logger
from groupkeeper.settings.options import Address
from groupkeeper.turns import Turns

if TYPE_CHECKING:
    from groupkeeper.observe.http_site import Site

Wrap = Callable[[asyncio.Protocol], asyncio.BaseProtocol]
"""Makes the protocol of a socket of that of a connection."""

IMPORT_REST_S: Final = 1.0
"""Pause after a failed import, because files, threads or memory had run out."""

_log = Logger("http")


class HttpServer:
    """A listening port and its connections, until `close`, or until the tasks of its loop end."""

    serving: "asyncio.Future[Site]"
    """Done when the code that serves connections is imported."""

    def __init__(
        self,
        apis: Apis,
        turns: Turns | None = None,
        *,
        names: Collection[str] | None = None,
        counts: Counter[tuple[str, ...]] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """`counts` counts requests refused by limits, under `("limits_reached", <limit>)`. `names`:
        the server's names (`http_host.own_names`); None if the APIs check the Host header
        themselves.
        """
        self._apis = apis
        self._names = names
        self._counts = Counter() if counts is None else counts
        self._turns = turns or Turns()
        self._timeout_s = timeout_s
        self._came = asyncio.Event()
        self._gate: Gate | None = None

    async def start(
        self, address: Address, wrap: Wrap | None = None, gate: Gate | None = None
    ) -> Address:
        """Listen on an address and return the bound one. Raises OSError. `wrap` adds TLS; `gate`
        refuses requests.

        The code that serves connections is imported when the first client connects.
        """
        self._gate = gate
        host, port = address
        loop = asyncio.get_running_loop()

        def accept() -> asyncio.BaseProtocol:  # as asyncio.start_server
            reader = asyncio.StreamReader(HEADER_BYTES, loop)
            protocol = asyncio.StreamReaderProtocol(reader, self._met, loop)
            return protocol if wrap is None else wrap(protocol)

        server = await loop.create_server(accept, host, port, backlog=ACCEPTS)
        for listening in server.sockets:
            with listening.dup() as same:
                same.listen(BACKLOG)
        self.serving = asyncio.get_running_loop().create_future()
        self._server = server
        self._life = asyncio.create_task(self._live(server))
        bound = server.sockets[0].getsockname()
        return bound[0], bound[1]

    async def close(self) -> None:
        """Stop listening and end every connection."""
        self._life.cancel()
        await asyncio.gather(self._life, return_exceptions=True)
        self._server.close()  # if the task had not begun

    async def _live(self, server: asyncio.Server) -> None:
        try:
            await self._came.wait()
            await self._import()
            from groupkeeper.observe.http_site import Admission, Site

            admission = Admission(self._names, self._gate)
            site = Site(self._apis, self._turns, self._timeout_s, self._counts, admission)
            self.serving.set_result(site)
            try:
                await asyncio.Event().wait()  # until this is cancelled
            finally:
                await site.close()
        finally:
            self.serving.cancel()
            server.close()

    async def _met(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        since = asyncio.get_running_loop().time()
        self._came.set()
        try:
            site = await asyncio.shield(self.serving)
            await site.serve(reader, writer, since)
        except asyncio.CancelledError:  # asyncio before 3.12 fails when this is raised
            writer.transport.abort()

    async def _import(self) -> None:
        """Import the code that serves connections, and retry until that succeeds."""
        while True:
            try:
                await asyncio.to_thread(import_module, "groupkeeper.observe.http_site")
                return
            except Exception:  # noqa: BLE001  # the Kafka port must keep running
                _log.exception("HTTP port cannot be served yet", retry_s=IMPORT_REST_S)
            await asyncio.sleep(IMPORT_REST_S)
