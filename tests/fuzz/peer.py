"""One connection of the fuzzer, and what is owed to it.

From the bytes that it sent a peer knows what must come: an answer to every request that can be
read, in order, and the end of the connection behind the first thing that cannot. Whether an answer
is right is not asked here, only whether it is one.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, NamedTuple

from groupkeeper.connections.connection_table import REQUEST_S
from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.compile_encode import Framing
from groupkeeper.protocol.compiler import encoder
from groupkeeper.protocol.errors import DecodeError, LeftOver
from groupkeeper.protocol.framing import read_request_header
from groupkeeper.protocol.messages.produce import ProduceRequest
from groupkeeper.protocol.registry import APIS, request_decoder
from tests.fuzz.town import Person, Town
from tests.support.codecs import response_decoder
from tests.support.oracle import oracle_body
from tests.support.wire import Frames


class Owed(NamedTuple):
    """An answer that has to come."""

    key: int
    version: int
    correlation_id: int
    person: Person | None
    """Who asked; nobody, where the bytes were damaged."""


class Rules(NamedTuple):
    """What a peer has to know of the server."""

    routes: Mapping[int, Any]
    request_max_bytes: int
    note: Callable[[str], None]
    """Told about every answer that is none."""
    now: Callable[[], float]
    """In seconds, as the server's."""


class Peer(asyncio.Protocol):
    """Bytes out, answers in."""

    def __init__(self, rules: Rules, town: Town, chance: Random) -> None:
        self._rules = rules
        self._town = town
        self._chance = chance
        self._unread = b""
        self._answers = Frames()
        self._began = 0.0
        self.owed: deque[Owed] = deque()
        self.answered = 0
        self.doomed = ""
        """What was sent that ends the connection."""
        self.closed = False
        self.hung_up = False
        self.excused = False
        """The process is about to end, and need not answer everything."""
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    @property
    def usable(self) -> bool:
        return not (self.doomed or self.closed or self.hung_up)

    # -- out -------------------------------------------------------------------------------------

    def send(self, data: bytes, person: Person | None = None) -> None:
        """Write the bytes, and note what has to come back for them."""
        before = self._unread
        self._unread += data
        self._cut(person)
        if not before or len(self._unread) < len(data):
            self._began = self._rules.now()
        assert self._transport is not None
        self._transport.write(data)

    def hang_up(self) -> None:
        self.hung_up = True
        self._lose()
        assert self._transport is not None
        self._transport.close()

    def _lose(self) -> None:
        for owed in self.owed:
            if owed.person is not None:
                owed.person.loses(owed.key)
        self.owed.clear()

    def _cut(self, person: Person | None) -> None:
        while len(self._unread) >= 4 and not self.doomed:
            size = int.from_bytes(self._unread[:4], "big", signed=True)
            if not 0 < size <= self._rules.request_max_bytes:
                self.doomed = f"a request of {size} bytes"
                return
            if len(self._unread) < 4 + size:
                return
            frame, self._unread = self._unread[4 : 4 + size], self._unread[4 + size :]
            try:
                self._expect(frame, person)
            except DecodeError as error:
                self.doomed = str(error)

    def _expect(self, frame: bytes, person: Person | None) -> None:
        """Raises DecodeError for what ends the connection, and nothing else ever."""
        header, body = read_request_header(frame, 0, len(frame))
        key, version = header.api_key, header.api_version
        served = APIS[key].served if key in self._rules.routes else (0, -1)
        if served[0] <= version <= served[1]:
            try:
                request = request_decoder(key, version)(frame, body, len(frame))
            except LeftOver as odd:
                request = odd.message
            if isinstance(request, ProduceRequest) and request.acks == 0:
                return
        elif key == ApiKey.API_VERSIONS:
            version = 0
        else:
            raise DecodeError(f"API {key} version {version}")
        self.owed.append(Owed(key, version, header.correlation_id, person))
        if person is not None:
            person.asks(key)

    # -- in --------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        for frame in self._answers.feed(data):
            if not self.hung_up:
                self._take(frame)

    def _take(self, frame: bytes) -> None:
        if not self.owed:
            self._rules.note(f"an answer to nothing: {frame[:100].hex()}")
            return
        owed = self.owed.popleft()
        name = f"{APIS[owed.key].name} v{owed.version}"
        try:
            correlation_id, response = response_decoder(owed.key, owed.version)(
                frame, 0, len(frame)
            )
        except DecodeError as error:
            self._rules.note(f"an answer to {name} that cannot be read: {error}")
            return
        if correlation_id != owed.correlation_id:
            self._rules.note(f"answers out of order: {name} with {correlation_id}, {owed}")
        self.answered += 1
        if self._chance.random() < 0.02:
            self._second_opinion(name, response, owed.version, frame)
        self._town.learn(owed.person, response)

    def _second_opinion(self, name: str, response: Any, version: int, frame: bytes) -> None:
        """What we read is what kafka-python would have written."""
        ours = encoder(type(response), version, Framing.BARE)(response)
        if not frame.endswith(ours) or len(frame) - len(ours) not in (4, 5):
            self._rules.note(f"{name}: encoded again it is not what came")
        if oracle_body(response, version) != ours:
            self._rules.note(f"{name}: kafka-python writes it otherwise")

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        if self._unread and self._rules.now() - self._began > REQUEST_S:
            self.doomed = self.doomed or "a request did not come to its end"
        if not (self.hung_up or self.excused) and (self.owed or not self.doomed):
            why = self.doomed or "nothing that was sent ends it"
            self._rules.note(f"hung up on, {list(self.owed)[:2]} owed; {why}")
        self._lose()
