"""Handlers that fail later: each row of the answer says so, in the form of its version."""

import pytest

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.message import Message
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
from groupkeeper.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from groupkeeper.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.topics.scene import Scene, batch

FAILED = ErrorCode.UNKNOWN_SERVER_ERROR


class Broken:
    """Takes the place of a part of the server, and can do nothing."""


@pytest.mark.parametrize(
    ("version", "request_"),
    [
        (12, MetadataRequest(topics=[MetadataRequestTopic(name="new")])),
        (7, CreateTopicsRequest(topics=[CreatableTopic(name="new")], timeout_ms=1_000)),
        (3, CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t")], timeout_ms=1_000)),
        (5, DeleteTopicsRequest(topic_names=["t"], timeout_ms=1_000)),
        (6, DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1_000)),
    ],
)
async def test_a_change_of_topics(
    scene: Scene, version: int, request_: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scene.topics.admin, "changing", Broken())
    answer = await scene.ask(version, request_)
    rows = next(
        getattr(answer, name)
        for name in ("topics", "results", "responses")
        if hasattr(answer, name)
    )
    assert [(each.name, each.error_code) for each in rows] in ([("new", FAILED)], [("t", FAILED)])
    assert len(scene.failures) == 1


async def test_a_deletion_of_records(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scene.topics.record_deletion, "lock", Broken())
    wanted = [DeleteRecordsPartition(partition_index=index, offset=0) for index in (0, 1)]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=wanted)])
    [topic] = (await scene.ask(2, request)).topics
    assert [(p.partition_index, p.error_code) for p in topic.partitions] == [(0, -1), (1, -1)]


async def test_a_lookup_by_time(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    await scene.produce("t", 0, batch("a"))
    monkeypatch.setattr(scene.topics.lookup, "first", Broken())
    wanted = [ListOffsetsPartition(partition_index=0, timestamp=1)]
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=wanted)])
    [topic] = (await scene.ask(7, request)).topics
    assert [(topic.name, each.error_code) for each in topic.partitions] == [("t", FAILED)]
