"""Bytes from a client that are not answered yet; pauses reading if there are too many.

Requests are cut by `connection.py`.
"""

import asyncio
from io import BytesIO
from typing import Final

from groupkeeper.connections.budget import Budget

HELD_BYTES: Final = 256 * 1024
"""Bytes read while a request is in progress, before reading pauses. A longer request needs room in
the budget before all of it is read."""

SIZE_BYTES: Final = 4
"""Bytes of the size before each request."""


class Inbox:
    """The unanswered bytes of one connection."""

    __slots__ = (
        "_budget",
        "_data",
        "_is_paused",
        "charged",
        "needed",
        "size",
        "transport",
        "under_way",
    )

    def __init__(self, budget: Budget) -> None:
        """`budget`: `ConnectionLimits.requests`."""
        self._budget = budget
        self._data: BytesIO | None = None
        self._is_paused = False
        """Whether `_pause` did that: asked for each request that waits, without a call."""
        self.transport: asyncio.Transport | None = None
        self.size = 0
        """Bytes held."""
        self.needed = SIZE_BYTES
        """Bytes needed before the next request can be cut."""
        self.under_way = 0
        """Bytes of the long request that was taken and is being handled."""
        self.charged = 0
        """Bytes counted in the budget."""

    @property
    def is_ready(self) -> bool:
        """Whether the bytes may contain a whole request."""
        return self.size >= self.needed

    @property
    def is_short(self) -> bool:
        """Whether the bytes may contain a whole request, and are so few that reading goes on."""
        return self.needed <= self.size <= HELD_BYTES

    def hold(self, data: bytes) -> None:
        """Keep bytes for later. They are joined once: a request may come in a thousand pieces."""
        if self._data is None:
            self._data = BytesIO()
        self._data.write(data)
        self.size += len(data)

    def take(self) -> bytes:
        """Take all bytes. They still count in the budget until the next charge."""
        data = b"" if self._data is None else self._data.getvalue()
        self._data = None
        self.size = 0
        return data

    def drop(self) -> None:
        self._data = None
        self.size = 0
        self.charge(0)

    def charge(self, size: int) -> None:
        """Count `size` bytes in the budget, replacing the previous count."""
        if size != self.charged:
            by, self.charged = size - self.charged, size
            self._budget.change(by)

    def limit(self) -> None:
        """Pause reading if too much came while a request is in progress, and else read on: what was
        held may have been handled since, and with nothing held no later call would look again.
        """
        self.charge(self.size + self.under_way)
        if self.size > HELD_BYTES:
            self._pause()
        elif self._is_paused:
            self.read_on()

    def has_room(self) -> bool:
        """Return whether there is room for all of the request that has begun. If not, reading
        pauses, and the caller has to wait for the budget.
        """
        size = max(self.needed, self.size) if self.size else 0
        more = size - self.charged
        if more > 0 and size > HELD_BYTES and not self._budget.fits(more, self.charged):
            self._pause()
            return False
        self.charge(size)
        return True

    def _pause(self) -> None:
        if self.transport is not None and self.transport.is_reading():
            self._is_paused = True
            self.transport.pause_reading()

    def read_on(self) -> bool:
        """Resume reading; False if it was not paused."""
        transport = self.transport
        if transport is None or transport.is_closing() or transport.is_reading():
            return False
        self._is_paused = False
        transport.resume_reading()
        return True
