"""Deletions that take many slices, while others make, write and delete topics of the same names."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from groupkeeper import turns
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.support.requests import delete_records_request
from tests.topics.scene import GatedWorker, Scene, Settings, batch

MANY = 1_000
"""Topics: five slices for each step."""

ONE = {"num_partitions": 1, "replication_factor": 1}


class Offsets:
    """What a coordinator keeps for topics: the newest offset of each, until it has to forget."""

    def __init__(self, scene: Scene) -> None:
        scene.topics.topics_deleted.append(self.forget)
        self.kept: dict[str, int] = {}
        self.told: list[str] = []

    async def forget(self, names: list[str]) -> None:
        await asyncio.sleep(0)
        self.told += names
        for name in names:
            self.kept.pop(name, None)


@pytest.fixture
async def wide(scene, monkeypatch):
    """The scene with many topics more, `w0` and so on, where every slice is a turn."""
    monkeypatch.setattr(turns, "TURN_S", -1.0)
    topics = [CreatableTopic(name=f"w{n}", **ONE) for n in range(MANY)]
    request = CreateTopicsRequest(topics=topics)
    made = (await scene.ask(7, request)).topics
    assert not any(topic.error_code for topic in made)
    return scene


def first_of_many(scene: Scene, *names: str) -> "asyncio.Task[list]":
    """Delete these topics and then the many."""
    return asyncio.ensure_future(scene.delete(*names, *(f"w{n}" for n in range(MANY))))


async def until(reached: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(10_000):
        if await reached():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never comes to that")


async def gone(scene: Scene, name: str) -> None:
    """Wait until the topic is gone for clients."""

    async def is_gone() -> bool:
        return scene.topics.partition_count(name) is None

    await until(is_gone)


async def made_again(scene: Scene, name: str) -> None:
    """Until clients may create it."""

    async def is_made() -> bool:
        return not (await scene.create(name)).error_code

    await until(is_made)


async def described_again(scene: Scene, name: str) -> None:
    """Until Metadata creates it, or finds it."""

    async def is_described() -> bool:
        return not (await scene.metadata(name)).topics[0].error_code

    await until(is_described)


@pytest.mark.parametrize("again", [made_again, described_again])
async def test_a_topic_made_again_before_the_others_are_gone_stays(wide, again):
    offsets = Offsets(wide)
    await wide.produce("t", 0, batch("old"))
    deletion = first_of_many(wide, "t")
    await gone(wide, "t")
    await again(wide, "t")
    assert (await wide.produce("t", 0, batch("new"))).base_offset == 0
    offsets.kept["t"] = 1
    assert {result.error_code for result in await deletion} == {0}
    assert offsets.told.count("t") == 1
    assert (offsets.kept, wide.failures) == ({"t": 1}, [])
    assert (await wide.fetch(("t", 0, 0))).high_watermark == 1
    assert (await wide.kill().fetch(("t", 0, 0))).high_watermark == 1


async def test_a_topic_deleted_again_while_its_first_deletion_ends_is_forgotten(wide):
    offsets = Offsets(wide)
    deletion = first_of_many(wide, "t")
    await gone(wide, "t")
    await made_again(wide, "t")
    offsets.kept["t"] = 1
    assert (await wide.delete("t"))[0].error_code == 0
    assert offsets.kept == {}
    await deletion
    assert (await wide.create("t")).error_code == 0


async def test_waiting_for_a_deletion_that_ends_meanwhile(wide):
    """While a creation looks for its names among those being deleted, some of them are gone."""
    deletion = first_of_many(wide, "t")
    await gone(wide, "t")
    names = ["t", *(f"w{n}" for n in range(MANY))]
    requested_topics = [CreatableTopic(name=name, **ONE) for name in names]
    request = CreateTopicsRequest(topics=requested_topics)
    creations = [wide.ask(7, request) for _ in range(20)]
    asked = [asyncio.ensure_future(creation) for creation in creations]
    await deletion
    codes = {topic.error_code for task in asked for topic in (await task).topics}
    assert codes <= {0, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.KAFKA_STORAGE_ERROR}
    assert wide.failures == []


async def test_files_of_a_deleted_topic_do_not_come_back_with_a_power_cut(scene: Scene) -> None:
    await scene.produce("t", 0, batch("old"))
    again = await scene.restart()  # all is synced
    await again.delete("t")
    again.disk.power_cut("lose")
    last = Scene(again.disk)
    await last.create("t")
    assert (await last.fetch(("t", 0, 0))).high_watermark == 0


async def test_deleting_records_of_the_old_topic_spares_those_of_the_new_one() -> None:
    """The topic may be another one when the start of its log moves."""
    worker = GatedWorker()
    scene = Scene(settings=Settings(log_segment_bytes=10_000), worker=worker)
    await scene.create("t")
    for _ in range(250):
        await scene.produce("t", 0, batch("old"))
    worker.gate.clear()
    worker.passing = 1
    deleting = scene.send(2, delete_records_request("t", 0, 150))
    await worker.has(1)
    worker.passing = 100
    assert (await scene.delete("t"))[0].error_code == 0
    await scene.create("t")
    await scene.produce("t", 0, batch("new"))
    assert not deleting.answered
    worker.gate.set()
    result = (await deleting.wait()).topics[0].partitions[0]
    assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert scene.failures == []
    again = scene.kill()
    assert (await again.fetch(("t", 0, 0))).high_watermark == 1
