"""The data plane over a disk in memory, spoken to with messages; no thread, no socket, no sleeping.

scene = Scene()
await scene.create("t", partitions=2)
answer = await scene.produce("t", 0, batch("hello"))
data = await scene.fetch(("t", 0, 0))
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest
from typing import Any, TypeVar

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from groupkeeper.apis.table import Dependencies, handlers
from groupkeeper.coordinator.caller import Caller, ReplyTo
from groupkeeper.coordinator.group_configs import GroupConfigsRequest
from groupkeeper.coordinator.step import GroupConfigs
from groupkeeper.exchange import Handler
from groupkeeper.node import Node
from groupkeeper.protocol.message import Message, key_of
from groupkeeper.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from groupkeeper.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from groupkeeper.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from groupkeeper.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from groupkeeper.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from groupkeeper.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from groupkeeper.settings.table import Settings as ServerSettings
from groupkeeper.topics.file_jobs import FileJobs
from groupkeeper.topics.names import GROUP_TOPIC
from groupkeeper.topics.partitions import InternalLogs
from groupkeeper.topics.retention import RetentionListener
from groupkeeper.topics.topics import Topics, TopicsWorld
from tests.support.fake_files import FakeDisk, FakeFiles
from tests.support.requests import alter_topic_request
from tests.support.slices import counted

T = TypeVar("T")
NOW = 1_700_000_000_000
COMPRESSIONS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def batch(
    *values: str,
    compression: str = "none",
    timestamp: int = NOW,
    keys: Sequence[bytes | None] = (),
    step: int = 1,
    **producer: int,
) -> bytes:
    """A batch as a client builds it, a record each `step` milliseconds. Producer: id, epoch,
    sequence. Records without a key of their own have none.
    """
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=COMPRESSIONS[compression],
        is_transactional=bool(producer.get("transactional", 0)),
        producer_id=producer.get("id", -1),
        producer_epoch=producer.get("epoch", -1 if "id" not in producer else 0),
        base_sequence=producer.get("sequence", -1 if "id" not in producer else 0),
        batch_size=1 << 30,
    )
    for delta, (value, key) in enumerate(zip_longest(values or ("v",), keys)):
        builder.append(
            delta, timestamp=timestamp + delta * step, key=key, value=value.encode(), headers=[]
        )
    return bytes(builder.build())


class InlineWorker:
    """Does each job at once: the order is that of the thread, only the waiting is missing."""

    async def __call__(self, job: Callable[[], T]) -> T:
        return job()

    def close(self) -> None: ...


class HeldWorker(InlineWorker):
    """Does no job before it is told to."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def __call__(self, job: Callable[[], T]) -> T:
        await self.go.wait()
        return job()


class FirstHeldWorker(HeldWorker):
    """Does the first job when it is told to, and the others meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self._first = True

    async def __call__(self, job: Callable[[], T]) -> T:
        first, self._first = self._first, False
        return await super().__call__(job) if first else job()


class GatedWorker(InlineWorker):
    """Does no job while its gate is closed, and counts those that wait."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.waiting = 0
        self.passing = 0
        """How many jobs are done although the gate is closed."""

    async def __call__(self, job: Callable[[], T]) -> T:
        if self.passing:
            self.passing -= 1
            return job()
        self.waiting += 1
        await self.gate.wait()
        self.waiting -= 1
        return job()

    async def has(self, count: int) -> None:
        """Let other tasks run until so many jobs wait."""
        for _ in range(1_000):
            if self.waiting >= count:
                return
            await asyncio.sleep(0)
        raise AssertionError("no such job")


Settings = partial(ServerSettings, num_partitions=3, offsets_topic_num_partitions=4)


class Reply:
    """The place for one answer; more than one is a bug."""

    def __init__(self) -> None:
        self.response: Any = None
        self._answered = asyncio.Event()

    def answer(self, response: Any) -> None:
        assert not self._answered.is_set(), "answered twice"
        self.response = response
        self._answered.set()

    @property
    def answered(self) -> bool:
        return self._answered.is_set()

    async def wait(self) -> Any:
        await asyncio.wait_for(self._answered.wait(), 60)
        return self.response


class NoGroups:
    """Stands for the partitions of `__consumer_offsets`, and for each of their drivers."""

    configs: Mapping[str, Mapping[str, str]] = {}

    def unserved(self) -> list[int]:
        return []

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def of(self, group_id: str) -> "NoGroups":
        return self

    def call(self, request: GroupConfigsRequest, caller: Caller, reply_to: ReplyTo) -> None:
        assert not request.configs
        reply_to.answer(GroupConfigs())


def handlers_of(topics: Topics, node: Node) -> dict[int, Handler]:
    """By API key. Those of groups cannot be called: there is no coordinator, and no group has
    configs.
    """
    group_partitions: Any = NoGroups()
    return handlers(Dependencies(group_partitions, topics, node, topics.settings))


