"""Which topics and partitions of a commit exist: the rest is refused before a group is asked.

Works on any message whose topics have a ``name`` and ``partitions`` with a ``partition_index``.
Whoever looks at the topics of a request in slices asks :class:`DeletedTopics` which of them were
deleted meanwhile: the count of a moment ago may be that of another topic of the same name.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

PartitionCount = Callable[[str], int | None]
"""How many partitions a topic has; None when there is none of that name."""

Topics = Sequence[Any]
"""Topics of a request or a response: their classes differ by API and have no common base."""

R = TypeVar("R", bound=Any)


class Moment:
    """A moment, and what was deleted after it: ``topics`` first, and then what ``later`` says."""

    __slots__ = ("later", "topics")

    def __init__(self) -> None:
        self.topics: set[str] = set()
        self.later: Moment | None = None


class DeletedTopics:
    """Which topics were deleted since when; remembered for as long as somebody holds a moment."""

    def __init__(self) -> None:
        self._now = Moment()

    def note(self, topics: set[str]) -> None:
        """Topics of these names are gone, and their offsets are about to be forgotten."""
        self._now.topics = topics
        self._now.later = self._now = Moment()

    def now(self) -> Moment:
        """This moment, for :meth:`since`."""
        return self._now

    def since(self, moment: Moment) -> set[str]:
        """The topics deleted since then; nearly always none."""
        topics: set[str] = set()
        while moment.later is not None:
            topics |= moment.topics
            moment = moment.later
        return topics


def all_known(topics: Topics, count: PartitionCount, most: int) -> bool:
    """The usual case: every topic has partitions, all of them exist, and they are not too many."""
    for topic in topics:
        most -= len(topic.partitions)
        if most < 0:
            return False
        partitions = count(topic.name)
        if partitions is None or not topic.partitions:
            return False
        for each in topic.partitions:
            if not 0 <= each.partition_index < partitions:
                return False
    return True


def overlay(everything: R, answered: R) -> R:
    """``everything`` holds a refusal for all that was asked; put the real answers over it."""
    codes = {
        (topic.name, each.partition_index): each.error_code
        for topic in answered.topics
        for each in topic.partitions
    }
    for topic in everything.topics:
        for each in topic.partitions:
            each.error_code = codes.get((topic.name, each.partition_index), each.error_code)
    return everything
