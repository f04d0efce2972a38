"""DeleteTopics: by name, by id, and what is left on the disk: nothing."""

import asyncio

import pytest

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from groupkeeper.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from groupkeeper.topics import topic_admin
from tests.topics.scene import Scene, batch


async def ask(scene, *states):
    request = DeleteTopicsRequest(topics=list(states), timeout_ms=1000)
    return (await scene.ask(6, request)).responses


def folders(scene):
    return scene.disk.children("data")


async def test_a_topic_goes_with_its_files(scene: Scene) -> None:
    await scene.produce("t", 0, batch("a"))
    assert folders(scene) == ["catalog", "catalog-copy", "t-0"]
    result = (await scene.delete("t"))[0]
    assert (result.name, result.error_code, result.error_message) == ("t", 0, None)
    assert folders(scene) == ["catalog", "catalog-copy"]
    assert scene.topics.partition_count("t") is None
    assert (await scene.restart()).topics.partition_count("t") is None


async def test_files_of_partitions_that_were_not_opened_go_too(scene: Scene) -> None:
    await scene.produce("t", 1, batch("a"))
    again = await scene.restart()
    await again.delete("t")
    assert folders(again) == ["catalog", "catalog-copy"]


async def test_by_id(scene: Scene) -> None:
    topic_id = (await scene.metadata("t")).topics[0].topic_id
    found, unknown = await ask(
        scene, DeleteTopicState(topic_id=topic_id), DeleteTopicState(topic_id=b"?" * 16)
    )
    assert (found.name, found.topic_id, found.error_code) == ("t", topic_id, 0)
    assert (unknown.name, unknown.error_code) == (None, ErrorCode.UNKNOWN_TOPIC_ID)


@pytest.mark.parametrize(
    "state", [DeleteTopicState(), DeleteTopicState(name="t", topic_id=b"?" * 16)]
)
async def test_name_or_id_but_not_both(scene, state):
    result = (await ask(scene, state))[0]
    assert (result.error_code, bool(result.error_message)) == (ErrorCode.INVALID_REQUEST, True)
    assert scene.topics.partition_count("t") == 2


async def test_a_topic_named_twice_stays(scene: Scene) -> None:
    await scene.create("u")
    results = await scene.delete("t", "u", "t")
    assert [(r.name, r.error_code, r.error_message) for r in results] == [
        ("t", ErrorCode.INVALID_REQUEST, "Duplicate topic name."),
        ("u", 0, None),
    ]
    assert scene.topics.partition_count("t") == 2


async def test_an_id_given_twice_is_refused_once(scene: Scene) -> None:
    topic_id = (await scene.metadata("t")).topics[0].topic_id
    (result,) = await ask(scene, *[DeleteTopicState(topic_id=topic_id)] * 2)
    assert (result.name, result.topic_id) == (None, topic_id)
    assert result.error_message == "Duplicate topic id."


@pytest.mark.parametrize("turn", [1, -1], ids=["id first", "name first"])
async def test_a_topic_meant_by_name_and_by_id_stays(scene, turn):
    topic_id = (await scene.metadata("t")).topics[0].topic_id
    states = [DeleteTopicState(topic_id=topic_id), DeleteTopicState(name="t")]
    (result,) = await ask(scene, *states[::turn])
    assert (result.name, result.topic_id) == ("t", topic_id)
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert scene.topics.partition_count("t") == 2


async def test_without_time_nothing_is_deleted(scene: Scene) -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")])
    (result,) = (await scene.ask(6, request)).responses
    assert (result.error_code, result.error_message) == (ErrorCode.REQUEST_TIMED_OUT, None)
    assert scene.topics.partition_count("t") == 2


async def test_the_group_topic_stays(scene: Scene) -> None:
    result = (await scene.delete("__consumer_offsets"))[0]
    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert scene.topics.partition_count("__consumer_offsets") == 4


async def test_others_are_told(scene: Scene) -> None:
    told: list[list[str]] = []

    async def forget(names: list[str]) -> None:
        told.append(names)

    scene.topics.topics_deleted.append(forget)
    await scene.create("u")
    await scene.delete("t", "nowhere", "u")
    assert told == [["t", "u"]]


class Forgetful:
    """Somebody who keeps things for topics and takes his time to forget them."""

    def __init__(self, scene: Scene) -> None:
        scene.topics.topics_deleted.append(self)
        self.go = asyncio.Event()
        self.told: list[str] = []

    async def __call__(self, names: list[str]) -> None:
        self.told += names
        await self.go.wait()


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_files_and_answer_wait_until_others_have_forgotten(scene: Scene) -> None:
    await scene.produce("t", 0, batch("a"))
    forgetful = Forgetful(scene)
    deletion = asyncio.ensure_future(scene.delete("t"))
    await turns()
    assert (deletion.done(), folders(scene)) == (False, ["catalog", "catalog-copy", "t-0"])
    forgetful.go.set()
    assert (await deletion)[0].error_code == 0
    assert folders(scene) == ["catalog", "catalog-copy"]


