"""Metadata: which topics are meant in which version, what is created, what is told."""

import asyncio

import pytest

from groupkeeper.apis.metadata import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from groupkeeper.coordinator.caller import Caller
from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from groupkeeper.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from groupkeeper.topics.topic_admin import MAX_PARTITIONS
from tests.support.slices import whole
from tests.topics.scene import HeldWorker, Reply, Scene

OMITTED = -(2**31)


def told(response: object) -> dict[str, int]:
    return {topic.name: topic.error_code for topic in response.topics}


async def ask(scene, topics, version, **more):
    request = MetadataRequest(topics=topics, **more)
    return await scene.ask(version, request)


async def test_one_broker_leads_every_partition(scene: Scene) -> None:
    scene.port = 4711
    response = await scene.metadata("t")
    [broker] = response.brokers
    assert (broker.node_id, broker.host, broker.port) == (7, "broker.example", 4711)
    assert (response.controller_id, response.cluster_id) == (7, scene.topics.cluster_id)
    for each in response.topics[0].partitions:
        assert (each.leader_id, each.replica_nodes, each.isr_nodes) == (7, [7], [7])


@pytest.mark.parametrize(
    ("topics", "version", "everything"),
    [([], 0, True), (None, 1, True), ([], 1, False), (None, 12, True), ([], 12, False)],
)
async def test_null_and_empty_mean_different_things(scene, topics, version, everything):
    expected = {"t": 0, "__consumer_offsets": 0, "__group_events": 0} if everything else {}
    assert told(await ask(scene, topics, version)) == expected


@pytest.mark.parametrize("name", ["__consumer_offsets", "__group_events"])
async def test_the_topics_of_groups_are_internal(scene: Scene, name: str) -> None:
    topic = (await scene.metadata(name)).topics[0]
    assert (topic.is_internal, len(topic.partitions)) == (True, 4)
    assert scene.topics.partition_count(name) == 4
    assert topic.topic_id != bytes(16)


async def test_a_missing_topic_is_made_and_told_at_once(scene: Scene) -> None:
    topic = (await scene.metadata("new", version=4)).topics[0]
    assert (topic.error_code, len(topic.partitions)) == (0, 3)
    assert scene.topics.partition_count("new") == 3
    again = await scene.restart()
    assert (await again.metadata("new")).topics[0].topic_id == topic.topic_id


@pytest.mark.parametrize(("version", "code"), [(0, 0), (3, 0), (4, 3), (12, 3)])
async def test_creation_can_be_forbidden_since_version_4(scene, version, code):
    response = await scene.metadata("new", version=version, allow_auto_topic_creation=False)
    assert told(response) == {"new": code}


async def test_creation_can_be_switched_off(scene: Scene) -> None:
    strict = await scene.restart(auto_create_topics_enable=False)
    assert told(await strict.metadata("new", "t")) == {"new": 3, "t": 0}


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ä", "a/b", "x" * 250])
async def test_illegal_names(scene, name, allowed):
    response = await scene.metadata(name, allow_auto_topic_creation=allowed)
    assert told(response) == {name: ErrorCode.INVALID_TOPIC_EXCEPTION}
    assert scene.disk.children("data") == ["catalog", "catalog-copy"]


async def test_names_that_collide_are_not_made(scene: Scene) -> None:
    await scene.metadata("a.b")
    assert told(await scene.metadata("a_b", "a.b")) == {"a_b": 17, "a.b": 0}
    both = told(await scene.metadata("c.d", "c_d"))
    assert sorted(both.values()) == [0, 17]


async def test_a_name_asked_for_twice_is_told_once(scene: Scene) -> None:
    assert len((await scene.metadata("t", "t", "new", "new")).topics) == 2


