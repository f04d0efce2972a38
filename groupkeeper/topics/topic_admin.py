"""Making, changing and removing topics, one change at a time: what CreateTopics, CreatePartitions,
DeleteTopics and Metadata's auto-creation share.

Not their requests and responses, and not the checks of a client's wishes (create_topics.py). A
change is durable before anybody sees it. A deletion has two parts: once it is in the catalog, the
topic is gone for clients, for good; then, in the background, it is *ended*: what others keep for
the topic is forgotten, its files are removed, and it is crossed out of the catalog. Its name cannot
be used before that, and a start after a crash ends it again.

The second part knows a topic by its name only: offsets, folders and the catalog's tombstone have
nothing else. So it must never run for a topic whose name is another one's by then. That holds
because of this:

* A name belongs to one topic at most: the one in `by_name` or the one in `being_deleted`. From the
  first to the second it goes in one step, and nobody gets a name that is in either.
* A topic is ended only while it, the very object, is in `being_deleted`, and by one task at a time:
  whoever else wants it ended waits for that. Only the end takes it out of there, last of all.
* A deletion of many topics takes many slices, and the first of them may be ended, and even be made
  again, before the last one is gone. Whoever holds an old object has to compare it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, Final

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.storage.errors import StorageError
from groupkeeper.topics import names
from groupkeeper.topics.catalog import Catalog, Topic
from groupkeeper.topics.limits import PARTITIONS_MOST, TOPICS_MOST, OverLimitError
from groupkeeper.topics.partition import LEADER_EPOCH
from groupkeeper.topics.partitions import Failed, TopicPartitions
from groupkeeper.topics.refusals import Refusal, Refused
from groupkeeper.topics.slices import each
from groupkeeper.turns import Slices, Turns

MAX_PARTITIONS: Final = 10_000
"""Made by one request, as Kafka's controller has it; and of one topic, however often it grows: one
answer of Metadata has all of them."""

TOO_MANY_PARTITIONS: Final = "Excessively large number of partitions per request."
"""What Kafka says about more."""

FULL: Final = (
    f"This server has at most {TOPICS_MOST} topics, with {PARTITIONS_MOST} partitions in all."
)
"""What clients are told who want more."""

UNWRITABLE: Final = "The catalog of topics cannot be written"
"""What clients are told of a change that is not made because it cannot be kept."""

PATIENCE_S: Final = 10.0
"""How long a request waits for the end of a deletion, which goes on without it."""

TopicsDeleted = Callable[[list[str]], Awaitable[None]]
"""Forgets what is kept for topics of these names; done when that is durable, and repeatable. Raises
when it cannot be done in this process any more: the next one tries again."""


class Capacity:
    """What one request may still add under the server's limits."""

    def __init__(self, catalog: Catalog, failed: Failed) -> None:
        self._topics = TOPICS_MOST - len(catalog.by_name)
        self._partitions = PARTITIONS_MOST - catalog.partition_total
        self._failed: Failed | None = failed

    def take(self, topics: int, partitions: int) -> None:
        """Raises UnwantedError if there is not as much; the first time it is told, too."""
        if topics > self._topics or partitions > self._partitions:
            failed, self._failed = self._failed, None
            if failed is not None:
                failed("topics", OverLimitError(FULL))
            raise Refused(ErrorCode.POLICY_VIOLATION, FULL)
        self._topics -= topics
        self._partitions -= partitions


def check_replicas(broker_ids: Sequence[int], node_id: int) -> None:
    """Raise Refused unless the one broker is all that a client assigns a partition to.

    Source: Kafka's `ReplicationControlManager.validateManualPartitionAssignment`.
    """
    assignment = "The manual partition assignment includes"
    message = None
    other = min((each for each in broker_ids if each != node_id), default=None)
    if not broker_ids:
        message = f"{assignment} an empty replica list."
    elif other is not None:
        message = f"{assignment} broker {other}, but no such broker is registered."
    elif len(broker_ids) > 1:
        message = f"{assignment} the broker {node_id} more than once."
    if message is not None:
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


