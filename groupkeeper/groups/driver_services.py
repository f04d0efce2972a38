"""What all partitions of a process share."""

from collections.abc import Callable
from dataclasses import dataclass

from groupkeeper.clock import Clock
from groupkeeper.coordinator.config import GroupConfig
from groupkeeper.coordinator.member_bytes import Total
from groupkeeper.groups.late_offset_remover import LateOffsetRemover
from groupkeeper.groups.loader import Loader
from groupkeeper.groups.reply_queue import ReplyQueue
from groupkeeper.groups.writer import Writer
from groupkeeper.observe.fact_readers import FactReaders
from groupkeeper.observe.metrics import Metrics
from groupkeeper.turns import Turns


@dataclass(slots=True)
class DriverServices:
    """What the driver of a partition uses that is not its own."""

    clock: Clock
    writer: Writer
    loader: Loader
    metrics: Metrics
    config: GroupConfig
    new_member_id: Callable[[str], str]
    readers: FactReaders
    grew: Callable[[int, int], None]
    """Partition and bytes: for those who fetch the offsets topic."""
    give_up: Callable[[BaseException], None]
    """The disk cannot be trusted any more: end the process."""
    turns: Turns
    replies: ReplyQueue
    late_offset_remover: LateOffsetRemover
    member_bytes: Total
