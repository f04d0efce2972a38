"""Answer at once if the logs that a request needs are open; if not, open them on the worker and
answer later.

Not the opening itself (partitions.py). What Fetch, ListOffsets and Produce share.
"""

from collections.abc import Callable, Iterable

from groupkeeper.exchange import ReplyTo, Response
from groupkeeper.topics.offload import LateAnswers
from groupkeeper.topics.partition import Partition
from groupkeeper.topics.partitions import Partitions

Place = tuple[str, int]
"""A topic's name and the index of one of its partitions."""


class Opening:
    """The way from a request to its open logs."""

    def __init__(self, partitions: Partitions, late: LateAnswers) -> None:
        self._partitions = partitions
        self._late = late

    def answer(
        self,
        unready: Iterable[Partition],
        answer: Callable[[], Response | None],
        reply_to: ReplyTo,
        if_broken: Callable[[], Response],
    ) -> Response | None:
        """What `answer()` gives, now or, when something is unready, to `reply_to` later (None).

        Partitions that could not be opened have no log when `answer` is called. `if_broken()` is
        the later answer when `answer` raises.
        """
        waiting_for = list(unready)
        if not waiting_for:
            return answer()
        self._late.start(self._open_and_answer(waiting_for, answer), reply_to, if_broken)
        return None

    def answer_when_readable(
        self,
        places: Iterable[Place],
        answer: Callable[[], Response | None],
        reply_to: ReplyTo,
        if_broken: Callable[[], Response],
    ) -> Response | None:
        """`answer` for a request that reads these partitions, as far as there are any."""
        existing = self._partitions.existing(places)
        unready = (partition for partition in existing if not partition.readable)
        return self.answer(unready, answer, reply_to, if_broken)

    async def _open_and_answer(
        self, unready: list[Partition], answer: Callable[[], Response | None]
    ) -> Response | None:
        await self._partitions.prepare(unready)
        return answer()
