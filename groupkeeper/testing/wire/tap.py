"""Where requests pass before they are handled, and answers before they are sent.

Around the handlers of all APIs lie layers (faults, the other nodes of a cluster, the transcript).
Each is given every exchange on its way in, and may change the request, answer it itself, wait, or
ask for the answer on its way out.
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
"""Client id of requests that the test makes itself."""
HOST: Final = "/127.0.0.1"
"""Where they come from."""

_log = Logger("testing")

Answer = Any
"""A response, or NO_REPLY. Any: each API has its own."""
Change = Callable[[Answer], Answer | None]
"""From an answer to another one; None keeps it back, and whoever does that sends one later, or
closes the connection."""


class Exchange:
    """One request on its way to its handler, and its answer on the way back."""

    __slots__ = ("_changes", "call", "caller", "is_late", "key", "reply_to", "request")

    def __init__(self, key: int, request: Any, caller: Caller, call: Call) -> None:
        self.key = key
        """The API's."""
        self.request = request
        """May be replaced. Any: each API has its own."""
        self.caller = caller
        self.call = call
        """The connection's, with the header of the request."""
        self.reply_to: ReplyTo = call
        """The last one that an answer gets to; may be replaced."""
        self.is_late = False
        """The call in which the request came is over."""
        self._changes: list[Change] = []

    def on_answer(self, change: Change) -> None:
        """Look at the answer, or change it, before those that asked earlier."""
        self._changes.append(change)

    def answer(self, response: Answer) -> None:
        """Send an answer through all that have asked for it."""
        changes = self._changes
        while changes:
            response = changes.pop()(response)
            if response is None:
                return
        self.reply_to.answer(response)


class Layer(Protocol):
    """Something that lies around the handlers."""

    def take(self, exchange: Exchange, proceed: Callable[[], None]) -> None:
        """Call `proceed` now or later to pass the request on, or answer the exchange."""


class Tap:
    """The handlers of a server with layers around them. On the thread of its loop."""

    def __init__(self, *layers: Layer) -> None:
        """The first layer is the outermost."""
        self._layers = layers
        self._handlers: Mapping[int, Handler] = {}
        self._late: set[asyncio.Task[None]] = set()
        """Requests that a layer has kept waiting."""

    def around(self, handlers: Mapping[int, Handler]) -> Mapping[int, Handler]:
        """See `World.around`."""
        self._handlers = handlers
        return {key: self._tapped(key, handler) for key, handler in handlers.items()}

    def _tapped(self, key: int, handler: Handler, depth: int = 0) -> Handler:
        """The handler behind the layers from a depth on."""

        # Any: the call of a connection.
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
        """A layer has waited: the connection does not run the handler any more."""
        try:
            result = handler(exchange.request, exchange.caller, exchange)
            if isinstance(result, GeneratorType):
                for _ in _finish(result, exchange):
                    await asyncio.sleep(0)
            elif result is not None:
                exchange.answer(result)
        except Exception:  # noqa: BLE001  # as in a connection: one request's bug costs that
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
        """What the server answers the test itself, or another client that it plays. No layer sees
        it, or only those behind one.
        """
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        caller = Caller(version, peer or Peer(client_id=INSIDE, host=HOST))
        depth = len(self._layers) if behind is None else self._layers.index(behind) + 1
        handle = self._tapped(key, self._handlers[key], depth)
        work: Any = handle(request, caller, _Awaited(answer))
        for _ in work or ():
            await asyncio.sleep(0)
        return await answer


class _Awaited:
    """Where the answer to the test itself goes."""

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