async def test_meanwhile_the_topic_does_not_exist(scene: Scene) -> None:
    await scene.produce("t", 0, batch("a"))
    Forgetful(scene)
    deletion = asyncio.ensure_future(scene.delete("t"))
    await turns()
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await scene.produce("t", 0, batch("a"))).error_code == unknown
    assert (await scene.fetch(("t", 0, 0))).error_code == unknown
    assert (await scene.offsets("t", 0, -1)).error_code == unknown
    assert (await scene.delete("t"))[0].error_code == unknown
    described = await scene.metadata("t", allow_auto_topic_creation=False)
    assert described.topics[0].error_code == unknown
    deletion.cancel()


async def test_the_name_waits_until_others_have_forgotten(scene: Scene) -> None:
    forgetful = Forgetful(scene)
    deletion = asyncio.ensure_future(scene.delete("t"))
    await turns()
    creations = [scene.create("t"), scene.metadata("t")]
    creating = [asyncio.ensure_future(creation) for creation in creations]
    assert (await scene.create("another")).error_code == 0
    assert not any(task.done() for task in creating)
    forgetful.go.set()
    await asyncio.gather(deletion, *creating)
    assert creating[0].result().error_code == 0
    assert creating[1].result().topics[0].error_code == 0


async def test_patience_ends_and_the_deletion_goes_on(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_admin, "DELETION_WAIT_S", 0)
    forgetful = Forgetful(scene)
    assert (await scene.delete("t"))[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    assert (await scene.create("t")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    described = (await scene.metadata("t")).topics[0]
    assert described.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    forgetful.go.set()
    await turns()
    assert (await scene.create("t")).error_code == 0


async def test_who_could_not_forget_is_told_again_by_the_next_start(scene: Scene) -> None:
    async def refuse(names: list[str]) -> None:
        raise RuntimeError("stopping")

    scene.topics.topics_deleted.append(refuse)
    assert (await scene.delete("t"))[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    again = scene.kill()
    forgetful = Forgetful(again)
    again.topics.admin.finish_deletions()
    await turns()
    assert forgetful.told == ["t"]
    forgetful.go.set()
    await turns()
    last = again.kill()
    nothing = Forgetful(last)
    last.topics.admin.finish_deletions()
    await turns()
    assert nothing.told == []


async def test_a_new_topic_of_the_same_name_is_empty_and_has_another_id(scene: Scene) -> None:
    await scene.produce("t", 0, batch("a", id=1))
    old = (await scene.metadata("t")).topics[0].topic_id
    await scene.delete("t")
    await scene.create("t")
    assert (await scene.metadata("t")).topics[0].topic_id != old
    assert (await scene.fetch(("t", 0, 0))).high_watermark == 0
    assert (await scene.produce("t", 0, batch("b", id=1))).base_offset == 0


async def test_the_name_is_free_for_a_colliding_one(scene: Scene) -> None:
    await scene.create("a.b")
    await scene.delete("a.b")
    assert (await scene.create("a_b")).error_code == 0


async def test_a_full_disk_deletes_nothing(scene: Scene) -> None:
    await scene.produce("t", 0, batch("a"))
    scene.disk.capacity = 0
    assert (await scene.delete("t"))[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (await scene.fetch(("t", 0, 0))).high_watermark == 1


async def test_a_failed_removal_is_done_before_the_name_is_used_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.produce("t", 0, batch("old"))
    monkeypatch.setattr(scene.files, "remove_folder", _refuse)
    assert (await scene.delete("t"))[0].error_code == 0
    assert scene.failures
    assert (await scene.create("t")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    monkeypatch.undo()
    assert (await scene.create("t")).error_code == 0
    assert (await scene.fetch(("t", 0, 0))).high_watermark == 0


async def test_a_failed_removal_is_done_once_for_a_name_asked_for_twice(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scene.files, "remove_folder", _refuse)
    await scene.delete("t")
    monkeypatch.undo()
    twice = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1)] * 2)
    results = (await scene.ask(7, twice)).topics
    assert {result.error_code for result in results} == {ErrorCode.INVALID_REQUEST}
    assert (await scene.create("t")).error_code == 0


async def test_a_failed_removal_is_done_at_the_next_start(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.produce("t", 0, batch("old"))
    monkeypatch.setattr(scene.files, "remove", _refuse)
    await scene.delete("t")
    assert "t-0" in folders(scene)
    again = scene.kill()
    again.topics.admin.finish_deletions()
    await turns()
    assert folders(again) == ["catalog", "catalog-copy"]
    assert (await again.create("t")).error_code == 0
    assert "t-0" not in folders(again.kill())


def _refuse(path: str) -> None:
    raise PermissionError(13, "Permission denied", path)
