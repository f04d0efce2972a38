"""Whether a compaction that runs gets on: it may wait for a processor, or hang.

It runs while nothing else wants the processor; on a machine that is never idle that is never. Then
it gets a higher priority, step by step. A process that does nothing although nothing keeps it from
a processor (a disk that does not answer, a debugger, SIGSTOP) is given up after some minutes.
"""

from collections import deque
from enum import IntEnum
from typing import Final, NamedTuple

HUNG_S: Final = 300.0
"""A compaction without a sign of life for so long is given up. Between two of them are a mebibyte
that is read, or the sync of one new segment: of 1 GiB, on a disk that writes 3.5 MB/s."""
STARVED_S: Final = 15.0
"""Whether a compaction gets the processor is judged by its last seconds, so many."""
FROZEN_S: Final = 10.0
"""If looks are so far apart, the server did not run either (SIGSTOP of both, a virtual machine that
was paused): the time between them says nothing about the compaction."""
STARVED_SHARE: Final = 0.25
"""It does not if it was given less than this share of the time, and wanted more: reading and
writing take little, as the page cache has most of it."""
RELAX_S: Final = 600.0
"""How long a priority that was raised stays for the next compactions."""


class Priority(IntEnum):
    """What else the processor is taken from."""

    IDLE = 0
    """Nothing: it runs while nothing else wants to (Linux: SCHED_IDLE)."""
    LOW = 1
    """About a sixtieth of what others get (nice 19)."""
    NORMAL = 2
    """As much as others get."""


class Priorities:
    """The priority of the next compaction: raised by need, and the lowest again after a while."""

    def __init__(self) -> None:
        self._level = Priority.IDLE
        self._raised = 0.0

    def at(self, now: float) -> Priority:
        """That of a compaction which begins now."""
        if now >= self._raised + RELAX_S:
            self._level = Priority.IDLE
        return self._level

    def raise_to(self, level: Priority, now: float) -> None:
        """A compaction starved below this level."""
        self._level, self._raised = level, now


class _Look(NamedTuple):
    at: float
    cpu_s: float
    ready: bool


class Supervision:
    """One compaction, looked at again and again while it runs."""

    def __init__(self, now: float) -> None:
        self._heard = now
        self._signs = 0
        self._looks = deque([_Look(now, 0.0, ready=False)])
        """Those of the last `STARVED_S`, and the one before."""

    def look(self, now: float, signs: int, cpu_s: float, *, ready: bool) -> None:
        """`signs`: how many signs of life came so far. `cpu_s`: time that it was given so far.
        `ready`: it has a processor at the moment, or waits for one, and for nothing else.
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
        """Whether a higher priority would help: most of the time it waited for a processor."""
        first, last = self._looks[0], self._looks[-1]
        ran = now - first.at
        wanted = 2 * sum(each.ready for each in self._looks) > len(self._looks)
        return ran >= STARVED_S and wanted and last.cpu_s - first.cpu_s < STARVED_SHARE * ran

    def is_hung(self, now: float) -> bool:
        """Whether it has to be given up: silent for long, and not for want of a processor."""
        return now - self._heard >= HUNG_S and not self.is_starved(now)
