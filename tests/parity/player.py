"""Plays a transcript on a broker and writes down what happened.

It runs on any event loop: with sockets and real time, or in memory with virtual time. A connection
answers in order, so a request behind one that waits waits too. After a command the player goes on
when its answer is there and everything has been quiet for a moment; a request that is not answered
for as long as `Patience.parked_s` is taken to wait. Knowing what is expected only makes it wait
longer for answers that should come: what is written down is what came.
"""

import asyncio
import itertools
import shlex
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.message import key_of
from groupkeeper.protocol.messages.describe_groups import DescribeGroupsRequest
from groupkeeper.protocol.registry import APIS
from tests.parity.commands import Speech
from tests.parity.names import RunNames
from tests.parity.people import Person, Request, milliseconds
from tests.parity.transcript import Run
from tests.support.codecs import request_encoder, response_decoder
from tests.support.wire import Frames, frame

Dial = Callable[[asyncio.Protocol], Awaitable[asyncio.BaseTransport]]


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds."""

    parked_s: float = 0.4
    quiet_s: float = 0.08
    expected_s: float = 8.0
    slow_s: float = 8.0
    """How long an answer may take that no group holds back."""
    apart_s: float = 0.0
    """Before each command, so that what happened is told apart by its millisecond."""


PARKED = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)
"""What waits for others; and all that is behind it on its connection."""

VIRTUAL = Patience(parked_s=0.4, quiet_s=0.08, expected_s=2.0, apart_s=0.002)
REAL = Patience()
RECORDING = Patience(parked_s=0.5, quiet_s=0.12, expected_s=0.9)


@dataclass(slots=True)
class Sent:
    """A request on its way, and what became of it."""

    number: int
    who: str
    person: Person
    key: int
    version: int
    at: float
    answer: Any = None
    answered_at: float | None = None
    told: bool = False

    @property
    def api(self) -> str:
        return APIS[self.key].name if self.key in APIS else f"API {self.key}"


class Wire(asyncio.Protocol):
    """One connection: requests out, answers in their order."""

    def __init__(self, changed: asyncio.Event, now: Callable[[], float]) -> None:
        self._changed = changed
        self._now = now
        self._frames = Frames()
        self.waiting: list[Sent] = []
        self.transport: Any = None
        self.closed = False
        self.hung_up = False

    def data_received(self, data: bytes) -> None:
        for answer in self._frames.feed(data):
            sent = self.waiting.pop(0)
            sent.answered_at = self._now()
            sent.answer = _decoded(sent, answer)
            self._changed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        for sent in self.waiting:
            sent.answered_at = self._now()
        self._changed.set()


def _decoded(sent: Sent, frame: bytes) -> Any:
    try:
        correlation_id, answer = response_decoder(sent.key, sent.version)(frame, 0, len(frame))
    except (DecodeError, KeyError, ValueError) as error:
        return f"{frame[4:].hex()} ({error})"
    return answer if correlation_id == sent.number else "an answer to something else"


class Player:
    """One run of one transcript."""

    def __init__(
        self, run: Run, names: RunNames, dial: Dial, patience: Patience, wall: Callable[[], int]
    ) -> None:
        self._run = run
        self._names = names
        self._dial = dial
        self._patience = patience
        self._now = asyncio.get_running_loop().time
        self._speech = Speech(names, wall)
        self._changed = asyncio.Event()
        self._wires: dict[str, Wire] = {}
        self._sent: list[Sent] = []
        self.restart: Callable[[], Awaitable[None]] | None = None
        self.began: list[float] = []
        """When each command began, by the loop's clock."""

    async def play(self, expected: list[list[str]] | None = None) -> list[list[str]]:
        """The lines that follow each command. `expected`: what to be patient for."""
        played = []
        for index, command in enumerate(self._run.commands()):
            hoped = expected[index] if expected else []
            await self._wait_until(lambda: False, self._patience.apart_s)
            self.began.append(self._now())
            played.append(await self._perform(command, hoped))
        await self._wait_until(lambda: False, self._patience.quiet_s)
        if played:
            played[-1] += self._lines(since=None)
        self.close()
        return played

    def close(self) -> None:
        for wire in self._wires.values():
            wire.transport.close()

    # -- commands ------------------------------------------------------------------------------

    async def _perform(self, command: str, hoped: list[str]) -> list[str]:
        began = self._now()
        verb, *words = shlex.split(command)
        match verb:
            case "wait":
                await self._wait_until(lambda: False, milliseconds(words[0]) / 1000)
                return self._lines(began)
            case "stable":
                return [await self._stable(words)]
            case "hangup":
                self._hang_up(words[0])
                return []
            case "restart_broker":
                await self._restarted()
                return []
            case "repeat":
                return await self._repeated(int(words[0]), shlex.join(words[1:]), hoped)
        sent = await self._send(self._speech.request(command))
        await self._answered(sent, hoped)
        lines = self._lines(None)
        return lines if sent.told else [*lines, f"{sent.who} .. {sent.api} waits"]

    async def _repeated(self, number: int, command: str, hoped: list[str]) -> list[str]:
        """Requests that are under way together; lines that are alike are told once."""
        for _ in range(number):
            sent = await self._send(self._speech.request(command))
        await self._answered(sent, hoped)
        groups = ((line, len(list(alike))) for line, alike in itertools.groupby(self._lines(None)))
        return [f"{line} ({count} times)" if count > 1 else line for line, count in groups]

    async def _send(self, request: Request) -> Sent:
        wire = await self._wire(request.who)
        number = len(self._sent) + 1
        sent = Sent(number, request.who, request.person, request.key, request.version, self._now())
        self._sent.append(sent)
        wire.waiting.append(sent)
        wire.transport.write(self._frame(request, number))
        return sent

    def _frame(self, request: Request, number: int) -> bytes:
        if request.raw is None:
            encode = request_encoder(request.key, request.version)
            return encode(request.message, number, request.client_id)
        name = request.person.name
        client = len(name).to_bytes(2, "big") + name.encode()
        head = [request.key, request.version]
        data = b"".join(each.to_bytes(2, "big") for each in head) + number.to_bytes(4, "big")
        data += client + request.raw
        return len(data).to_bytes(4, "big") + data

    async def _wire(self, who: str) -> Wire:
        wire = self._wires.get(who)
        if wire is None or wire.closed or wire.hung_up:
            wire = Wire(self._changed, self._now)
            wire.transport = await self._dial(wire)
            self._wires[who] = wire
        return wire

    def _hang_up(self, who: str) -> None:
        wire = self._wires[who]
        wire.hung_up = True
        for sent in wire.waiting:
            sent.told = True
        wire.transport.close()

    async def _restarted(self) -> None:
        assert self.restart is not None, "only in transcripts on a broker that may be restarted"
        for who in list(self._wires):
            self._hang_up(who)
        await self.restart()

    # -- waiting -------------------------------------------------------------------------------

    async def _answered(self, sent: Sent, hoped: list[str]) -> None:
        """Until the command and what it set free are answered, or nothing more will come."""
        heads = [line.partition(" <- ")[0] for line in hoped if " <- " in line]
        heads += [line.partition(" || ")[0] for line in hoped if " || " in line]

        def complete() -> bool:
            return sent.answered_at is not None and self._fresh() >= len(heads)

        def hopeful() -> bool:
            return self._fresh() >= len(heads)

        if heads:
            await self._wait_until(hopeful, self._patience.expected_s)
        await self._wait_until(complete, self._patience.parked_s)
        if not any(each.key in PARKED for each in self._wires[sent.who].waiting):
            await self._wait_until(lambda: sent.answered_at is not None, self._patience.slow_s)
        seen = -1
        while seen != self._fresh():
            seen = self._fresh()
            await self._wait_until(lambda: False, self._patience.quiet_s)

    def _fresh(self) -> int:
        """How many answers have come that are not written down."""
        return sum(each.answered_at is not None and not each.told for each in self._sent)

    async def _wait_until(self, done: Callable[[], bool], seconds: float) -> None:
        deadline = self._now() + seconds
        while not done() and (left := deadline - self._now()) > 0:
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), left)
            except TimeoutError:
                return

    # -- what happened -------------------------------------------------------------------------

    def _lines(self, since: float | None) -> list[str]:
        """What has come and is not yet written down; with the seconds that passed `since`."""
        fresh = [each for each in self._sent if each.answered_at is not None and not each.told]
        for each in fresh:
            self._learn(each)
        lines: list[str] = []
        for each in fresh:
            each.told = True
            lines += self._told(each, since)
        return lines

    def _learn(self, sent: Sent) -> None:
        """What a client takes from an answer."""
        if sent.key != ApiKey.JOIN_GROUP or not hasattr(sent.answer, "member_id"):
            return
        answer, person = sent.answer, sent.person
        self._names.meet(answer.member_id)
        for member in answer.members:
            self._names.meet(member.member_id)
        if answer.error_code in (0, 79):
            person.member_id = answer.member_id
        if answer.error_code == 0:
            person.generation = answer.generation_id
            person.followers = [member.member_id for member in answer.members]
            if answer.skip_assignment:
                person.followers = []

    def _told(self, sent: Sent, since: float | None) -> Iterator[str]:
        assert sent.answered_at is not None
        when = "" if since is None else f" ({sent.answered_at - since:.1f}s)"
        if sent.answer is None:
            yield f"{sent.who} || {sent.api}{when}: closed"
        elif isinstance(sent.answer, str):
            yield f"{sent.who} <- {sent.api}{when}: {sent.answer}"
        else:
            first, *rest = self._names.told(sent.answer, sent.version)
            yield f"{sent.who} <- {sent.api}{when}: {first}".rstrip()
            yield from rest

    # -- a group in one word -------------------------------------------------------------------

    async def _stable(self, words: list[str]) -> str:
        """Brings people into a Stable group by their requests; the first one leads."""
        people = [word for word in words if "=" not in word]
        options = " ".join(f"'{word}'" for word in words if "=" in word)
        group = " ".join(word for word in words if word.startswith("group="))
        kind = " ".join(word for word in words if word.startswith("type="))
        joins = []
        for count, who in enumerate(people, 1):
            joins.append(await self._joined(who, options))
            await self._present(count, group.removeprefix("group=") or "g")
            if count == 1:  # in Kafka even a delay of nothing takes a moment
                await self._wait_until(lambda: _all(joins), 0.3)
        for again in people:
            await self._join_again(again, options, joins)
        await self._wait_until(lambda: _all(joins), 20.0)
        self._lines(None)
        name = next(each.answer.protocol_name for each in reversed(joins))
        syncs = [
            await self._send(self._speech.request(f"sync {who} name={name} {group} {kind}"))
            for who in people
        ]
        await self._wait_until(lambda: _all(syncs), 10.0)
        self._lines(None)
        assert all(each.answer.error_code == 0 for each in syncs), [each.answer for each in syncs]
        answer = next(each.answer for each in joins[::-1] if each.answer.error_code == 0)
        return f"= generation {answer.generation_id}, leader {self._names.text(answer.leader)}"

    async def _joined(self, who: str, options: str) -> Sent:
        """A JoinGroup that is on its way; its first step, if there are two, is done."""
        sent = await self._send(self._speech.request(f"join {who} {options}"))
        if sent.person.member_id or sent.person.instance_id or sent.version < 4:
            return sent
        await self._wait_until(lambda: sent.answered_at is not None, self._patience.expected_s)
        self._lines(None)
        return await self._joined(who, options)

    async def _join_again(self, who: str, options: str, joins: list[Sent]) -> None:
        """Those whose answer has come join once more, if others still wait for them."""
        own = [each for each in joins if each.person is self._speech.person(who)]
        await self._wait_until(lambda: _all(joins) or _all(own), 5.0)
        self._lines(None)
        if not _all(joins) and _all(own):
            joins.append(await self._joined(who, options))

    async def _present(self, count: int, group: str) -> None:
        """Until the broker has as many members."""
        request = DescribeGroupsRequest(groups=[self._names.real_group(group)])
        for _ in range(200):
            described = await call(self._dial, 5, request)
            if len(described.groups[0].members) >= count:
                return
            await asyncio.sleep(0.02)


def _all(requests: list[Sent]) -> bool:
    return all(each.answered_at is not None for each in requests)


class NotReadyError(Exception):
    """The broker answers, but not yet as it should, or not at all."""


async def call(dial: Dial, version: int, request: Any) -> Any:
    """One request on a connection of its own. Raises NotReadyError when there is no answer."""
    loop, changed = asyncio.get_running_loop(), asyncio.Event()
    wire = Wire(changed, loop.time)
    wire.transport = await dial(wire)
    sent = Sent(1, "parity", Person("parity"), key_of(type(request)), version, loop.time())
    wire.waiting.append(sent)
    try:
        wire.transport.write(frame(version, request, 1, "parity"))
        await asyncio.wait_for(changed.wait(), 20)
    except TimeoutError as error:
        raise NotReadyError(f"{sent.api} is not answered") from error
    finally:
        wire.transport.close()
    if sent.answer is None or isinstance(sent.answer, str):
        raise NotReadyError(f"{sent.api}: {sent.answer or 'hung up'}")
    return sent.answer
