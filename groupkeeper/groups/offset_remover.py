"""Forgets the committed offsets of deleted topics, and says when that is durable everywhere.

Not the deletion of topics, and not the decision what goes: that is the coordinator's. A partition
that is loading, or fails meanwhile, is told again until it has answered. One that cannot be loaded
is not waited for: that it has to forget them is durable instead
(topics/pending_offset_deletions.py).
"""

import asyncio
from typing import Final

from groupkeeper.backoff import Backoff
from groupkeeper.coordinator.admin import ListOfGroups
from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import Response
from groupkeeper.groups.driver import PartitionDriver
from groupkeeper.groups.group_partitions import GroupPartitions
from groupkeeper.observe.logs import Logger
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.list_groups import ListGroupsRequest
from groupkeeper.topics.pending_offset_deletions import PendingOffsetDeletions
from groupkeeper.turns import Turns, Work

PAUSE_FIRST_S: Final = 0.05
PAUSE_MOST_S: Final = 1.0
"""A partition that is not active is asked ever more rarely."""

_log = Logger("topics")


class StoppingError(Exception):
    """The process ends before all is forgotten; its next start has to begin again."""


class OffsetRemover:
    """What ``topics_deleted`` of the data plane calls."""

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
        """Done when no offset of these topics would be seen again after a crash. Raises
        StoppingError, and what `PendingOffsetDeletions.add` raises.
        """
        deleted, left = set(topics), list(self._group_partitions)
        self._group_partitions.deleted_topics.note(
            deleted
        )  # first: what is committed from now on knows of it
        backoff = Backoff(PAUSE_FIRST_S, PAUSE_MOST_S)
        while left:
            asked = {
                driver: _written(driver)  # at once: it must not fail in between
                for driver in left
                if await self._remove(driver, deleted)
            }
            codes = {driver: (await answer).error_code for driver, answer in asked.items()}
            if ErrorCode.COORDINATOR_NOT_AVAILABLE in codes.values():
                raise StoppingError("stopped before the offsets of deleted topics were forgotten")
            left = [driver for driver in left if codes.get(driver) != ErrorCode.NONE]
            if left and await self._put_off(left, deleted):
                return
            if left:
                await asyncio.sleep(backoff.failed())

    async def _put_off(self, drivers: list[PartitionDriver], topics: set[str]) -> bool:
        """Leave it to the next time that these partitions are loaded; False if some of them may be
        loaded at any moment. One that is loaded meanwhile is told now or knows it by then.
        """
        if not all(driver.cannot_be_loaded for driver in drivers):
            return False
        partitions = [driver.index for driver in drivers]
        await self._pending_offset_deletions.add(topics, partitions)
        _log.warning(
            "offsets of deleted topics are forgotten later",
            topics=len(topics),
            partitions=partitions,
        )
        return True

    async def _remove(self, driver: PartitionDriver, topics: set[str]) -> bool:
        """A piece at a time, and the next one when the last is durable: whoever asks the partition
        for something meanwhile waits for one of them only.
        """
        seconds = asyncio.get_running_loop().time
        work = Work(driver.remove_offsets(topics))
        while not work.run(seconds, 0.0):
            await _written(driver)
            await self._turns.wait()
        return work.result


class _Answer:
    """The place for the answer of a partition."""

    def __init__(self) -> None:
        self.response: asyncio.Future[Response] = asyncio.get_running_loop().create_future()

    def answer(self, response: Response) -> None:
        if not self.response.done():  # given up, as the process ends
            self.response.set_result(response)


def _written(driver: PartitionDriver) -> "asyncio.Future[Response]":
    """Answered without an error when all that the partition has decided so far is durable: no
    reply, to whatever question, leaves an active partition earlier.
    """
    answer = _Answer()
    driver.call(ListOfGroups(ListGroupsRequest(), ()), Caller(0), answer)
    return answer.response
