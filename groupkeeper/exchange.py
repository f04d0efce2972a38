"""How a request is answered: the one contract between the connection and everything behind it.

Not a transport: whoever answers does not know whether the client is still there.
"""

from collections.abc import Callable
from typing import Any, Final

from groupkeeper.coordinator.caller import Caller, ReplyTo
from groupkeeper.turns import Slices

__all__ = ["NO_REPLY", "Handler", "ReplyTo", "Response"]

Response = Any
"""A message of ``protocol.messages``; which one, the API key of the request says."""


class _NoReply:
    """The request wants no answer at all (Produce with acks=0)."""


NO_REPLY: Final = _NoReply()

Handler = Callable[[Any, Caller, ReplyTo], Response | _NoReply | Slices[Any] | None]
"""``(request, caller, reply_to) -> response``, or None when the answer comes later.

Or a generator, from a handler that may have much to do: the connection runs it in turns with
others (``turns``), and what it returns counts as if the handler had returned it."""