async def test_two_requests_for_one_missing_topic_make_one(scene: Scene) -> None:
    held = HeldWorker()
    again = Scene(scene.disk, worker=held)
    request = MetadataRequest(topics=[MetadataRequestTopic(name="new")])
    replies = [again.send(12, request) for _ in range(3)]
    held.go.set()
    responses = await asyncio.gather(*(reply.wait() for reply in replies))
    assert len({response.topics[0].topic_id for response in responses}) == 1


@pytest.mark.parametrize("name", [None, "", "made-by-nobody"])
async def test_topics_by_id(scene, name):
    """Java's client names the topic "" beside its id; whatever the name, the id counts."""
    known = (await scene.metadata("t")).topics[0].topic_id
    wanted = [MetadataRequestTopic(topic_id=i, name=name) for i in (known, b"?" * 16)]
    found, unknown = (await ask(scene, wanted, 12)).topics
    assert (found.name, found.error_code) == ("t", 0)
    assert (unknown.name, unknown.error_code) == (None, ErrorCode.UNKNOWN_TOPIC_ID)
    assert unknown.topic_id == b"?" * 16
    assert [topic.name for topic in (await ask(scene, None, 12)).topics if topic.name == name] == []


@pytest.mark.parametrize("version", [10, 11])
async def test_versions_10_and_11_refuse_ids(scene, version):
    wanted = [
        MetadataRequestTopic(topic_id=b"?" * 16, name=None),
        MetadataRequestTopic(topic_id=b"!" * 16, name="t"),
    ]
    response = await ask(scene, wanted, version)
    assert told(response) == {"": ErrorCode.INVALID_REQUEST, "t": ErrorCode.INVALID_REQUEST}


async def test_operations_are_told_to_who_asks(scene: Scene) -> None:
    plain = await scene.metadata("t", version=8)
    assert plain.cluster_authorized_operations == OMITTED
    assert plain.topics[0].topic_authorized_operations == OMITTED
    asked = await scene.metadata(
        "t",
        version=8,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    assert asked.cluster_authorized_operations == CLUSTER_OPERATIONS == 8096
    assert asked.topics[0].topic_authorized_operations == TOPIC_OPERATIONS == 3576


async def test_a_full_disk_makes_no_topic(scene: Scene) -> None:
    scene.disk.capacity = 0
    assert told(await scene.metadata("new", "t")) == {"new": ErrorCode.KAFKA_STORAGE_ERROR, "t": 0}
    scene.disk.capacity = None
    assert told(await scene.metadata("new")) == {"new": 0}


async def test_one_request_makes_no_more_partitions_than_create_topics_may(scene: Scene) -> None:
    few = await scene.restart(num_partitions=MAX_PARTITIONS // 3)
    assert told(await few.metadata("a", "t", "b", "c", "d")) == {
        "a": 0,
        "t": 0,
        "b": 0,
        "c": 0,
        "d": ErrorCode.POLICY_VIOLATION,
    }
    assert few.topics.partition_count("d") is None
    assert told(await few.metadata("d")) == {"d": 0}


@pytest.mark.parametrize("everything", [True, False], ids=["all topics", "topics by name"])
async def test_what_is_made_while_metadata_is_told_is_told_whole(scene, everything):
    named = [MetadataRequestTopic(name=f"none{n}") for n in range(400)]
    named += [MetadataRequestTopic(name=name) for name in ("grown", "response_tasks")]
    for n in range(400):
        await scene.create(f"some{n}")
    await scene.create("grown", partitions=3)
    request = MetadataRequest(topics=None if everything else named, allow_auto_topic_creation=False)
    telling = scene.handlers[ApiKey.METADATA](request, Caller(8), Reply())
    next(telling)
    await scene.create("response_tasks", partitions=300)
    growth = CreatePartitionsTopic(name="grown", count=200, assignments=None)
    growing = CreatePartitionsRequest(topics=[growth], timeout_ms=1000)
    await scene.ask(2, growing)
    found = {topic.name: len(topic.partitions) for topic in whole(telling).topics}
    assert found["grown"] == 200
    assert found.get("response_tasks", 300) == 300
    assert everything or "response_tasks" in found