@dataclass
class Scene:
    disk: FakeDisk = field(default_factory=FakeDisk)
    settings: ServerSettings = field(default_factory=Settings)
    worker: Any = field(default_factory=InlineWorker)
    file_jobs: Callable[[], FileJobs] | None = None
    data_dir: str = "data"
    was_used: bool = False
    now: int = NOW
    """Unix milliseconds."""
    retention: RetentionListener = field(default_factory=RetentionListener)

    def __post_init__(self) -> None:
        self.failures: list[str] = []
        self.repairs: list[str] = []
        self.slices = 0
        """Of the handler of the latest request."""
        self.port = 9092
        self._ids = iter(range(1, 1_000_000))
        self.files = FakeFiles(self.disk)
        self.files.make_folder(self.data_dir)
        self.disk.sync_names(".")
        self.topics = Topics(
            self,
            self.settings,
            TopicsWorld(
                files=self.files,
                worker=self.worker,
                file_jobs=self.file_jobs,
                wall_ms=lambda: self.now,
                random_bytes=self._random_bytes,
                failed=lambda where, error: self.failures.append(f"{where}: {error}"),
                repaired=self.repairs.append,
                retention=self.retention,
            ),
        )
        self.handlers = handlers_of(self.topics, Node(7, lambda _: ("broker.example", self.port)))

    def serve_group_logs(self, log_of: Callable[[int], Any]) -> None:
        """Set the logs of the group topic."""

        async def call(job: Callable[[], T]) -> T:
            return job()

        self.topics.partitions.internal[GROUP_TOPIC] = InternalLogs(log_of, call)

    def _random_bytes(self, size: int) -> bytes:
        # Different after a restart, too, as chance would have it.
        return (self.disk.calls * 1_000_000 + next(self._ids)).to_bytes(size, "big")

    async def restart(self, **settings: Any) -> "Scene":
        """Stop in an orderly way and start again on the same disk."""
        await self.topics.close()
        return self._again(replace(self.settings, **settings))

    def kill(self) -> "Scene":
        """`kill -9`, and start again."""
        self.files.kill()
        self.disk.revive()
        return self._again(self.settings)

    def _again(self, settings: ServerSettings) -> "Scene":
        return Scene(
            self.disk, settings, self.worker, self.file_jobs, now=self.now, retention=self.retention
        )

    # -- requests

    def send(self, version: int, request: Message) -> Reply:
        """Give a request to its handler; the reply may come later."""
        reply = Reply()
        handle = self.handlers[key_of(type(request))]
        response = handle(request, Caller(api_version=version), reply)
        if isinstance(response, Generator):
            response, self.slices = counted(response)
        if response is not None:
            reply.answer(response)
        return reply

    def ask(self, version: int, request: Message) -> Awaitable[Any]:
        return self.send(version, request).wait()

    async def create(self, name: str, partitions: int = 1, version: int = 7, **more: Any) -> Any:
        requested = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=more.pop("replication_factor", 1),
            **more,
        )
        response = await self.ask(version, CreateTopicsRequest(topics=[requested]))
        return response.topics[0]

    async def delete(self, *names: str) -> list[Any]:
        states = [DeleteTopicState(name=name) for name in names]
        request = DeleteTopicsRequest(topics=states, timeout_ms=1000)
        return list((await self.ask(6, request)).responses)

    async def alter(self, topic: str, **configs: object) -> None:
        """Set configs of a topic; see `alter_topic_request`."""
        response = await self.ask(1, alter_topic_request(topic, **configs))
        assert response.responses[0].error_code == 0

    async def metadata(self, *names: str, version: int = 12, **more: Any) -> Any:
        topics = [MetadataRequestTopic(name=name) for name in names]
        return await self.ask(version, MetadataRequest(topics=topics, **more))

    def topic_id(self, name: str) -> bytes:
        """That of a topic; for a name that no topic has, an id that no topic has."""
        topic = self.topics.catalog.by_name.get(name)
        return topic.topic_id if topic is not None else b"no such topic id"

    def produce_request(
        self, *sent: tuple[str, int, bytes | None], acks: int = -1, **more: Any
    ) -> ProduceRequest:
        """Each sent: topic, partition, records. Both the topic's name and its id are filled in."""
        topics = [
            TopicProduceData(
                name=topic,
                topic_id=self.topic_id(topic),
                partition_data=[PartitionProduceData(index=index, records=records)],
            )
            for topic, index, records in sent
        ]
        return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics, **more)

    def send_produce(
        self, topic: str, partition: int, records: bytes | None, version: int = 9, **more: Any
    ) -> Reply:
        return self.send(version, self.produce_request((topic, partition, records), **more))

    async def produce(
        self, topic: str, partition: int, records: bytes | None, version: int = 9, **more: Any
    ) -> Any:
        response = await self.send_produce(topic, partition, records, version, **more).wait()
        return response.responses[0].partition_responses[0]

    def send_fetch(self, *wanted: tuple[str, int, int], version: int = 12, **more: Any) -> Reply:
        """Each wanted: topic (name and id are filled in), partition, offset. Waits for nothing
        unless max_wait_ms is given.
        """
        size = more.pop("partition_max_bytes", 1 << 20)
        epoch = more.pop("current_leader_epoch", -1)
        topics = [
            FetchTopic(
                topic=topic,
                topic_id=self.topic_id(topic),
                partitions=[
                    FetchPartition(
                        partition=index,
                        fetch_offset=offset,
                        partition_max_bytes=size,
                        current_leader_epoch=epoch,
                    )
                ],
            )
            for topic, index, offset in wanted
        ]
        request = FetchRequest(min_bytes=more.pop("min_bytes", 1), topics=topics, **more)
        return self.send(version, request)

    async def fetch(self, *wanted: tuple[str, int, int], version: int = 12, **more: Any) -> Any:
        """The data of the partition, or a list of them if several are wanted."""
        response = await self.send_fetch(*wanted, version=version, **more).wait()
        data = [topic.partitions[0] for topic in response.responses]
        return data[0] if len(data) == 1 else data

    async def offsets(
        self, topic: str, partition: int, timestamp: int, version: int = 7, **more: Any
    ) -> Any:
        wanted = ListOffsetsPartition(partition_index=partition, timestamp=timestamp, **more)
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=[wanted])])
        return (await self.ask(version, request)).topics[0].partitions[0]
