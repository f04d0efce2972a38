"""A server in this process, in memory, with the listeners that its settings name."""

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from groupkeeper.connections.connection_table import OpenConnection
from groupkeeper.server.http_port import HttpPort
from groupkeeper.server.server import Server, World
from groupkeeper.settings.listeners import Given, listeners_of
from groupkeeper.settings.options import MEMORY, Address, ServeOptions, format_address
from groupkeeper.settings.table import load
from groupkeeper.storage.compaction.compaction import compact
from groupkeeper.storage.files.memory import MemoryFiles
from groupkeeper.topics.topics import wall_ms

WAIT_S = 40.0
ANY_PORT = ("127.0.0.1", 0)

_Result = TypeVar("_Result")


class SecureServer:
    """On a loop of a thread, so that a test may use clients that block, and see whom the server
    takes them for.
    """

    def __init__(self, assignments: Sequence[str]) -> None:
        settings, unused = load(assignments=assignments)
        assert not unused
        listeners = listeners_of(settings, Given(None, None), ANY_PORT)
        self._options = ServeOptions(MEMORY, listeners, memory=True, settings=settings)
        self.http: Address
        self._seen: set[tuple[str, str]] = set()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._thread.start()
        assert self._ready.wait(WAIT_S)

    async def _run(self) -> None:
        files = MemoryFiles(wall_ms)
        self.server = Server(
            self._options, World(files=files, compact=lambda *given: compact(files, *given))
        )
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        await self.server.start()
        connections = self.server.listener.connections
        self._leave, connections.leave = connections.leave, self._left  # type: ignore[method-assign]
        http = HttpPort(self.server, self._options.hosts)
        self.http = await http.start(ANY_PORT, self._options.settings)
        self._ready.set()
        await self._stopped.wait()
        await http.close()
        await self.server.stop()

    def _left(self, connection: OpenConnection) -> None:
        """A connection is closed: who it was is kept, however short it was."""
        self._look()
        self._leave(connection)

    def _look(self) -> None:
        peers = (each.peer for each in self.server.listener.connections.opened)
        asked = (each for each in peers if each.client_id)
        self._seen |= {(each.listener, each.principal) for each in asked}

    def principals(self) -> set[tuple[str, str]]:
        """Listener and principal of each connection with a request since `forget`."""

        async def seen() -> set[tuple[str, str]]:
            self._look()
            return {*self._seen}

        return self.run(seen())

    def forget(self) -> None:
        """Forget the principals that were seen."""
        self._seen.clear()

    def run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Run a coroutine on the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(WAIT_S)

    def address(self, listener: str) -> str:
        return format_address(self.server.bound[listener])

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(WAIT_S)
