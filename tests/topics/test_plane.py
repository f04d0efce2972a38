"""The whole data plane: through the codec in every version, and on a real disk and thread."""

from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import pytest

from groupkeeper.coordinator.caller import Caller
from groupkeeper.node import Node
from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.framing import read_request_header
from groupkeeper.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from groupkeeper.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from groupkeeper.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from groupkeeper.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from groupkeeper.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from groupkeeper.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from groupkeeper.protocol.messages.init_producer_id import InitProducerIdRequest
from groupkeeper.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from groupkeeper.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from groupkeeper.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from groupkeeper.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from groupkeeper.protocol.registry import APIS, request_decoder, response_encoder
from groupkeeper.topics.topics import Topics
from tests.support.codecs import request_encoder, response_decoder
from tests.support.slices import counted
from tests.topics.scene import Reply, Scene, Settings, batch, handlers_of


def wanted(key: ApiKey, version: int, topic_id: bytes = bytes(16)) -> object:
    """A request about the topic `t` that succeeds; the id is needed by versions that have it."""
    return requests("new" if key == ApiKey.CREATE_TOPICS else "t", version, topic_id)[key]


def requests(name: str, version: int, topic_id: bytes = bytes(16)) -> dict[ApiKey, object]:
    return {
        ApiKey.PRODUCE: ProduceRequest(
            acks=1,
            topic_data=[
                TopicProduceData(
                    name=name,
                    topic_id=topic_id,
                    partition_data=[PartitionProduceData(records=batch("a"))],
                )
            ],
        ),
        ApiKey.FETCH: FetchRequest(
            topics=[
                FetchTopic(
                    topic=name,
                    topic_id=topic_id,
                    partitions=[FetchPartition(partition_max_bytes=1 << 20)],
                )
            ]
        ),
        ApiKey.LIST_OFFSETS: ListOffsetsRequest(
            topics=[ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(timestamp=-1)])]
        ),
        ApiKey.METADATA: MetadataRequest(topics=[MetadataRequestTopic(name=name)]),
        ApiKey.INIT_PRODUCER_ID: InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=1000
        ),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: OffsetForLeaderEpochRequest(
            topics=[OffsetForLeaderTopic(topic=name, partitions=[OffsetForLeaderPartition()])]
        ),
        **administration(name, version),
    }


def administration(name: str, version: int) -> dict[ApiKey, object]:
    """Requests of clients that look after topics."""
    by_name = version < 6
    return {
        ApiKey.CREATE_TOPICS: CreateTopicsRequest(
            topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)]
        ),
        ApiKey.DELETE_TOPICS: DeleteTopicsRequest(
            topics=[] if by_name else [DeleteTopicState(name=name)],
            topic_names=[name] if by_name else [],
            timeout_ms=1000,
        ),
        ApiKey.DELETE_RECORDS: DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=name, partitions=[DeleteRecordsPartition(offset=-1)])]
        ),
        ApiKey.CREATE_PARTITIONS: CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=name, count=3, assignments=None)], timeout_ms=1000
        ),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name)]
        ),
    }


def cases() -> list[tuple[ApiKey, int]]:
    return [
        (k, v) for k in requests("t", 0) for v in range(APIS[k].served[0], APIS[k].served[1] + 1)
    ]


def error_codes(message: object) -> list[int]:
    """Every error code anywhere in a message."""
    codes = []
    for name in getattr(type(message), "__slots__", ()):
        value = getattr(message, name)
        if name == "error_code":
            codes.append(value)
        for part in value if isinstance(value, list) else [value]:
            codes += error_codes(part)
    return codes


@pytest.mark.parametrize(("key", "version"), cases())
async def test_every_version_goes_through_the_codec(scene, key, version):
    request = wanted(key, version, scene.topic_id("t"))
    sent = request_encoder(key, version)(request, 1, "client")
    _, body = read_request_header(sent, 4, len(sent))
    request = request_decoder(key, version)(sent, body, len(sent))
    response = await scene.ask(version, request)
    encoded = response_encoder(key, version)(response, 1)
    correlation, decoded = response_decoder(key, version)(encoded, 4, len(encoded))
    assert correlation == 1
    assert set(error_codes(decoded)) == {0}


async def test_counts_for_metrics(scene):
    await scene.create("u", 5)
    await scene.produce("t", 0, batch("a"))
    scene.send_fetch(("t", 0, 1), max_wait_ms=60_000)
    assert scene.topics.snapshot() == {
        "topics": 2,
        "topic_partitions": 7,
        "topic_logs_open": 1,
        "topic_files_open": 1,
        "fetches_waiting": 1,
        "topic_segments_deleted": 0,
        "topic_log_open_failures": 0,
        "topic_log_write_failures": 0,
    }


async def test_partition_counts(scene):
    assert scene.topics.partition_count("t") == 2
    assert scene.topics.partition_count("nowhere") is None


async def test_the_start_does_not_look_at_topics(scene):
    for n in range(20):
        await scene.create(f"topic-{n}")
        await scene.produce(f"topic-{n}", 0, batch("a"))
    again = await scene.restart()
    assert again.topics.snapshot()["topic_logs_open"] == 0


async def test_a_cluster_id_looks_like_kafkas():
    ids = {Scene().topics.cluster_id for _ in range(3)}
    assert all(len(i) == 22 and not i.startswith("-") for i in ids)


async def test_on_a_real_disk(tmp_path):
    store = SimpleNamespace(data_dir=str(tmp_path), was_used=False)

    asked: dict[Topics, Any] = {}

    def start() -> Topics:
        topics = Topics(store, Settings())
        asked[topics] = handlers_of(topics, Node(0, lambda _: ("localhost", 9092)))
        return topics

    async def ask(plane: Topics, key: ApiKey, version: int) -> Any:
        reply = Reply()
        request = wanted(key, version)
        response = asked[plane][key](request, Caller(version), reply)
        if isinstance(response, Generator):
            response, _ = counted(response)
        return response if response is not None else await reply.wait()

    first = start()
    for key, version in ((ApiKey.METADATA, 9), (ApiKey.PRODUCE, 9), (ApiKey.INIT_PRODUCER_ID, 4)):
        assert set(error_codes(await ask(first, key, version))) == {0}
    await first.close()
    second = start()
    assert second.cluster_id == first.cluster_id
    assert second.partition_count("t") == 3
    data = (await ask(second, ApiKey.FETCH, 12)).responses[0].partitions[0]
    assert (data.error_code, data.high_watermark) == (0, 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["catalog", "catalog-copy", "t-0"]
    assert set(error_codes(await ask(second, ApiKey.DELETE_TOPICS, 6))) == {0}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["catalog", "catalog-copy"]
    await second.close()
