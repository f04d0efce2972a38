"""The Kafka port: accepts connections, and closes them all at the end."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from groupkeeper.connections.call import ConnectionServices
from groupkeeper.connections.connection import Connection
from groupkeeper.settings.options import PLAINTEXT, Address

if TYPE_CHECKING:
    from groupkeeper.access.tls import ListenerTls
    from groupkeeper.connections.handshakes import Handshakes

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
        self._handshakes: Handshakes | None = None

    async def start(
        self, address: Address, name: str = PLAINTEXT, tls: "ListenerTls | None" = None
    ) -> Address:
        """Listen under the name of a listener; return the bound address. Raises OSError."""
        loop = asyncio.get_running_loop()
        host, port = address
        accept: Callable[[], asyncio.BaseProtocol] = partial(
            self._class_of(name), self._services, name
        )
        if tls is not None:
            accept = self._with_tls(name, tls)
        server = await loop.create_server(accept, host, port, backlog=ACCEPTS)
        if not self._servers:
            self.connections.watch(self._services.turns)
        self._servers[name] = server
        for listening in server.sockets:
            with listening.dup() as same:
                same.listen(BACKLOG)
        bound = server.sockets[0].getsockname()
        return bound[0], bound[1]

    def _class_of(self, name: str) -> type[Connection]:
        if name not in self._services.logins:
            return Connection
        from groupkeeper.connections.sasl_connection import SaslConnection

        return SaslConnection

    def _with_tls(self, name: str, tls: "ListenerTls") -> Callable[[], asyncio.BaseProtocol]:
        """Return what makes the protocol of an accepted socket. Imports ssl."""
        from groupkeeper.connections.handshakes import Handshakes
        from groupkeeper.connections.tls_stream import TlsStream

        if self._handshakes is None:
            self._handshakes = Handshakes(self.connections.stats)
        handshakes, kind = self._handshakes, self._class_of(name)

        def accept() -> TlsStream:
            connection = kind(self._services, name)
            return TlsStream(connection, tls, handshakes, connection.logged_in)

        return accept

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
