"""Reads all partitions of `__consumer_offsets` of a cluster, from their leaders, without an end.

One Fetch at a time per broker, for all partitions that it leads. A response is passed on before the
next Fetch to that broker, so memory is bounded by the size of one response per broker. Partitions
whose leader does not answer are looked up again, after growing pauses.

Each Fetch says the leader epoch of the last record read, as a follower does. A broker whose log has
another end of that epoch answers where the two logs part: an unclean election lost what was read.

Source: Kafka's `AbstractFetch` and `FetchCollector` (retriable errors), `Partition.readRecords`
(KIP-595, diverging epochs; before version 12 of Fetch a broker does not tell).
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from groupkeeper.backoff import Backoff
from groupkeeper.client import CallFailed, Client
from groupkeeper.client.partitions import EARLIEST, LATEST, list_offsets
from groupkeeper.observe.logs import Logger
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from groupkeeper.protocol.record_batch import CorruptBatch
from groupkeeper.watch.topic import UNTOLD_ID, NoRight, TopicChanged, TopicSeen, is_other, look

WAIT_MS: Final = 500
"""How long a broker waits for records before it answers a Fetch."""
FETCH_BYTES: Final = 2 * 1024 * 1024
"""Maximum size of a response; a larger batch is returned alone."""
PARTITION_BYTES: Final = 1024 * 1024
"""Maximum size of one partition's part of it."""
FETCH_S: Final = 0.05
"""Least time between two Fetches to a broker, unless the first brought much: many small responses
cost more than few."""
MUCH_BYTES: Final = 256 * 1024
"""Size of a response that is much."""
LOOK_S: Final = 30.0
"""Interval at which topic and leaders are looked up while nothing fails."""
PAUSE_FIRST_S: Final = 0.1
PAUSE_MOST_S: Final = 5.0
"""First and longest pause before partitions that could not be read are looked up again."""
TRUNCATED: Final = "the log ends before what was read: an unclean election lost records"
DELETED: Final = "records were deleted before they were read"
RECREATED: Final = "the topic was created anew"
"""Why records are lost."""

_log = Logger("observer")


class Sink(Protocol):
    """Receives what is read."""

    def position(self, partition: int) -> int:
        """Return the offset to read next."""

    def epoch(self, partition: int) -> int:
        """Return the leader epoch of the record before `position`; -1 if it is unknown."""

    async def take(self, partition: int, start: int, data: bytes, end: int) -> None:
        """Take a response to a Fetch from `start`, with the end of the log. Moves `position`.

        Raises CorruptBatch if the response has bytes, but no batch that can be told apart.
        """

    def identified(self, topic_id: str) -> None:
        """Note the id of the topic, which brokers did not tell before."""

    async def lost(self, partition: int, offset: int, why: str, topic_id: str) -> None:
        """Note that the log goes on at `offset`, which is not `position`."""


@dataclass(slots=True)
class TailStats:
    """Counts since the start."""

    fetches: int = 0
    bytes: int = 0
    failures: int = 0
    """Requests that failed, and partitions with an error in a response."""
    losses: int = 0


