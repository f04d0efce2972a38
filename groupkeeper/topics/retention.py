"""Deletes old segments of topics, every `log.retention.check.interval.ms`.

Theory of operation. A pass goes through the partitions of all topics with cleanup.policy `delete`.
The worker examines some at a time: the segments of open logs, and the folders of closed logs. A
closed log is opened only if its folder shows that segments may be too old or too many. It is closed
again before the next one is opened: a pass over many partitions needs one more open log. A topic's
limits are read before each deletion, so changes by an operator during a pass take effect.

The logs of events also have a joint limit. Beyond it, the oldest segments of the largest logs are
deleted.

storage/log/retention.py decides what is kept; record_deletion.py deletes. The first pass begins a
whole interval after the start, so that an operator can change a topic's configs before.

Source: Kafka's `LogManager.cleanupLogs`.
"""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

from groupkeeper.clock import Clock
from groupkeeper.storage.log.retention import RetentionLimits, kept_together
from groupkeeper.topics.catalog import Catalog, Topic
from groupkeeper.topics.names import EVENT_TOPIC
from groupkeeper.topics.partitions import AT_ONCE, TopicPartitions
from groupkeeper.topics.record_deletion import (
    LimitsOf,
    RecordDeletion,
    SegmentsDeleted,
    TopicAndIndex,
)
from groupkeeper.topics.slices import Pace
from groupkeeper.turns import Turns


class RetentionListener:
    """Receives the results of retention, to log them. This class ignores them."""

    def deleted(self, what: SegmentsDeleted) -> None:
        """Called when segments of a partition were deleted."""

    def failed(self, error: Exception) -> None:
        """Called when a pass ended with an error; the next one is due as usual."""


class Retention:
    """Passes over all topics, from `start` to `close`."""

    def __init__(
        self,
        catalog: Catalog,
        partitions: TopicPartitions,
        deletion: RecordDeletion,
        turns: Turns,
        limits_of: LimitsOf,
        listener: RetentionListener,
    ) -> None:
        self._catalog = catalog
        self._partitions = partitions
        self._deletion = deletion
        self._turns = turns
        self._limits_of = limits_of
        self._listener = listener
        self._event_bytes = -1
        self._stopping = False
        self._is_waiting = False
        """Whether the task waits for the next pass to be due."""
        self._wake = asyncio.Event()
        """Set when a pass is due, and by `stop`."""
        self._pass_over = asyncio.Event()
        self._began_ms = self._interval_ms = 0
        """Start of the last pass, or of the first interval; ms of the clock."""
        self._task: asyncio.Task[None] | None = None
        self.segments_deleted = 0
        """Total since the start."""

    def start(self, clock: Clock, interval_ms: int, *, event_bytes: int = -1) -> None:
        """Begin the passes, the first one after an interval of the clock. `event_bytes`: maximum
        bytes of all logs of events together; negative: no limit.
        """
        self._event_bytes = event_bytes
        self._began_ms, self._interval_ms = clock.now(), interval_ms
        self._task = asyncio.get_running_loop().create_task(self._run(clock))

    def stop(self) -> None:
        """Begin no further deletion."""
        self._stopping = True
        self._wake.set()
        self._pass_over.set()

    async def close(self) -> None:
        """Call `stop`, and wait for the current deletion."""
        self.stop()
        if self._task is not None:
            await self._task

    async def caught_up(self, now_ms: int) -> None:
        """Wait, after the clock was moved to `now_ms`, until no pass is due."""
        while now_ms - self._began_ms >= self._interval_ms and not self._stopping:
            if self._is_waiting:
                self._wake.set()
            await self._pass_over.wait()

    async def _run(self, clock: Clock) -> None:
        due_ms = self._began_ms + self._interval_ms
        while await self._is_due(clock, due_ms):
            self._began_ms = clock.now()
            try:
                await self.check()
            except Exception as error:  # noqa: BLE001  # the next pass is due as usual
                self._listener.failed(error)
            due_ms = clock.now() + self._interval_ms
            self._pass_over.set()
            self._pass_over.clear()  # `set` has released all waiting tasks

    async def _is_due(self, clock: Clock, due_ms: int) -> bool:
        """Wait until that time; False as soon as `stop` is called."""
        if self._stopping:
            return False
        alarm = clock.call_at(due_ms, self._wake.set)
        self._is_waiting = True
        await self._wake.wait()
        self._is_waiting = False
        alarm.cancel()
        self._wake.clear()
        return not self._stopping

    async def check(self) -> None:
        """Do one pass. Not for concurrent calls."""
        async for topic, index in self._expiring():
            await self._delete(topic, index, self._limits_of)
        if self._event_bytes >= 0:
            await self._check_events(self._catalog.by_name[EVENT_TOPIC])

    async def _delete(self, topic: Topic, index: int, limits_of: LimitsOf) -> None:
        deleted = await self._deletion.delete_expired(topic, index, limits_of)
        if deleted is not None:
            self.segments_deleted += deleted.segments
            self._listener.deleted(deleted)

    async def _check_events(self, topic: Topic) -> None:
        """Delete the oldest segments of the largest logs of events, until all together are within
        their limit. Closed logs are not counted, and stay as they are.
        """
        logs = {
            index: log
            for index in range(topic.partition_count)
            if (log := self._partitions.log_of(topic, index)) is not None
        }
        for index, kept_bytes in kept_together(logs, self._event_bytes).items():
            if self._stopping:
                return
            await self._delete(topic, index, partial(_limits_of_size, kept_bytes))

    async def _expiring(self) -> AsyncIterator[TopicAndIndex]:
        """Yield the partitions that may have something to delete."""
        some: list[TopicAndIndex] = []
        async for place in self._places():
            some.append(place)
            if len(some) == AT_ONCE:
                for found in await self._deletion.expiring(some, self._limits_of):
                    yield found
                some = []
        for found in await self._deletion.expiring(some, self._limits_of):
            yield found

    async def _places(self) -> AsyncIterator[TopicAndIndex]:
        """Yield the partitions that retention applies to, with other work in between."""
        pace = Pace()
        for topic in list(self._catalog.by_name.values()):
            index = 0
            while index < topic.partition_count and self._limits_of(topic) is not None:
                yield topic, index
                index += 1
                if pace.spent():
                    await self._turns.wait()
                if topic.deleted or self._stopping:
                    break
            if self._stopping:
                return
            if pace.spent():
                await self._turns.wait()


def _limits_of_size(most: int, _: Topic) -> RetentionLimits:
    return RetentionLimits(0, -1, most)
