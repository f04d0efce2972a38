"""Intercepts all requests of a test broker before handling, and all responses before sending.

The handlers of all APIs are wrapped in layers, such as faults, cluster nodes and the transcript.
Each layer receives every exchange, and may change the request, respond itself, delay the request,
or subscribe to the response.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from types import GeneratorType
from typing import Any, Final, Protocol

from groupkeeper.connections.call import Call
from groupkeeper.coordinator.caller import Caller, Peer
from groupkeeper.exchange import NO_REPLY, Handler, ReplyTo, Response
from groupkeeper.observe.logs import Logger
from groupkeeper.protocol.message import Message
from groupkeeper.turns import Slices

INSIDE: Final = "groupkeeper.testing"
"""Client id of requests made by the test itself."""
HOST: Final = "/127.0.0.1"
"""Client host of those requests."""

_log = Logger("testing")

Answer = Any
"""A response, or NO_REPLY. Any: each API has its own."""
Change = Callable[[Answer], Answer | None]
"""Returns a changed response, or None to withhold it; the layer then responds later or closes the
connection."""


class Exchange:
    """A request on its way to the handler, and its response on the way back."""

    __slots__ = ("_changes", "call", "caller", "is_late", "key", "reply_to", "request")

    def __init__(self, key: int, request: Any, caller: Caller, call: Call) -> None:
        self.key = key
        """API key."""
        self.request = request
        """The request message; may be replaced. Any: each API has its own class."""
        self.caller = caller
        self.call = call
        """The connection's call, with the request header."""
        self.reply_to: ReplyTo = call
        """Receives the response after all changes; may be replaced."""
        self.is_late = False
        """Whether the connection's own call of the handler has returned."""
        self._changes: list[Change] = []

    def on_answer(self, change: Change) -> None:
        """Register a function to change the response; the last one registered runs first."""
        self._changes.append(change)

    def answer(self, response: Answer) -> None:
        """Send a response through all registered changes."""
        changes = self._changes
        while changes:
            response = changes.pop()(response)
            if response is None:
                return
        self.reply_to.answer(response)


class Layer(Protocol):
    """A wrapper around the handlers."""

    def take(self, exchange: Exchange, proceed: Callable[[], None]) -> None:
        """Pass the request on by calling `proceed`, now or later, or respond to the exchange."""


class Tap:
    """Wraps a server's handlers in layers. For the thread of the server's loop."""

    def __init__(self, inside: Callable[[], Peer], *layers: Layer) -> None:
        """`inside` returns the sender of a request of the test. `layers`: the outermost first."""
        self._inside = inside
        self._layers = layers
        self._handlers: Mapping[int, Handler] = {}
        self._late: set[asyncio.Task[None]] = set()
        """Tasks that handle delayed requests."""

    def around(self, handlers: Mapping[int, Handler]) -> Mapping[int, Handler]:
        """See `World.around`."""
        self._handlers = handlers
        return {key: self._tapped(key, handler) for key, handler in handlers.items()}

    def _tapped(self, key: int, handler: Handler, depth: int = 0) -> Handler:
        """Wrap a handler in the layers from `depth` inwards."""

        # Any: `Call`, or `_Awaited`.
        def handle(request: Any, caller: Caller, call: Any) -> Slices[None] | None:
            exchange = Exchange(key, request, caller, call)
            work: list[Slices[Any]] = []
            self._pass(exchange, handler, depth, work)
            exchange.is_late = True
            return _finish(work.pop(), exchange) if work else None

        return handle

    def _pass(self, exchange: Exchange, handler: Handler, depth: int, work: list[Any]) -> None:
        if depth < len(self._layers):
            self._layers[depth].take(
                exchange, lambda: self._pass(exchange, handler, depth + 1, work)
            )
            return
        if exchange.is_late:
            self._start(self._handle_late(exchange, handler))
            return
        result = handler(exchange.request, exchange.caller, exchange)
        if isinstance(result, GeneratorType):
            work.append(result)
        elif result is not None:
            exchange.answer(result)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def _handle_late(self, exchange: Exchange, handler: Handler) -> None:
        """Run the handler of a delayed request, which the connection no longer does."""
        try:
            result = handler(exchange.request, exchange.caller, exchange)
            if isinstance(result, GeneratorType):
                for _ in _finish(result, exchange):
                    await asyncio.sleep(0)
            elif result is not None:
                exchange.answer(result)
        except Exception:  # noqa: BLE001  # as in a connection, a bug closes only this connection
            _log.exception("request failed", api_key=exchange.key)
            exchange.call.sender.close()

    async def ask(
        self,
        key: int,
        version: int,
        request: Message,
        *,
        peer: Peer | None = None,
        behind: Layer | None = None,
    ) -> Answer:
        """Return the server's response to a request of the test, or of a simulated client (`peer`).
        It bypasses all layers, or only those up to and including `behind`.
        """
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        caller = Caller(version, peer or self._inside())
        depth = len(self._layers) if behind is None else self._layers.index(behind) + 1
        handle = self._tapped(key, self._handlers[key], depth)
        work: Any = handle(request, caller, _Awaited(answer))
        for _ in work or ():
            await asyncio.sleep(0)
        return await answer


class _Awaited:
    """Delivers the response to a request of the test itself."""

    def __init__(self, answer: "asyncio.Future[Answer]") -> None:
        self._answer = answer

    def answer(self, response: Message) -> None:
        if not self._answer.done():
            self._answer.set_result(response)


def _finish(work: Slices[Any], exchange: Exchange) -> Slices[None]:
    response: Response | None = yield from work
    if response is not None:
        exchange.answer(response)


__all__ = ["NO_REPLY", "Answer", "Exchange", "Layer", "Tap"]
