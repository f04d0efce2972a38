"""What was committed for topics that were deleted while a partition was loading, or could not be
loaded: it goes before the partition is served.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from groupkeeper.clock import Clock
from groupkeeper.coordinator.partition import Partition
from groupkeeper.coordinator.step import Step
from groupkeeper.topics.pending_offset_deletions import PendingOffsetDeletions
from groupkeeper.turns import Slices, Turns


@dataclass(slots=True)
class LateOffsetRemover:
    """For all partitions of a process."""

    turns: Turns
    clock: Clock
    pending_offset_deletions: PendingOffsetDeletions

    def is_due(self, index: int) -> bool:
        """The partition was not told of all deletions when they happened."""
        return bool(self.pending_offset_deletions.of(index))

    async def run(
        self,
        partition: Partition,
        index: int,
        carry_out: Callable[[Step], None],
        durable: Callable[[Partition], Awaitable[None]],
    ) -> None:
        """When this returns, nothing is left to forget. ``carry_out`` takes steps, and ``durable``
        waits until what they have written is; it is cancelled if that fails.

        What the partition could not be told is crossed out before anybody can commit offsets of a
        new topic of the same name, and therefore has to be durable by then. Raises StorageError
        and OSError if it cannot be crossed out.
        """
        await self.turns.run(self._remove(partition, carry_out))
        while topics := self.pending_offset_deletions.of(index):
            partition.forget_when_loaded(topics)
            await self.turns.run(self._remove(partition, carry_out))
            await durable(partition)
            await self.pending_offset_deletions.remove(topics, index)
            await self.turns.run(self._remove(partition, carry_out))

    def _remove(self, partition: Partition, carry_out: Callable[[Step], None]) -> Slices[None]:
        """What it was told while loading, and that meanwhile, too."""
        while topics := partition.take_deleted():
            left = partition.group_ids()
            while left:
                at = self.clock.now(), self.clock.wall()
                carry_out(partition.forget_topics(topics, left, at))
                yield
