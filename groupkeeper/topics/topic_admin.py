"""Creates, changes and deletes topics, one change at a time.

For CreateTopics, CreatePartitions, AlterConfigs, DeleteTopics and Metadata's auto-creation, whose
handlers check the requests. A change is durable before it is visible. A deletion has two parts:
once it is in the catalog, clients no longer see the topic; then it is completed in the background:
offsets are deleted, files are removed, and the topic is removed from the catalog. Until then its
name cannot be used, and a start after a crash completes the deletion.

The second part identifies a topic by its name only: offsets, folders and the catalog's tombstone
have no id. So it must never run for a topic whose name already belongs to another. These rules
ensure it:

* A name belongs to one topic at most, either in `by_name` or in `being_deleted`. A topic moves from
  the first to the second in one step, and no topic is created with a name that is in either.
* A deletion is completed only while the topic, the very object, is in `being_deleted`, and by one
  task at a time: others wait for that task. Only the task removes it from there, last of all.
* A deletion of many topics takes many slices: the first topics may be completely deleted, and even
  recreated, before the last one is marked. Code that holds an old object must compare it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, Final

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.storage.errors import StorageError
from groupkeeper.topics import names
from groupkeeper.topics.catalog import Catalog, Topic
from groupkeeper.topics.limits import PARTITIONS_MOST, TOPICS_MOST, OverLimitError
from groupkeeper.topics.partitions import Failed, TopicPartitions
from groupkeeper.topics.refusals import Refusal, Refused
from groupkeeper.topics.slices import each
from groupkeeper.turns import Slices, Turns

MAX_PARTITIONS: Final = 10_000
"""Partitions created by one request, as in Kafka's controller; and of one topic, as one response of
Metadata has all of them."""

TOO_MANY_PARTITIONS: Final = "Excessively large number of partitions per request."
"""Kafka's message if there are more."""

FULL: Final = (
    f"This server has at most {TOPICS_MOST} topics, with {PARTITIONS_MOST} partitions in all."
)
"""Message for clients that exceed the server's limits."""

UNWRITABLE: Final = "The catalog of topics cannot be written"
"""Message for a change that could not be written."""

DELETION_WAIT_S: Final = 10.0
"""How long a request waits for a deletion, which continues without it."""

TopicsDeleted = Callable[[list[str]], Awaitable[None]]
"""Deletes the offsets of topics with these names; returns when that is durable. Repeatable. Raises
if this process can no longer do it: the next start retries."""


class Capacity:
    """The topics and partitions a request may still add under the server's limits."""

    def __init__(self, catalog: Catalog, failed: Failed) -> None:
        self._topics = TOPICS_MOST - len(catalog.by_name)
        self._partitions = PARTITIONS_MOST - catalog.partition_total
        self._failed: Failed | None = failed

    def take(self, topics: int, partitions: int) -> None:
        """Reserve topics and partitions. Raises Refused beyond a limit, and reports it once."""
        if topics > self._topics or partitions > self._partitions:
            failed, self._failed = self._failed, None
            if failed is not None:
                failed("topics", OverLimitError(FULL))
            raise Refused(ErrorCode.POLICY_VIOLATION, FULL)
        self._topics -= topics
        self._partitions -= partitions


