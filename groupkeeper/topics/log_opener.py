"""Answers immediately if the logs that a request needs are open; otherwise after opening them.

The worker opens them. Shared by DeleteRecords, ListOffsets, OffsetForLeaderEpoch and Produce; logs
are opened in partitions.py.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from groupkeeper.exchange import ReplyTo, Response
from groupkeeper.topics.partition import TopicPartition
from groupkeeper.topics.partitions import TopicPartitions
from groupkeeper.topics.slices import visit_within
from groupkeeper.topics.worker import ResponseTasks
from groupkeeper.turns import Slices

_Topic = TypeVar("_Topic")
"""A topic of a request."""

PartitionId = tuple[str, int]
"""A topic's name and the index of one of its partitions."""


class LogOpener:
    """Opens the logs that requests need."""

    def __init__(self, partitions: TopicPartitions, response_tasks: ResponseTasks) -> None:
        self._partitions = partitions
        self.response_tasks = response_tasks

    def answer(
        self,
        topics: Iterable[_Topic],
        partition_ids_of: Callable[[_Topic], Iterable[PartitionId]],
        answer: Callable[[], Slices[Response | None]],
        reply_to: ReplyTo,
        if_failed: Callable[[], Response],
    ) -> Slices[Response | None]:
        """Return `answer()` for a request that reads these partitions, as far as they exist.

        None if logs have to be opened first; the response then goes to `reply_to` later. Partitions
        that could not be opened have no log when `answer` is called. `if_failed()` is the later
        response if `answer` raises.
        """
        unopened = yield from self.unopened(topics, partition_ids_of)
        if not unopened:
            return (yield from answer())
        self.response_tasks.start(self._open_and_answer(unopened, answer), reply_to, if_failed)
        return None

    def unopened(
        self, topics: Iterable[_Topic], partition_ids_of: Callable[[_Topic], Iterable[PartitionId]]
    ) -> Slices[list[TopicPartition]]:
        """Return the existing partitions that have to be opened before reading, each once."""
        unopened: dict[TopicPartition, None] = {}

        def look(_: _Topic, partition_id: PartitionId) -> None:
            partition = self._partitions.find(*partition_id)
            if partition is not None and not partition.readable:
                unopened[partition] = None

        yield from visit_within(topics, partition_ids_of, look)
        return list(unopened)

    async def _open_and_answer(
        self, unopened: list[TopicPartition], answer: Callable[[], Slices[Response | None]]
    ) -> Response | None:
        await self._partitions.prepare(unopened)
        return await self.response_tasks.turns.run(answer())
