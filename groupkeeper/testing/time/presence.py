"""Tracks the requests of each member by the machine's clock, and can hold those of silent members.

The innermost layer of the tap: like the coordinator, it does not see requests that faults withhold.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.testing.wire.tap import Exchange

HEARD_MOST: Final = 10_000
"""Maximum number of tracked members (LRU)."""


@dataclass(slots=True)
class Pulse:
    """The request times of one member, in seconds of the machine's monotonic clock."""

    heard_s: float
    """Time of the last request."""
    first_beat_s: float = 0.0
    last_beat_s: float = 0.0
    beats: int = 0

    @property
    def interval_ms(self) -> int | None:
        """Mean heartbeat interval, at least 1; None after fewer than two heartbeats."""
        if self.beats < 2:
            return None
        return max(1, round((self.last_beat_s - self.first_beat_s) * 1000 / (self.beats - 1)))


class Presence:
    """A layer that sees all requests with a member id. On the thread of the server's loop."""

    def __init__(self) -> None:
        self._pulses: dict[str, Pulse] = {}
        self._silent: Collection[str] = ()
        self._held: list[Callable[[], None]] = []

    def take(self, exchange: Exchange, proceed: Callable[[], None]) -> None:
        """See `Layer`."""
        member_id = getattr(exchange.request, "member_id", "")
        if member_id in self._silent:
            self._held.append(proceed)
            return
        if member_id:
            self._hear(member_id, exchange.key == ApiKey.HEARTBEAT)
        proceed()

    def _hear(self, member_id: str, is_beat: bool) -> None:
        now = time.monotonic()
        pulse = self._pulses.pop(member_id, None) or Pulse(now)
        pulse.heard_s = now
        if is_beat:
            pulse.first_beat_s = pulse.first_beat_s or now
            pulse.last_beat_s = now
            pulse.beats += 1
        self._pulses[member_id] = pulse
        if len(self._pulses) > HEARD_MOST:
            del self._pulses[next(iter(self._pulses))]

    def of(self, member_id: str) -> tuple[int, int | None] | None:
        """Return the time since a member's last request, and its mean heartbeat interval, both in
        ms. None for an unknown member.
        """
        pulse = self._pulses.get(member_id)
        if pulse is None:
            return None
        return int((time.monotonic() - pulse.heard_s) * 1000), pulse.interval_ms

    @contextmanager
    def silence(self, member_ids: Collection[str]) -> Iterator[None]:
        """Hold the requests of these members until the end of the block."""
        self._silent = member_ids
        try:
            yield
        except asyncio.CancelledError:  # the server ends
            self._held.clear()
            raise
        finally:
            self._silent, held, self._held = (), self._held, []
            for proceed in held:
                proceed()
