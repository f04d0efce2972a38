"""Shared limits of the event logs of a process, and whether the disk has room for events.

Events are dropped before commits fail: while less than `group.events.min.free.bytes` is left on the
file system of the data directory, no event is stored. The check is done by the thread that writes
flushes, as it may block on a hanging disk, like that thread's own work.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from groupkeeper.clock import Clock
from groupkeeper.groups.event_budget import EventBudget
from groupkeeper.observe.logs import Logger
from groupkeeper.observe.metrics import Metrics
from groupkeeper.settings.table import Settings

LOOK_MS: Final = 1_000
"""How long a check of the file system is valid. In that time the limits of event_budget.py permit
at most 65 MiB, and only once."""
RESUMES_SHARE: Final = 4
"""Events are stored again when the bound plus this fraction of it is free, so that a file system at
the bound does not turn them on and off."""
LEFT_OUT_S: Final = 60.0
"""Minimum interval between log lines about left out events."""

_log = Logger("events")


class EventRoom:
    """The room for the events of a process."""

    def __init__(self, least: int, free: Callable[[], int]) -> None:
        """`least`: the bound in bytes; 0 for none. `free`: bytes left; negative: unknown."""
        self._least = least
        self._free = free
        self._looked_ms = -LOOK_MS
        self._found = 0
        self.is_short = False
        """Whether no event is stored."""
        self._told = False

    def suffices(self, now_ms: int) -> bool:
        """Return whether events may be written. For the thread that writes flushes."""
        if self._least and now_ms - self._looked_ms >= LOOK_MS:
            self._looked_ms, self._found = now_ms, self._free()
            enough = self._least + (self._least // RESUMES_SHARE if self.is_short else 0)
            self.is_short = 0 <= self._found < enough
        return not self.is_short

    def tell(self) -> None:
        """Log a change since the last line. For the event loop."""
        if self.is_short == self._told:
            return
        self._told = self.is_short
        if self._told:
            _log.warning(
                "events are not stored: the disk is nearly full",
                free_bytes=self._found,
                least="group.events.min.free.bytes",
                least_bytes=self._least,
                groups="are served all the same",
                to_do="free some room, or lower that setting",
            )
        else:
            _log.info("events are stored again: the disk has room", free_bytes=self._found)


class EventLimits:
    """The limits that the event logs of a process share, and log lines about them."""

    def __init__(self, settings: Settings, clock: Clock, free: Callable[[], int]) -> None:
        """`free`: bytes that are left on the disk; negative if unknown."""
        self.budget = EventBudget(settings.group_events_retention_total_bytes)
        self.room = EventRoom(settings.group_events_min_free_bytes, free)
        self._clock = clock
        self._counts: Counter[str] = Counter()
        self._due = 0.0

    def tell(self, partition: int, left_out: Mapping[str, int], metrics: Metrics) -> None:
        """Count events that a partition left out, by type, and log them. For the event loop."""
        for kind, count in left_out.items():
            metrics.counts["events_dropped", kind] += count
        self.room.tell()
        metrics.events_wait_for_room = self.room.is_short
        if left_out:
            self._counts.update(left_out)
        now = self._clock.seconds()
        if not self._counts or now < self._due:
            return
        _log.warning(
            "events left out",
            count=self._counts.total(),
            types=", ".join(f"{count} {kind}" for kind, count in self._counts.most_common(5)),
            partition=partition,
            who="see events_dropped in __group_events",
        )
        self._counts, self._due = Counter(), now + LEFT_OUT_S
