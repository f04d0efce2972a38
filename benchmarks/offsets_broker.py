"""A broker in memory whose only topic is `__consumer_offsets`, for `benchmarks.observing`.

    python -m benchmarks.offsets_broker --records 1000000

prints its port, and after a line on standard input ("RATE ROUNDS SECONDS") it appends so many
commits and rebalances a second. Then it prints one line of JSON: how long records were there before
a reader asked for those behind them. Logs are what Kafka writes: one batch for each commit of a
member, and one for each generation.
"""

import argparse
import asyncio
import json
import sys
import time
from bisect import bisect_right
from collections.abc import Iterator
from itertools import count, cycle
from math import inf
from typing import Any, Final

from groupkeeper.coordinator.records import group_key, offset_key, offset_key_head, offset_value
from groupkeeper.protocol.compile_encode import Framing
from groupkeeper.protocol.compiler import encoder
from groupkeeper.protocol.embedded import Subscription, assignment_of
from groupkeeper.protocol.framing import read_request_header
from groupkeeper.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from groupkeeper.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from groupkeeper.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from groupkeeper.protocol.messages.list_groups import ListGroupsResponse
from groupkeeper.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from groupkeeper.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from groupkeeper.protocol.placement import partition_of
from groupkeeper.protocol.record_batch import encode_batch
from groupkeeper.protocol.records.consumer_offsets import (
    GroupMetadataValue,
    MemberMetadata,
    encode_value,
)
from groupkeeper.protocol.registry import APIS, request_decoder
from groupkeeper.topics.names import GROUP_TOPIC

PIECE_BYTES: Final = 256 * 1024
"""Of a backlog so many bytes are returned together, or a multiple of them."""
TICK_S: Final = 0.01
"""Interval at which new records are appended."""
APART: Final = 7919
"""How far apart groups are that are rebalanced one after the other."""
LATEST: Final = -1
TOPIC: Final = "orders"
TOPIC_END: Final = 1 << 40
"""The topic that all groups read, and the end of its partitions."""
SERVED: Final = (
    *("ApiVersions", "Metadata", "ListOffsets", "Fetch"),
    *("ListGroups", "DescribeGroups"),  # no group is in a rebalance for long
)
SESSION_MS, REBALANCE_MS = 45_000, 300_000


class Log:
    """One partition, in pieces of whole batches."""

    def __init__(self) -> None:
        self.bases: list[int] = []
        self._pieces: list[bytes] = []
        self._appended: list[float] = []
        self.end = 0
        self._seen = 0
        """Number of pieces that a reader has read."""

    def append(self, batches: list[bytes], end: int) -> None:
        self.bases.append(self.end)
        self._pieces.append(b"".join(batches))
        self._appended.append(time.monotonic())
        self.end = end

    def read(self, offset: int, most: int) -> bytes:
        """The pieces from an offset on, which is the first of a piece."""
        number = bisect_right(self.bases, offset - 1)
        found, size = list[bytes](), 0
        for piece in self._pieces[number:]:
            if found and size + len(piece) > most:
                break
            found.append(piece)
            size += len(piece)
        return b"".join(found)

    def ages(self, offset: int, since: float) -> Iterator[float]:
        """How long ago pieces were appended that are read for the first time, up to an offset."""
        now, number = time.monotonic(), bisect_right(self.bases, offset - 1)
        for appended in self._appended[self._seen : number]:
            if appended >= since:
                yield now - appended
        self._seen = max(self._seen, number)


