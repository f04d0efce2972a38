"""The Kafka port: accepts connections, and hangs up on all at the end."""

import asyncio
from typing import Final

from groupkeeper.connections.call import ConnectionServices
from groupkeeper.connections.connection import Connection
from groupkeeper.settings.options import Address

BACKLOG: Final = 4096
"""Connections that wait in the kernel to be accepted: a fleet that restarts arrives all at once."""

ACCEPTS: Final = 16
"""Connections accepted before others get their turn; asyncio takes one number for both."""


class Listener:
    """The listening sockets of one address and their connections."""

    def __init__(self, services: ConnectionServices) -> None:
        self._services = services
        self._server: asyncio.Server | None = None

    async def start(self, address: Address) -> Address:
        """Listen; returns the address really bound. Raises OSError."""
        loop = asyncio.get_running_loop()
        host, port = address
        self._server = await loop.create_server(self._accept, host, port, backlog=ACCEPTS)
        for listening in self._server.sockets:
            with listening.dup() as same:
                same.listen(BACKLOG)
        self._services.connections.watch(self._services.turns)
        bound = self._server.sockets[0].getsockname()
        return bound[0], bound[1]

    def _accept(self) -> asyncio.BaseProtocol:
        return Connection(self._services)

    def stop(self) -> None:
        """Accept nobody any more."""
        if self._server is not None:
            self._server.close()
        self._services.connections.stop()

    def close(self) -> None:
        """Hang up on everybody, after what is answered is sent."""
        self._services.connections.close()
