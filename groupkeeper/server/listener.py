"""The Kafka port: accepts connections up to ``max.connections``, and hangs up on all at the end."""

import asyncio

from groupkeeper.server.connection import Connection, ConnectionServices
from groupkeeper.server.options import Address

BACKLOG = 4096
"""Connections that wait to be accepted: a fleet that restarts arrives all at once."""


class Listener:
    """One listening socket and its connections."""

    def __init__(self, services: ConnectionServices) -> None:
        self._services = services
        self._opened: set[Connection] = set()
        self._server: asyncio.Server | None = None

    async def start(self, address: Address) -> Address:
        """Listen; returns the address really bound. Raises OSError."""
        loop = asyncio.get_running_loop()
        host, port = address
        self._server = await loop.create_server(self._accept, host, port, backlog=BACKLOG)
        bound = self._server.sockets[0].getsockname()
        return bound[0], bound[1]

    def _accept(self) -> asyncio.BaseProtocol:
        return Connection(self._services, self._opened)

    def stop(self) -> None:
        """Accept nobody any more."""
        if self._server is not None:
            self._server.close()

    def close(self) -> None:
        """Hang up on everybody, after what is answered is sent."""
        for connection in list(self._opened):
            connection.close()
