"""The Kafka port: accepts connections, and closes them all at the end."""

import asyncio
from typing import Final

from groupkeeper.connections.call import ConnectionServices
from groupkeeper.connections.connection import Connection
from groupkeeper.settings.options import Address

BACKLOG: Final = 4096
"""Connections that may wait to be accepted: a fleet that restarts connects all at once."""

ACCEPTS: Final = 16
"""Connections accepted in one iteration of the loop. asyncio uses one number for this and for the
backlog, which is therefore set again."""


class Listener:
    """The listening sockets of one address and their connections."""

    def __init__(self, services: ConnectionServices) -> None:
        self._services = services
        self.connections = services.connections
        self._server: asyncio.Server | None = None

    async def start(self, address: Address) -> Address:
        """Listen; returns the bound address. Raises OSError."""
        loop = asyncio.get_running_loop()
        host, port = address
        self._server = await loop.create_server(self._accept, host, port, backlog=ACCEPTS)
        for listening in self._server.sockets:
            with listening.dup() as same:
                same.listen(BACKLOG)
        self.connections.watch(self._services.turns)
        bound = self._server.sockets[0].getsockname()
        return bound[0], bound[1]

    def _accept(self) -> asyncio.BaseProtocol:
        return Connection(self._services)

    def stop(self) -> None:
        """Accept no more connections."""
        if self._server is not None:
            self._server.close()
        self.connections.stop()

    def close(self) -> None:
        """Close all connections after sending the answers made so far."""
        self.connections.close()
