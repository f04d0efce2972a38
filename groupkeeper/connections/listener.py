"""The Kafka port: accepts connections, and closes them all at the end."""

import asyncio
from functools import partial
from typing import Final

from groupkeeper.connections.call import ConnectionServices
from groupkeeper.connections.connection import Connection
from groupkeeper.settings.options import PLAINTEXT, Address

BACKLOG: Final = 4096
"""Connections that may wait to be accepted: a fleet that restarts connects all at once."""

ACCEPTS: Final = 16
"""Connections accepted in one iteration of the loop. asyncio uses one number for this and for the
backlog, which is therefore set again."""


class Listener:
    """The listening sockets of all listeners, and their connections."""

    def __init__(self, services: ConnectionServices) -> None:
        self._services = services
        self.connections = services.connections
        self._servers: list[asyncio.Server] = []

    async def start(self, address: Address, name: str = PLAINTEXT) -> Address:
        """Listen, under this name of a listener; returns the bound address. Raises OSError."""
        loop = asyncio.get_running_loop()
        host, port = address
        accept = partial(Connection, self._services, name)
        server = await loop.create_server(accept, host, port, backlog=ACCEPTS)
        self._servers.append(server)
        for listening in server.sockets:
            with listening.dup() as same:
                same.listen(BACKLOG)
        self.connections.watch(self._services.turns)
        bound = server.sockets[0].getsockname()
        return bound[0], bound[1]

    def pause(self) -> None:
        """Accept nothing more, before `stop`. What is being accepted is a connection two iterations
        of the loop later; asyncio leaves its socket open if the server is closed meanwhile.
        """
        loop = asyncio.get_running_loop()
        for server in self._servers:
            for listening in server.sockets:
                loop.remove_reader(listening.fileno())

    def stop(self) -> None:
        """Accept no more connections."""
        for server in self._servers:
            server.close()
        self.connections.stop()

    def close(self) -> None:
        """Close all connections after sending the answers made so far."""
        self.connections.close()
