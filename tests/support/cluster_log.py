"""A partition log on a topic of a Kafka cluster, as far as its owner can tell: the cluster is two
dictionaries, and every call takes time.

It differs from the embedded store in all that the contract leaves open: each batch is on its way by
itself, a claim outbids any owner, a newer one is met by the append, and an answer may be lost.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from groupkeeper.coordinator.gate import Unwritten
from groupkeeper.groups.partition_log import Author, LateRecords, LogBatch, LogOwner
from groupkeeper.protocol.record_batch import encode_batch
from groupkeeper.protocol.timed_batch import encode_timed_batch
from groupkeeper.storage.errors import AppendFailed, Corrupt, Fenced
from tests.support.batches import TIME

TRAVEL_S = 0.002
"""The longest way of a request or of an answer."""


@dataclass
class Topic:
    """One partition of the topic, and its transactional id."""

    batches: list[bytes] = field(default_factory=list)
    end: int = 0
    epoch: int = 0
    claims: int = 0
    refuses: bool = False
    """Appends are refused."""
    answers_lost: bool = False
    """Appends are done, and nobody is told."""
    damaged: bool = False

    def take(self, epoch: int, unwritten: Unwritten) -> None:
        if isinstance(unwritten, LateRecords):
            for records in unwritten.make():
                self._append(encode_timed_batch(self.end, epoch, records), len(records))
        else:
            records = unwritten.records
            self._append(encode_batch(self.end, epoch, TIME, records), len(records))

    def _append(self, data: bytes, count: int) -> None:
        self.batches.append(data)
        self.end += count


class Cluster:
    """What outlives the processes."""

    def __init__(self, seed: int = 0) -> None:
        self.topics: defaultdict[str, Topic] = defaultdict(Topic)
        self._random = Random(seed)

    async def travel(self) -> None:
        await asyncio.sleep(self._random.uniform(0, TRAVEL_S))


class ClusterLogs:
    """The logs of one process."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._asked: dict[Author, None] = {}
        self._tasks: dict[Author, asyncio.Task[None]] = {}

    def log(self, name: str) -> "ClusterLog":
        return ClusterLog(self, self._cluster, name)

    def kill(self) -> None:
        """What is on its way may arrive all the same."""
        self._asked.clear()
        for task in self._tasks.values():
            task.cancel()

    def ask(self, author: Author) -> None:
        self._asked[author] = None
        if author not in self._tasks:
            self._tasks[author] = asyncio.get_running_loop().create_task(self._serve(author))

    async def _serve(self, author: Author) -> None:
        try:
            while author in self._asked:
                await asyncio.sleep(0)
                del self._asked[author]
                try:
                    batches = author.take()
                except RuntimeError as bug:
                    author.not_written(bug)
                    continue
                await _all_sent(batches)
        finally:
            del self._tasks[author]


async def _all_sent(batches: Sequence[LogBatch]) -> None:
    """Those that belong to another one after it is written."""
    first = [batch for batch in batches if batch.belongs_to is None]
    sent = await asyncio.gather(*map(_sent, first))
    errors = dict(zip(first, sent, strict=True))
    for batch in batches:
        if batch.belongs_to is not None:
            error = errors[batch.belongs_to]
            if error is None:
                await _sent(batch)
            else:
                batch.owner.not_written(error)


def _sent(batch: LogBatch) -> Awaitable[Exception | None]:
    assert isinstance(batch.log, ClusterLog)
    return batch.log.sent(batch)


class ClusterLog:
    """One partition of the topic, and the right to write to it."""

    def __init__(self, logs: ClusterLogs, cluster: Cluster, name: str) -> None:
        self.name = name
        self._logs = logs
        self._cluster = cluster
        self._topic = cluster.topics[name]
        self._epoch: int | None = None
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def claim(self, owner: LogOwner) -> int:
        await self._idle.wait()
        await self._cluster.travel()
        self._topic.claims += 1
        if self._epoch not in (None, self._topic.epoch):
            raise Fenced(f"{self.name} has a newer writer")
        if self._topic.damaged:
            raise Corrupt(f"{self.name} cannot be read")
        self._topic.epoch += 1
        self._epoch = self._topic.epoch
        await self._cluster.travel()
        return self._epoch

    def claim_empty(self, owner: LogOwner) -> int | None:
        return None  # it cannot know without asking

    @property
    def is_new(self) -> bool:
        return False

    def claim_new(self, owner: LogOwner, epoch: int) -> None:
        raise AssertionError("it is never known to be new")

    async def claim_beside(self, owner: LogOwner, epoch: int) -> int:
        self._topic.epoch = max(self._topic.epoch, epoch - 1)
        return await self.claim(owner)

    async def read(self, take: Callable[[bytes], None]) -> None:
        for batch in list(self._topic.batches):
            await self._cluster.travel()
            take(batch)

    def append_from(self, author: Author) -> None:
        self._logs.ask(author)

    async def release(self) -> None:
        await self._idle.wait()
        self._epoch = None

    def sent(self, batch: LogBatch) -> Awaitable[Exception | None]:
        """Send a batch now; the answer comes later, and the owner is told. Returns the error."""
        self._under_way += 1
        self._idle.clear()
        return self._answered(batch, self._epoch)

    async def _answered(self, batch: LogBatch, epoch: int | None) -> Exception | None:
        try:
            await self._cluster.travel()
            error = self._append(epoch, batch)
            await self._cluster.travel()
            if error is None:
                batch.owner.written(batch.unwritten)
            else:
                batch.owner.not_written(error)
            return error
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._idle.set()

    def _append(self, epoch: int | None, batch: LogBatch) -> Exception | None:
        topic = self._topic
        if epoch is None or epoch != topic.epoch:
            return Fenced(f"{self.name} has a newer writer")
        if topic.refuses:
            return AppendFailed(f"{self.name} takes no more")
        try:
            topic.take(epoch, batch.unwritten)
        except RuntimeError as bug:
            return bug
        return AppendFailed("no answer") if topic.answers_lost else None
