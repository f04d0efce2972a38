"""CreatePartitions: what grows, what does not and why, and that all that is new works at once."""

import pytest

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tests.topics.scene import Scene, batch


def requested(name, count, *brokers):
    """A topic's new partition count, and the brokers of each new partition if there are any."""
    assignments = [CreatePartitionsAssignment(broker_ids=ids) for ids in brokers]
    return CreatePartitionsTopic(name=name, count=count, assignments=assignments or None)


async def grow(scene, *requested_topics, version=3, timeout_ms=1000, **more):
    request = CreatePartitionsRequest(topics=list(requested_topics), timeout_ms=timeout_ms, **more)
    results = (await scene.ask(version, request)).results
    return [(result.name, result.error_code, result.error_message) for result in results]


async def partitions(scene, name):
    topic = (await scene.metadata(name)).topics[0]
    return [partition.partition_index for partition in topic.partitions]


@pytest.mark.parametrize("version", [0, 1, 2, 3])
async def test_a_topic_grows(scene, version):
    assert await grow(scene, requested("t", 4), version=version) == [("t", 0, None)]
    assert await partitions(scene, "t") == [0, 1, 2, 3]
    assert scene.topics.partition_count("t") == 4


async def test_a_new_partition_is_written_and_read_beside_the_old_ones(scene: Scene) -> None:
    await scene.produce("t", 1, batch("old"))
    assert (await scene.produce("t", 2, batch("a"))).error_code == 3
    await grow(scene, requested("t", 3))
    assert (await scene.produce("t", 2, batch("a"))).base_offset == 0
    assert (await scene.produce("t", 1, batch("more"))).base_offset == 1
    assert (await scene.fetch(("t", 2, 0))).high_watermark == 1
    assert (await scene.offsets("t", 2, -1)).offset == 1


async def test_growth_survives_kill_and_keeps_the_topic(scene: Scene) -> None:
    before = (await scene.metadata("t")).topics[0].topic_id
    await grow(scene, requested("t", 5))
    await scene.produce("t", 4, batch("a"))
    again = scene.kill()
    assert await partitions(again, "t") == [0, 1, 2, 3, 4]
    assert (await again.metadata("t")).topics[0].topic_id == before
    assert (await again.fetch(("t", 4, 0))).high_watermark == 1


async def test_a_deleted_topic_goes_with_its_new_partitions(scene: Scene) -> None:
    await grow(scene, requested("t", 4))
    await scene.produce("t", 3, batch("a"))
    await scene.delete("t")
    assert scene.disk.children("data") == ["catalog", "catalog-copy"]


async def test_a_topic_named_twice_does_not_grow(scene: Scene) -> None:
    await scene.create("u", 1)
    assert await grow(scene, requested("u", 2), requested("t", 3), requested("t", 4)) == [
        ("t", ErrorCode.INVALID_REQUEST, "Duplicate topic name."),
        ("u", 0, None),
    ]
    assert await partitions(scene, "t") == [0, 1]


async def test_an_assignment_to_the_only_broker(scene: Scene) -> None:
    assert await grow(scene, requested("t", 4, [7], [7])) == [("t", 0, None)]


@pytest.mark.parametrize(
    ("brokers", "message"),
    [
        (
            ([7],),
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (([7], []), "The manual partition assignment includes an empty replica list."),
        (([7, 7], [7]), "The manual partition assignment includes the broker 7 more than once."),
        (
            ([7], [9, 7]),
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
    ],
)
async def test_wrong_assignments(scene, brokers, message):
    expected = [("t", ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)]
    assert await grow(scene, requested("t", 4, *brokers)) == expected
    assert await partitions(scene, "t") == [0, 1]


async def test_the_group_topic_keeps_its_partitions(scene: Scene) -> None:
    (result,) = await grow(scene, requested("__consumer_offsets", 5))
    assert result[1] == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert len(await partitions(scene, "__consumer_offsets")) == 4


async def test_one_request_adds_so_many_and_no_more(scene: Scene) -> None:
    await scene.create("u", 1)
    results = await grow(scene, requested("t", 6_002), requested("u", 4_002), validate_only=True)
    assert [code for _, code, _ in results] == [0, ErrorCode.POLICY_VIOLATION]
    results = await grow(scene, requested("t", 6_002), requested("u", 4_001), validate_only=True)
    assert [code for _, code, _ in results] == [0, 0]


async def test_a_topic_has_so_many_and_no_more_however_often_it_grows(scene: Scene) -> None:
    assert await grow(scene, requested("t", 10_000)) == [("t", 0, None)]
    message = "A topic has at most 10000 partitions."
    refused = [("t", ErrorCode.POLICY_VIOLATION, message)]
    assert await grow(scene, requested("t", 10_001)) == refused
    assert scene.topics.partition_count("t") == 10_000


async def test_without_time_nothing_is_done(scene: Scene) -> None:
    results = await grow(scene, requested("t", 4), timeout_ms=0)
    assert results == [("t", ErrorCode.REQUEST_TIMED_OUT, None)]
    assert await partitions(scene, "t") == [0, 1]


async def test_a_full_disk_adds_nothing(scene: Scene) -> None:
    scene.disk.capacity = 0
    (result,) = await grow(scene, requested("t", 4))
    assert result[1] == ErrorCode.KAFKA_STORAGE_ERROR
    assert await partitions(scene, "t") == [0, 1]
    assert scene.failures
