"""Decides whether a running compaction makes progress, waits for a processor, or hangs.

It runs while nothing else needs the processor, which on a busy machine is never. Then its priority
is raised step by step. A process that does nothing although it could have a processor (because of a
hanging disk, a debugger, SIGSTOP) is killed after some minutes.
"""

from collections import deque
from enum import IntEnum
from typing import Final, NamedTuple

HUNG_S: Final = 300.0
"""A compaction without a sign of life for this long is killed. Between two signs it reads a
mebibyte, or syncs one new segment: 1 GiB, on a disk that writes 3.5 MB/s."""
STARVED_S: Final = 15.0
"""Length of the period over which a compaction's share of the processor is judged."""
FROZEN_S: Final = 10.0
"""If checks are this far apart, the server did not run either (SIGSTOP of both, a paused virtual
machine): the time between them says nothing about the compaction."""
STARVED_SHARE: Final = 0.25
"""A compaction starves if it got less than this share of the time, and needed more: reading and
writing take little, as the page cache has most of the data."""
RELAX_S: Final = 600.0
"""How long a raised priority stays for the next compactions."""


class Priority(IntEnum):
    """Priority of a compaction relative to other programs."""

    IDLE = 0
    """Runs only while nothing else wants to (Linux: SCHED_IDLE)."""
    LOW = 1
    """Gets about a sixtieth of what others get (nice 19)."""
    NORMAL = 2
    """Gets as much as others."""


class Priorities:
    """The priority of the next compaction: raised when needed, and reset after a while."""

    def __init__(self) -> None:
        self._level = Priority.IDLE
        self._raised = 0.0

    def at(self, now: float) -> Priority:
        """Return the priority for a compaction that begins now."""
        if now >= self._raised + RELAX_S:
            self._level = Priority.IDLE
        return self._level

    def raise_to(self, level: Priority, now: float) -> None:
        """Note that a compaction starved below this level."""
        self._level, self._raised = level, now


class _Look(NamedTuple):
    at: float
    cpu_s: float
    ready: bool


class Supervision:
    """Observes one compaction while it runs."""

    def __init__(self, now: float) -> None:
        self._heard = now
        self._signs = 0
        self._looks = deque([_Look(now, 0.0, ready=False)])
        """Observations of the last `STARVED_S`, and the one before."""

    def look(self, now: float, signs: int, cpu_s: float, *, ready: bool) -> None:
        """Record an observation. `signs`: signs of life so far. `cpu_s`: processor time so far.
        `ready`: the process has a processor at the moment, or waits for nothing but one.
        """
        looks = self._looks
        if (gap := now - looks[-1].at) >= FROZEN_S:
            self._heard += gap
            looks.clear()
        if signs > self._signs:
            self._signs, self._heard = signs, now
        looks.append(_Look(now, cpu_s, ready))
        while len(looks) > 1 and looks[1].at <= now - STARVED_S:
            looks.popleft()

    def is_starved(self, now: float) -> bool:
        """Return whether a higher priority would help: it mostly waited for a processor."""
        first, last = self._looks[0], self._looks[-1]
        ran = now - first.at
        wanted = 2 * sum(each.ready for each in self._looks) > len(self._looks)
        return ran >= STARVED_S and wanted and last.cpu_s - first.cpu_s < STARVED_SHARE * ran

    def is_hung(self, now: float) -> bool:
        """Return whether to kill it: silent for long, and not for lack of a processor."""
        return now - self._heard >= HUNG_S and not self.is_starved(now)
