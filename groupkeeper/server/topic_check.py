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


def all_known(topics: Topics, count: PartitionCount) -> bool:
    """The usual case: every topic has partitions, and all of them exist."""
    for topic in topics:
        partitions = count(topic.name)
        if partitions is None or not topic.partitions:
            return False
        for each in topic.partitions:
            if not 0 <= each.partition_index < partitions:
                return False
    return True


def answerable(topics: Topics, count: PartitionCount) -> list[Any]:
    """Without topics that exist but of which nothing is asked: Kafka does not mention them."""
    return [topic for topic in topics if topic.partitions or count(topic.name) is None]


def known_of(topics: Topics, count: PartitionCount) -> list[Any]:
    """The topics with only those partitions that exist."""
    known = []
    for topic in topics:
        partitions = count(topic.name) or 0
        existing = [p for p in topic.partitions if 0 <= p.partition_index < partitions]
        if existing:
            known.append(type(topic)(name=topic.name, partitions=existing))
    return known


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