class TopicAdmin:
    """The catalog's only writer. Callers hold `changing` from their checks to the end."""

    def __init__(
        self,
        catalog: Catalog,
        partitions: TopicPartitions,
        wall_ms: Callable[[], int],
        random_bytes: Callable[[int], bytes],
        failed: Failed,
        turns: Turns,
    ) -> None:
        self.catalog = catalog
        self._partitions = partitions
        self._wall_ms = wall_ms
        self._random_bytes = random_bytes
        self._failed = failed
        self._turns = turns
        self.changing = asyncio.Lock()
        self.topics_deleted: list[TopicsDeleted] = []
        self._deletions: dict[Topic, asyncio.Future[bool]] = {}
        """Deletions under way; the result says whether all is forgotten."""
        # Any: what a task returns is nobody's business here.
        self._tasks: set[asyncio.Task[Any]] = set()

    def check_name(self, name: str) -> Refusal | None:
        """Why no topic can have this name, whether it exists or not; None if one can."""
        refusal = names.check_name(name)
        if refusal is not None:
            return refusal
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
        other = self.catalog.find_collision(name)
        if other is not None:
            return Refusal(error, f"Topic '{name}' collides with existing topic: {other}")
        if name in names.RESERVED and name not in self.catalog.by_name:
            return Refusal(error, f"Topic name is invalid: '{name}' is reserved")
        return None

    def new_topic(self, name: str, partition_count: int, configs: dict[str, str]) -> Topic:
        """A topic with an id of its own, not yet created."""
        return Topic(name, self._random_bytes(16), partition_count, configs)

    def capacity(self) -> Capacity:
        """For one request, from its checks to the end of the change."""
        return Capacity(self.catalog, self._failed)

    def leader_epoch(self, topic: Topic, index: int) -> int:
        """The present epoch of one of the topic's partitions."""
        partition = self._partitions.find(topic.name, index) if topic.internal else None
        return LEADER_EPOCH if partition is None else partition.leader_epoch

    async def create(self, topics: Sequence[Topic]) -> ErrorCode:
        """All of them or, when the disk refuses, none."""
        return await self._written(self.catalog.create(topics, self._wall_ms()))

    async def change(self, topics: Sequence[Topic]) -> ErrorCode:
        """Existing topics become what these copies are; all of them or none."""
        return await self._written(self.catalog.change(topics, self._wall_ms()))

    async def delete(self, topics: Sequence[Topic]) -> ErrorCode:
        """All of them are gone for clients, or none; the rest is begun. See `await_deletion`."""
        code = await self._written(self.catalog.delete(topics, self._wall_ms()))
        if code == ErrorCode.NONE:
            await self._turns.run(self._start_deletions(topics))
        return code

    async def await_deletion(self, names: Iterable[str]) -> bool:
        """Wait for the end of these topics' deletions, within limits; what failed is tried again.

        True when nothing is remembered of any of them. Their files may still resist, and their
        names are not free then: see `is_being_deleted`.
        """
        if not self.catalog.being_deleted:
            return True
        found = await self._turns.run(each(dict.fromkeys(names), self.catalog.being_deleted.get))
        deleted = [topic for topic in found if topic is not None]
        ends = await self._turns.run(self._start_deletions(deleted))
        if not ends:
            return True
        done, pending = await asyncio.wait(ends, timeout=PATIENCE_S)
        return not pending and all(end.result() for end in done)

    def is_being_deleted(self, name: str) -> bool:
        """A topic of this name was deleted and is not yet gone without a trace."""
        return name in self.catalog.being_deleted

    def finish_deletions(self) -> None:
        """Begin to finish what was interrupted, by a crash or by a disk that refused."""
        self._start(
            self._turns.run(self._start_deletions(list(self.catalog.being_deleted.values())))
        )

    async def close(self) -> None:
        """Wait for the deletions under way; whoever forgets for them gives up by itself."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _written(self, change: Awaitable[None]) -> ErrorCode:
        try:
            await change
        except (StorageError, OSError) as error:
            self._failed("catalog", error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NONE

    def _start_deletions(self, topics: Iterable[Topic]) -> Slices[set[asyncio.Future[bool]]]:
        """Begin with those that nobody is ending; the ends of all that are not ended yet."""
        end: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        idle: list[Topic] = []
        ends: set[asyncio.Future[bool]] = set()

        def claim(topic: Topic) -> None:
            if self.catalog.being_deleted.get(topic.name) is not topic:
                return  # somebody else was faster: its name may be another topic's
            if topic not in self._deletions:
                self._deletions[topic] = end
                idle.append(topic)
            ends.add(self._deletions[topic])

        yield from each(topics, claim)
        if idle:
            self._start(self._end(idle, end))
        return ends

    def _start(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _end(self, topics: list[Topic], end: "asyncio.Future[bool]") -> None:
        """Forget, remove, cross out: in this order a crash leaves either everything to do again or
        nothing that anybody remembers.
        """
        forgotten = False
        try:
            await self._turns.run(self._partitions.detach(topics))
            names = await self._turns.run(each(topics, lambda topic: topic.name))
            for forget in self.topics_deleted:
                await forget(names)
            forgotten = True
            await self._partitions.purge(topics)
            await self.catalog.purged(topics, self._wall_ms())
        except Exception as error:  # noqa: BLE001  # whatever it is: the topics stay to be finished
            self._failed("rests of deleted topics", error)
        await self._turns.run(each(topics, self._deletions.pop))
        end.set_result(forgotten)
