"""What opening a long log leaves unread is read later, and damage in it is told."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from groupkeeper.protocol.errors import ErrorCode
from tests.support.fake_files import FakeDisk
from tests.topics.scene import InlineWorker, Scene, batch

T = TypeVar("T")
PATH = f"data/t-0/{0:020}.log"


@pytest.fixture(autouse=True)
def long_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is a log of some kilobytes here."""
    monkeypatch.setattr("groupkeeper.topics.topic_folders.READ_AT_ONCE", 1_000)
    monkeypatch.setattr("groupkeeper.topics.partition.LEARN_BYTES", 500)
    monkeypatch.setattr("groupkeeper.storage.log.segment.PIECE", 100)


class TurnWorker(InlineWorker):
    """Lets the loop run before each job."""

    async def __call__(self, job: Callable[[], T]) -> T:
        await asyncio.sleep(0)
        return job()


async def stopped(batches: int = 30) -> FakeDisk:
    scene = Scene()
    await scene.create("t", 1)
    for number in range(batches):
        await scene.produce("t", 0, batch(f"{number} " + "x" * 200))
    await scene.topics.close()
    return scene.disk


async def settled() -> None:
    for _ in range(200):
        await asyncio.sleep(0)


async def test_a_sound_log_is_served_before_and_after() -> None:
    scene = Scene(await stopped())
    answer = await scene.fetch(("t", 0, 29))
    assert answer.error_code == ErrorCode.NONE
    await settled()
    partition = scene.topics.partitions.find("t", 0)
    assert partition is not None and partition.log is not None and partition.log.unread is None
    answer = await scene.fetch(("t", 0, 0))
    assert (answer.error_code, scene.failures) == (ErrorCode.NONE, [])


async def test_a_damaged_log_is_told_and_then_refused() -> None:
    disk = await stopped()
    disk.flip(PATH, 1_500)
    for _ in range(2):
        scene = Scene(disk)
        await scene.fetch(("t", 0, 29))
        await settled()
        answer = await scene.fetch(("t", 0, 29))
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert all(line.startswith(f"t-0: {PATH}: ") for line in scene.failures)
        assert "keep what is left of it: groupkeeper repair data/t-0" in scene.failures[-1]
        scene = scene.kill()


async def test_a_server_that_stops_reads_no_further() -> None:
    scene = Scene(await stopped(), worker=TurnWorker())
    await scene.fetch(("t", 0, 29))
    await scene.topics.partitions.unread.close()
    await settled()
    partition = scene.topics.partitions.find("t", 0)
    assert partition is not None and partition.log is not None and partition.log.unread is not None


async def test_a_topic_that_is_deleted_meanwhile_fails_nothing() -> None:
    disk = await stopped()
    disk.flip(PATH, 1_500)
    scene = Scene(disk, worker=TurnWorker())
    await scene.fetch(("t", 0, 29))
    await scene.delete("t")
    await settled()
    assert scene.failures == []
