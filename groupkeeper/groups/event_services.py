"""What the event logs of a process share."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from groupkeeper.clock import Clock
from groupkeeper.groups.event_budget import EventBudget
from groupkeeper.groups.event_limits import Personal
from groupkeeper.groups.event_room import EventRoom
from groupkeeper.observe.logs import Logger
from groupkeeper.observe.metrics import Metrics
from groupkeeper.settings.table import Settings

LEFT_OUT_S: Final = 60.0
"""At most one line in so long a time tells how many events were left out."""

_log = Logger("events")


class EventLimits:
    """The limits that the event logs of a process share, and what is told of them."""

    def __init__(self, settings: Settings, clock: Clock, free: Callable[[], int]) -> None:
        """`free`: bytes that are left on the disk; negative if that is unknown."""
        self.budget = EventBudget(settings.group_events_retention_total_bytes)
        self.room = EventRoom(settings.group_events_min_free_bytes, free)
        self._clock = clock
        self._counts: Counter[str] = Counter()
        self._due = 0.0

    def tell(self, partition: int, left_out: Mapping[str, int], metrics: Metrics) -> None:
        """Count what a partition has left out, by type, and write lines. On the event loop."""
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
            who="is told by events_dropped in __group_events",
        )
        self._counts, self._due = Counter(), now + LEFT_OUT_S


@dataclass(slots=True)
class EventServices:
    """What the event logs of a process share."""

    clock: Clock
    metrics: Metrics
    give_up: Callable[[BaseException], None]
    """Called when the disk cannot be trusted any more: ends the process."""
    enabled: bool
    """`group.events.enabled`. If not, logs that exist are opened for readers only."""
    node_id: int
    message_max_bytes: int
    personal: Personal
    purges: bool
    """`group.events.purge`"""
    limits: EventLimits
