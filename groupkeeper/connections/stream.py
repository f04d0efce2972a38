"""One accepted socket as a stream of bytes: inbox, outbox, and the state of the connection.

Independent of requests: flow control, states and closing can be read without knowing one. The
subclass `Connection` answers requests; it is called with bytes to serve, or to continue work in
slices.
"""

import asyncio
import socket
from abc import abstractmethod
from typing import Final

from groupkeeper.connections.call import ConnectionServices, check_size
from groupkeeper.connections.connection_table import TRANSITIONS, ConnectionState
from groupkeeper.connections.inbox import HELD_BYTES, Inbox
from groupkeeper.connections.outbox import Outbox
from groupkeeper.coordinator.caller import Peer
from groupkeeper.observe.logs import Logger
from groupkeeper.turns import TURN_S

_log = Logger("connection")

BUFFERED_BYTES: Final = 16 * 1024
"""Unread bytes of answers from which on no further request of the client is handled."""

READING, QUEUED, SERVING, WAITING, WORKING, BLOCKED, CLOSED = ConnectionState


class ClientStream(asyncio.Protocol):
    """A connection without its requests; its states are in `connection_table.py`."""

    def __init__(self, services: ConnectionServices, listener: str) -> None:
        self._services = services
        self._turns = services.turns
        self._seconds = services.clock.seconds
        self._in = Inbox(services.limits.requests)
        self._out = Outbox(services.limits.unsent)
        self._transport: asyncio.Transport | None = None
        """None after the connection is lost."""
        self._fd = -1
        self.peer = Peer(listener=listener)
        self.state = READING
        self.since = 0.0
        """Time of the last progress: the last request came, an incomplete one began, or the client
        read part of its answers."""

    @abstractmethod
    def _serve(self, data: bytes, now: float) -> None:
        """Answer the requests in `data` for one turn, and hold the rest."""

    def _check_size(self, size: int, data: bytes, pos: int) -> int:
        """Return how many bytes to wait for; see `check_size`."""
        return check_size(size, data, pos, self._services.limits)

    @abstractmethod
    def _may_serve(self) -> bool:
        """Return whether there is room to handle the first held request; if not, wait for it."""

    @abstractmethod
    def _is_beat(self, data: bytes) -> bool:
        """Return whether this is a repeated heartbeat, which is answered whatever the load."""

    @abstractmethod
    def _go_on(self, deadline: float) -> None:
        """Work in slices until the deadline."""

    @abstractmethod
    def _took(self, seconds: float, beats: int) -> None:
        """Record a turn: its length, and how many repeated heartbeats it answered."""

    @abstractmethod
    def _dropped(self) -> None:
        """Drop the current request: the connection has ended."""

    # -- the transport's calls -----------------------------------------------------------------

    @property
    def transport(self) -> asyncio.Transport | None:
        """None after the connection is lost."""
        return self._transport

    @property
    def host(self) -> str:
        """The client's address, as printed by Java."""
        return self.peer.host

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        services = self._services
        self._transport = self._in.transport = self._out.transport = transport
        transport.set_write_buffer_limits(BUFFERED_BYTES)
        accepted = transport.get_extra_info("socket")
        if accepted is not None:  # else a connection to a dead machine stays for ever
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            self._fd = accepted.fileno()
        peer = transport.get_extra_info("peername")
        self.peer.host = f"/{peer[0]}" if peer else "/"
        self.since = services.clock.seconds()
        if not services.connections.enter(self):
            self.abort()

    def logged_in(self, principal: str) -> None:
        """Note who the client is, before its first request."""
        self.peer.principal = principal

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the loss of the client. Only timers and LeaveGroup remove its memberships.

        Requests held during another one are still handled, as on a Kafka broker, which does not
        read from a muted socket and notices the end after it has answered.
        """
        services = self._services
        self.peer.link.closed = True
        self._transport = self._in.transport = None
        self._out.close()
        services.connections.leave(self)
        self._turns.members.discard(self._fd)
        self._turns.bulk.discard(self._fd)
        if self.state is WAITING and not self._in.size:
            self._end()
        elif self.state in (READING, BLOCKED):
            self._next()
        if self.state is not CLOSED:
            services.connections.keep(self)

    def pause_writing(self) -> None:
        self.since = self._seconds()
        self._out.paused()

    def resume_writing(self) -> None:
        self.since = self._seconds()
        self._out.resumed()
        if self.state is BLOCKED and not self._out.unsent:
            self._next()

    def data_received(self, data: bytes) -> None:
        try:
            now = self._seconds()
            in_time = now < self._turns.until
            if self.state is READING and not self._in.size and (in_time or self._is_beat(data)):
                self._serve(data, now)
                return
            self._hold(data)
            if self.state is READING and self._in.is_ready:
                if in_time:
                    self._serve(self._in.take(), now)
                else:
                    self._become(QUEUED)
                    self._turns.first(self._turn)
        except MemoryError:  # asyncio would write a traceback that does not name the client
            self._no_memory()

    def _keep(self, rest: bytes, again: bool) -> None:
        """Hold the data that could not be answered in this turn."""
        if rest:
            self._hold(rest)
        if self.state is SERVING:
            self._next(again=again)
        else:
            self._in.limit()

    def _hold(self, data: bytes) -> None:
        if self.state is CLOSED:
            return
        if not self._in.size:
            self.since = self._seconds()
        self._in.hold(data)
        if self.state is READING and not self._in.is_short:
            self._read_on()
        else:
            self._in.limit()

    def _read_on(self) -> None:
        """Continue reading if there is room for the request that has begun."""
        if self.state is not READING:
            return
        if self._in.size and self._in.needed > HELD_BYTES:
            self._turns.bulk.add(self._fd)
        else:
            self._turns.bulk.discard(self._fd)
        if not self._in.has_room():
            self._services.limits.requests.wait(self._read_on, self._in.charged)
        elif self._in.read_on():
            self.since = self._seconds()

    def _no_memory(self) -> None:
        """Close the connection, which frees its memory; the others continue."""
        _log.error("out of memory: connection closed", client=self.host, held_bytes=self._in.size)
        self.abort()

    # -- states --------------------------------------------------------------------------------

    def _become(self, state: ConnectionState) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state.name} to {state.name}"
        self.state = state

    def _next(self, *, again: bool = False) -> None:
        """Choose the next state when no request is in progress. `again`: this turn is used up."""
        turns = self._services.turns
        if self._out.unsent:
            self._become(BLOCKED)
        elif self._in.is_ready:
            self._become(QUEUED)
            (turns.again if again else turns.first)(self._turn)
        elif self._transport is None:
            self._end()
            return
        else:
            self._become(READING)
            self._read_on()
        if not self._in.size:
            self._in.charge(0)

    def _queue_again(self) -> None:
        """Retry the QUEUED request, as there may be room now."""
        self._turns.first(self._turn)

    def _turn(self) -> None:
        now = self._seconds()
        if self.state is QUEUED:
            if self._may_serve():
                self._serve(self._in.take(), now)
        elif self.state is WORKING:
            self._go_on(now + TURN_S)
            self._took(self._seconds() - now, 0)

    # -- ends ----------------------------------------------------------------------------------

    def abort(self) -> None:
        """Close immediately, without sending buffered data."""
        if self._transport is not None:
            self._transport.abort()
        self._out.close()
        self._end()

    def close(self) -> None:
        """Close after sending the finished answers."""
        self._out.flush()
        if self._transport is not None:
            self._transport.close()
        self._end()

    def _end(self) -> None:
        """Stop reading, holding and answering."""
        self._become(CLOSED)
        self.since = self._seconds()
        self._services.connections.orphans.pop(self, None)
        self._in.drop()
        self._dropped()

    # -- for the connection table --------------------------------------------------------------

    @property
    def unsent(self) -> int:
        """Bytes of answers that the client has not read; 0 while it keeps up."""
        return self._out.unsent

    def takes_answers(self) -> bool:
        """Return whether the client has read something since the last call."""
        return self._out.look()

    @property
    def held(self) -> int:
        """Bytes that are received and not handled yet."""
        return self._in.size

    @property
    def awaited(self) -> int:
        """Size of the request that has begun."""
        return self._in.needed

    @property
    def is_read(self) -> bool:
        """Whether the socket is being read; not while there is no room for more."""
        return self._transport is not None and self._transport.is_reading()
