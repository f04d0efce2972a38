"""The processes of a described history: who starts, ends and pauses when."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from groupkeeper.analytics.what_if.lives import Life

START_WITHIN_MS: Final = 2_500
"""The first members start within this time, less than the usual initial delay."""
_SPREAD: Final = (0.618, 0.414)
"""By member and by process: their heartbeats come at different times."""


class BadHistory(Exception):
    """The description of a history is wrong; the text is one line."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Times that all clients of a history have in common, in milliseconds."""

    session_ms: int
    heartbeat_ms: int
    rebalance_timeout_ms: int
    lasts_ms: int


@dataclass(slots=True)
class Cast:
    """The processes so far. Members have numbers, from 0."""

    timing: Timing
    digits: int = 1
    """Length of the numbers in names, so that these are in the same order."""
    lives: list[Life] = field(default_factory=list)
    largest: int = 0
    """The most members that ran at a time."""
    _running: dict[int, Life] = field(default_factory=dict)
    _started: dict[int, int] = field(default_factory=dict)
    _hosts: dict[int, int] = field(default_factory=dict)

    def start(self, number: int, at_ms: int, *, new_host: bool = False) -> None:
        """Start a process of a member that does not run."""
        if number in self._running:
            raise BadHistory(f"member {number} runs already at {_seconds(at_ms)}")
        self._hosts[number] = self._hosts.get(number, 0) + new_host
        self._started[number] = self._started.get(number, 0) + 1
        name = f"member-{number:0{self.digits}}"
        life = self.life(name, f"host-{number}-{self._hosts[number]}", at_ms)
        phase = number * _SPREAD[0] + self._started[number] * _SPREAD[1]
        life.beat_offset_ms = int(phase % 1 * self.timing.heartbeat_ms)
        self._running[number] = life
        self.largest = max(self.largest, len(self._running))

    def life(self, name: str, host: str, at_ms: int) -> Life:
        """Add a process."""
        timing = self.timing
        life = Life(name, None, name, host, at_ms)
        life.session_timeout_ms = timing.session_ms
        life.rebalance_timeout_ms = timing.rebalance_timeout_ms
        self.lives.append(life)
        return life

    def end(
        self, number: int, at_ms: int, *, leaves: bool = False, is_cut_off: bool = False
    ) -> None:
        """End the process of a member: in an orderly way, killed, or with its host."""
        life = self._running_at(number, at_ms)
        life.end_ms, life.leaves, life.is_cut_off = at_ms, leaves, is_cut_off
        del self._running[number]

    def pause(self, number: int, at_ms: int, until_ms: int) -> None:
        """Let the process of a member send nothing for a time."""
        self._running_at(number, at_ms).pauses.append((at_ms, until_ms))

    def newest(self, at_ms: int) -> int:
        """Return the highest number of a member that runs."""
        if not self._running:
            raise BadHistory(f"no member runs at {_seconds(at_ms)}")
        return max(self._running)

    def next_number(self) -> int:
        """Return the number of the next newcomer."""
        return max(self._started, default=-1) + 1

    def _running_at(self, number: int, at_ms: int) -> Life:
        if number not in self._running:
            known = "is not running" if number in self._started else "does not exist"
            raise BadHistory(f"member {number} {known} at {_seconds(at_ms)}")
        return self._running[number]


Act = tuple[int, Callable[[Cast], None]]
"""When something happens, and what."""


def begin(cast: Cast, members: int) -> None:
    """Start the first members."""
    for number in range(members):
        cast.start(number, number * START_WITHIN_MS // members)


def _seconds(at_ms: int) -> str:
    return f"{at_ms / 1000:g} s"
