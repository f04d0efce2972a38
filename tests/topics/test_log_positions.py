"""Where logs end, for many partitions, without opening them."""

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from groupkeeper.topics.log_positions import Extent
from groupkeeper.topics.partitions import AT_ONCE
from tests.topics.scene import NOW, InlineWorker, Scene, batch

T = TypeVar("T")
MANY = 10_000


async def filled() -> Scene:
    """Two partitions, of three and no records."""
    scene = Scene()
    await scene.create("t", partitions=2)
    await scene.produce("t", 0, batch("a", "b", timestamp=NOW))
    await scene.produce("t", 0, batch("c", timestamp=NOW + 5_000))
    return scene


SIZE = len(batch("a", "b")) + len(batch("c"))


@pytest.mark.parametrize("opened", [True, False])
async def test_ends_are_those_of_the_log_opened_or_not(*, opened: bool) -> None:
    scene = await filled()
    scene = scene if opened else await scene.restart()
    extents = await scene.topics.positions.extents([("t", 0), ("t", 1), ("t", 2), ("u", 0)])
    assert extents == {("t", 0): Extent(0, 3, SIZE), ("t", 1): Extent(0, 0, 0)}
    assert scene.topics.partitions.opened() == (1 if opened else 0)


@pytest.mark.parametrize("opened", [True, False])
async def test_the_time_at_an_offset_is_that_of_its_batch(*, opened: bool) -> None:
    scene = await filled()
    scene = scene if opened else await scene.restart()
    times = await scene.topics.positions.times(
        [("t", 0, 0), ("t", 0, 1), ("t", 0, 2), ("t", 0, 3), ("t", 1, 0), ("t", 7, 0), ("u", 0, 0)]
    )
    assert times == {("t", 0, 0): NOW + 1, ("t", 0, 1): NOW + 1, ("t", 0, 2): NOW + 5_000}
    assert scene.topics.partitions.opened() == (1 if opened else 0)


async def test_a_look_is_kept_until_the_log_changes() -> None:
    scene = await (await filled()).restart()
    before = await scene.topics.positions.extents([("t", 0)])
    await scene.produce("t", 0, batch("d"))
    after = await scene.topics.positions.extents([("t", 0)])
    assert (before["t", 0].end_offset, after["t", 0].end_offset) == (3, 4)


async def test_deleted_and_made_anew_it_is_empty() -> None:
    scene = await (await filled()).restart()
    await scene.topics.positions.extents([("t", 0)])
    await scene.delete("t")
    await scene.create("t")
    assert await scene.topics.positions.extents([("t", 0)]) == {("t", 0): Extent(0, 0, 0)}


async def test_a_folder_that_cannot_be_read_is_left_out_and_reported(monkeypatch) -> None:
    scene = await (await filled()).restart()
    monkeypatch.setattr(scene.files, "open", refuse)
    assert await scene.topics.positions.extents([("t", 0), ("t", 1)]) == {("t", 1): Extent(0, 0, 0)}
    assert [line.partition(":")[0] for line in scene.failures] == ["t-0"]


def refuse(path: str, *, create: bool = False) -> int:
    raise PermissionError(13, "Permission denied", path)


class GroupLog:
    """As much of a log as positions need."""

    start_offset, next_offset, size = 5, 80, 1_000


async def test_group_logs_are_told_while_they_are_open() -> None:
    scene = Scene()
    scene.serve_group_logs(lambda index: GroupLog() if index == 1 else None)
    places = [("__consumer_offsets", 0), ("__consumer_offsets", 1)]
    assert await scene.topics.positions.extents(places) == {places[1]: Extent(5, 80, 1_000)}


class CountingWorker(InlineWorker):
    """Counts jobs."""

    def __init__(self) -> None:
        self.jobs = 0

    async def __call__(self, job: Callable[[], T]) -> T:
        self.jobs += 1
        return job()


async def test_many_partitions_are_looked_at_in_small_jobs_and_then_known(monkeypatch) -> None:
    worker: Any = CountingWorker()
    scene = Scene(worker=worker)
    for name in ("one", "two"):
        assert (await scene.create(name, partitions=MANY // 2)).error_code == 0
    await scene.produce("two", 77, batch("a"))
    scene = await scene.restart()
    places = [(name, index) for name in ("one", "two") for index in range(MANY // 2)]
    worker.jobs = 0
    found = await scene.topics.positions.extents(places)
    assert len(found) == MANY
    assert found["two", 77].end_offset == 1
    assert worker.jobs == MANY // AT_ONCE
    assert scene.topics.partitions.opened() == 0
    monkeypatch.setattr(scene.files, "list_folder", refuse)
    assert await scene.topics.positions.extents(places) == found
