"""Which topics and partitions of a commit exist: the rest is refused before a group is asked.

Works on any message whose topics have a ``name`` and ``partitions`` with a ``partition_index``.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

PartitionCount = Callable[[str], int | None]
"""How many partitions a topic has; None when there is none of that name."""

Topics = Sequence[Any]
"""Topics of a request or a response: their classes differ by API and have no common base."""

R = TypeVar("R", bound=Any)


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
