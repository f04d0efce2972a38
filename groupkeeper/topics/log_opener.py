"""Answer at once if the logs that a request needs are open; if not, open them on the worker and
answer later.

Not the opening itself (partitions.py). What Fetch, ListOffsets, OffsetForLeaderEpoch and Produce
share.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from groupkeeper.exchange import ReplyTo, Response
from groupkeeper.topics.partition import Partition
from groupkeeper.topics.partitions import Partitions
from groupkeeper.topics.slices import Pace
from groupkeeper.topics.worker import LateAnswers
from groupkeeper.turns import Slices

Topic = TypeVar("Topic")
"""A topic of a request, and what is wanted of it."""

Place = tuple[str, int]
"""A topic's name and the index of one of its partitions."""


class Opening:
    """The way from a request to its open logs."""

    def __init__(self, partitions: Partitions, late: LateAnswers) -> None:
        self._partitions = partitions
        self.late = late

    def answer(
        self,
        unready: Iterable[Partition],
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
        self.late.start(self._open_and_answer(waiting_for, answer), reply_to, if_broken)
        return None

    def answer_when_readable(
        self,
        topics: Iterable[Topic],
        places_of: Callable[[Topic], Iterable[Place]],
        answer: Callable[[], Slices[Response | None]],
        reply_to: ReplyTo,
        if_broken: Callable[[], Response],
    ) -> Slices[Response | None]:
        """`answer` for a request that reads the partitions of these topics, as far as there are
        any.
        """
        unready = yield from self.unready(topics, places_of, _is_readable)
        return (yield from self.answer(unready, answer, reply_to, if_broken))

    def unready(
        self,
        topics: Iterable[Topic],
        places_of: Callable[[Topic], Iterable[Place]],
        is_ready: Callable[[Partition], bool],
    ) -> Slices[Iterable[Partition]]:
        """Which of the partitions, as far as there are any, are not ready: each once."""
        pace = Pace()
        unready: dict[Partition, None] = {}
        for topic in topics:
            if pace.spent():
                yield
            for topic_name, index in places_of(topic):
                partition = self._partitions.find(topic_name, index)
                if partition is not None and not is_ready(partition):
                    unready[partition] = None
                if pace.spent():
                    yield
        return unready

    async def _open_and_answer(
        self, unready: list[Partition], answer: Callable[[], Slices[Response | None]]
    ) -> Response | None:
        await self._partitions.prepare(unready)
        return await self.late.turns.run(answer())


def _is_readable(partition: Partition) -> bool:
    return partition.readable
