"""All connections of the Kafka port: limits their number, and closes those that block others.

A connection is closed if it is idle for too long, if a request stays incomplete, or if its client
does not read an answer. While a budget is exhausted, connections that use it are closed earlier,
starting with those without progress for the longest time.

Source: Kafka's SocketServer.ConnectionQuotas and Selector.IdleExpiryManager.
"""

import asyncio
from collections import Counter
from enum import Enum
from threading import Thread
from typing import Final, Protocol

from groupkeeper.connections.budget import ConnectionLimits
from groupkeeper.connections.inbox import HELD_BYTES
from groupkeeper.coordinator.caller import Peer
from groupkeeper.observe.logs import Logger
from groupkeeper.observe.metrics import ConnectionStats
from groupkeeper.turns import Slices, Turns


class ConnectionState(Enum):
    """The state of one connection; values describe it."""

    READING = "no request is in progress, and less than a whole request is held"
    QUEUED = "requests are held, waiting for a turn or for room"
    SERVING = "requests are being answered in this call"
    WAITING = "a handler has taken a request, and answers later"
    WORKING = "a request is handled in slices, waiting for its next turn"
    BLOCKED = "the client does not read its answers"
    CLOSED = "nothing more is read, held or answered"

    __hash__ = object.__hash__  # Enum's own is too slow for every request


_BETWEEN_REQUESTS = frozenset(
    {
        ConnectionState.READING,
        ConnectionState.QUEUED,
        ConnectionState.BLOCKED,
        ConnectionState.CLOSED,
    }
)

TRANSITIONS: Final = {
    ConnectionState.READING: frozenset(
        {ConnectionState.SERVING, ConnectionState.QUEUED, ConnectionState.CLOSED}
    ),
    ConnectionState.QUEUED: frozenset({ConnectionState.SERVING, ConnectionState.CLOSED}),
    ConnectionState.SERVING: _BETWEEN_REQUESTS | {ConnectionState.WAITING, ConnectionState.WORKING},
    ConnectionState.WAITING: _BETWEEN_REQUESTS | {ConnectionState.WORKING},
    ConnectionState.WORKING: _BETWEEN_REQUESTS | {ConnectionState.WAITING},
    ConnectionState.BLOCKED: frozenset(
        {ConnectionState.READING, ConnectionState.QUEUED, ConnectionState.CLOSED}
    ),
    ConnectionState.CLOSED: frozenset({ConnectionState.CLOSED}),
}
"""The states that may follow each state. The hot path, to READING or WAITING, is not checked."""


REQUEST_S: Final = 30.0
"""How long a request may be incomplete; a second more for every `REQUEST_BYTES_PER_S` of it."""
REQUEST_BYTES_PER_S: Final = 64 * 1024
ANSWER_S: Final = 30.0
"""How long a client may read nothing of its answers."""
SHORT_OF_ROOM_S: Final = 5.0
"""How long a request may be incomplete while others wait for room."""
BEHIND_BYTES: Final = 16 * 1024
"""Maximum bytes held after a current request while others wait for room."""
STALLED_S: Final = 1.0
"""How long a client may read nothing while more answers are unsent than allowed."""

ORPHANS: Final = 1_000
"""Maximum connections without clients whose requests are still handled."""

LOOK_S: Final = 5.0
LOOK_SOON_S: Final = 1.0
"""Seconds between two checks of all connections; the shorter one while a budget is exhausted."""
LOOKS: Final = 500
"""Connections checked in one slice."""

WORTH_BYTES: Final = 8 * 1024 * 1024
"""Minimum decrease in used bytes after which free memory is returned."""

_log = Logger("connection")


class OpenConnection(Protocol):
    """The interface of a connection for the table."""

    state: ConnectionState
    since: float
    """Loop time of its last progress; see `ClientStream`."""
    peer: Peer

    @property
    def host(self) -> str: ...
    @property
    def unsent(self) -> int: ...
    @property
    def held(self) -> int: ...
    @property
    def awaited(self) -> int: ...
    @property
    def is_read(self) -> bool: ...
    @property
    def transport(self) -> asyncio.Transport | None: ...
    def takes_answers(self) -> bool: ...
    def abort(self) -> None: ...
    def close(self) -> None: ...


