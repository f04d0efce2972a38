"""Log lines about clients: limits that they reach, and what they repeat."""

import time
from collections.abc import Callable, Hashable
from typing import Final

from groupkeeper.coordinator.caller import Caller
from groupkeeper.observe.logs import Logger

SELDOM_S: Final = 60.0
"""At most one line about a subject in so long."""
SUBJECTS: Final = 1_000
"""Subjects that are remembered, as clients choose them; the oldest is forgotten for a new one."""


class Seldom:
    """When a line about a subject is due."""

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._told: dict[Hashable, tuple[float, int]] = {}
        """When a line was written, and how often it was not since; the oldest line first."""

    def due(self, subject: Hashable) -> int:
        """How often it happened since the last line, with this time; 0 if no line is due."""
        now = self._seconds()
        when, left_out = self._told.get(subject, (-SELDOM_S, 0))
        if subject in self._told and now - when < SELDOM_S:
            self._told[subject] = when, left_out + 1
            return 0
        self._told.pop(subject, None)
        if len(self._told) >= SUBJECTS:
            del self._told[next(iter(self._told))]
        self._told[subject] = now, 0
        return left_out + 1


def limit_reached(log: Logger, limit: str, most: int, api: str, caller: Caller) -> None:
    """Write the line for a request that is refused, or answered in part, because of a limit."""
    client = {"client_id": caller.peer.client_id, "host": caller.peer.host}
    log.warning("limit reached", limit=limit, most=most, api=api, **client)
