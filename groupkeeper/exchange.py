"""The interface between connections and request handlers.

A handler cannot tell whether the client is still connected.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from groupkeeper.coordinator.caller import Caller, ReplyTo
from groupkeeper.protocol.message import Message
from groupkeeper.turns import Slices

__all__ = ["NO_REPLY", "Awaited", "Handler", "ProduceRun", "ReplyTo", "Response"]

Response: TypeAlias = Message
"""A message of `protocol.messages`; its class depends on the API key of the request."""


class _NoReply:
    """Stands for no response (Produce with acks=0)."""


NO_REPLY: Final = _NoReply()

Handler = Callable[[Any, Caller, ReplyTo], Response | _NoReply | Slices[Any] | None]
"""`(request, caller, reply_to) -> response`, or None if the handler calls `reply_to.answer` later.

A handler that may take long returns a generator; the connection runs it in turns with other work
(`turns.py`) and uses its result as the response."""

ProduceRun = Callable[[Iterable[tuple[Any, Caller, ReplyTo]]], list[Response | _NoReply | None]]
"""Handles as many of the first Produce requests as possible together; returns their responses. If
the first one is None, all responses are sent later, in order."""


class Awaited:
    """A `ReplyTo` for requests made by this process; `response` is a future."""

    def __init__(self) -> None:
        self.response: asyncio.Future[Response] = asyncio.get_running_loop().create_future()

    def answer(self, response: Response) -> None:
        if not self.response.done():  # cancelled when the process ends
            self.response.set_result(response)
