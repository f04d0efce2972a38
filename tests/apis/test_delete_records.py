"""DeleteRecords: where a log begins afterwards, for everybody and after every end of a process."""

import asyncio

import pytest

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.create_topics import CreatableTopicConfig
from groupkeeper.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.topics.scene import HeldWorker, Scene, batch

EARLIEST, LATEST, LARGEST = -2, -1, -3
OUT_OF_RANGE = (-1, ErrorCode.OFFSET_OUT_OF_RANGE)


def asking(*wanted, version=2):
    """Each wanted: topic, partition, first offset to keep."""
    topics = [
        DeleteRecordsTopic(
            name=name, partitions=[DeleteRecordsPartition(partition_index=index, offset=offset)]
        )
        for name, index, offset in wanted
    ]
    return version, DeleteRecordsRequest(topics=topics)


async def delete(scene, *wanted, version=2):
    """Low watermark and error code of each partition."""
    response = await scene.ask(*asking(*wanted, version=version))
    return [(p.low_watermark, p.error_code) for topic in response.topics for p in topic.partitions]


async def fill(scene, batches=4):
    """Batches of three records each into the first partition."""
    for number in range(batches):
        await scene.produce("t", 0, batch("a", "b", "c", timestamp=1000 * (number + 1)))


async def start(scene):
    return (await scene.offsets("t", 0, EARLIEST)).offset


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_the_log_begins_at_the_offset(scene, version):
    await fill(scene)
    assert await delete(scene, ("t", 0, 4), version=version) == [(4, 0)]
    assert (await scene.fetch(("t", 0, 3))).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    data = await scene.fetch(("t", 0, 4))
    assert (data.error_code, data.log_start_offset, data.high_watermark) == (0, 4, 12)
    assert await start(scene) == 4
    assert (await scene.produce("t", 0, batch("x"))).log_start_offset == 4


async def test_minus_one_is_everything(scene: Scene) -> None:
    await fill(scene)
    assert await delete(scene, ("t", 0, -1)) == [(12, 0)]
    assert await start(scene) == (await scene.offsets("t", 0, LATEST)).offset == 12
    assert (await scene.offsets("t", 0, LARGEST)).offset == -1
    assert (await scene.produce("t", 0, batch("x"))).base_offset == 12


@pytest.mark.parametrize("offset", [13, -2, 2**62])
async def test_offsets_that_are_none(scene, offset):
    await fill(scene)
    assert await delete(scene, ("t", 0, offset)) == [OUT_OF_RANGE]
    assert await start(scene) == 0


async def test_a_start_never_moves_back(scene: Scene) -> None:
    await fill(scene)
    await delete(scene, ("t", 0, 5))
    assert await delete(scene, ("t", 0, 3)) == [(5, 0)]
    assert await start(scene) == 5


async def test_an_empty_log_has_nothing_to_delete_and_gets_no_files(scene: Scene) -> None:
    assert await delete(scene, ("t", 0, 0), ("t", 1, -1)) == [(0, 0), (0, 0)]
    assert await delete(scene, ("t", 0, 1)) == [OUT_OF_RANGE]
    assert scene.disk.children("data") == ["catalog", "catalog-copy"]


async def test_what_is_deleted_has_no_time(scene: Scene) -> None:
    await fill(scene)
    await delete(scene, ("t", 0, 4))
    assert (await scene.offsets("t", 0, 0)).offset == 4
    assert (await scene.offsets("t", 0, 2500)).offset == 6
    assert (await scene.offsets("t", 0, LARGEST)).timestamp == 4002


async def test_the_start_survives_a_stop_and_a_kill(scene: Scene) -> None:
    await fill(scene)
    await delete(scene, ("t", 0, 4))
    again = await scene.restart()
    assert await start(again) == 4
    await delete(again, ("t", 0, 12))
    last = again.kill()
    assert await start(last) == 12
    assert (await last.produce("t", 0, batch("x"))).base_offset == 12


