"""Limits of the bytes held by all connections together, and callbacks for when there is room.

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
"""Requests of this size belong to the long class, and wait only for each other."""

ANSWER_BYTES: Final = 100_000_000
"""Maximum size of an answer. librdkafka, sarama and franz-go reject longer ones."""

LEAST_REQUEST_BYTES: Final = 4 * 1024 * 1024
"""Lower bound of the size limit of requests other than Produce, whatever the settings."""

LOOK_AGAIN: Final = 64
"""Callbacks that are called in one iteration of the loop."""


PRODUCE_SHARE: Final = 16
"""A long Produce request counts as this fraction of its size."""

PRODUCE_MOST: Final = SLICED_BYTES // 2
"""Maximum weight of a Produce request."""

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
        """Number of waiting callbacks to be called."""

    @property
    def room(self) -> int:
        """Bytes left; 0 if more than the limit is in use."""
        return max(self.limit - self.used, 0)

    @property
    def awaited(self) -> bool:
        """Whether a connection waits for room."""
        return bool(self._waiting)

    def fits(self, size: int, mine: int = 0) -> bool:
        """Return whether a connection that uses `mine` bytes can have `size` more.

        If all others that use bytes wait for more, one connection gets whatever it needs: otherwise
        all would wait for ever.
        """
        return self.used + size <= self.limit or self.used - mine <= self._idle

    def change(self, by: int) -> None:
        """Add `by` bytes, which may be negative. If so, waiting callbacks are called soon."""
        self.used += by
        if by < 0 and self._waiting:
            self._wake(len(self._waiting))

    def wait(self, look_again: Callable[[], None], mine: int = 0) -> None:
        """Call `look_again` once, when bytes are freed or all users of bytes are waiting. The
        callback has to check `fits` again. `mine`: bytes in use by the caller.
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
    """The longest Produce request, and the longest request that is read at all."""
    request_bytes: int
    """The longest request of any other API that is handled: longer ones are refused. A group is
    written as one batch, so four times `message.max.bytes` is more than any request needs."""
    encoding: dict[object, None] = field(default_factory=dict)
    """Calls whose answers are being encoded in slices, oldest first."""

    def sliced_of(self, size: int) -> Budget:
        """Return the budget for the class of a request."""
        return self.sliced if size < LONG_REQUEST_BYTES else self.sliced_long

    def may_encode(self, call: object) -> bool:
        """Return whether a call may encode: if too many bytes are unsent, only the oldest may."""
        return self.unsent.used <= self.unsent.limit or next(iter(self.encoding), call) is call


def limits_of(settings: Settings) -> ConnectionLimits:
    """Return the limits that follow from the settings."""
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
    """The weight of a connection's long request, in progress or waiting for room."""

    __slots__ = ("_has_room", "_limits", "_weight")

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._weight = 0
        self._has_room = False

    def take(self, key: int, size: int, again: Callable[[], None]) -> bool:
        """Count a request of `size` bytes, if there is room, or if it has room already. Otherwise
        `again` is called when there may be room.
        """
        if self._has_room:
            return True
        # Produce has few and long fields: decoded, it is hardly larger than on the wire.
        self._weight = min(size // PRODUCE_SHARE, PRODUCE_MOST) if key == _PRODUCE else size
        return self.take_again(again)

    def take_again(self, again: Callable[[], None]) -> bool:
        """Count the request that waits for room; True if there is none."""
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
        """Release the room: the request is done, or no longer waits."""
        if self._has_room:
            self._has_room = False
            self._limits.sliced_of(self._weight).change(-self._weight)
        self._weight = 0
