"""The topics of a consumer, share or streams group: names by id, numbers of partitions, and what
patterns of its members were resolved to. Records have only ids.
"""

import base64
from collections.abc import Iterator, Mapping
from typing import Any, Final

from groupkeeper.history.ownership import OwnedPartition
from groupkeeper.protocol.records.modern_groups import (
    Current,
    PartitionMetadata,
    StreamsCurrent,
    Target,
)

Names = Mapping[bytes, str]
NO_NAMES: Final[Names] = {}
TOPICS_MOST: Final = 10_000
"""Maximum number of topics of a group whose names and sizes are remembered."""
PATTERNS_MOST: Final = 1_000
"""Maximum number of patterns of a group to remember, and of topics of one; of more, none are."""


class NewerTopics:
    """The topics of one group."""

    names: dict[str, str]
    """Topic id -> name; empty if unknown."""
    _sizes: dict[str, int]
    """Topic id -> number of partitions, as assigned or told."""
    _patterns: dict[str, tuple[str, ...]]

    def __init__(self, known: Names) -> None:
        """`known`: topic id -> name, of all topics; may grow."""
        self.names, self._sizes, self._patterns = {}, {}, {}
        self.unnamed: list[str] = []
        """Topic ids that were met without a name, until the caller takes them."""
        self._known, self._looked = known, 0
        self._ids: dict[str, str] = {}
        """Name -> topic id."""
        self._grown: dict[str, tuple[int, int]] = {}
        """Topic id -> number of partitions before and now, since `changes` was called."""

    def id_of(self, name: str) -> str:
        """Return the id of a topic, or the name if it is unknown."""
        size = len(self._known) + len(self.names)
        if name not in self._ids and self._looked != size:
            self._looked = size
            for topic, named in self.names.items():
                found = named or self._known.get(id_of(topic), "")
                if found:
                    self.names[topic], self._ids[found] = found, topic
        return self._ids.get(name, name)

    def met(self, topic_id: bytes) -> str:
        """Note a topic, and return its id as text. A name that is unknown is looked up again."""
        topic = id_text(topic_id)
        is_new = topic not in self.names
        if not self.names.get(topic) and (not is_new or len(self.names) < TOPICS_MOST):
            name = self.names[topic] = self._known.get(topic_id, "")
            if is_new and not name:
                self.unnamed.append(topic)
        return topic

    def places(self, current: Current) -> list[OwnedPartition]:
        """Return the partitions that a member has, by topic id, or by subtopology."""
        if isinstance(current, StreamsCurrent):
            return named(current, NO_NAMES)
        met = [(self.met(each.topic_id), each.partitions) for each in current.assigned]
        return sorted({(topic, number) for topic, some in met for number in some})

    # -- sizes and patterns ----------------------------------------------------------------------

    def targets(self, target: Target) -> None:
        """Note that topics have at least the partitions that a member is to own."""
        for each in target.topics:
            topic = self.met(each.topic_id)
            size = max(each.partitions, default=-1) + 1
            if size > self._sizes.get(topic, 0):
                self._size(topic, size)

    def described(self, metadata: PartitionMetadata) -> None:
        """Take over names and numbers of partitions."""
        for each in metadata.topics:
            topic = self.met(each.topic_id)
            if topic in self.names:
                self.names[topic] = each.topic_name
            if each.num_partitions != self._sizes.get(topic, 0):
                self._size(topic, each.num_partitions)

    def _size(self, topic: str, size: int) -> None:
        before = self._sizes.get(topic, 0)
        self._grown[topic] = self._grown.get(topic, (before, 0))[0], size
        if topic in self.names:
            self._sizes[topic] = size

    def changes(self) -> list[dict[str, Any]]:
        """Return the topics whose size has changed since the last call, as evidence of a cause."""
        grown, self._grown = self._grown, {}
        return [
            {
                "topic": self.names.get(topic) or topic,
                "partitions_before": before,
                "partitions_now": now,
            }
            for topic, (before, now) in grown.items()
        ]

    def resolved(self, pattern: str, topics: list[str]) -> dict[str, Any] | None:
        """Note what a pattern matches. Returns evidence of a cause if that has changed."""
        now = tuple(sorted(topics)) if len(topics) <= PATTERNS_MOST else ()
        before = self._patterns.get(pattern)
        if pattern in self._patterns or len(self._patterns) < PATTERNS_MOST:
            self._patterns[pattern] = now
        if before is None or before == now:
            return None
        gained, lost = sorted({*now} - {*before}), sorted({*before} - {*now})
        return {"pattern": pattern, "gained": gained, "lost": lost}

    def forget_pattern(self, pattern: str | None) -> None:
        """No member has the pattern any more."""
        self._patterns.pop(pattern or "", None)


def partitions_of(current: Current, names: Names) -> Iterator[tuple[str, list[int]]]:
    """Return a member's partitions by topic; for streams groups, active tasks by subtopology."""
    if isinstance(current, StreamsCurrent):
        yield from ((each.subtopology_id, sorted(each.partitions)) for each in current.active)
    else:
        for each in current.assigned:
            yield names.get(each.topic_id) or id_text(each.topic_id), each.partitions


def named(current: Current, names: Names) -> list[OwnedPartition]:
    """Return a member's partitions as pairs, in order."""
    return sorted({(topic, one) for topic, some in partitions_of(current, names) for one in some})


def id_text(topic_id: bytes) -> str:
    """Return a topic id in Kafka's text form, unpadded base64url."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def id_of(text: str) -> bytes:
    """Return the topic id of a text made by `id_text`."""
    return base64.urlsafe_b64decode(text + "==")
