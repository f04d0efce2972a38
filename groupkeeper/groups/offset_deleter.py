"""Deletes the committed offsets of deleted topics, durably in all partitions.

Does not delete topics; the coordinator decides which offsets are deleted. A partition that is
loading, or fails meanwhile, is retried until it succeeds. A partition that cannot be loaded is not
waited for: a durable note makes it delete them later (topics/pending_offset_deletions.py).

Source: Kafka's GroupCoordinator.onPartitionsDeleted.
"""

import asyncio
from typing import Any, Final

from groupkeeper.backoff import Backoff
from groupkeeper.coordinator.admin import ListOfGroups
from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import Awaited
from groupkeeper.groups.driver import PartitionDriver
from groupkeeper.groups.group_partitions import GroupPartitions
from groupkeeper.observe.logs import Logger
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.list_groups import ListGroupsRequest
from groupkeeper.topics.pending_offset_deletions import PendingOffsetDeletions
from groupkeeper.turns import Turns, Work

PAUSE_FIRST_S: Final = 0.05
PAUSE_MOST_S: Final = 1.0
"""First and longest pause before partitions that were not active are retried."""

_log = Logger("topics")


class StoppingError(Exception):
    """The process ends before all offsets are deleted; the next start repeats the deletion."""


class OffsetDeleter:
    """Called with the names of deleted topics; see `Topics.topics_deleted`."""

    def __init__(
        self,
        group_partitions: GroupPartitions,
        turns: Turns,
        pending_offset_deletions: PendingOffsetDeletions,
    ) -> None:
        self._group_partitions = group_partitions
        self._turns = turns
        self._pending_offset_deletions = pending_offset_deletions

    async def __call__(self, topics: list[str]) -> None:
        """Return when a crash can no longer bring back offsets of these topics.

        Raises StoppingError, and the errors of `PendingOffsetDeletions.add`.
        """
        deleted, left = set(topics), list(self._group_partitions)
        self._group_partitions.deleted_topics.note(deleted)  # commits in progress see it
        backoff = Backoff(PAUSE_FIRST_S, PAUSE_MOST_S)
        while left:
            asked = {
                driver: _written(driver)  # immediately: the partition must not fail before
                for driver in left
                if await self._delete(driver, deleted)
            }
            codes = {driver: (await answer).error_code for driver, answer in asked.items()}
            if ErrorCode.COORDINATOR_NOT_AVAILABLE in codes.values():
                raise StoppingError("stopped before the offsets of deleted topics were deleted")
            left = [driver for driver in left if codes.get(driver) != ErrorCode.NONE]
            if left and await self._put_off(left, deleted):
                return
            if left:
                await asyncio.sleep(backoff.failed())

    async def _put_off(self, drivers: list[PartitionDriver], topics: set[str]) -> bool:
        """Durably note that these partitions delete the offsets with their next load.

        Returns False, without a note, unless all of them failed to load.
        """
        if not all(driver.cannot_be_loaded for driver in drivers):
            return False
        partitions = [driver.index for driver in drivers]
        await self._pending_offset_deletions.add(topics, partitions)
        _log.warning(
            "offsets of deleted topics are deleted later", topics=len(topics), partitions=partitions
        )
        return True

    async def _delete(self, driver: PartitionDriver, topics: set[str]) -> bool:
        """Delete piece by piece, waiting each time until the last piece is durable. So a request
        that arrives meanwhile waits for one piece at most.
        """
        seconds = asyncio.get_running_loop().time
        work = Work(driver.delete_offsets(topics))
        while not work.run(seconds, 0.0):
            await _written(driver)
            await self._turns.wait()
        return work.result


def _written(driver: PartitionDriver) -> "asyncio.Future[Any]":
    """Return a future that ends without an error once all previous decisions are durable. An active
    partition sends no reply earlier, so any request would do.
    """
    answer = Awaited()
    driver.call(ListOfGroups(ListGroupsRequest(), ()), Caller(0), answer)
    return answer.response
