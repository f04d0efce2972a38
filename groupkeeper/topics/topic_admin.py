"""Making and removing topics, one change at a time: what CreateTopics, DeleteTopics and Metadata's
auto-creation share.

Not their requests and responses, and not the checks of a client's wishes (create_topics.py). A
change is durable before anybody sees it, and the files of a deleted topic are gone before its name
can be used again.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from groupkeeper.topics import names
from groupkeeper.topics.catalog import Catalog, Topic
from groupkeeper.topics.partitions import Failed, Partitions
from protocol.errors import ErrorCode
from storage.errors import StorageError

MAX_PARTITIONS: Final = 10_000
"""Of one topic and of all topics that one request makes, as Kafka's controller has it."""

TopicsDeleted = Callable[[list[str]], None]


@dataclass(slots=True)
class Outside:
    """What comes from outside and tests want to choose."""

    wall_ms: Callable[[], int]
    """Epoch milliseconds."""
    new_id: Callable[[], bytes]
    """Sixteen random bytes."""


class TopicAdmin:
    """The catalog's only writer. Callers hold `changing` from their checks to the end."""

    def __init__(
        self, catalog: Catalog, partitions: Partitions, outside: Outside, failed: Failed
    ) -> None:
        self.catalog = catalog
        self._partitions = partitions
        self._outside = outside
        self._failed = failed
        self.changing = asyncio.Lock()
        self.topics_deleted: list[TopicsDeleted] = []

    def name_complaint(self, name: str) -> str | None:
        """Why no topic can get this name, whether it exists or not."""
        wrong = names.complaint(name)
        if wrong is not None:
            return wrong
        other = self.catalog.find_collision(name)
        if other is not None:
            return f"Topic '{name}' collides with existing topic: {other}"
        if name in names.RESERVED and name not in self.catalog.by_name:
            return f"Topic name is invalid: '{name}' is kept for the server"
        return None

    def new_topic(self, name: str, partition_count: int, configs: dict[str, str]) -> Topic:
        """A topic with an id of its own, not yet created."""
        return Topic(name, self._outside.new_id(), partition_count, configs)

    async def create(self, topics: Sequence[Topic]) -> ErrorCode:
        """All of them or, when the disk refuses, none."""
        try:
            await self._purge([t for t in self.catalog.leftovers.values() if _named(t, topics)])
            await self.catalog.create(topics, self._outside.wall_ms())
        except (StorageError, OSError) as error:
            self._failed("catalog", error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NONE

    async def delete(self, topics: Sequence[Topic]) -> ErrorCode:
        """All of them or none. Files that resist are removed at the next start, at the latest."""
        try:
            await self.catalog.delete(topics, self._outside.wall_ms())
        except (StorageError, OSError) as error:
            self._failed("catalog", error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        for topic in topics:
            self._partitions.detach(topic)
        for told in self.topics_deleted:
            told([topic.name for topic in topics])
        try:
            await self._purge(topics)
        except (StorageError, OSError) as error:
            self._failed("files of deleted topics", error)
        return ErrorCode.NONE

    async def _purge(self, topics: Sequence[Topic]) -> None:
        if topics:
            await self._partitions.purge(topics)
            await self.catalog.purged(topics, self._outside.wall_ms())

    def purge_leftovers(self) -> None:
        """Finish the deletions that a crash interrupted; blocking, for the start."""
        leftovers = list(self.catalog.leftovers.values())
        try:
            self._partitions.remove_files(leftovers)
            self.catalog.purged_now(leftovers, self._outside.wall_ms())
        except (StorageError, OSError) as error:
            self._failed("files of deleted topics", error)


def _named(topic: Topic, others: Sequence[Topic]) -> bool:
    return any(topic.name == other.name for other in others)
