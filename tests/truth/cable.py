"""A TCP proxy in front of a server, which can stop forwarding: a cable that is pulled.

Nobody is told: connections stay open on both sides, and what is sent disappears.
"""

import socket
import threading
from contextlib import suppress

from tests.support.wire import Address

_READ_BYTES = 1 << 16


class Cable:
    """Listens at `address` from the start on; forwards once `to` is called."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: Address = self._listener.getsockname()
        self.host = "127.0.0.1"
        """Where clients come from, for the server, that connect from now on."""
        self._is_cut = threading.Event()
        self._ends: list[socket.socket] = [self._listener]

    def to(self, server: Address) -> None:
        """Forward to a server."""
        threading.Thread(target=self._accept, args=(server,), daemon=True).start()

    def cut(self) -> None:
        """Forward nothing any more, in either direction."""
        self._is_cut.set()

    def mend(self) -> None:
        """Forward again. What was sent meanwhile is lost."""
        self._is_cut.clear()

    def close(self) -> None:
        """Close all sockets."""
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self, server: Address) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(server, source_address=(self.host, 0))
                self._ends += [near, far]
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=self._forward, args=ends, daemon=True).start()

    def _forward(self, here: socket.socket, there: socket.socket) -> None:
        with suppress(OSError):
            while data := here.recv(_READ_BYTES):
                if not self._is_cut.is_set():
                    there.sendall(data)
            if not self._is_cut.is_set():
                there.shutdown(socket.SHUT_WR)
