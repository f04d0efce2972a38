"""Rate limits for log lines about clients: limits that they reach, repeated events, and changes."""

import asyncio
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final

from groupkeeper.coordinator.caller import Caller, Peer, known_as
from groupkeeper.coordinator.causes import Who
from groupkeeper.observe.logs import Logger

SELDOM_S: Final = 60.0
"""Minimum interval between two lines about a subject, unless another one is given."""
SUBJECTS: Final = 1_000
"""Maximum number of tracked subjects, as clients choose them; the oldest is dropped."""
AUDIT_S: Final = 1.0
"""Minimum interval between two lines about changes by one principal and address."""
SHOWN: Final = 5
"""How many changes such a line names."""


class Seldom:
    """Determines when a line about a subject is due."""

    def __init__(
        self, seconds: Callable[[], float] = time.monotonic, interval_s: float = SELDOM_S
    ) -> None:
        """`interval_s`: minimum interval between two lines about a subject."""
        self._seconds = seconds
        self._interval_s = interval_s
        self._told: dict[Hashable, tuple[float, int]] = {}
        """Time of the last line, and the number of events since then; oldest line first."""

    def due(self, subject: Hashable) -> int:
        """Return the number of events since the last line, with this one; 0 if no line is due."""
        now = self._seconds()
        when, left_out = self._told.get(subject, (-self._interval_s, 0))
        if subject in self._told and now - when < self._interval_s:
            self._told[subject] = when, left_out + 1
            return 0
        self._told.pop(subject, None)
        if len(self._told) >= SUBJECTS:
            del self._told[next(iter(self._told))]
        self._told[subject] = now, 0
        return left_out + 1


_access_log = Logger("access")


@dataclass(slots=True)
class _Held:
    """Changes that the next line tells."""

    client_id: str = ""
    shown: list[str] = field(default_factory=list)
    count: int = 0
    times: int = 0


class AuditLines:
    """Lines of the logger `access` about who changed what: for each event, principal and address at
    most one a second. What comes meanwhile is told together when the second is over, so that
    nothing is hidden behind an earlier change.
    """

    def __init__(self) -> None:
        self._held: dict[tuple[str, str, str], _Held] = {}
        """By event, principal and address, for a second after each line."""

    def tell(self, event: str, who: Peer | Who, changes: Sequence[str], count: int = 0) -> None:
        """Tell changes, of which `SHOWN` are named: `count` of them, if not all are given. Call it
        on the loop. What has no address was set up at the start, such as by `serve --topic`, and is
        not told.
        """
        if not who.host:
            return
        key = event, known_as(who.principal), who.host
        held = self._held.get(key)
        is_due = held is None
        if held is None:
            held = _Held()
        held.client_id = who.client_id
        held.shown += changes[: SHOWN - len(held.shown)]
        held.count += count or len(changes)
        held.times += 1
        if is_due:
            self._write(key, held)

    def _write(self, key: tuple[str, str, str], held: _Held) -> None:
        event, principal, host = key
        more = ["..."] if held.count > len(held.shown) else []
        who = {"principal": principal, "client": host, "client_id": held.client_id}
        what = {"changes": "; ".join([*held.shown, *more]), "count": held.count}
        _access_log.info(event, **who, **what, times=held.times)
        if len(self._held) < SUBJECTS:  # beyond that, lines of one event are limited all the same
            self._held[key] = _Held()
            asyncio.get_running_loop().call_later(AUDIT_S, self._release, key)

    def _release(self, key: tuple[str, str, str]) -> None:
        held = self._held.pop(key)
        if held.times:
            self._write(key, held)


def limit_reached(log: Logger, limit: str, most: int, api: str, caller: Caller) -> None:
    """Log that a request is refused, or answered in part, because of a limit."""
    client = {"client_id": caller.peer.client_id, "host": caller.peer.host}
    log.warning("limit reached", limit=limit, most=most, api=api, **client)
