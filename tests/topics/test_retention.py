"""Retention: which records of topics go, when, and what else goes on meanwhile.

A batch is ten milliseconds younger than the one before it, and has a segment of its own.
"""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar
from unittest.mock import Mock

import pytest

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.record_batch import decode_records, encode_batch, iter_batches
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.log.log import Log
from groupkeeper.storage.log.retention import expired_before
from groupkeeper.storage.recovery.opening import open_log
from groupkeeper.topics.partitions import AT_ONCE
from groupkeeper.topics.record_deletion import SegmentsDeleted
from groupkeeper.topics.retention import RetentionListener
from tests.support.fake_files import Crash
from tests.support.requests import delete_records_request, topic_configs
from tests.topics.scene import NOW, GatedWorker, InlineWorker, Scene, Settings, batch

T = TypeVar("T")
STEP = 10
EARLIEST, LATEST = -2, -1


class Told(RetentionListener):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.deletions: list[SegmentsDeleted] = []
        self.failures: list[Exception] = []

    def deleted(self, what: SegmentsDeleted) -> None:
        self.deletions.append(what)

    def failed(self, error: Exception) -> None:
        self.failures.append(error)


class Counting(InlineWorker):
    """Notes what each job changes on the disk."""

    def __init__(self) -> None:
        self.disk: Any = None
        self.most = 0
        self.jobs = 0

    async def __call__(self, job: Callable[[], T]) -> T:
        before = self.disk.calls if self.disk is not None else 0
        result = job()
        if self.disk is not None:
            self.jobs += 1
            self.most = max(self.most, self.disk.calls - before)
        return result


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders of the logs that were opened."""
    folders: list[str] = []

    def noted(files: Files, folder: str, limits: Limits, **more: Any) -> Log:
        folders.append(folder)
        return open_log(files, folder, limits, **more)

    monkeypatch.setattr("groupkeeper.topics.topic_folders.open_log", noted)
    return folders


async def scene_with(count: int = 5, worker: Any = None, **configs: Any) -> Scene:
    """A topic `t` with these configs and so many batches, the last one of this moment."""
    scene = Scene(
        settings=Settings(log_roll_ms=STEP - 1), worker=worker or InlineWorker(), retention=Told()
    )
    await scene.create("t", configs=topic_configs(**configs))
    await fill(scene, count)
    return scene


async def fill(scene: Scene, count: int, topic: str = "t") -> None:
    for number in range(count):
        time = scene.now + STEP * (number + 1 - count)
        answer = await scene.produce(topic, 0, batch(f"{number}", timestamp=time))
        assert not answer.error_code


async def check(scene: Scene) -> None:
    await scene.topics.retention.check()


async def span(scene: Scene, topic: str = "t") -> tuple[int, int]:
    """The first offset and the next one."""
    first, last = [await scene.offsets(topic, 0, which) for which in (EARLIEST, LATEST)]
    assert (first.error_code, last.error_code) == (0, 0)
    return first.offset, last.offset


def bases(scene: Scene, folder: str = "t-0") -> list[int]:
    files = scene.disk.children(f"data/{folder}")
    return [int(name[:20]) for name in files if name.endswith(".log")]


def told(scene: Scene) -> Told:
    assert isinstance(scene.retention, Told)
    return scene.retention


# -- what goes -----------------------------------------------------------------------------------


async def test_segments_that_are_too_old_go(scene: Scene) -> None:
    scene = await scene_with(5, retention_ms=2 * STEP)
    await check(scene)
    assert await span(scene) == (2, 5)
    assert bases(scene) == [2, 3, 4]
    [what] = told(scene).deletions
    assert (what.partition, what.segments, what.start_offset) == ("t-0", 2, 2)
    assert what.size_bytes == 2 * len(batch("0"))
    assert scene.topics.snapshot()["topic_segments_deleted"] == 2
    await check(scene)
    assert len(told(scene).deletions) == 1


async def test_all_go_the_last_one_too_and_offsets_continue() -> None:
    scene = await scene_with(5, retention_ms=2 * STEP)
    scene.now += 2 * STEP + 1
    await check(scene)
    assert await span(scene) == (5, 5)
    assert (await scene.fetch(("t", 0, 5))).records == b""
    assert (await scene.fetch(("t", 0, 4))).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (await scene.produce("t", 0, batch(timestamp=scene.now))).base_offset == 5
    assert await span(await scene.restart()) == (5, 6)


async def test_what_is_too_much_goes() -> None:
    size = len(batch("0"))
    scene = await scene_with(5, retention_bytes=3 * size)
    await check(scene)
    assert await span(scene) == (2, 5)


@pytest.mark.parametrize(
    ("configs", "start"),
    [
        ({"retention_ms": -1}, 0),
        ({"retention_ms": 0, "cleanup_policy": "compact"}, 0),
        ({"retention_ms": 0, "cleanup_policy": "compact,delete"}, 4),
        ({}, 0),
    ],
)
async def test_the_configs_of_the_topic_decide(configs: dict[str, Any], start: int) -> None:
    scene = await scene_with(0, **configs)
    for number in range(5):
        time = NOW + STEP * (number - 4)
        await scene.produce("t", 0, batch(timestamp=time, keys=[b"k"]))
    await check(scene)
    assert await span(scene) == (start, 5)


@pytest.mark.parametrize(
    ("settings", "start"),
    [
        ({"log_retention_ms": STEP}, 3),
        ({"log_retention_hours": -1}, 0),
        ({"log_retention_bytes": 0}, 5),
        ({"log_retention_ms": STEP, "log_cleanup_policy": "compact"}, 0),
    ],
)
async def test_the_settings_decide_for_topics_without_configs(
    settings: dict[str, Any], start: int
) -> None:
    scene = await (await scene_with(5)).restart(**settings)
    scene.now += 1
    await scene.fetch(("t", 0, 0))
    await check(scene)
    assert (await span(scene))[0] == start + (start == 3)


async def test_the_group_topic_is_left_alone() -> None:
    scene = await (await scene_with(0)).restart(log_retention_ms=1, log_retention_bytes=0)
    group_logs: list[int] = []
    scene.serve_group_logs(group_logs.append)
    await check(scene)
    assert group_logs == []


async def test_timestamps_in_any_order() -> None:
    scene = await scene_with(0, retention_ms=100)
    for back in (500, 90, 400, 70, 300):
        await scene.produce("t", 0, batch(timestamp=NOW - back))
    assert bases(scene) == [0, 1, 3], "older ones do not begin a segment"
    await check(scene)
    assert await span(scene) == (1, 5)
    scene.now += 11
    await check(scene)
    assert await span(scene) == (3, 5), "as old as the youngest in the segment"


async def test_messages_without_a_timestamp_are_as_old_as_their_file() -> None:
    scene = await scene_with(0, retention_ms=100)
    scene.disk.wall_ms = lambda: scene.now
    await scene.produce("t", 0, encode_batch(0, 0, -1, [(b"key", b"value")]))
    scene.now += 100
    await check(scene)
    assert await span(scene) == (0, 1)
    scene.now += 1
    await check(scene)
    assert await span(scene) == (1, 1)


async def test_a_timestamp_in_the_future_keeps_a_segment() -> None:
    scene = await scene_with(0, retention_ms=0)
    await scene.produce("t", 0, batch(timestamp=NOW + 3 * 10**6))
    await fill(scene, 2)
    scene.now += 10**6
    for _ in range(2):
        await check(scene)
    assert await span(scene) == (0, 3)


# -- logs that are not open ----------------------------------------------------------------------


async def test_logs_that_are_not_open_are_opened_only_if_something_goes(opened: list[str]) -> None:
    scene = await scene_with(5, retention_ms=2 * STEP)
    await scene.create("u", partitions=3, configs=topic_configs(retention_ms=100 * STEP))
    await fill(scene, 5, "u")
    scene = await scene.restart()
    opened.clear()
    await check(scene)
    assert opened == ["data/t-0"]
    assert (bases(scene), bases(scene, "u-0")) == ([2, 3, 4], [0, 1, 2, 3, 4])
    assert scene.topics.snapshot()["topic_logs_open"] == 0, "closed again"
    assert scene.topics.snapshot()["topic_files_open"] == 0
    assert await span(scene) == (2, 5)
    assert told(scene).deletions[0].segments == 2


async def test_all_of_a_closed_log_goes_and_offsets_continue() -> None:
    scene = await (await scene_with(5, retention_ms=2 * STEP)).restart()
    scene.now += 3 * STEP
    await check(scene)
    assert bases(scene) == []
    scene = await scene.restart()
    assert await span(scene) == (5, 5)
    assert (await scene.produce("t", 0, batch(timestamp=scene.now))).base_offset == 5


async def test_a_log_that_a_client_opens_meanwhile_is_left_to_the_next_pass() -> None:
    scene = await (await scene_with(5, worker=GatedWorker(), retention_ms=2 * STEP)).restart()
    async with scene.topics.record_deletion.lock:
        passing = asyncio.create_task(scene.topics.retention.check())
        for _ in range(10):
            await asyncio.sleep(0)  # it has looked, and is about to delete
        scene.worker.gate.clear()
        reading = scene.send_fetch(("t", 0, 0))
        await scene.worker.has(1)
    await scene.worker.has(2)
    scene.worker.gate.set()
    await passing
    assert (await reading.wait()).responses[0].partitions[0].log_start_offset == 0
    assert (await span(scene), bases(scene)) == ((0, 5), [0, 1, 2, 3, 4])
    await check(scene)
    assert await span(scene) == (2, 5)


async def test_a_damaged_log_is_reported_and_the_others_are_checked() -> None:
    scene = await scene_with(5, retention_ms=2 * STEP)
    await scene.create("u", configs=topic_configs(retention_ms=0))
    await fill(scene, 5, "u")
    scene = await scene.restart()
    scene.disk.remove("data/t-0/00000000000000000003.log")
    await check(scene)
    assert bases(scene, "u-0") == [4]
    assert ["t-0" in each for each in scene.failures] == [True]


# -- meanwhile -----------------------------------------------------------------------------------


async def test_an_operator_who_keeps_all_during_a_pass_keeps_all() -> None:
    scene = await scene_with(5, retention_ms=2 * STEP)
    async with scene.topics.record_deletion.lock:
        passing = asyncio.create_task(scene.topics.retention.check())
        await asyncio.sleep(0)
        await scene.alter("t", retention_ms=-1)
    await passing
    assert await span(scene) == (0, 5)


async def test_what_is_produced_during_a_deletion_is_kept() -> None:
    scene = await scene_with(5, worker=GatedWorker(), retention_ms=STEP)
    scene.now += 10 * STEP
    scene.worker.gate.clear()
    scene.worker.passing = 2  # the worker looks at the log twice
    passing = asyncio.create_task(scene.topics.retention.check())
    await scene.worker.has(1)  # the new start is written
    # Into the last segment: it is not young enough for a new one.
    produced = await scene.produce("t", 0, batch("kept", timestamp=NOW + 1))
    scene.worker.gate.set()
    await passing
    assert produced.base_offset == 5
    assert await span(scene) == (5, 6)
    found = (await scene.fetch(("t", 0, 5))).records
    [header] = iter_batches(found)
    assert [record.value for record in decode_records(found, header)] == [b"kept"]
    assert await span(scene.kill()) == (5, 6)


async def test_a_lookup_by_time_in_a_segment_that_is_deleted_finds_what_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("groupkeeper.topics.time_lookup._RECORDS", 1)
    scene = await scene_with(0)
    await scene.produce("t", 0, batch(*["old"] * 400, timestamp=NOW - 5_000))
    await fill(scene, 3)
    looking = asyncio.create_task(scene.offsets("t", 0, NOW - 4_601))  # the last record
    monkeypatch.setattr("groupkeeper.turns.TURN_S", 0.0)
    for _ in range(50):
        await asyncio.sleep(0)
    assert not looking.done()
    await scene.alter("t", retention_ms=STEP)
    await check(scene)
    assert (await span(scene))[0] == 401
    found = await looking
    assert (found.error_code, found.offset) in {(0, 399), (0, 401)}


async def test_a_topic_that_is_made_again_during_a_pass_keeps_its_records() -> None:
    for is_open in (True, False):
        scene = await (await scene_with(5, retention_ms=STEP)).restart()
        if is_open:
            await scene.fetch(("t", 0, 0))
        async with scene.topics.record_deletion.lock:
            passing = asyncio.create_task(scene.topics.retention.check())
            await asyncio.sleep(0)
            await scene.delete("t")
            await scene.create("t", configs=topic_configs(retention_ms=STEP))
            await fill(scene, 5)
        await passing
        assert await span(scene) == (0, 5)
        assert bases(scene) == [0, 1, 2, 3, 4]
        assert await span(scene.kill()) == (0, 5), "nor is another start on the disk"


@pytest.mark.parametrize("first", ["retention", "request"])
async def test_delete_records_and_retention_never_move_a_start_back(first: str) -> None:
    scene = await scene_with(5, retention_ms=2 * STEP)
    request = delete_records_request("t", 0, 4)
    deleting = asyncio.ensure_future(scene.ask(2, request)) if first == "request" else None
    passing = asyncio.create_task(scene.topics.retention.check())
    await asyncio.sleep(0)
    reply = await (deleting or scene.ask(2, request))
    await passing
    assert reply.topics[0].partitions[0].low_watermark == 4
    assert await span(scene) == (4, 5)
    assert await span(scene.kill()) == (4, 5)


# -- failures ------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_open", [True, False])
async def test_a_crash_at_any_call_of_a_deletion_loses_nothing_that_is_kept(is_open: bool) -> None:
    for mode in ("kill", "lose", "tear"):
        for call in range(1, 200):
            scene = await scene_with(5, retention_ms=2 * STEP)
            scene = await scene.restart()
            scene.disk.write_back()
            if is_open:
                await scene.fetch(("t", 0, 0))
            scene.disk.crash_at = scene.disk.calls + call
            try:
                await check(scene)
            except Crash:
                pass
            else:
                break
            if mode == "kill":
                again = scene.kill()
            else:
                scene.disk.power_cut(mode, seed=call)
                again = Scene(scene.disk, scene.settings, now=scene.now, retention=Told())
            assert (await span(again))[0] in (0, 2)
            found = (await again.fetch(("t", 0, 2))).records
            assert [header.base_offset for header in iter_batches(found)] == [2]
            await check(again)
            assert await span(again) == (2, 5)
            assert bases(again) == [2, 3, 4]
        assert call > 5


@pytest.mark.parametrize("is_open", [True, False])
async def test_a_failing_disk_is_reported_and_the_next_pass_deletes(is_open: bool) -> None:
    reported = 0
    for call in range(1, 20):
        scene = await (await scene_with(5, retention_ms=2 * STEP)).restart()
        if is_open:
            await scene.fetch(("t", 0, 0))
        scene.disk.failures = {scene.disk.calls + call: OSError(5, "Input/output error")}
        await check(scene)
        reported += any("t-0: " in each and "Input/output" in each for each in scene.failures)
        await check(scene)
        assert await span(scene) == (2, 5)
        await scene.topics.close()
        assert told(scene).failures == []
        assert await span(Scene(scene.disk, scene.settings)) == (2, 5)
    assert reported > 5


# -- sizes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "is_open"), [(1_000, True), (300, False)])
async def test_many_segments_go_in_pieces(count: int, is_open: bool) -> None:
    worker = Counting()
    scene = await scene_with(count, worker=worker, retention_ms=100 * STEP)
    if not is_open:
        await scene.topics.close()
        scene = Scene(scene.disk, scene.settings, worker, retention=Told())
    worker.disk = scene.disk
    await check(scene)
    assert bases(scene) == list(range(count - 101, count))
    assert worker.most <= 3 * AT_ONCE, "files removed in one job of the worker"
    assert told(scene).deletions[0].segments == count - 101
    assert await span(scene) == (count - 101, count)


async def test_the_worker_looks_at_open_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = await scene_with(5, worker=GatedWorker(), retention_ms=STEP)
    scene.now += 10 * STEP
    scene.worker.gate.clear()
    look = Mock(wraps=expired_before)
    monkeypatch.setattr("groupkeeper.topics.record_deletion.expired_before", look)
    passing = asyncio.create_task(scene.topics.retention.check())
    await scene.worker.has(1)
    assert not look.called
    scene.worker.gate.set()
    await passing
    assert look.called
    assert await span(scene) == (5, 5)
