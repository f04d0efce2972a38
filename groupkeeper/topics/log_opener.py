"""Answer at once if the logs that a request needs are open; else open them on the worker and answer
later.

Shared by DeleteRecords, ListOffsets, OffsetForLeaderEpoch and Produce; logs are opened in
partitions.py.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from groupkeeper.exchange import ReplyTo, Response
from groupkeeper.topics.partition import TopicPartition
from groupkeeper.topics.partitions import TopicPartitions
from groupkeeper.topics.slices import visit_within
from groupkeeper.topics.worker import ResponseTasks
from groupkeeper.turns import Slices

Topic = TypeVar("Topic")
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
        unready: Iterable[TopicPartition],
        answer: Callable[[], Slices[Response | None]],
        reply_to: ReplyTo,
        if_failed: Callable[[], Response],
    ) -> Slices[Response | None]:
        """The result of `answer()`; or None if partitions are unready, and the result goes to
        `reply_to` later.

        Partitions that could not be opened have no log when `answer` is called. `if_failed()` is
        the later response if `answer` raises.
        """
        waiting_for = list(unready)
        if not waiting_for:
            return (yield from answer())
        self.response_tasks.start(self._open_and_answer(waiting_for, answer), reply_to, if_failed)
        return None

    def answer_when_readable(
        self,
        topics: Iterable[Topic],
        partition_ids_of: Callable[[Topic], Iterable[PartitionId]],
        answer: Callable[[], Slices[Response | None]],
        reply_to: ReplyTo,
        if_failed: Callable[[], Response],
    ) -> Slices[Response | None]:
        """`answer` for a request that reads the existing ones of these partitions."""
        unready = yield from self.unready(topics, partition_ids_of, _is_readable)
        return (yield from self.answer(unready, answer, reply_to, if_failed))

    def unready(
        self,
        topics: Iterable[Topic],
        partition_ids_of: Callable[[Topic], Iterable[PartitionId]],
        is_ready: Callable[[TopicPartition], bool],
    ) -> Slices[Iterable[TopicPartition]]:
        """Which of the existing partitions are not ready, each once."""
        unready: dict[TopicPartition, None] = {}

        def look(_: Topic, partition_id: PartitionId) -> None:
            partition = self._partitions.find(*partition_id)
            if partition is not None and not is_ready(partition):
                unready[partition] = None

        yield from visit_within(topics, partition_ids_of, look)
        return unready

    async def _open_and_answer(
        self, unready: list[TopicPartition], answer: Callable[[], Slices[Response | None]]
    ) -> Response | None:
        await self._partitions.prepare(unready)
        return await self.response_tasks.turns.run(answer())


def _is_readable(partition: TopicPartition) -> bool:
    return partition.readable
