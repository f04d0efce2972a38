"""Which members are heard of, by the machine's clock; and which ones are kept silent for a while.

The innermost layer of the tap: what faults keep back is not heard of, as by the coordinator.
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
"""Members that are remembered; of more, those that were not heard of for the longest time go."""


@dataclass(slots=True)
class Pulse:
    """The requests of one member, in seconds of the machine's clock."""

    heard_s: float
    """When its last request came."""
    first_beat_s: float = 0.0
    last_beat_s: float = 0.0
    beats: int = 0

    @property
    def interval_ms(self) -> int | None:
        """The mean distance of its heartbeats, at least 1; None if it sent less than two."""
        if self.beats < 2:
            return None
        return max(1, round((self.last_beat_s - self.first_beat_s) * 1000 / (self.beats - 1)))


class Presence:
    """Sees every request that names its member. On the thread of the server's loop."""

    def __init__(self) -> None:
        self._pulses: dict[str, Pulse] = {}
        self._silent: Collection[str] = ()
        self._held: list[Callable[[], None]] = []

    def take(self, exchange: Exchange, proceed: Callable[[], None]) -> None:
        """As a layer of the tap."""
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
        """How long a member has not been heard of, and the mean distance of its heartbeats, both in
        ms. None if nothing is known of it.
        """
        pulse = self._pulses.get(member_id)
        if pulse is None:
            return None
        return int((time.monotonic() - pulse.heard_s) * 1000), pulse.interval_ms

    @contextmanager
    def silence(self, member_ids: Collection[str]) -> Iterator[None]:
        """Keep the requests of these members back until the end of the block."""
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
