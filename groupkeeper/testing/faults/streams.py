"""Effects on the way of a request, of its answer, and on the connection."""

import asyncio
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, Self

from groupkeeper.connections.call import Call, encode
from groupkeeper.coordinator.caller import Link
from groupkeeper.exchange import NO_REPLY
from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.testing.faults.rules import Effect, Ground, Hit, Rule
from groupkeeper.testing.tap import Answer

HEAD_BYTES: Final = 8
"""Size and correlation id of an answer: they are not damaged."""
HELD_BYTES: Final = 64 * 1024
"""How much a slow reader holds before it stops reading from the socket."""
TICK_S: Final = 0.01
"""How often a slow reader passes something on."""


@dataclass(frozen=True, repr=False)
class Delay(Effect):
    """The request is handled later."""

    name = "delay"
    seconds: float

    def apply(self, hit: Hit) -> None:
        asyncio.get_running_loop().call_later(self.seconds, hit.proceed)
        hit.count()


@dataclass(frozen=True, repr=False)
class DelayAnswer(Effect):
    """The request is handled, and answered later."""

    name = "delay_answer"
    seconds: float

    def apply(self, hit: Hit) -> None:
        def later(answer: Answer) -> None:
            loop = asyncio.get_running_loop()
            loop.call_later(self.seconds, hit.exchange.answer, answer)
            hit.count()

        hit.exchange.on_answer(later)
        hit.proceed()


@dataclass(frozen=True, repr=False)
class Drop(Effect):
    """The request is never answered."""

    name = "drop"
    handled: bool = False

    def apply(self, hit: Hit) -> None:
        if self.handled:
            hit.exchange.on_answer(lambda _: hit.count())
            hit.proceed()
        else:
            hit.count()


@dataclass(frozen=True, repr=False)
class LosePlan(Effect):
    """A leader's SyncGroup with the assignments is never handled."""

    name = "lose_plan"
    apis = (ApiKey.SYNC_GROUP,)

    def concerns(self, hit: Hit) -> bool:
        return bool(hit.exchange.request.assignments)

    def apply(self, hit: Hit) -> None:
        hit.count()


@dataclass(frozen=True, repr=False)
class Close(Effect):
    """The connection is closed instead of an answer."""

    name = "close"
    handled: bool = False

    def apply(self, hit: Hit) -> None:
        def close(_: Answer) -> None:
            hit.count()
            hit.exchange.call.sender.close()

        if self.handled:
            hit.exchange.on_answer(close)
            hit.proceed()
        else:
            close(None)


@dataclass(frozen=True, repr=False)
class HalfOpen(Effect):
    """The socket stays, and nothing is read or answered."""

    name = "half_open"

    def apply(self, hit: Hit) -> None:
        transport = hit.exchange.call.sender.transport
        if transport is not None:
            transport.pause_reading()
        hit.count()


class _BytesChanged:
    """Where an answer goes that is sent in other bytes. Any: a response."""

    def __init__(self, call: Call, send: Callable[[Call, bytes], None]) -> None:
        self._call = call
        self._send = send

    def answer(self, response: Any) -> None:
        if response is NO_REPLY:
            self._call.answer(response)
        else:
            self._send(self._call, encode(self._call.header, response))


@dataclass(frozen=True, repr=False)
class Truncated(Effect):
    """A part of the answer is sent, then the connection is closed."""

    name = "truncated"
    keep: float = 0.5

    def apply(self, hit: Hit) -> None:
        def send(call: Call, frame: bytes) -> None:
            hit.count()
            call.sender.answered_in_bytes(call, frame[: int(len(frame) * self.keep)])
            call.sender.close()

        hit.exchange.reply_to = _BytesChanged(hit.exchange.call, send)
        hit.proceed()


