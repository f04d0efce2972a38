"""Checks whether the topics and partitions of a request exist, before a group processes them.

Works on any message whose topics have a `name` and `partitions` with a `partition_index`. A check
in slices ends by asking `DeletedTopics` which topics were deleted meanwhile: a partition count that
it has read may belong to an earlier topic of the same name.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

PartitionCount = Callable[[str], int | None]
"""Number of partitions of a topic; None if it does not exist."""

_Topics = Sequence[Any]
"""Topics of a request or a response: their classes differ by API and have no common base."""

R = TypeVar("R", bound=Any)


class Moment:
    """A moment: `topics` are those deleted right after it, `later` is the next moment."""

    __slots__ = ("later", "topics")

    def __init__(self) -> None:
        self.topics: set[str] = set()
        self.later: Moment | None = None


class DeletedTopics:
    """Tracks topics deleted since a moment. The list goes back to the oldest moment in use."""

    def __init__(self) -> None:
        self._now = Moment()

    def note(self, topics: set[str]) -> None:
        """Note that these topics are deleted, and their offsets are about to be."""
        self._now.topics = topics
        self._now.later = self._now = Moment()

    def now(self) -> Moment:
        """Return the current moment, for `since`."""
        return self._now

    def since(self, moment: Moment) -> set[str]:
        """Return the topics deleted since then; nearly always none."""
        topics: set[str] = set()
        while moment.later is not None:
            topics |= moment.topics
            moment = moment.later
        return topics


def all_known(topics: _Topics, count: PartitionCount, most: int) -> bool:
    """Check the usual case: every topic has partitions, all exist, and there are at most `most`."""
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
    """Copy the error codes of `answered` into `everything`, which has a refusal per partition."""
    codes = {
        (topic.name, each.partition_index): each.error_code
        for topic in answered.topics
        for each in topic.partitions
    }
    for topic in everything.topics:
        for each in topic.partitions:
            each.error_code = codes.get((topic.name, each.partition_index), each.error_code)
    return everything
