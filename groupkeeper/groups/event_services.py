"""What the event logs of a process share."""

from collections.abc import Callable
from dataclasses import dataclass

from groupkeeper.clock import Clock
from groupkeeper.groups.event_limits import Personal
from groupkeeper.observe.metrics import Metrics


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
