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
        self._servers: dict[str, asyncio.Server] = {}
        """By the name of the listener."""

    async def start(self, address: Address, name: str = PLAINTEXT) -> Address:
        """Listen under the name of a listener; return the bound address. Raises OSError."""
        loop = asyncio.get_running_loop()
        host, port = address
        accept = partial(Connection, self._services, name)
        server = await loop.create_server(accept, host, port, backlog=ACCEPTS)
        if not self._servers:
            self.connections.watch(self._services.turns)
        self._servers[name] = server
        for listening in server.sockets:
            with listening.dup() as same:
                same.listen(BACKLOG)
        bound = server.sockets[0].getsockname()
        return bound[0], bound[1]

    @property
    def descriptors(self) -> list[int]:
        """File descriptors of all sockets, listening and connected."""
        sockets = [each for server in self._servers.values() for each in server.sockets]
        sockets += [
            each.transport.get_extra_info("socket")
            for each in (*self.connections.opened, *self.connections.orphans)
            if each.transport is not None
        ]
        return [each.fileno() for each in sockets if each.fileno() >= 0]

    def pause(self, name: str | None = None) -> None:
        """Stop accepting, for all listeners or one, before `stop` or `leave`.

        A socket that is being accepted becomes a connection two iterations of the loop later;
        asyncio leaves it open if the server is closed meanwhile.
        """
        loop = asyncio.get_running_loop()
        for each, server in self._servers.items():
            for listening in server.sockets if name in (None, each) else ():
                loop.remove_reader(listening.fileno())

    def stop(self) -> None:
        """Accept no more connections."""
        for server in self._servers.values():
            server.close()
        self.connections.stop()

    def leave(self, name: str) -> None:
        """Stop listening under a name, and close its connections after sending finished answers."""
        self._servers.pop(name).close()
        self.connections.close(name)

    def close(self) -> None:
        """Close all connections after sending the finished answers."""
        self.connections.close()
