"""Sends replies that are released together, by a flush, a join phase or a closed partition.

They are sent in slices, because each has to be encoded and written. A queued reply stays correct:
it is sent even if its partition closes meanwhile.
"""

import asyncio
from collections import deque
from typing import Any, Final

from groupkeeper.coordinator.gate import Replies
from groupkeeper.exchange import ReplyTo
from groupkeeper.observe.logs import Logger
from groupkeeper.turns import Turns

REPLIES_AT_ONCE: Final = 64
"""Replies sent per iteration of the loop, over all partitions: a few milliseconds."""

_log = Logger("partition")


class ReplyQueue:
    """The replies of all partitions of a process, first in, first out."""

    def __init__(self, turns: Turns) -> None:
        self.waiting: deque[tuple[ReplyTo, Any]] = deque()
        self._turns = turns
        self._loop = asyncio.get_running_loop()
        self._left = REPLIES_AT_ONCE
        """Replies that may still be sent in this iteration of the loop."""

    def send(self, replies: Replies) -> None:
        """Send replies now, or in the order of the queue."""
        if len(replies) == 1 and not self.waiting:  # nearly always: one reply in a flush
            _answer(*replies[0])
            return
        if self._left == REPLIES_AT_ONCE:
            self._loop.call_soon(self._renew)
        now, later = replies[: self._left], replies[self._left :]
        if later:
            if not self.waiting:
                self._turns.first(self._go_on)
            self.waiting.extend(later)
        self._left -= len(now)
        for reply_to, response in now:
            _answer(reply_to, response)

    def flush(self) -> None:
        """Send all queued replies, as the process ends."""
        while self.waiting:
            _answer(*self.waiting.popleft())

    def _renew(self) -> None:
        self._left = REPLIES_AT_ONCE

    def _go_on(self) -> None:
        for _ in range(min(REPLIES_AT_ONCE, len(self.waiting))):
            _answer(*self.waiting.popleft())
        if self.waiting:
            self._turns.first(self._go_on)


def _answer(reply_to: ReplyTo, response: Any) -> None:
    try:
        reply_to.answer(response)
    except Exception:  # noqa: BLE001  # the other replies still have to be sent
        _log.exception("an answer failed")
