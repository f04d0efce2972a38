"""Answer at once if the logs that a request needs are open; if not, open them on the worker and
answer later.

Not the opening itself (partitions.py). What Fetch, ListOffsets, OffsetForLeaderEpoch and Produce
share.
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
"""A topic of a request, and what is wanted of it."""

PartitionId = tuple[str, int]
"""A topic's name and the index of one of its partitions."""


class LogOpener:
    """The way from a request to its open logs."""

    def __init__(self, partitions: TopicPartitions, response_tasks: ResponseTasks) -> None:
        self._partitions = partitions
        self.response_tasks = response_tasks

    def answer(
        self,
        unready: Iterable[TopicPartition],
        answer: Callable[[], Slices[Response | None]],
        reply_to: ReplyTo,
        if_broken: Callable[[], Response],
    ) -> Slices[Response | None]:
        """What `answer()` gives, now or, when something is unready, to `reply_to` later (None).

        Partitions that could not be opened have no log when `answer` is called. `if_broken()` is
        the later answer when `answer` raises.
        """
        waiting_for = list(unready)
        if not waiting_for:
            return (yield from answer())
        self.response_tasks.start(self._open_and_answer(waiting_for, answer), reply_to, if_broken)
        return None

    def answer_when_readable(
        self,
        topics: Iterable[Topic],
        partition_ids_of: Callable[[Topic], Iterable[PartitionId]],
        answer: Callable[[], Slices[Response | None]],
        reply_to: ReplyTo,
        if_broken: Callable[[], Response],
    ) -> Slices[Response | None]:
        """`answer` for a request that reads the partitions of these topics, as far as there are
        any.
        """
        unready = yield from self.unready(topics, partition_ids_of, _is_readable)
        return (yield from self.answer(unready, answer, reply_to, if_broken))

    def unready(
        self,
        topics: Iterable[Topic],
        partition_ids_of: Callable[[Topic], Iterable[PartitionId]],
        is_ready: Callable[[TopicPartition], bool],
    ) -> Slices[Iterable[TopicPartition]]:
        """Which of the partitions, as far as there are any, are not ready: each once."""
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