class Tail:
    """Reads one topic into a sink."""

    def __init__(self, client: Client, topic: str, seen: TopicSeen, sink: Sink) -> None:
        self.stats = TailStats()
        self._client, self._topic, self._sink = client, topic, sink
        self._seen = seen
        self._homeless = dict.fromkeys(range(seen.partitions))
        """Partitions whose leader has to be looked up."""
        self._unread: set[int] = set()
        """Partitions that failed, and were not read since."""
        self._of_node: dict[int, dict[int, None]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._failed = asyncio.Event()
        self._backoff = Backoff(PAUSE_FIRST_S, PAUSE_MOST_S)
        self._unread_since_s: float | None = None
        """Time of the loop at which the first partition of `_unread` came; None without any."""
        self._is_told = False
        """Whether a line about the present outage was written."""
        self._has_read = False
        """Whether any partition was read."""
        self._comparing = asyncio.Lock()
        self._old: set[int] = set()
        """Brokers whose Fetch has no last epoch, since the last look."""

    @property
    def leaders(self) -> Mapping[int, int]:
        """Node id of the leader by partition, as last looked up; never changed in place."""
        return self._seen.leaders

    @property
    def unread(self) -> dict[str, int] | None:
        """Return how many partitions could not be read when last tried, and for how long in ms any
        could not; None if all are read.
        """
        if self._unread_since_s is None:
            return None
        for_s = asyncio.get_running_loop().time() - self._unread_since_s
        return {"partitions": len(self._unread), "for_ms": int(for_s * 1000)}

    async def run(self) -> None:
        """Read until cancelled. Raises TopicChanged, NoRight if the right to read is missing from
        the start on (one that is taken away later is waited for), and errors of the sink.
        """
        try:
            self._place(self._seen)
            while True:
                await self._wait()
                try:
                    await self._check(await look(self._client, self._topic))
                except (CallFailed, NoRight) as failure:
                    self._fail((), str(failure))
        finally:
            tasks = [*self._tasks.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _wait(self) -> None:
        """Wait until something failed and a pause is over, or the topic is due for a look. Raises
        the errors of tasks.
        """
        if not self._unread:
            self._failed.clear()
            waiter = asyncio.ensure_future(self._failed.wait())
            waited = [waiter, *self._tasks.values()]
            try:
                await asyncio.wait(waited, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiter.cancel()
        if self._unread:
            await asyncio.sleep(self._backoff.failed())
        for node, task in [*self._tasks.items()]:
            if task.done():
                del self._tasks[node]
                task.result()

    async def _check(self, seen: TopicSeen) -> None:
        """Compare the topic with what was seen before, and place its partitions."""
        self._old.clear()
        if seen.partitions != self._seen.partitions:
            raise TopicChanged(
                f"the topic {self._topic} has {seen.partitions} partitions instead of "
                f"{self._seen.partitions}: its groups are in other partitions now; start anew with "
                "an empty --data"
            )
        await self._compare(seen)
        for node, partitions in self._of_node.items():
            for each in [*partitions]:
                if seen.leaders.get(each) != node:
                    del partitions[each]
                    self._homeless[each] = None
        self._place(seen)

    async def _compare(self, seen: TopicSeen) -> None:
        """Read a topic that was created anew from its start. Raises CallFailed; then the next look
        compares again.
        """
        async with self._comparing:
            known = self._seen.topic_id
            if is_other(known, seen.topic_id):
                places = [(self._topic, each) for each in range(seen.partitions)]
                starts = await list_offsets(self._client, places, EARLIEST)
                for (_, partition), start in starts.items():
                    await self._lose(partition, start or 0, RECREATED, seen.topic_id)
            elif seen.topic_id == UNTOLD_ID:  # brokers of two versions answer in turn
                seen = replace(seen, topic_id=known)
            elif known == UNTOLD_ID:
                self._sink.identified(seen.topic_id)
            self._seen = seen

    def _place(self, seen: TopicSeen) -> None:
        for partition in [*self._homeless]:
            node = seen.leaders.get(partition)
            if node is not None:
                del self._homeless[partition]
                self._of_node.setdefault(node, {})[partition] = None
        for node, partitions in self._of_node.items():
            if partitions and node not in self._tasks:
                self._tasks[node] = asyncio.create_task(self._read(node, partitions))
        if self._homeless:
            self._fail(self._homeless, f"no leader of partitions {_some(self._homeless)}")

    # -- one broker ------------------------------------------------------------------------------

    async def _read(self, node: int, partitions: dict[int, None]) -> None:
        """Read some partitions from their leader until there are none left."""
        loop = asyncio.get_running_loop()
        while partitions:
            began = loop.time()
            asked = {each: self._sink.position(each) for each in partitions}
            try:
                rows = await self._fetch(node, asked)
            except CallFailed as failure:
                self._leave(partitions, [*partitions], str(failure))
                return
            for row in rows:
                number = row.partition_index
                if number in partitions:
                    await self._take(partitions, number, asked[number], row)
            # A full response may lack the last ones: they come first in the next.
            for number in [row.partition_index for row in rows if row.records]:
                if number in partitions:
                    partitions[number] = partitions.pop(number)
            if sum(len(row.records or b"") for row in rows) < MUCH_BYTES:
                await asyncio.sleep(began + FETCH_S - loop.time())

    async def _fetch(self, node: int, asked: dict[int, int]) -> Sequence[PartitionData]:
        wanted = [
            FetchPartition(
                partition=number,
                fetch_offset=offset,
                last_fetched_epoch=-1 if node in self._old else self._sink.epoch(number),
                partition_max_bytes=PARTITION_BYTES,
            )
            for number, offset in asked.items()
        ]
        request = FetchRequest(
            max_wait_ms=min(WAIT_MS, int(self._client.timeout_s * 1000 / 2)),
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            topics=[FetchTopic(topic=self._topic, partitions=wanted)],
        )
        try:
            answer = await self._client.call(request, node=node)
        except CallFailed as failure:
            if failure.error != ErrorCode.UNSUPPORTED_VERSION or node in self._old:
                raise
            self._old.add(node)
            return await self._fetch(node, asked)
        self.stats.fetches += 1
        # Any: rows of a response.
        rows: list[Any] = [each for topic in answer.responses for each in topic.partitions]
        return rows

    async def _take(
        self, partitions: dict[int, None], number: int, start: int, row: PartitionData
    ) -> None:
        parting = row.diverging_epoch
        if row.error_code == ErrorCode.NONE and parting is not None and parting.end_offset >= 0:
            end = min(parting.end_offset, self._sink.position(number))
            await self._lose(number, end, TRUNCATED, self._seen.topic_id)
        elif row.error_code == ErrorCode.NONE:
            data = bytes(row.records or b"")
            self.stats.bytes += len(data)
            self._has_read = True
            try:
                await self._sink.take(number, start, data, row.high_watermark)
            except CorruptBatch as problem:
                why = f"partition {number} at offset {start}: {problem}"
                self._leave(partitions, [number], why)
            else:
                self._succeed(number)
        elif row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            try:
                await self._out_of_range(number)
            except CallFailed as failure:
                self._leave(partitions, [number], str(failure))
        elif row.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            missing = NoRight(self._topic, "READ")
            if not self._has_read:
                raise missing
            self._leave(partitions, [number], str(missing))
        else:
            name = ErrorCode(row.error_code).name
            self._leave(partitions, [number], f"Fetch of partition {number}: {name}")

    async def _out_of_range(self, partition: int) -> None:
        """Find where the log goes on. Raises CallFailed."""
        await self._check_id()
        place, position = (self._topic, partition), self._sink.position(partition)
        start = (await list_offsets(self._client, [place], EARLIEST))[place]
        end = (await list_offsets(self._client, [place], LATEST))[place]
        if start is None or end is None:
            raise CallFailed("ListOffsets", None, ErrorCode.LEADER_NOT_AVAILABLE, self._topic)
        if position < start:
            await self._lose(partition, start, DELETED, self._seen.topic_id)
        elif position > end:
            await self._lose(partition, end, TRUNCATED, self._seen.topic_id)

    async def _check_id(self) -> None:
        """Look whether the topic was created anew. Raises CallFailed."""
        try:
            seen = await look(self._client, self._topic)
        except NoRight as missing:
            raise CallFailed("Metadata", None, ErrorCode.TOPIC_AUTHORIZATION_FAILED) from missing
        if seen.partitions == self._seen.partitions:
            await self._compare(seen)

    async def _lose(self, partition: int, offset: int, why: str, topic_id: str) -> None:
        self.stats.losses += 1
        position = self._sink.position(partition)
        where = {"partition": partition, "from_offset": position, "to_offset": offset}
        _log.warning("history is lost", why=why, **where)
        await self._sink.lost(partition, offset, why, topic_id)

    # -- failures --------------------------------------------------------------------------------

    def _leave(self, partitions: dict[int, None], some: Sequence[int], why: str) -> None:
        """Take partitions from a broker, to look their leaders up again."""
        for each in some:
            del partitions[each]
            self._homeless[each] = None
        self._fail(some, why)

    def _fail(self, partitions: Iterable[int], why: str) -> None:
        """Count a failure, and tell the first one of an outage."""
        self.stats.failures += 1
        self._unread.update(partitions)
        if self._unread and self._unread_since_s is None:
            self._unread_since_s = asyncio.get_running_loop().time()
        self._failed.set()
        if not self._is_told:
            self._is_told = True
            _log.warning("partitions cannot be read", why=why, retried="with growing pauses")

    def _succeed(self, partition: int) -> None:
        """Note that a partition was read. An outage is over when all have been."""
        self._unread.discard(partition)
        if not self._unread:
            self._unread_since_s = None
            self._backoff.reset()
            if self._is_told:
                self._is_told = False
                _log.info("all partitions are read again")


def _some(partitions: Iterable[int]) -> str:
    numbers = sorted(partitions)
    return ", ".join(map(str, numbers[:5])) + (", ..." if len(numbers) > 5 else "")