@dataclass(frozen=True, repr=False)
class Damaged(Effect):
    """Bytes of the answer are changed."""

    name = "damaged"
    seed: int = 0
    count: int = 3
    random: Random = field(default_factory=Random, repr=False, compare=False)

    def arm(self, rule: Rule, bench: Ground) -> "Damaged":
        return Damaged(self.seed, self.count, Random(self.seed))  # noqa: S311

    def apply(self, hit: Hit) -> None:
        def send(call: Call, frame: bytes) -> None:
            damaged, choose = bytearray(frame), self.random
            body = range(HEAD_BYTES, len(frame))
            for at in choose.sample(body, min(self.count, len(body))):
                damaged[at] ^= choose.randrange(1, 256)
            hit.count()
            call.sender.answered_in_bytes(call, bytes(damaged))

        hit.exchange.reply_to = _BytesChanged(hit.exchange.call, send)
        hit.proceed()


@dataclass(frozen=True, repr=False)
class Throttle(Effect):
    """The answer says for how long the client is throttled; the connection is muted meanwhile.

    Source: KIP-219; Kafka's `ClientQuotaManager.throttle`.
    """

    name = "throttle"
    ms: int

    def apply(self, hit: Hit) -> None:
        def tell(answer: Answer) -> Answer:
            hit.count()
            hit.bench.faults.mute(hit.exchange.caller.peer.link, self.ms / 1000)
            if not hasattr(answer, "throttle_time_ms"):
                return answer
            answer = copy(answer)
            answer.throttle_time_ms = self.ms
            return answer

        hit.exchange.on_answer(tell)
        hit.proceed()


@dataclass(frozen=True, repr=False)
class HoldJoins(Effect):
    """JoinGroups wait until the rule is removed."""

    name = "hold_joins"
    apis = (ApiKey.JOIN_GROUP,)
    held: dict[Link, tuple[asyncio.AbstractEventLoop, Callable[[], None]]] = field(
        default_factory=dict, repr=False, compare=False
    )
    """What waits on a connection: at most one JoinGroup."""

    def arm(self, rule: Rule, bench: Ground) -> Self:
        return type(self)()

    def apply(self, hit: Hit) -> None:
        self.held[hit.exchange.caller.peer.link] = asyncio.get_running_loop(), hit.proceed
        hit.count()

    def holds(self, link: Link) -> bool:
        return link in self.held

    def disarm(self, bench: Ground) -> None:
        for loop, proceed in [*self.held.values()]:
            if not loop.is_closed():  # else they ended with their server
                loop.call_soon_threadsafe(proceed)


@dataclass(frozen=True, repr=False)
class SlowReading(Effect):
    """What the client sends after the request is read slowly."""

    name = "slow_reading"
    bytes_per_s: int

    def apply(self, hit: Hit) -> None:
        transport = hit.exchange.call.sender.transport
        if transport is not None and not isinstance(transport.get_protocol(), SlowReader):
            transport.set_protocol(SlowReader(transport, self.bytes_per_s))
        hit.count()
        hit.proceed()


class SlowReader(asyncio.Protocol):
    """Stands between a transport and its protocol, and passes on so many bytes a second."""

    def __init__(self, transport: asyncio.Transport, bytes_per_s: int) -> None:
        protocol = transport.get_protocol()
        assert isinstance(protocol, asyncio.Protocol)
        self._transport, self._to = transport, protocol
        self._held = bytearray()
        self._bytes_per_s = bytes_per_s
        self._owed = 0.0
        """Bytes that may be passed on; fractions add up."""
        self._timer: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        self._held += data
        if len(self._held) > HELD_BYTES:
            self._transport.pause_reading()
        if self._timer is None:
            self._wait()

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(TICK_S, self._pass_on)

    def _pass_on(self) -> None:
        self._timer = None
        self._owed += self._bytes_per_s * TICK_S
        count = int(self._owed)
        self._owed -= count
        data = bytes(self._held[:count])
        del self._held[:count]
        if data:
            self._to.data_received(data)
        if self._held:
            self._wait()
        elif not self._transport.is_closing():
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        self._to.pause_writing()

    def resume_writing(self) -> None:
        self._to.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._to.connection_lost(exc)
