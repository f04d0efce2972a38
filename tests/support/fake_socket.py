"""The server's end of one connection, without a network: what was written to it, and how it is.

    bench = Bench()
    bench.receive(bench.frame(4, HeartbeatRequest()))
    assert bench.answers() == [(1, HeartbeatResponse())]

A `Bench` has handlers of its own: they answer at once, or wait in `parked`. Needs a
running event loop.
"""

import asyncio
from typing import Any

from groupkeeper.apis.api_versions import ApiVersionsHandler
from groupkeeper.apis.table import long_answers
from groupkeeper.clock import Clock
from groupkeeper.connections.budget import Budget, ConnectionLimits
from groupkeeper.connections.call import ConnectionServices
from groupkeeper.connections.connection import Connection
from groupkeeper.connections.connection_table import ConnectionTable
from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo
from groupkeeper.observe.metrics import AnswerErrors, ConnectionStats, Histogram, RequestTimes
from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import Message, key_of
from groupkeeper.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from groupkeeper.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from groupkeeper.settings.options import PLAINTEXT
from groupkeeper.turns import Turns
from tests.support.codecs import response_decoder
from tests.support.wire import CLIENT_ID, Frames, frame

PRODUCE, JOIN = ApiKey.PRODUCE, ApiKey.JOIN_GROUP
HEARTBEAT, API_VERSIONS = ApiKey.HEARTBEAT, ApiKey.API_VERSIONS
LIMIT = 1_000_000
ROOM = 100_000_000


class FakeSocket(asyncio.Transport):
    """A transport that keeps what is written, and whether it is read from."""

    def __init__(self, protocol: asyncio.Protocol, host: str = "10.0.0.7") -> None:
        super().__init__({"peername": (host, 50_000)})
        self.protocol = protocol
        self.writes: list[bytes] = []
        self.reading = True
        self.closed = False
        self.gone = False
        self.full = False
        """Ask to pause with the next write, as a transport does whose peer does not read."""
        self.unsent = 0
        protocol.connection_made(self)

    def write(self, data: Any) -> None:
        if self.gone:
            return
        assert not self.closed, "written to a closed transport"
        self.writes.append(bytes(data))
        if self.full:
            self.unsent += len(data)
            self.protocol.pause_writing()

    def hang_up(self) -> None:
        """The peer goes; the protocol is told a moment later."""
        self.gone = True
        self.close()

    def drain(self) -> None:
        """The peer reads everything."""
        self.full, self.unsent = False, 0
        self.protocol.resume_writing()

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def is_reading(self) -> bool:
        return self.reading

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    def abort(self) -> None:
        self.close()


class StoppedClock(Clock):
    """Time stands still, unless a test moves it."""

    def __init__(self) -> None:
        self.time = 1_000.0
        self.seconds = lambda: self.time


class Bench:
    """A connection between a fake socket and handlers that a test steers."""

    def __init__(self) -> None:
        self.callers: list[Caller] = []
        self.requests: list[Any] = []
        self.parked: list[ReplyTo] = []
        self.routes: dict[int, Any] = {HEARTBEAT: self._at_once, JOIN: self._later}
        versions = ApiVersionsHandler([*self.routes, API_VERSIONS])
        self.routes[API_VERSIONS] = versions.handle
        self.stats = ConnectionStats()
        self.requests_seen = RequestTimes(Histogram)
        self.errors_seen = AnswerErrors()
        self.clock = StoppedClock()
        self.turns = Turns()
        self.limits = ConnectionLimits(*(Budget(ROOM) for _ in range(4)), LIMIT, LIMIT)
        self.table = self.new_table()
        services = ConnectionServices(
            routes=self.routes,
            long_answers=long_answers(),
            unknown_version=versions.unknown_version,
            steady=lambda group_id: None,
            clock=self.clock,
            turns=self.turns,
            limits=self.limits,
            requests=self.requests_seen,
            answer_errors=self.errors_seen,
            connections=self.table,
        )
        self.services = services
        self.connection, self.socket = self.connect()
        self._sent: dict[int, tuple[int, int]] = {}

    def new_table(self, **limits: Any) -> ConnectionTable:
        """A table for a hundred connections, unless the limits say otherwise."""
        limits = {"most": 100, "most_per_host": 10, "max_idle_s": 600.0, **limits}
        return ConnectionTable(self.limits, self.stats, **limits)

    def connect(self, host: str = "10.0.0.7") -> tuple[Connection, FakeSocket]:
        """One more connection, and the server's end of its socket."""
        connection = Connection(self.services, PLAINTEXT)
        return connection, FakeSocket(connection, host)

    def _at_once(self, request: Any, caller: Caller, reply_to: ReplyTo) -> Any:
        self._saw(request, caller)
        return HeartbeatResponse()

    def _later(self, request: Any, caller: Caller, reply_to: ReplyTo) -> None:
        self._saw(request, caller)
        self.parked.append(reply_to)

    def _saw(self, request: Any, caller: Caller) -> None:
        self.requests.append(request)
        self.callers.append(caller)

    def frame(self, version: int, request: Message, client_id: str | None = CLIENT_ID) -> bytes:
        """The bytes of a request; correlation ids count from 1."""
        correlation_id = len(self._sent) + 1
        self._sent[correlation_id] = key_of(type(request)), version
        return frame(version, request, correlation_id, client_id)

    def sent(self) -> int:
        """How many requests were made."""
        return len(self._sent)

    def receive(self, *data: bytes) -> None:
        """Each piece arrives on its own."""
        for each in data:
            self.connection.data_received(each)

    def answers(self, socket: FakeSocket | None = None) -> list[tuple[int, Any]]:
        """Correlation id and response of all that was written."""
        answers = []
        for answer in Frames().feed(b"".join((socket or self.socket).writes)):
            key, version = self._sent[int.from_bytes(answer[:4], "big")]
            answers.append(response_decoder(key, version)(answer, 0, len(answer)))
        return answers

    def answered(self, socket: FakeSocket | None = None) -> list[int]:
        """Correlation ids, in the order of the answers."""
        return [correlation_id for correlation_id, _ in self.answers(socket)]


def beat(bench: Bench, group_id: str = "g", **options: Any) -> bytes:
    return bench.frame(4, HeartbeatRequest(group_id=group_id), **options)


def join(bench: Bench) -> bytes:
    return bench.frame(9, JoinGroupRequest(group_id="g"))


async def answer_join(bench: Bench, number: int = 0, response: Any = None) -> None:
    """Answer a request that waits, and let the connection go on."""
    bench.parked[number].answer(response or JoinGroupResponse())
    await asyncio.sleep(0)
