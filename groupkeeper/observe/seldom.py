"""Rate limits for log lines about clients: limits that they reach, and repeated events."""

import time
from collections.abc import Callable, Hashable
from typing import Final

from groupkeeper.coordinator.caller import Caller
from groupkeeper.observe.logs import Logger

SELDOM_S: Final = 60.0
"""Minimum interval between two lines about a subject."""
SUBJECTS: Final = 1_000
"""Maximum number of tracked subjects, as clients choose them; the oldest is dropped."""


class Seldom:
    """Determines when a line about a subject is due."""

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._told: dict[Hashable, tuple[float, int]] = {}
        """Time of the last line, and the number of events since then; oldest line first."""

    def due(self, subject: Hashable) -> int:
        """Return the number of events since the last line, with this one; 0 if no line is due."""
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
    """Log that a request is refused, or answered in part, because of a limit."""
    client = {"client_id": caller.peer.client_id, "host": caller.peer.host}
    log.warning("limit reached", limit=limit, most=most, api=api, **client)
