"""OffsetForLeaderEpoch: where an epoch ended, and when that cannot be said."""

import pytest

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.topics.scene import Scene, batch

UNKNOWN = (-1, -1)
GROUPS = "__consumer_offsets"


async def ask(scene, topic, epoch, *, partition=0, current=-1, version=4):
    wanted = OffsetForLeaderPartition(
        partition=partition, leader_epoch=epoch, current_leader_epoch=current
    )
    request = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic=topic, partitions=[wanted])]
    )
    response = await scene.ask(version, request)
    answer = response.topics[0].partitions[0]
    return answer.error_code, (answer.leader_epoch, answer.end_offset)


@pytest.mark.parametrize("version", range(5))
async def test_the_present_epoch_ends_where_the_log_ends(scene, version):
    assert await ask(scene, "t", 0, version=version) == (0, (0, 0))
    await scene.produce("t", 0, batch("a", "b"))
    assert await ask(scene, "t", 0, version=version) == (0, (0, 2))


@pytest.mark.parametrize("epoch", [-1, 1, 9])
async def test_epochs_that_are_unknown(scene, epoch):
    await scene.produce("t", 0, batch("a"))
    assert await ask(scene, "t", epoch) == (0, UNKNOWN)


async def test_what_is_older_than_all_ends_where_the_log_begins(scene: Scene) -> None:
    await scene.produce("t", 0, batch("a", "b"))
    assert await ask(scene, "t", -2) == (0, (-2, 0))


async def test_the_end_is_known_after_a_restart(scene: Scene) -> None:
    await scene.produce("t", 0, batch("a", "b"))
    assert await ask(await scene.restart(), "t", 0) == (0, (0, 2))


@pytest.mark.parametrize(("topic", "partition"), [("nope", 0), ("t", 2), ("t", -1), (GROUPS, 4)])
async def test_partitions_that_are_not_there(scene, topic, partition):
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await ask(scene, topic, 0, partition=partition) == (code, UNKNOWN)


@pytest.mark.parametrize(
    ("current", "code"),
    [(0, 0), (1, ErrorCode.UNKNOWN_LEADER_EPOCH), (-2, ErrorCode.FENCED_LEADER_EPOCH)],
)
async def test_a_client_with_another_epoch(scene, current, code):
    assert (await ask(scene, "t", 0, current=current))[0] == code


async def test_a_log_that_cannot_be_opened(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    await scene.produce("t", 0, batch("a"))
    again = scene.kill()
    monkeypatch.setattr(again.files, "open", _refuse)
    assert await ask(again, "t", 0) == (ErrorCode.KAFKA_STORAGE_ERROR, UNKNOWN)


def _refuse(path: str, *, create: bool = False) -> int:
    raise PermissionError(13, "Permission denied", path)


class GroupLog:
    """As much of a group partition's log as epochs need."""

    start_offset = 0
    next_offset = 80
    epochs = ((1, 0), (4, 50))
    last_epoch = 4


@pytest.mark.parametrize(
    ("epoch", "end"), [(0, (0, 0)), (1, (1, 50)), (3, (1, 50)), (4, (4, 80)), (5, UNKNOWN)]
)
async def test_epochs_of_the_group_topic_are_those_of_its_batches(scene, epoch, end):
    scene.serve_group_logs(lambda index: GroupLog())
    assert await ask(scene, GROUPS, epoch) == (0, end)


async def test_a_group_partition_without_a_log(scene: Scene) -> None:
    assert await ask(scene, GROUPS, 0) == (0, (0, 0))
    assert await ask(scene, GROUPS, 3) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, UNKNOWN)


async def test_the_group_topic_is_in_the_epoch_of_its_newest_batch(scene: Scene) -> None:
    scene.serve_group_logs(lambda index: GroupLog() if index == 1 else None)
    described = (await scene.metadata(GROUPS)).topics[0]
    assert [partition.leader_epoch for partition in described.partitions] == [0, 4, 0, 0]
    assert await ask(scene, GROUPS, 4, partition=1, current=4) == (0, (4, 80))
    code, _ = await ask(scene, GROUPS, 4, partition=1, current=0)
    assert code == ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.parametrize(("timestamp", "epoch"), [(-1, 4), (-2, 1)])
async def test_a_position_in_the_group_topic_has_its_epoch(scene, timestamp, epoch):
    scene.serve_group_logs(lambda index: GroupLog())
    assert (await scene.offsets(GROUPS, 0, timestamp)).leader_epoch == epoch