async def test_a_deletion_before_the_first_request_opens_the_log(scene: Scene) -> None:
    await fill(scene)
    again = scene.kill()
    assert await delete(again, ("t", 0, -1)) == [(12, 0)]


async def test_segments_wholly_before_the_start_are_removed() -> None:
    scene = Scene()
    scene = await scene.restart(log_segment_bytes=200)
    await scene.create("t")
    await fill(scene, 6)

    def segments():
        names = scene.disk.children("data/t-0")
        return [int(name[:20]) for name in names if name.endswith(".log")]

    assert segments() == [0, 6, 12]
    await delete(scene, ("t", 0, 7))
    assert segments() == [6, 12]
    await delete(scene, ("t", 0, -1))
    assert segments() == []
    assert await start(scene.kill()) == 18


async def test_deleting_all_gives_the_space_back_and_the_log_goes_on(scene: Scene) -> None:
    await fill(scene)
    await delete(scene, ("t", 0, -1))
    assert [name for name in scene.disk.children("data/t-0") if name.endswith("log")] == []
    assert (await scene.fetch(("t", 0, 12))).high_watermark == 12
    assert (await scene.produce("t", 0, batch("a", "b"))).base_offset == 12
    assert await delete(scene, ("t", 0, 13)) == [(13, 0)]
    again = scene.kill()
    data = await again.fetch(("t", 0, 13))
    assert (data.error_code, data.log_start_offset, data.high_watermark) == (0, 13, 14)


@pytest.mark.parametrize("mode", ["kill", "lose", "names", "keep", "tear"])
async def test_no_end_of_the_process_moves_the_log_back(mode):
    scene = Scene()
    await scene.create("t")
    await fill(scene)
    before = scene.disk.calls
    await delete(scene, ("t", 0, -1))
    for call in range(before, scene.disk.calls + 1):
        known = await deletion_that_ends_at(call, mode)
        again = Scene(known.pop("disk"))
        first, end = await start(again), (await again.offsets("t", 0, LATEST)).offset
        assert first == end == 12 if known else first in (0, 12) and end >= first
        base = (await again.produce("t", 0, batch("x"))).base_offset
        assert base == end
        assert (await again.fetch(("t", 0, base))).high_watermark == base + 1


async def deletion_that_ends_at(call, mode):
    """The disk afterwards, and `deleted` if that was told."""
    scene = Scene()
    await scene.create("t")
    await fill(scene)
    scene.disk.write_back()
    scene.disk.crash_at = call + 1
    reply = scene.send(*asking(("t", 0, -1)))
    for _ in range(100):
        await asyncio.sleep(0)
    if mode == "kill":
        scene.disk.revive()
    else:
        scene.disk.power_cut(mode, seed=call)
    return {"disk": scene.disk, **({"deleted": True} if reply.answered else {})}


async def test_several_partitions_each_with_its_answer(scene: Scene) -> None:
    await fill(scene)
    wanted = [("t", 0, 2), ("t", 7, 0), ("nope", 0, 0), ("t", 1, 5)]
    unknown = (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert await delete(scene, *wanted) == [(2, 0), unknown, OUT_OF_RANGE, unknown]


async def test_the_last_offset_of_a_partition_counts(scene: Scene) -> None:
    await fill(scene)
    assert await delete(scene, ("t", 0, 4), ("t", 0, 3)) == [(3, 0)]


async def test_the_group_topic_keeps_its_records(scene: Scene) -> None:
    refused = [(-1, ErrorCode.INVALID_TOPIC_EXCEPTION)]
    assert await delete(scene, ("__consumer_offsets", 0, 0)) == refused


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        ("compact", ErrorCode.POLICY_VIOLATION),
        ("", ErrorCode.POLICY_VIOLATION),
        ("compact, delete", 0),
    ],
)
async def test_a_topic_that_is_only_compacted_keeps_its_records(scene, policy, code):
    config = CreatableTopicConfig(name="cleanup.policy", value=policy)
    await scene.create("c", configs=[config])
    await scene.produce("c", 0, batch("a", "b", keys=[b"k", b"k"]))
    assert [error for _, error in await delete(scene, ("c", 0, 1))] == [code]


