"""Services shared by the drivers of all partitions of a process, and by their event logs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from groupkeeper.clock import Clock
from groupkeeper.coordinator.config import GroupConfig
from groupkeeper.coordinator.member_bytes import Total
from groupkeeper.groups.event_limits import Personal
from groupkeeper.groups.event_room import EventLimits
from groupkeeper.groups.late_offset_deleter import LateOffsetDeleter
from groupkeeper.groups.loader import Loader
from groupkeeper.groups.reply_queue import ReplyQueue
from groupkeeper.observe.fact_readers import FactReaders
from groupkeeper.observe.metrics import Metrics
from groupkeeper.turns import Turns


@dataclass(slots=True)
class EventServices:
    """Services shared by the event logs of a process."""

    clock: Clock
    metrics: Metrics
    give_up: Callable[[BaseException], None]
    """Called when the disk can no longer be trusted: ends the process."""
    enabled: bool
    """`group.events.enabled`. If false, existing logs are opened for readers only."""
    node_id: int
    message_max_bytes: int
    personal: Personal
    limits: EventLimits


@dataclass(slots=True)
class DriverServices:
    """Shared services, configuration and callbacks."""

    clock: Clock
    loader: Loader
    metrics: Metrics
    config: GroupConfig
    new_member_id: Callable[[str], str]
    readers: FactReaders
    give_up: Callable[[BaseException], None]
    """Called when the disk can no longer be trusted: ends the process."""
    turns: Turns
    replies: ReplyQueue
    late_offset_deleter: LateOffsetDeleter
    member_bytes: Total
    partition_counts: Mapping[str, int]
    """Number of partitions by topic."""
    events: EventServices
