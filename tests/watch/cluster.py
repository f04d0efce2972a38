"""A cluster in memory with one topic, asked like a `Client`, under virtual time."""

import asyncio
from typing import Any

from groupkeeper.client import CallFailed
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.message import Message
from groupkeeper.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from groupkeeper.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from groupkeeper.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from groupkeeper.protocol.record_batch import iter_batches

TOPIC = "__consumer_offsets"
LATEST = -1
CALL_S = 0.001
"""How long a call takes."""
POLL_S = 0.001
"""How long a Fetch looks for new records again."""


async def virtual(seconds: float) -> None:
    """Let virtual time pass."""
    await asyncio.sleep(seconds)


class FakeCluster:
    """Two nodes, and partitions that tests lead, fill, delete and let fail."""

    timeout_s = 5.0

    def __init__(self, partitions: int = 1) -> None:
        self.nodes = [0, 1]
        self.leaders = {number: number % 2 for number in range(partitions)}
        self.logs: dict[int, list[bytes]] = {number: [] for number in range(partitions)}
        self.starts = dict.fromkeys(range(partitions), 0)
        self.ends: dict[int, int] = {}
        """Ends of logs that are not those of their last batches."""
        self.topic_id = bytes(15) + b"\1"
        self.topic_error = ErrorCode.NONE
        self.down: set[int] = set()
        self.is_old = False
        """Fetch has no last epoch."""
        self.errors: dict[int, list[ErrorCode]] = {}
        """Errors of the next Fetches, by partition."""
        self.calls: list[tuple[float, str, int | None]] = []
        """Time, API and node of all calls."""
        self.at_once = dict.fromkeys(self.nodes, 0)
        self.most_at_once = 0
        """How many Fetches a node had at once, at most."""
        self._grown = asyncio.Event()

    def append(self, partition: int, *batches: bytes) -> None:
        self.logs[partition] += batches
        self._grown.set()

    def end(self, partition: int) -> int:
        if partition in self.ends:
            return self.ends[partition]
        log = self.logs[partition]
        return max([*(each.next_offset for data in log for each in iter_batches(data))] or [0])

    def fetches(self, node: int) -> int:
        return sum(api == "FetchRequest" and at == node for _, api, at in self.calls)

    async def call(self, request: Message, *, node: int | None = None) -> Any:
        loop = asyncio.get_running_loop()
        api = type(request).__name__
        self.calls.append((loop.time(), api, node))
        await asyncio.sleep(CALL_S)
        if node in self.down or len(self.down) == len(self.nodes):
            raise CallFailed(api, node, ErrorCode.BROKER_NOT_AVAILABLE)
        if isinstance(request, MetadataRequest):
            return self._metadata()
        if isinstance(request, ListOffsetsRequest):
            return self._list_offsets(request)
        assert isinstance(request, FetchRequest)
        assert node is not None
        if self.is_old and any(
            each.last_fetched_epoch >= 0 for each in request.topics[0].partitions
        ):
            raise CallFailed(api, node, ErrorCode.UNSUPPORTED_VERSION)
        self.at_once[node] += 1
        self.most_at_once = max(self.most_at_once, self.at_once[node])
        try:
            return await self._fetch(request, node)
        finally:
            self.at_once[node] -= 1

    def _metadata(self) -> MetadataResponse:
        brokers = [MetadataResponseBroker(node_id=each) for each in self.nodes]
        topic = MetadataResponseTopic(
            name=TOPIC, error_code=self.topic_error, topic_id=self.topic_id
        )
        if not self.topic_error:
            topic.partitions = [
                MetadataResponsePartition(partition_index=number, leader_id=leader)
                for number, leader in self.leaders.items()
            ]
        return MetadataResponse(brokers=brokers, topics=[topic], cluster_id="cluster")

    def _list_offsets(self, request: Any) -> ListOffsetsResponse:
        rows = []
        for each in request.topics[0].partitions:
            number = each.partition_index
            offset = self.end(number) if each.timestamp == LATEST else self.starts[number]
            rows.append(ListOffsetsPartitionResponse(partition_index=number, offset=offset))
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=TOPIC, partitions=rows)])

    async def _fetch(self, request: Any, node: int) -> FetchResponse:
        loop = asyncio.get_running_loop()
        until = loop.time() + request.max_wait_ms / 1000
        while True:
            rows = [self._row(each, node) for each in request.topics[0].partitions]
            if any(each.records or each.error_code for each in rows) or loop.time() >= until:
                topic = FetchableTopicResponse(topic=TOPIC, partitions=rows)
                return FetchResponse(responses=[topic])
            self._grown.clear()
            try:
                async with asyncio.timeout(until - loop.time()):
                    await self._grown.wait()
            except TimeoutError:
                pass
            if node in self.down:
                raise CallFailed("Fetch", node, ErrorCode.NETWORK_EXCEPTION)

    def _end_of_epoch(self, partition: int, epoch: int) -> int:
        """Where records of later epochs begin, or the end of the log."""
        heads = [each for data in self.logs[partition] for each in iter_batches(data)]
        later = [each.base_offset for each in heads if each.leader_epoch > epoch >= 0]
        return min([*later, self.end(partition)])

    def _row(self, asked: Any, node: int) -> PartitionData:
        number, start = asked.partition, asked.fetch_offset
        row = PartitionData(partition_index=number, high_watermark=self.end(number))
        if self.errors.get(number):
            row.error_code = self.errors[number].pop(0)
        elif self.topic_error:
            row.error_code = self.topic_error
        elif self.leaders.get(number) != node:
            row.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif not self.starts[number] <= start <= self.end(number):
            row.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        elif (end := self._end_of_epoch(number, asked.last_fetched_epoch)) < start:
            row.diverging_epoch = EpochEndOffset(epoch=asked.last_fetched_epoch, end_offset=end)
        else:
            found = [
                data
                for data in self.logs[number]
                if any(each.next_offset > start for each in iter_batches(data))
            ]
            most = max(asked.partition_max_bytes, len(found[0]) if found else 0)
            row.records = b"".join(found)[:most]
        return row
