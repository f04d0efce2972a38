"""Limits of the bytes that all connections hold together, and callbacks for when there is room.

A budget only counts; its callers decide what to do when it is used up.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.settings.setting import LONG_MAX
from groupkeeper.settings.table import Settings

UNSENT_BYTES: Final = 256 * 1024 * 1024
"""Answers that clients have not read yet, over all connections."""

SLICED_BYTES: Final = 4 * 1024 * 1024
"""Requests handled in slices at the same time, in each of two classes. Decoded, a request takes up
to forty times its size on the wire, and its answer as much again."""

LONG_REQUEST_BYTES: Final = 64 * 1024
"""Requests of this size are of the long class, and wait for one another only."""

ANSWER_BYTES: Final = 100_000_000
"""The longest answer. librdkafka, sarama and franz-go reject longer ones."""

LEAST_REQUEST_BYTES: Final = 4 * 1024 * 1024
"""The least limit of requests other than Produce, whatever the settings say."""

LOOK_AGAIN: Final = 64
"""Callbacks that are called in one iteration of the loop."""


PRODUCE_SHARE: Final = 16
"""A long Produce request counts as this part of its size."""

PRODUCE_MOST: Final = SLICED_BYTES // 2
"""The most that it counts."""

_PRODUCE: Final = ApiKey.PRODUCE.value


class OverBudgetError(Exception):
    """A request or answer is over a limit: its connection is closed, with a log line."""

    def __init__(self, what: str, limit: str) -> None:
        super().__init__(what)
        self.limit = limit
        """The limit's name or value, for the log line."""


class Budget:
    """A number of bytes, of which some are in use."""

    __slots__ = ("_idle", "_left", "_waiting", "limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._waiting: deque[tuple[Callable[[], None], int]] = deque()
        self._idle = 0
        """Bytes in use by the waiting connections."""
        self._left = 0
        """How many of the waiting callbacks are to be called."""

    @property
    def room(self) -> int:
        """Bytes left; 0 if more than the limit is in use."""
        return max(self.limit - self.used, 0)

    @property
    def awaited(self) -> bool:
        """Whether a connection waits for room."""
        return bool(self._waiting)

    def fits(self, size: int, mine: int = 0) -> bool:
        """Whether there is room for `size` more bytes, for a connection that uses `mine` already.

        If all others that use bytes wait for more, one connection gets room whatever it needs:
        else all would wait for ever.
        """
        return self.used + size <= self.limit or self.used - mine <= self._idle

    def change(self, by: int) -> None:
        """Count bytes more or, negative, less. If less, waiting callbacks are called soon."""
        self.used += by
        if by < 0 and self._waiting:
            self._wake(len(self._waiting))

    def wait(self, look_again: Callable[[], None], mine: int = 0) -> None:
        """Call `look_again` once, when fewer bytes are in use or all that use some wait: it has to
        ask `fits` again. `mine`: bytes in use by the caller.
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
        """Call some callbacks now, and others in later iterations of the loop."""
        for _ in range(min(self._left, LOOK_AGAIN)):
            self._left -= 1
            look_again, mine = self._waiting.popleft()
            self._idle -= mine
            look_again()
        if self._left:
            asyncio.get_running_loop().call_soon(self._look_again)


@dataclass(slots=True)
class ConnectionLimits:
    """The limits of all connections of a server together."""

    requests: Budget
    """Bytes of requests that are incomplete or queued: the setting `queued.max.request.bytes`."""
    sliced: Budget
    """Bytes of requests that are handled in slices."""
    sliced_long: Budget
    """The same for the long class."""
    unsent: Budget
    """Bytes of answers that are being encoded, or that clients have not read."""
    produce_bytes: int
    """The longest Produce request, and the longest one that is read at all."""
    request_bytes: int
    """The longest request of any other API that is handled: longer ones are refused. A group is
    written as one batch, so four times `message.max.bytes` is more than any request needs."""
    encoding: dict[object, None] = field(default_factory=dict)
    """Calls whose answers are being encoded in slices, oldest first."""

    def sliced_of(self, size: int) -> Budget:
        """The class of a request."""
        return self.sliced if size < LONG_REQUEST_BYTES else self.sliced_long

    def may_encode(self, call: object) -> bool:
        """While too many bytes are unsent, only the oldest of the calls goes on encoding."""
        return self.unsent.used <= self.unsent.limit or next(iter(self.encoding), call) is call


def limits_of(settings: Settings) -> ConnectionLimits:
    """The limits that follow from the settings."""
    queued = settings.queued_max_request_bytes
    return ConnectionLimits(
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


class SlicedRoom:
    """What the long request of a connection counts, under way or waiting for room."""

    __slots__ = ("_has_room", "_limits", "_weight")

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._weight = 0
        self._has_room = False

    def take(self, key: int, size: int, again: Callable[[], None]) -> bool:
        """Count a request of so many bytes, if there is room, or if it has room already. If not,
        `again` is called when there may be room.
        """
        if self._has_room:
            return True
        # Produce has few and long fields: decoded, it is hardly larger than on the wire.
        self._weight = min(size // PRODUCE_SHARE, PRODUCE_MOST) if key == _PRODUCE else size
        return self.take_again(again)

    def take_again(self, again: Callable[[], None]) -> bool:
        """Count the request that waits for room; True if none does."""
        if not self._weight:
            return True
        budget = self._limits.sliced_of(self._weight)
        if not budget.fits(self._weight):
            budget.wait(again)
            return False
        budget.change(self._weight)
        self._has_room = True
        return True

    def give_back(self) -> None:
        """The request is done, or waits no longer."""
        if self._has_room:
            self._has_room = False
            self._limits.sliced_of(self._weight).change(-self._weight)
        self._weight = 0