async def test_the_servers_cleanup_policy_holds_for_topics_that_have_none(scene: Scene) -> None:
    scene = await scene.restart(log_cleanup_policy="compact")
    assert [error for _, error in await delete(scene, ("t", 0, 0))] == [ErrorCode.POLICY_VIOLATION]


async def test_a_full_disk_deletes_nothing(scene: Scene) -> None:
    await fill(scene)
    scene.disk.capacity = 0
    assert await delete(scene, ("t", 0, 4)) == [(-1, ErrorCode.KAFKA_STORAGE_ERROR)]
    assert scene.failures
    assert await start(scene) == 0
    assert await start(scene.kill()) == 0


CALLS = ["create", "write", "truncate", "sync", "rename", "sync folder", "sync parent"]
"""Those of a deletion, by which one log gets its new start."""


@pytest.mark.parametrize("call", CALLS)
async def test_a_refused_deletion_has_happened_or_not_and_no_later_start_changes_that(call):
    seen = await start(await refused_at(call))
    assert await start((await refused_at(call)).kill()) == seen
    scene = await refused_at(call)
    await start(scene)
    scene.disk.power_cut("lose")
    assert await start(Scene(scene.disk)) == seen


@pytest.mark.parametrize("call", CALLS)
async def test_a_deletion_that_is_asked_for_again_is_durable(call):
    scene = await refused_at(call)
    assert await delete(scene, ("t", 0, 4)) == [(4, 0)]
    scene.disk.power_cut("lose")
    assert await start(Scene(scene.disk)) == 4


async def refused_at(call):
    """The first record is deleted; then the disk refused one call of a deletion up to 4."""
    scene = Scene()
    await scene.create("t")
    await fill(scene)
    await delete(scene, ("t", 0, 1))
    refused = scene.disk.calls + 1 + CALLS.index(call)
    scene.disk.failures = {refused: OSError(5, "Input/output error")}
    assert await delete(scene, ("t", 0, 4)) == [(-1, ErrorCode.KAFKA_STORAGE_ERROR)]
    assert scene.failures
    return scene


async def test_a_log_that_cannot_be_opened(scene: Scene) -> None:
    await fill(scene)
    scene.disk.flip("data/t-0/00000000000000000000.log", 100)
    again = scene.kill()
    assert await delete(again, ("t", 0, 4)) == [(-1, ErrorCode.KAFKA_STORAGE_ERROR)]


async def test_segments_that_resist_are_removed_by_the_next_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = await Scene().restart(log_segment_bytes=200)
    await scene.create("t")
    await fill(scene, 6)
    monkeypatch.setattr(scene.files, "remove", _refuse)
    assert await delete(scene, ("t", 0, -1)) == [(18, 0)]
    assert scene.failures
    again = scene.kill()
    assert await start(again) == 18
    assert "00000000000000000006.log" not in again.disk.children("data/t-0")


def _refuse(path: str) -> None:
    raise PermissionError(13, "Permission denied", path)


async def test_a_topic_that_is_deleted_meanwhile_leaves_nothing() -> None:
    worker = HeldWorker()
    worker.go.set()
    scene = Scene(worker=worker)
    await scene.create("t")
    await fill(scene)
    worker.go.clear()
    reply = scene.send(*asking(("t", 0, 4)))
    deletion = asyncio.ensure_future(scene.delete("t"))
    await asyncio.sleep(0)
    worker.go.set()
    await deletion
    assert (await reply.wait()).topics[0].partitions[0].error_code == 3
    assert scene.disk.children("data") == ["catalog", "catalog-copy"]
