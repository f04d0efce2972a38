"""The contract between connections and handlers: how a request is answered.

A handler does not know whether the client is still connected.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from groupkeeper.coordinator.caller import Caller, ReplyTo
from groupkeeper.protocol.message import Message
from groupkeeper.turns import Slices

__all__ = ["NO_REPLY", "Awaited", "Handler", "ProduceRun", "ReplyTo", "Response"]

Response: TypeAlias = Message
"""A message of `protocol.messages`; the API key of the request says which one."""


class _NoReply:
    """The request gets no answer (Produce with acks=0)."""


NO_REPLY: Final = _NoReply()

Handler = Callable[[Any, Caller, ReplyTo], Response | _NoReply | Slices[Any] | None]
"""`(request, caller, reply_to) -> response`, or None if `reply_to` is answered later.

A handler that may take long returns a generator: the connection runs it in turns with others
(`turns.py`) and uses what it returns as the handler's result."""

ProduceRun = Callable[[Iterable[tuple[Any, Caller, ReplyTo]]], list[Response | _NoReply | None]]
"""Handles the first of several Produce requests, as many as can be handled together: their
responses. If the first one is None, all of them are answered later, in their order."""


class Awaited:
    """The reply token of a request that comes from this process."""

    def __init__(self) -> None:
        self.response: asyncio.Future[Response] = asyncio.get_running_loop().create_future()

    def answer(self, response: Response) -> None:
        if not self.response.done():  # cancelled: the process ends
            self.response.set_result(response)
