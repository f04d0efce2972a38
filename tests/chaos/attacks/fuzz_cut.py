"""Valid requests of every API in bursts of up to 4 MB, cut anywhere, on several connections.

Every answer must come, in order, and be one that can be read. What a request holds is made by
`tests/fuzz`; here it meets real sockets, and nobody waits for an answer before sending more.
"""

import selectors
import time
from collections import deque
from random import Random
from typing import NamedTuple

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.message import Message, key_of
from groupkeeper.protocol.messages.api_versions import ApiVersionsRequest
from groupkeeper.protocol.messages.fetch import FetchRequest
from groupkeeper.protocol.messages.join_group import JoinGroupRequest
from groupkeeper.protocol.messages.produce import ProduceRequest
from groupkeeper.protocol.registry import APIS
from tests.chaos.attacks.support import produce
from tests.chaos.target import BUDGET_MIB, Attack, Limits, Steps, Target, check
from tests.chaos.wire import READ_BYTES, Client, dial
from tests.fuzz.requests import Maker, next_key, next_version
from tests.fuzz.town import Person, Town
from tests.support.codecs import response_decoder
from tests.support.wire import Frames, frame
from tests.topics.scene import batch

FAMILY = "fuzz-cut"
REST_SECONDS = 40.0
"""For what is owed when the time is over."""
BURST_BYTES = 4_000_000
SMALL_BURST_BYTES = 300_000
CONNECTIONS = 6
WAIT_MS = 200
"""Longest that a request may wait on purpose: those behind it wait as well."""


class Owed(NamedTuple):
    key: int
    version: int
    correlation_id: int
    person: Person


class Talker:
    """One connection: its bursts, and what must come back for them."""

    def __init__(self, target: Target, name: str, chance: Random, keys: list[int]) -> None:
        self._target = target
        self._chance = chance
        self._keys = keys
        self._large = batch("v" * 500_000)
        self.town = Town(name, chance)
        self.socket = dial(target.kafka)
        self.socket.setblocking(False)
        self._owed: deque[Owed] = deque()
        self._correlation_id = 0
        self._frames = Frames()
        self.unsent = memoryview(b"")
        self._next_piece = 0.0
        self.frames = self.answers = self.sent = self.bursts = 0

    @property
    def owes_nothing(self) -> bool:
        return not self._owed and not self.unsent

    @property
    def head(self) -> str:
        """What the oldest request without an answer is."""
        if not self._owed:
            return "nothing"
        return f"{APIS[self._owed[0].key].name} v{self._owed[0].version}, {len(self._owed)} owed"

    # -- out -------------------------------------------------------------------------------------

    def burst(self) -> None:
        """Make the next one: a few large requests, or thousands of small ones, or both."""
        small = self._chance.random() < 0.6
        most = SMALL_BURST_BYTES if small else BURST_BYTES
        size, parts, length = self._chance.randrange(1, most), [], 0
        while length < size:
            large = not small and self._chance.random() < 0.5
            parts.append(made := self._large_request() if large else self._request())
            length += len(made)
        self.unsent = memoryview(b"".join(parts))
        self.bursts += 1
        self.sent += length

    def _request(self) -> bytes:
        chance = self._chance
        person = chance.choice(self.town.people)
        key = next_key(chance, person, self._keys)
        if key == ApiKey.JOIN_GROUP and chance.random() < 0.8:  # each may wait for the others
            key = ApiKey.HEARTBEAT
        version = next_version(chance, person, key)
        request = Maker(chance, self.town, person, version).message(APIS[key].request_type)
        if isinstance(request, JoinGroupRequest):
            request.rebalance_timeout_ms = WAIT_MS
            request.session_timeout_ms = 6_000
        if isinstance(request, FetchRequest):
            request.max_wait_ms = min(request.max_wait_ms, 20)
        return self._framed(request, version, person)

    def _large_request(self) -> bytes:
        return self._framed(produce(self.town.topics[0], self._large), 7, self.town.people[0])

    def _framed(self, request: Message, version: int, person: Person) -> bytes:
        key = key_of(type(request))
        self._correlation_id += 1
        self.frames += 1
        if not (isinstance(request, ProduceRequest) and request.acks == 0):
            self._owed.append(Owed(key, version, self._correlation_id, person))
            person.asks(key)
        return frame(version, request, self._correlation_id, person.client_id)

    def write(self) -> None:
        """Send a piece: most of it or a few bytes, now and then after a pause."""
        if time.monotonic() < self._next_piece:
            return
        size = self._chance.choice([1, 3, 5, 100, 4_096, 65_536, 1 << 18, 1 << 20, 1 << 22])
        try:
            self.unsent = self.unsent[self.socket.send(self.unsent[:size]) :]
        except BlockingIOError:
            return
        if self._chance.random() < 0.05:
            self._next_piece = time.monotonic() + 0.01

    # -- in --------------------------------------------------------------------------------------

    def read(self) -> None:
        """Raises Complaint for an answer that is none, or out of order."""
        try:
            data = self.socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            data = b""
            check(False, f"connection lost: {error}; {self.head}")
        check(bool(data), f"connection closed; {self.head}")
        for body in self._frames.feed(data):
            self._take(body)

    def _take(self, body: bytes) -> None:
        check(bool(self._owed), "an answer to nothing")
        owed = self._owed.popleft()
        name = f"{APIS[owed.key].name} v{owed.version}"
        try:
            correlation_id, response = response_decoder(owed.key, owed.version)(body, 0, len(body))
        except DecodeError as error:
            check(False, f"an answer to {name} that cannot be read: {error}")
            return
        check(correlation_id == owed.correlation_id, f"{name}: an answer out of order")
        self.answers += 1
        self.town.learn(owed.person, response)


def fuzz_cut(target: Target) -> Steps:
    versions = Client(target.kafka).call(0, ApiVersionsRequest())
    keys = [each.api_key for each in versions.api_keys if each.api_key in APIS]
    seed = 4711
    chance = Random(seed)
    yield
    talkers = [
        Talker(target, f"cut{number}", Random(chance.random()), keys)
        for number in range(CONNECTIONS)
    ]
    end = time.monotonic() + target.fuzz_seconds
    with selectors.DefaultSelector() as selector:
        for talker in talkers:
            selector.register(talker.socket, selectors.EVENT_READ, talker)
        while time.monotonic() < end + REST_SECONDS:
            _turn(selector, talkers, more=time.monotonic() < end)
            if time.monotonic() > end and all(talker.owes_nothing for talker in talkers):
                break
    late = [talker.head for talker in talkers if not talker.owes_nothing]
    check(not late, f"owed at the end: {late}")
    frames, sent = sum(each.frames for each in talkers), sum(each.sent for each in talkers)
    bursts = sum(each.bursts for each in talkers)
    return f"{frames} requests, {sent / 1e6:.0f} MB in {bursts} bursts, all answered in order"


def _turn(selector: selectors.BaseSelector, talkers: list[Talker], more: bool) -> None:
    for key, _ in selector.select(0.002):
        key.data.read()
    for talker in talkers:
        if talker.unsent:
            talker.write()
        elif more and talker.owes_nothing:
            talker.burst()


ATTACKS = (
    Attack(
        "fuzz-cut",
        FAMILY,
        "a minute of requests of every API in bursts of up to 4 MB, cut anywhere",
        fuzz_cut,
        limits=Limits(growth_mib=BUDGET_MIB + 128, kept_mib=192, log_lines=100_000, seconds=3_600),
    ),
)