class ConnectionTable:
    """The open connections, oldest first, and those whose clients are gone (`orphans`)."""

    def __init__(
        self,
        limits: ConnectionLimits,
        stats: ConnectionStats,
        *,
        most: int,
        most_per_host: int,
        max_idle_s: float,
    ) -> None:
        self.limits = limits
        self.stats = stats
        self.most = most
        self._most_per_host = most_per_host
        self._max_idle_s = max_idle_s
        self.opened: dict[OpenConnection, None] = {}
        self.orphans: dict[OpenConnection, None] = {}
        self._by_host: Counter[str] = Counter()
        self._timer: asyncio.TimerHandle | None = None
        self._high_water = HighWater()

    def enter(self, connection: OpenConnection) -> bool:
        """Add a connection; False if a limit is reached."""
        host, limit = connection.host, ""
        if len(self.opened) >= self.most:
            limit = f"max.connections = {self.most}"
        elif self._by_host[host] >= self._most_per_host:
            limit = f"max.connections.per.ip = {self._most_per_host}"
        if limit:
            self.stats.refused += 1
            _log.warning("too many connections", client=host, limit=limit)
            return False
        self.opened[connection] = None
        self._by_host[host] += 1
        self.stats.accepted += 1
        self.stats.open += 1
        return True

    def leave(self, connection: OpenConnection) -> None:
        """Remove a connection whose client is gone."""
        if self.opened.pop(connection, connection) is None:
            self.stats.open -= 1
            self._by_host[connection.host] -= 1
            if not self._by_host[connection.host]:
                del self._by_host[connection.host]

    def keep(self, orphan: OpenConnection) -> None:
        """Keep one without a client until its requests are handled; of too many drop the oldest."""
        if len(self.orphans) >= ORPHANS:
            oldest = next(iter(self.orphans))
            _log.warning("requests of a disconnected client dropped", client=oldest.host)
            oldest.abort()
        self.orphans[orphan] = None

    def close(self, listener: str | None = None) -> None:
        """Close all connections, or a listener's, after sending the finished answers."""
        for connection in [*self.opened, *self.orphans]:
            if listener in (None, connection.peer.listener):
                connection.close()

    # -- closing connections ------------------------------------------------------------------

    def watch(self, turns: Turns) -> None:
        """Check all connections from time to time, until `stop`."""
        loop = asyncio.get_running_loop()
        pause = LOOK_SOON_S if self._is_short() else LOOK_S
        self._timer = loop.call_later(pause, self._look, turns, loop.time() + pause)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self, turns: Turns, due: float) -> None:
        now = asyncio.get_running_loop().time()
        if now - due > LOOK_SOON_S:  # the process was suspended: clients are not to blame
            for connection in self.opened:
                connection.since += now - due
        self._looking = asyncio.ensure_future(turns.run(self.look(now)))
        if self._high_water.is_past(self.limits.requests.used + self.limits.unsent.used):
            give_back()
        self.watch(turns)

    def _is_short(self) -> bool:
        return self.limits.requests.awaited or self.limits.unsent.used > self.limits.unsent.limit

    def look(self, now: float) -> Slices[None]:
        """Check all connections, and close some."""
        for count, connection in enumerate([*self.opened]):
            self._look_at(connection, now)
            if not count % LOOKS:
                yield
        if self._is_short():
            self._make_room(now)

    def _look_at(self, connection: OpenConnection, now: float) -> None:
        if connection.state is ConnectionState.CLOSED:  # last answers are not read
            if now - connection.since > ANSWER_S:
                connection.abort()
        elif connection.unsent:
            if connection.takes_answers():
                connection.since = now
            elif now - connection.since > ANSWER_S:
                self._hang_up(connection, "answer not read", f"{ANSWER_S:.0f} s")
        elif connection.state is not ConnectionState.READING:
            return
        elif connection.held:
            most = REQUEST_S + connection.awaited / REQUEST_BYTES_PER_S
            if connection.is_read and now - connection.since > most:
                self._hang_up(connection, "request incomplete", f"{most:.0f} s")
        elif now - connection.since > self._max_idle_s:
            self.stats.idle += 1
            connection.close()

    def _make_room(self, now: float) -> None:
        """Close connections without progress, longest first, until no budget is exhausted."""
        limits = self.limits
        holding = [each for each in self.opened if each.unsent or _keeps_room(each)]
        for connection in sorted(holding, key=lambda each: each.since):
            waited = now - connection.since
            if not self._is_short():
                return
            if limits.unsent.used > limits.unsent.limit:
                if connection.unsent and waited > STALLED_S:
                    limit = f"{limits.unsent.limit} bytes of unread answers of all clients"
                    self._hang_up(connection, "answer not read", limit)
            elif _keeps_room(connection) and waited > SHORT_OF_ROOM_S:
                limit = f"queued.max.request.bytes = {limits.requests.limit}"
                self._hang_up(connection, "request incomplete", limit)

    def _hang_up(self, connection: OpenConnection, why: str, limit: str) -> None:
        self.stats.stuck += 1
        _log.warning("connection closed", client=connection.host, reason=why, limit=limit)
        connection.abort()


def _keeps_room(connection: OpenConnection) -> bool:
    """Return whether it holds much: a long incomplete request, or more after a waiting one."""
    if connection.state is ConnectionState.WAITING:
        return connection.held > BEHIND_BYTES
    return (
        connection.state is ConnectionState.READING
        and connection.is_read
        and connection.awaited > HELD_BYTES
    )


def give_back() -> None:
    """Return free memory to the system, on a thread, if the C library has `malloc_trim`.

    glibc keeps free memory between blocks in use: after thousands of incomplete requests some
    hundred megabytes. Returning it takes some milliseconds.
    """
    Thread(target=_trim, name="memory", daemon=True).start()


def _trim() -> None:
    import ctypes  # with the first peak

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class HighWater:
    """The maximum in use since memory was last returned."""

    def __init__(self) -> None:
        self._most = 0

    def is_past(self, used: int) -> bool:
        """Return whether much less is in use than before; true once for each peak."""
        self._most = max(self._most, used)
        if self._most - used < WORTH_BYTES or used > self._most // 2:
            return False
        self._most = used
        return True
