"""Deletes offsets of topics that were deleted while a partition could not take part.

That is, while it was loading or could not be loaded; done before it becomes active.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from groupkeeper.clock import Clock
from groupkeeper.coordinator.partition import Partition
from groupkeeper.coordinator.step import Step
from groupkeeper.topics.pending_offset_deletions import PendingOffsetDeletions
from groupkeeper.turns import Slices, Turns


@dataclass(slots=True)
class LateOffsetDeleter:
    """The deleter for all partitions of a process."""

    turns: Turns
    clock: Clock
    pending_offset_deletions: PendingOffsetDeletions

    def is_due(self, index: int) -> bool:
        """Return whether a note requires the partition to delete offsets."""
        return bool(self.pending_offset_deletions.of(index))

    async def run(
        self,
        partition: Partition,
        index: int,
        carry_out: Callable[[Step], None],
        durable: Callable[[Partition], Awaitable[None]],
    ) -> None:
        """Delete the offsets of all topics deleted so far.

        `carry_out` is called with each step. `durable` waits until the records written so far are
        durable, and is cancelled if the write fails. Then the note is removed, before the partition
        becomes active, so that a new topic of the same name keeps its offsets. Raises StorageError
        and OSError if the note cannot be removed.
        """
        await self.turns.run(self._delete(partition, carry_out))
        while topics := self.pending_offset_deletions.of(index):
            partition.forget_when_loaded(topics)
            await self.turns.run(self._delete(partition, carry_out))
            await durable(partition)
            await self.pending_offset_deletions.remove(topics, index)
            await self.turns.run(self._delete(partition, carry_out))

    def _delete(self, partition: Partition, carry_out: Callable[[Step], None]) -> Slices[None]:
        """Delete the offsets, including those of topics deleted while this runs."""
        while topics := partition.take_deleted():
            left = partition.group_ids()
            while left:
                at = self.clock.now(), self.clock.wall()
                carry_out(partition.forget_topics(topics, left, at))
                yield
