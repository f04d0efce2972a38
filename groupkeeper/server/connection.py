"""One client's connection: bytes in, frames cut, requests answered in order, bytes out.

A Protocol with synchronous dispatch: what can be answered at once is decoded, decided, encoded and
written in the same call, without a task or a future. One request is under way at a time, as on a
Kafka broker: a JoinGroup that waits for its group blocks what the client sends after it, so order
and back-pressure need nothing else. A client that goes away is no event for its group, and what it
sent before it went still counts: a LeaveGroup behind a JoinGroup that waits is obeyed.

Not here: what a request means. The routes are a table that is handed in.
"""

import asyncio
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Any

from coordinator.caller import Caller
from coordinator.heartbeat import Beat
from groupkeeper.exchange import NO_REPLY, Handler, Response
from groupkeeper.server.clock import Clock
from groupkeeper.server.logs import Log
from groupkeeper.server.metrics import ConnectionStats, RequestStats
from groupkeeper.server.steady import SteadyBeat
from protocol.errors import DecodeError, LeftOver
from protocol.framing import RequestHeader, read_request_header
from protocol.registry import APIS, request_decoder, response_encoder

HELD_BYTES = 256 * 1024
"""How much is read ahead of a request that waits, before the client is made to wait as well."""
LARGE_ANSWER_BYTES = 4 * 1024
"""A larger answer is written at once: a client that takes none is noticed before many pile up."""
API_VERSIONS, HEARTBEAT = 18, 12

_size_at = Struct(">i").unpack_from
_log = Log("connection")


@dataclass(slots=True)
class ConnectionServices:
    """What all connections of a process share."""

    routes: Mapping[int, Handler]
    unknown_version: Handler
    """Answers an ApiVersions request of a version that is not served (KIP-511)."""
    steady_beat: Callable[[Any], "tuple[Any, Beat] | None"]
    clock: Clock
    requests: RequestStats
    connections: ConnectionStats
    request_max_bytes: int
    max_connections: int


class Call:
    """One request under way: the place its answer goes to."""

    __slots__ = ("_connection", "began", "header")

    def __init__(self, connection: "Connection", header: RequestHeader, began: float) -> None:
        self._connection = connection
        self.header = header
        self.began = began

    def answer(self, response: Response) -> None:
        """Encode and send the response; drop it when the client is gone."""
        self._connection.answered(self, response)