class Load:
    """Groups with members, of which each commits for its partitions in turn."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.groups = [f"billing-{number}" for number in range(options.groups)]
        self._members, self._in_batch = options.members, options.in_batch
        self.partitions = options.members * options.in_batch
        self._places = [partition_of(name, options.partitions) for name in self.groups]
        self._generations = [0] * len(self.groups)
        self._next = count()
        self._subscription = encoder(Subscription, 1, Framing.BARE)(
            Subscription(version=1, topics=[TOPIC])
        )
        heads = [offset_key_head(name, TOPIC) for name in self.groups]
        each = options.in_batch
        self._keys = cycle(
            (number, [offset_key(head, member * each + n) for n in range(each)])
            for member in range(options.members)
            for number, head in enumerate(heads)
        )

    def commit(self, base: list[int], ms: int) -> tuple[int, bytes, int]:
        """The next commit of a member: partition of the log, batch and number of records."""
        number, keys = next(self._keys)
        place, offset = self._places[number], next(self._next)
        value = offset_value(offset, -1, "", ms, -1)
        return place, encode_batch(base[place], 1, ms, [(key, value) for key in keys]), len(keys)

    def generation(self, base: list[int], number: int, ms: int) -> tuple[int, bytes, int]:
        """The next generation of a group: its first member is another one."""
        self._generations[number] += 1
        name, place, now = self.groups[number], self._places[number], self._generations[number]
        members = [self._member(n, now if not n else 1, name) for n in range(self._members)]
        value = GroupMetadataValue(
            protocol_type="consumer",
            generation=now,
            protocol="range",
            leader=members[0].member_id,
            current_state_timestamp=ms,
            members=members,
        )
        batch = encode_batch(base[place], 1, ms, [(group_key(name), encode_value(value, 3))])
        return place, batch, 1

    def _member(self, number: int, start: int, group: str) -> MemberMetadata:
        first = number * self._in_batch
        places = [(TOPIC, first + n) for n in range(self._in_batch)]
        return MemberMetadata(
            member_id=f"{group}-{number}-{start:08}-6b0c-4f52-9a5f-d2c3f8a6b1aa",
            client_id=f"{group}-{number}",
            client_host=f"/10.0.{number}.17",
            rebalance_timeout=REBALANCE_MS,
            session_timeout=SESSION_MS,
            subscription=self._subscription,
            assignment=assignment_of(places),
        )


class Broker:
    """Answers one reader. Logs only grow."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._load, self._in_batch = Load(options), options.in_batch
        self.port = 0
        self._logs = [Log() for _ in range(options.partitions)]
        self._grown = asyncio.Event()
        self._since, self._ages = inf, list[float]()
        self._waiting: list[list[bytes]] = [[] for _ in self._logs]
        self._ends, self._sizes = [0] * options.partitions, [0] * options.partitions
        self._fill(options.records)

    # -- load ------------------------------------------------------------------------------------

    def _fill(self, records: int) -> None:
        """A generation of each group, and so many commits."""
        ms = time.time_ns() // 1_000_000
        for number in range(len(self._load.groups)):
            self._add(self._load.generation(self._ends, number, ms), PIECE_BYTES)
        for _ in range(0, records, self._in_batch):
            self._add(self._load.commit(self._ends, ms), PIECE_BYTES)
        self._flush()

    def _add(self, made: tuple[int, bytes, int], most: float = inf) -> None:
        """Add a batch to the next piece of its log, which is complete when it has so many bytes."""
        place, batch, records = made
        self._waiting[place].append(batch)
        self._ends[place] += records
        self._sizes[place] += len(batch)
        if self._sizes[place] >= most:
            self._end(place)

    def _end(self, place: int) -> None:
        self._logs[place].append(self._waiting[place], self._ends[place])
        self._waiting[place], self._sizes[place] = [], 0

    def _flush(self) -> None:
        for place, batches in enumerate(self._waiting):
            if batches:
                self._end(place)
        self._grown.set()

    async def play(self, rate: int, rounds: int, seconds: float) -> dict[str, Any]:
        """Append so many commits and rebalances a second. Returns the ages of records in ms."""
        began = self._since = time.monotonic()
        commits = rebalances = 0
        while (now := time.monotonic()) < began + seconds:
            due, more = int((now - began) * rate), int((now - began) * rounds)
            self._append(due - commits, range(rebalances, more))
            commits, rebalances = due, more
            await asyncio.sleep(TICK_S)
        await asyncio.sleep(1)
        ages = sorted(self._ages) or [seconds]
        at = {"p50": 0.5, "p99": 0.99, "most": 1.0}
        ms = {name: ages[min(int(len(ages) * part), len(ages) - 1)] for name, part in at.items()}
        ms = {name: round(value * 1000, 1) for name, value in ms.items()}
        return {"commits": commits, "rebalances": rebalances, "pieces": len(ages), "lag_ms": ms}

    def _append(self, commits: int, rebalances: range) -> None:
        ms = time.time_ns() // 1_000_000
        for _ in range(commits):
            self._add(self._load.commit(self._ends, ms))
        for number in rebalances:
            group = number * APART % len(self._load.groups)
            self._add(self._load.generation(self._ends, group, ms))
        self._flush()

    # -- requests --------------------------------------------------------------------------------

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                frame = await reader.readexactly(size)
                header, body = read_request_header(frame, 0, size)
                key, version = header.api_key, header.api_version
                request = request_decoder(key, version)(frame, body, size)
                api = APIS[key]
                answer = await getattr(self, f"_{api.key.name.lower()}")(request)
                encode = encoder(api.response_type, version, Framing.RESPONSE)
                writer.write(encode(answer, header.correlation_id))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _api_versions(self, _: Any) -> ApiVersionsResponse:
        rows = [
            ApiVersion(api_key=key, min_version=api.served[0], max_version=api.served[1])
            for key, api in APIS.items()
            if api.name in SERVED
        ]
        return ApiVersionsResponse(api_keys=rows)

    async def _metadata(self, request: Any) -> MetadataResponse:
        node = MetadataResponseBroker(node_id=0, host="127.0.0.1", port=self.port)
        counts = {GROUP_TOPIC: len(self._logs), TOPIC: self._load.partitions}
        topics = [
            MetadataResponseTopic(
                name=each.name,
                topic_id=bytes(15) + b"\1",
                partitions=[
                    MetadataResponsePartition(partition_index=number, leader_id=0)
                    for number in range(counts[each.name])
                ],
            )
            for each in request.topics or ()
        ]
        return MetadataResponse(brokers=[node], topics=topics, cluster_id="in-memory")

    async def _list_offsets(self, request: Any) -> ListOffsetsResponse:
        topics = [
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(
                        partition_index=each.partition_index,
                        offset=self._offset(topic.name, each.partition_index, each.timestamp),
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return ListOffsetsResponse(topics=topics)

    def _offset(self, topic: str, partition: int, timestamp: int) -> int:
        if timestamp != LATEST:
            return 0
        return TOPIC_END if topic == TOPIC else self._logs[partition].end

    async def _list_groups(self, _: Any) -> ListGroupsResponse:
        return ListGroupsResponse()

    async def _describe_groups(self, request: Any) -> DescribeGroupsResponse:
        rows = [
            DescribedGroup(group_id=name, group_state="Stable", protocol_type="consumer")
            for name in request.groups
        ]
        return DescribeGroupsResponse(groups=rows)

    async def _fetch(self, request: Any) -> FetchResponse:
        asked = request.topics[0].partitions
        for each in asked:
            self._ages += self._logs[each.partition].ages(each.fetch_offset, self._since)
        until = time.monotonic() + request.max_wait_ms / 1000
        while True:
            rows, room = [], request.max_bytes
            for each in asked:
                log = self._logs[each.partition]
                row = PartitionData(partition_index=each.partition, high_watermark=log.end)
                if room > 0 and each.fetch_offset < log.end:
                    row.records = log.read(each.fetch_offset, min(room, each.partition_max_bytes))
                    room -= len(row.records)
                rows.append(row)
            if room < request.max_bytes or (left := until - time.monotonic()) <= 0:
                topic = FetchableTopicResponse(topic=GROUP_TOPIC, partitions=rows)
                return FetchResponse(responses=[topic])
            self._grown.clear()
            try:
                async with asyncio.timeout(left):
                    await self._grown.wait()
            except TimeoutError:
                pass


async def run(options: argparse.Namespace) -> None:
    broker = Broker(options)
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    broker.port = server.sockets[0].getsockname()[1]
    print(broker.port, flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        rate, rounds, seconds = line.split()
        print(json.dumps(await broker.play(int(rate), int(rounds), float(seconds))), flush=True)


def add_load(parser: argparse.ArgumentParser) -> None:
    """The arguments that say what the topic has."""
    parser.add_argument("--partitions", type=int, default=50, help="of the topic (50)")
    parser.add_argument("--groups", type=int, default=10_000, help="(10000)")
    parser.add_argument("--members", type=int, default=10, help="of each group (10)")
    parser.add_argument("--in-batch", type=int, default=1, help="offsets in a commit (1)")
    parser.add_argument("--records", type=int, default=1_000_000, help="in the backlog (1000000)")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.offsets_broker")
    add_load(parser)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
