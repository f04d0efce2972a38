"""The room of one long request in the budget of requests that are handled in slices."""

from collections.abc import Callable
from typing import Final

from groupkeeper.connections.budget import SLICED_BYTES, Limits
from groupkeeper.protocol.api_keys import ApiKey

PRODUCE_SHARE: Final = 16
"""A long Produce request counts as this part of its size."""

PRODUCE_MOST: Final = SLICED_BYTES // 2
"""The most that it counts."""

_PRODUCE: Final = ApiKey.PRODUCE.value


class SlicedRoom:
    """What the long request of a connection counts, under way or waiting for room."""

    __slots__ = ("_has_room", "_limits", "_weight")

    def __init__(self, limits: Limits) -> None:
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