class Connection(asyncio.Protocol):
    """The protocol of one accepted socket."""

    def __init__(self, services: ConnectionServices, opened: "set[Connection]") -> None:
        self._services = services
        self._opened = opened
        self._transport: asyncio.Transport | None = None
        self._host = ""
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._needed = 4
        """Bytes that have to be there before cutting makes sense."""
        self._waiting: Call | None = None
        self._blocked = False
        """The client does not read its answers."""
        self._paused = False
        self._cutting = False
        self._hung_up = False
        """By us: nothing more that came is looked at."""
        self._lost = False
        """The client is gone, whoever hung up."""
        self._out: list[bytes] = []
        self._steady: SteadyBeat | None = None

    # -- the transport's calls -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        if len(self._opened) >= self._services.max_connections:
            self._services.connections.refused += 1
            _log.warning("too many connections", limit=self._services.max_connections)
            transport.close()
            return
        self._transport = transport
        accepted = transport.get_extra_info("socket")
        if accepted is not None:  # a peer whose machine died says nothing, and would stay for ever
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        peer = transport.get_extra_info("peername")
        self._host = f"/{peer[0]}" if peer else "/"
        self._opened.add(self)
        self._services.connections.accepted += 1
        self._services.connections.open += 1

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing happens to memberships: only timers and LeaveGroup remove members.

        What is held back for a request that waits stays, as it does in the socket of a Kafka
        broker, which does not notice before it has answered; until then it counts as open.
        """
        self._transport = None
        self._lost = True
        self._blocked = False
        self._out.clear()
        if self._waiting is None or not self._held_bytes:
            self._leave()

    def _leave(self) -> None:
        if self in self._opened:  # not one too many
            self._opened.remove(self)
            self._services.connections.open -= 1

    def pause_writing(self) -> None:
        self._blocked = True

    def resume_writing(self) -> None:
        self._blocked = False
        self._resume()

    def data_received(self, data: bytes) -> None:
        if self._busy or self._held_bytes:
            self._hold(data)
            if self._busy or self._held_bytes < self._needed:
                return
            data = self._take_held()
        self._cut(data)
        self._read_on()

    @property
    def _busy(self) -> bool:
        """What comes now has to wait: a request is under way, or answers are not taken."""
        return self._waiting is not None or self._blocked

    # -- what came too early or in pieces --------------------------------------------------------

    def _hold(self, data: bytes) -> None:
        self._held.append(data)
        self._held_bytes += len(data)
        limit = max(HELD_BYTES, self._needed)
        if self._held_bytes > limit and not self._paused and self._transport is not None:
            self._transport.pause_reading()
            self._paused = True

    def _take_held(self) -> bytes:
        data = self._held[0] if len(self._held) == 1 else b"".join(self._held)
        self._held.clear()
        self._held_bytes = 0
        return data

    def _resume(self) -> None:
        """Go on with what was held back."""
        if self._held_bytes >= self._needed and not self._busy:
            self._cut(self._take_held())
        if self._lost and not self._busy:
            self._leave()
        self._read_on()

    def _read_on(self) -> None:
        """Nothing stands in the way of the next request any more."""
        if self._paused and not self._busy and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()

    # -- frames --------------------------------------------------------------------------------

    def _cut(self, data: bytes) -> None:
        """Answer frames until one has to wait, or the rest is not a whole one."""
        services = self._services
        began = services.clock.seconds()
        self._cutting = True
        self._needed = 4
        pos, end, beats = 0, len(data), 0
        while end - pos >= 4:
            size = _size_at(data, pos)[0]
            if not 0 < size <= services.request_max_bytes:
                self._refuse(f"a request of {size} bytes")
                break
            stop = pos + 4 + size
            if stop > end:
                self._needed = stop - pos
                break
            steady = self._steady
            if steady is not None and steady.matches(data, pos, stop, began):
                self._out.append(steady.answer(data, pos))
                beats += 1
            else:
                self._frame(data, pos + 4, stop, began)
            pos = stop
            if self._busy or self._hung_up:
                break
        self._cutting = False
        if pos < end and not self._hung_up:
            self._hold(data[pos:])
        self._flush()
        if beats:
            took = services.clock.seconds() - began
            services.requests.record(HEARTBEAT, took, beats)

    def _frame(self, data: bytes, pos: int, end: int, began: float) -> None:
        services = self._services
        try:
            header, body = read_request_header(data, pos, end)
            key, version = header.api_key, header.api_version
            handler = services.routes.get(key)
            if handler is None or not _is_served(key, version):
                if key != API_VERSIONS:
                    self._refuse(f"API {key} version {version}, which is not served")
                    return
                # Its body cannot be read; the answer is in the form of version 0.
                header.api_version, handler, request = 0, services.unknown_version, None
            else:
                request = _decode(header, data, body, end)
        except DecodeError as error:
            self._refuse(str(error))
            return
        caller = Caller(header.api_version, header.client_id or "", self._host)
        self._waiting = call = Call(self, header, began)
        try:
            response = handler(request, caller, call)
        except Exception:  # noqa: BLE001  # one request's bug costs its connection, nothing more
            _log.exception("request failed", api_key=key, client_id=caller.client_id)
            self._abort()
            return
        if response is not None:
            call.answer(response)
        if key == HEARTBEAT and not self._busy:
            self._remember(request, data, pos - 4, end)

    def _remember(self, request: Any, data: bytes, pos: int, stop: int) -> None:
        """The next heartbeat will be the same but for its correlation id."""
        found = self._services.steady_beat(request)
        if found is not None and self._out:
            driver, beat = found
            self._steady = SteadyBeat(driver, beat, data[pos:stop], self._out[-1])

    # -- answers -------------------------------------------------------------------------------

    def answered(self, call: Call, response: Response) -> None:
        """The answer of the request under way; NO_REPLY only makes way for the next request."""
        assert self._waiting is call, "a request is answered exactly once"
        self._waiting = None
        if self._transport is None:
            self._go_on()
            return
        header, services = call.header, self._services
        services.requests.record(header.api_key, services.clock.seconds() - call.began)
        if response is not NO_REPLY:
            try:
                encode = response_encoder(header.api_key, header.api_version)
                frame = encode(response, header.correlation_id)
            except Exception:  # noqa: BLE001  # who answers may be answering others as well
                _log.exception("answer cannot be written", api_key=header.api_key)
                self._abort()
                return
            self._out.append(frame)
            if len(frame) > LARGE_ANSWER_BYTES:
                self._flush()
        if not self._cutting:
            self._flush()
            self._go_on()

    def _go_on(self) -> None:
        if not self._cutting and (self._held_bytes or self._paused or self._transport is None):
            # Not from here: whoever answers may be in the middle of answering others.
            asyncio.get_running_loop().call_soon(self._resume)

    def _flush(self) -> None:
        """One write for everything that was answered together."""
        out = self._out
        if out and self._transport is not None:
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))
        out.clear()

    # -- ends ----------------------------------------------------------------------------------

    def _refuse(self, what: str) -> None:
        """Not Kafka, or not a Kafka we speak: say so once, and close without an answer."""
        _log.warning("connection refused", client=self._host, received=what)
        self._services.connections.broken += 1
        self._flush()
        self.close()

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        self._hang_up()

    def close(self) -> None:
        """Send what is answered, then hang up."""
        if self._transport is not None:
            self._transport.close()
        self._hang_up()

    def _hang_up(self) -> None:
        self._transport = None
        self._hung_up = True
        self._held.clear()
        self._held_bytes = 0
        if self._lost:
            self._leave()


def _decode(header: RequestHeader, data: bytes, pos: int, end: int) -> Any:
    """The request behind a header. Bytes behind the request are ignored, as by Kafka's brokers:
    librdkafka sends three in every Metadata request for all topics. Raises DecodeError.
    """
    try:
        return request_decoder(header.api_key, header.api_version)(data, pos, end)
    except LeftOver as odd:
        return odd.message


def _is_served(key: int, version: int) -> bool:
    api = APIS[key]
    return api.served[0] <= version <= api.served[1]