def check_replicas(broker_ids: Sequence[int], node_id: int) -> None:
    """Raise Refused unless a client assigns a partition to exactly this broker.

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
        """Deletions in progress; the result is whether all offsets are deleted."""
        # Any: results are not used.
        self._tasks: set[asyncio.Task[Any]] = set()

    def check_name(self, name: str) -> Refusal | None:
        """Return why no topic can have this name, whether it exists or not; None if one can."""
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
        """Return a topic with a new id, not yet created."""
        return Topic(name, self._random_bytes(16), partition_count, configs)

    def capacity(self) -> Capacity:
        """Return the capacity for one request; the caller holds `changing`."""
        return Capacity(self.catalog, self._failed)

    def leader_epoch(self, topic: Topic, index: int) -> int:
        """Return the current epoch of one of the topic's partitions."""
        partition = self._partitions.find(topic.name, index) if topic.internal else None
        return topic.leader_epoch if partition is None else partition.leader_epoch

    async def create(self, topics: Sequence[Topic]) -> ErrorCode:
        """Create all topics, or none if the write fails."""
        return await self._written(self.catalog.create(topics, self._wall_ms()))

    async def change(self, topics: Sequence[Topic]) -> ErrorCode:
        """Give topics the partition counts and configs of these copies; all or none."""
        return await self._written(self.catalog.change(topics, self._wall_ms()))

    async def delete(self, topics: Sequence[Topic]) -> ErrorCode:
        """Mark all of them deleted, or none; then start to complete the deletion."""
        error = await self._written(self.catalog.delete(topics, self._wall_ms()))
        if error == ErrorCode.NONE:
            await self._turns.run(self._start_deletions(topics))
        return error

    async def await_deletion(self, names: Iterable[str]) -> bool:
        """Wait up to DELETION_WAIT_S for the deletion of these topics; failed ones are retried.

        Returns True if all their offsets are deleted. Their files may remain, and then their names
        cannot be used: see `is_being_deleted`.
        """
        if not self.catalog.being_deleted:
            return True
        found = await self._turns.run(each(dict.fromkeys(names), self.catalog.being_deleted.get))
        deleted = [topic for topic in found if topic is not None]
        ends = await self._turns.run(self._start_deletions(deleted))
        if not ends:
            return True
        done, pending = await asyncio.wait(ends, timeout=DELETION_WAIT_S)
        return not pending and all(end.result() for end in done)

    def is_being_deleted(self, name: str) -> bool:
        """Return whether a deleted topic of this name still has files or offsets."""
        return name in self.catalog.being_deleted

    def finish_deletions(self) -> None:
        """Start to complete deletions that a crash interrupted, with all of `topics_deleted`."""
        self._start(
            self._turns.run(self._start_deletions(list(self.catalog.being_deleted.values())))
        )

    async def close(self) -> None:
        """Wait for deletions in progress; `topics_deleted` callbacks end when the server stops."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _written(self, change: Awaitable[None]) -> ErrorCode:
        try:
            await change
        except (StorageError, OSError) as failure:
            self._failed("catalog", failure)
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NONE

    def _start_deletions(self, topics: Iterable[Topic]) -> Slices[set[asyncio.Future[bool]]]:
        """Start to complete deletions that have no task yet; return the futures of all."""
        end: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        idle: list[Topic] = []
        ends: set[asyncio.Future[bool]] = set()

        def claim(topic: Topic) -> None:
            if self.catalog.being_deleted.get(topic.name) is not topic:
                return  # completed already: its name may be another topic's
            if topic not in self._deletions:
                self._deletions[topic] = end
                idle.append(topic)
            ends.add(self._deletions[topic])

        yield from each(topics, claim)
        if idle:
            self._start(self._complete(idle, end))
        return ends

    def _start(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _complete(self, topics: list[Topic], end: "asyncio.Future[bool]") -> None:
        """Delete offsets, files and entries: after a crash, all steps are repeated or none is."""
        offsets_deleted = False
        try:
            await self._turns.run(self._partitions.detach(topics))
            names = await self._turns.run(each(topics, lambda topic: topic.name))
            for forget in self.topics_deleted:
                await forget(names)
            offsets_deleted = True
            await self._partitions.purge(topics)
            await self.catalog.purged(topics, self._wall_ms())
        except Exception as error:  # noqa: BLE001  # the topics stay in `being_deleted`
            self._failed("cleaning up deleted topics", error)
        await self._turns.run(each(topics, self._deletions.pop))
        end.set_result(offsets_deleted)
