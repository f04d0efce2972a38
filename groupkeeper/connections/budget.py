"""Bytes that connections may hold together, and who waits until there is room.

A budget counts; what happens when it is used up is decided where it is asked.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from groupkeeper.settings.table import LONG_MAX, Settings

UNSENT_BYTES: Final = 256 * 1024 * 1024
"""Answers that clients have not taken yet, over all connections."""

SLICED_BYTES: Final = 4 * 1024 * 1024
"""Requests that are worked on in slices at the same time, in each of two classes: as objects they
take up to forty times the memory that they take on the wire, and their answers as much again."""

LONG_REQUEST_BYTES: Final = 64 * 1024
"""From here on a request is of the class that takes long, and only those stand in its way."""

ANSWER_BYTES: Final = 100_000_000
"""The longest answer. librdkafka, sarama and franz-go take none that is longer."""

LEAST_REQUEST_BYTES: Final = 4 * 1024 * 1024
"""What a request other than Produce may have in any case."""


LOOK_AGAIN: Final = 64
"""Connections that look again whether there is room, in one iteration of the loop."""


class OverLimitError(Exception):
    """A client wants more than it may have: its connection is closed, with one line."""

    def __init__(self, what: str, limit: str) -> None:
        super().__init__(what)
        self.limit = limit
        """Its name and value, for the line."""


class Budget:
    """A number of bytes, of which some are in use."""

    __slots__ = ("_idle", "_left", "_waiting", "limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._waiting: deque[tuple[Callable[[], None], int]] = deque()
        self._idle = 0
        """Bytes in use by those who wait."""
        self._left = 0
        """Of those who wait, how many are about to look again."""

    @property
    def room(self) -> int:
        """What is left, and never less than nothing."""
        return max(self.limit - self.used, 0)

    @property
    def awaited(self) -> bool:
        """Somebody waits for room."""
        return bool(self._waiting)

    def fits(self, size: int, mine: int = 0) -> bool:
        """Is there room for so much more, by somebody who has ``mine`` already? For one there is,
        however much it needs, when all others who have some wait for more: they would wait for
        ever.
        """
        return self.used + size <= self.limit or self.used - mine <= self._idle

    def change(self, by: int) -> None:
        """So many bytes more, or less, are in use. Those who wait look again when it is less."""
        self.used += by
        if by < 0 and self._waiting:
            self._wake(len(self._waiting))

    def wait(self, look_again: Callable[[], None], mine: int = 0) -> None:
        """Call back once, when less is in use, or when all who use some wait: there may be room
        then, or not yet. ``mine``: bytes in use by who waits.
        """
        self._waiting.append((look_again, mine))
        self._idle += mine
        if self.used <= self._idle:
            self._wake(1)

    def _wake(self, count: int) -> None:
        if not self._left:
            asyncio.get_running_loop().call_soon(self._look_again)
        self._left = max(self._left, count)

    def _look_again(self) -> None:
        """Not thousands in one iteration of the loop."""
        for _ in range(min(self._left, LOOK_AGAIN)):
            self._left -= 1
            look_again, mine = self._waiting.popleft()
            self._idle -= mine
            look_again()
        if self._left:
            asyncio.get_running_loop().call_soon(self._look_again)


@dataclass(slots=True)
class Limits:
    """What one server's connections may use."""

    requests: Budget
    """Bytes of requests that are not complete, or wait for their turn: the setting
    ``queued.max.request.bytes``."""
    sliced: Budget
    """Bytes of requests that are worked on in slices."""
    sliced_long: Budget
    """The same of long ones."""
    unsent: Budget
    """Bytes of answers that are being encoded, or that clients have not taken."""
    produce_bytes: int
    """The longest Produce request."""
    request_bytes: int
    """The longest request of any other API: what a group may hold is written as one batch, so four
    times ``message.max.bytes`` is more than any of them can need."""
    encoding: dict[object, None] = field(default_factory=dict)
    """Calls whose answers are being encoded in slices, oldest first."""

    def sliced_of(self, size: int) -> Budget:
        """The class of a request."""
        return self.sliced if size < LONG_REQUEST_BYTES else self.sliced_long

    def may_encode(self, call: object) -> bool:
        """While too many answers are not taken, only the oldest of those being encoded goes on."""
        return self.unsent.used <= self.unsent.limit or next(iter(self.encoding), call) is call


def limits_of(settings: Settings) -> Limits:
    """The limits that the settings amount to."""
    queued = settings.queued_max_request_bytes
    return Limits(
        Budget(queued if queued >= 0 else LONG_MAX),
        Budget(SLICED_BYTES),
        Budget(SLICED_BYTES),
        Budget(UNSENT_BYTES),
        settings.socket_request_max_bytes,
        min(
            settings.socket_request_max_bytes,
            max(LEAST_REQUEST_BYTES, 4 * settings.message_max_bytes),
        ),
    )
