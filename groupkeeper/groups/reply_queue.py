"""Answers that become free together: those of a round of the journal, of a join phase, of a
partition that closes. They leave in slices, because each is encoded and written.

What was released is true for good: it may leave later, whatever becomes of its partition.
"""

import asyncio
from collections import deque
from typing import Any, Final

from groupkeeper.coordinator.gate import Replies
from groupkeeper.exchange import ReplyTo
from groupkeeper.observe.logs import Logger
from groupkeeper.turns import Turns

REPLIES_AT_ONCE: Final = 64
"""So many answers leave in one go, of all partitions together: a few milliseconds."""

_log = Logger("partition")


class ReplyQueue:
    """The answers of a process that are on their way to their connections."""

    def __init__(self, turns: Turns) -> None:
        self.waiting: deque[tuple[ReplyTo, Any]] = deque()
        self._turns = turns
        self._loop = asyncio.get_running_loop()
        self._left = REPLIES_AT_ONCE
        """Of this iteration of the loop."""

    def send(self, replies: Replies) -> None:
        """Answer now, or when it is their turn."""
        if len(replies) == 1 and not self.waiting:  # of one partition in a round: nearly always
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
        """The process ends: answer all that wait."""
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
    except Exception:  # noqa: BLE001  # the others' answers are as good as before
        _log.exception("an answer failed")
