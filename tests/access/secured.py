"""A server with listeners with SASL, in a thread of its own, and connections to it.

with Secured(folder) as server:
talk = Talk(SocketLine(server.ports[SASL]))
"""

import asyncio
import threading
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Self

from groupkeeper.access.users import SCRAM_TYPES, credential, salted_password, user_key
from groupkeeper.server.server import Server, World
from groupkeeper.settings.options import Listen, SecurityProtocol, ServeOptions
from groupkeeper.settings.table import load
from groupkeeper.storage.files.memory import MemoryFiles
from groupkeeper.topics.topics import wall_ms
from tests.access import tokens
from tests.access.conversations import (
    ITERATIONS,
    PLAIN_USERS,
    SALT,
    SASL,
    SCRAM_PASSWORD,
    SCRAM_USER,
    SESSIONS,
)
from tests.access.record import settings

ANY_PORT = ("127.0.0.1", 0)
PLAINTEXT = "PLAINTEXT"
FAST = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "connection.failed.authentication.delay.ms": "20",
}


class Secured:
    """The server; `more` are settings that differ, and None leaves one out. `users` have stored
    credentials.
    """

    def __init__(
        self,
        folder: Path,
        more: Mapping[str, str | None] | None = None,
        users: Collection[str] = (SCRAM_USER, *PLAIN_USERS),
    ) -> None:
        self._users = users
        jwks = folder / "jwks.json"
        tokens.write_keys(jwks)
        wanted: dict[str, str | None] = {**settings({}, jwks), **FAST, **(more or {})}
        not_ours = ("listeners", "advertised.listeners", "listener.security.protocol.map")
        assignments = [
            f"{key}={value}" for key, value in wanted.items() if value and key not in not_ours
        ]
        given, _ = load(assignments=assignments)
        listeners = (
            Listen(PLAINTEXT, ANY_PORT),
            Listen(SASL, ANY_PORT, protocol=SecurityProtocol.SASL_PLAINTEXT),
            Listen(SESSIONS, ANY_PORT, protocol=SecurityProtocol.SASL_PLAINTEXT),
        )
        self._options = ServeOptions(folder / "data", listeners, http=None, settings=given)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.ports: dict[str, int] = {}

    def run(self, work: Any) -> Any:
        """Run a coroutine on the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def __enter__(self) -> Self:
        self._thread.start()
        self.server: Server = self.run(self._start())
        self.ports = {name: port for name, (_, port) in self.server.bound.items()}
        return self

    async def _start(self) -> Server:
        server = Server(self._options, World(files=MemoryFiles(wall_ms)))
        await server.start()
        entries = [
            (user_key(name, mechanism), stored(mechanism, password))
            for name, password in {SCRAM_USER: SCRAM_PASSWORD, **PLAIN_USERS}.items()
            for mechanism in SCRAM_TYPES.values()
            if name in self._users
        ]
        await server.topics.catalog.change_access(entries, wall_ms())
        return server

    def __exit__(self, *_: object) -> None:
        self.run(self.server.stop())
        self.run(_cancel_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(20)
        self._loop.close()

    def outcomes(self, listener: str = SASL) -> dict[tuple[str, str], int]:
        """Logins by mechanism and outcome."""
        counts = self.server.metrics.authentications
        return {key[1:]: n for key, n in counts.items() if key[0] == listener and n}  # type: ignore[misc]


async def _cancel_all() -> None:
    """End the tasks that are left, as `asyncio.Runner` does."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for each in others:
        each.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def stored(mechanism: str, password: str) -> dict[str, object]:
    salted = salted_password(mechanism, password, SALT, ITERATIONS)
    return credential(mechanism, salted, SALT, ITERATIONS).entry
