"""Effects on the delivery of requests and responses, and on connections."""

import asyncio
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from groupkeeper.connections.call import Call, encode
from groupkeeper.coordinator.caller import Link
from groupkeeper.exchange import NO_REPLY
from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.testing.faults.rules import Effect, Hit, Rule
from groupkeeper.testing.wire.tap import Answer

HEAD_BYTES: Final = 8
"""Length of the size and correlation id of a response, which are never damaged."""
HELD_BYTES: Final = 64 * 1024
"""Buffer size above which a slow reader stops reading from the socket."""
TICK_S: Final = 0.01
"""Interval at which a slow reader passes bytes on."""


@dataclass(repr=False)
class Delay(Effect):
    """Delay the handling of the request, in real time."""

    seconds: float

    def apply(self, hit: Hit) -> None:
        asyncio.get_running_loop().call_later(self.seconds, hit.proceed)
        hit.count()


class DelayAnswer(Delay):
    """Handle the request immediately, and delay its response, in real time."""

    def apply(self, hit: Hit) -> None:
        def later(answer: Answer) -> None:
            loop = asyncio.get_running_loop()
            loop.call_later(self.seconds, hit.exchange.answer, answer)
            hit.count()

        hit.exchange.on_answer(later)
        hit.proceed()


@dataclass(repr=False)
class Drop(Effect):
    """Drop the request, or with `handled=True` its response. Later requests on the connection wait
    behind it, as behind a request that hangs in a broker.
    """

    handled: bool = field(default=False, kw_only=True)

    def apply(self, hit: Hit) -> None:
        if self.handled:
            hit.exchange.on_answer(lambda _: self.strike(hit))
            hit.proceed()
        else:
            self.strike(hit)

    def strike(self, hit: Hit) -> None:
        """Do what the client notices; the request or its response has been withheld."""
        hit.count()


@dataclass(repr=False)
class LosePlan(Effect):
    """Drop the leader's SyncGroup with the assignments, for which the other members wait."""

    apis = (ApiKey.SYNC_GROUP,)

    def concerns(self, hit: Hit) -> bool:
        return bool(hit.exchange.request.assignments)

    def apply(self, hit: Hit) -> None:
        hit.count()


class Close(Drop):
    """Close the connection instead of handling the request, or with `handled=True` instead of
    responding.
    """

    def strike(self, hit: Hit) -> None:
        hit.count()
        hit.exchange.call.sender.close()


@dataclass(repr=False)
class HalfOpen(Effect):
    """Stop reading and responding on the connection without closing it, like a machine that lost
    power. The broker does not notice when the client closes the connection.
    """

    def apply(self, hit: Hit) -> None:
        transport = hit.exchange.call.sender.transport
        if transport is not None:
            transport.pause_reading()
        hit.count()


class _BytesChanged:
    """Replies with an encoded response, to be changed before it is sent. Any: a response."""

    def __init__(self, call: Call, send: Callable[[Call, bytes], None]) -> None:
        self._call = call
        self._send = send

    def answer(self, response: Any) -> None:
        if response is NO_REPLY:
            self._call.answer(response)
        else:
            self._send(self._call, encode(self._call.header, response))


@dataclass(repr=False)
class Truncated(Effect):
    """Send only this fraction of the response's bytes, then close the connection."""

    keep: float = 0.5

    def apply(self, hit: Hit) -> None:
        def send(call: Call, frame: bytes) -> None:
            hit.count()
            call.sender.answered_in_bytes(call, frame[: int(len(frame) * self.keep)])
            call.sender.close()

        hit.exchange.reply_to = _BytesChanged(hit.exchange.call, send)
        hit.proceed()


@dataclass(repr=False)
class Damaged(Effect):
    """Corrupt `count` bytes of the response after its size and correlation id, at positions chosen
    by the seed.
    """

    seed: int = 0
    count: int = 3
    random: Random = field(default_factory=Random, init=False, repr=False)

    def arm(self, rule: Rule) -> None:
        self.random = Random(self.seed)  # noqa: S311  # reproducible

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


@dataclass(repr=False)
class Throttle(Effect):
    """Set `throttle_time_ms` in the response, and hold the next request of the connection for that
    time, like a broker (KIP-219).
    """

    ms: int

    def apply(self, hit: Hit) -> None:
        def tell(answer: Answer) -> Answer:
            hit.count()
            hit.rule.bench.faults.mute(hit.exchange.caller.peer.link, self.ms / 1000)
            if not hasattr(answer, "throttle_time_ms"):
                return answer
            answer = copy(answer)
            answer.throttle_time_ms = self.ms
            return answer

        hit.exchange.on_answer(tell)
        hit.proceed()


@dataclass(repr=False)
class HoldJoins(Effect):
    """Hold JoinGroups until the rule is removed, then handle them in order: no rebalance completes.
    Session and rebalance timeouts continue.
    """

    apis = (ApiKey.JOIN_GROUP,)
    held: dict[Link, tuple[asyncio.AbstractEventLoop, Callable[[], None]]] = field(
        default_factory=dict, init=False, repr=False
    )
    """The held JoinGroup of each connection; at most one."""

    def arm(self, rule: Rule) -> None:
        self.held = {}

    def apply(self, hit: Hit) -> None:
        self.held[hit.exchange.caller.peer.link] = asyncio.get_running_loop(), hit.proceed
        hit.count()

    def holds(self, link: Link) -> bool:
        return link in self.held

    def disarm(self, rule: Rule) -> None:
        for loop, proceed in [*self.held.values()]:
            if not loop.is_closed():  # else the request ended with its server
                loop.call_soon_threadsafe(proceed)


@dataclass(repr=False)
class SlowReading(Effect):
    """Limit the read rate of the connection after this request, until the client disconnects. The
    first request on a connection is usually ApiVersions.
    """

    bytes_per_s: int

    def apply(self, hit: Hit) -> None:
        transport = hit.exchange.call.sender.transport
        if transport is not None and not isinstance(transport.get_protocol(), SlowReader):
            transport.set_protocol(SlowReader(transport, self.bytes_per_s))
        hit.count()
        hit.proceed()


class SlowReader(asyncio.Protocol):
    """Limits the rate of the bytes that a transport passes to its protocol."""

    def __init__(self, transport: asyncio.Transport, bytes_per_s: int) -> None:
        protocol = transport.get_protocol()
        assert isinstance(protocol, asyncio.Protocol)
        self._transport, self._to = transport, protocol
        self._held = bytearray()
        self._bytes_per_s = bytes_per_s
        self._owed = 0.0
        """Bytes that may be passed on now, including fractions."""
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
