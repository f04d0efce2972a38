"""What a client sent that cannot be answered yet, and whether more of it is read.

Not the cutting into requests.
"""

import asyncio
from io import BytesIO
from typing import Final

from groupkeeper.connections.budget import Budget

HELD_BYTES: Final = 256 * 1024
"""How much is read ahead of a request that waits, before the client is made to wait as well. A
longer request asks for room before all of it is read."""

SIZE_BYTES: Final = 4
"""Of the size in front of a request."""


class Inbox:
    """The bytes of one connection, in the order in which they came."""

    __slots__ = ("_budget", "_data", "charged", "needed", "size", "transport", "under_way")

    def __init__(self, budget: Budget) -> None:
        """``budget`` is that of requests."""
        self._budget = budget
        self._data = BytesIO()
        self.transport: asyncio.Transport | None = None
        self.size = 0
        """Bytes held."""
        self.needed = SIZE_BYTES
        """Bytes that have to be there before cutting makes sense."""
        self.under_way = 0
        """Bytes of a long request that has been taken and is worked on."""
        self.charged = 0
        """Bytes counted in the budget."""

    @property
    def is_ready(self) -> bool:
        """There may be a whole request."""
        return self.size >= self.needed

    def hold(self, data: bytes) -> None:
        """Keep bytes for later. Joined only once: a request may come in a thousand pieces."""
        self._data.write(data)
        self.size += len(data)

    def take(self) -> bytes:
        """Everything; the inbox is empty, and still charged for what it held."""
        data = self._data.getvalue()
        self._data = BytesIO()
        self.size = 0
        return data

    def drop(self) -> None:
        """Keep nothing."""
        self._data = BytesIO()
        self.size = 0
        self.charge(0)

    def charge(self, size: int) -> None:
        """Count so many bytes in the budget."""
        if size != self.charged:
            by, self.charged = size - self.charged, size
            self._budget.change(by)

    def limit(self) -> None:
        """Behind a request that waits only so much is read."""
        self.charge(self.size + self.under_way)
        if self.size > HELD_BYTES:
            self._pause()

    def has_room(self) -> bool:
        """Is there room for the whole of the request that has begun? If not, nothing more is read;
        the caller looks again when the budget says so.
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
            self.transport.pause_reading()

    def read_on(self) -> bool:
        """True when reading had paused, and goes on."""
        transport = self.transport
        if transport is None or transport.is_closing() or transport.is_reading():
            return False
        transport.resume_reading()
        return True
