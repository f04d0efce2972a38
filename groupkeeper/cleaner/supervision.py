"""Whether a compaction that runs gets on: it may wait for a processor, or hang.

It runs while nothing else wants the processor; on a machine that is never idle that is never. Then
it gets a higher priority, step by step. A process that does nothing although nothing keeps it from
a processor (a disk that does not answer, a debugger, SIGSTOP) is given up after some minutes.
"""

from enum import IntEnum
from typing import Final

HUNG_S: Final = 300.0
"""A compaction without a sign of life for so long is given up. Between two of them are a mebibyte
that is read, or the sync of one new segment: of 1 GiB, on a disk that writes 3.5 MB/s."""
STARVED_S: Final = 15.0
"""A compaction runs for so long before it is judged whether it gets the processor."""
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


class Supervision:
    """One compaction, looked at again and again while it runs."""

    def __init__(self, now: float) -> None:
        self._began = self._heard = now
        self._signs = 0
        self._looks = self._ready = 0
        self._cpu_s = 0.0

    def look(self, now: float, signs: int, cpu_s: float, *, ready: bool) -> None:
        """`signs`: how many signs of life came so far. `cpu_s`: time that it was given so far.
        `ready`: it has a processor at the moment, or waits for one, and for nothing else.
        """
        if signs > self._signs:
            self._signs, self._heard = signs, now
        self._cpu_s = cpu_s
        self._looks += 1
        self._ready += ready

    def is_starved(self, now: float) -> bool:
        """Whether a higher priority would help: most of the time it waited for a processor."""
        ran = now - self._began
        wanted = 2 * self._ready > self._looks
        return ran >= STARVED_S and wanted and self._cpu_s < STARVED_SHARE * ran

    def is_hung(self, now: float) -> bool:
        """Whether it has to be given up: silent for long, and not for want of a processor."""
        return now - self._heard >= HUNG_S and not self.is_starved(now)
