"""CreateTopics: what is made, what is refused and with which words."""

import asyncio

import pytest

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from groupkeeper.topics.configs import TABLE
from groupkeeper.topics.effective_configs import EffectiveConfigs
from groupkeeper.topics.topic_admin import MAX_PARTITIONS
from tests.topics.scene import Scene

ASSIGNMENT = 39


def requested(name, partitions=1, replicas=1, **more):
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, **more)


def assigned(*partitions):
    """A wish with a manual assignment, given as (index, brokers)."""
    return requested(
        "new",
        -1,
        -1,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in partitions
        ],
    )


async def ask(scene, *requested_topics, **more):
    request = CreateTopicsRequest(topics=list(requested_topics), **more)
    return (await scene.ask(7, request)).topics


async def test_a_topic_is_made_and_described(scene: Scene) -> None:
    result = (await ask(scene, requested("new", 5)))[0]
    assert (result.error_code, result.error_message) == (0, None)
    assert (result.num_partitions, result.replication_factor) == (5, 1)
    seen = (await scene.metadata("new")).topics[0]
    assert (seen.topic_id, len(seen.partitions)) == (result.topic_id, 5)
    assert (await scene.restart()).topics.partition_count("new") == 5


async def test_minus_one_stands_for_the_defaults(scene: Scene) -> None:
    result = (await ask(scene, requested("new", -1, -1)))[0]
    assert (result.num_partitions, result.replication_factor) == (3, 1)


async def test_configs_are_kept_and_told_with_all_that_are_in_effect(scene: Scene) -> None:
    configs = [CreatableTopicConfig(name="retention.ms", value=" +1000 ")]
    result = (await ask(scene, requested("new", configs=configs)))[0]
    told = {c.name: (c.value, c.config_source, c.read_only) for c in result.configs}
    assert told["retention.ms"] == ("1000", 1, False)
    assert told["max.message.bytes"] == ("1048588", 5, False)
    assert set(told) == set(TABLE)
    assert (await scene.delete("new"))[0].error_code == 0


async def test_a_name_that_fills_its_string_is_cut_in_the_message(scene: Scene) -> None:
    configs = [CreatableTopicConfig(name="n" * 32_767, value="1")]
    result = (await ask(scene, requested("new", configs=configs)))[0]
    assert (result.error_code, len(result.error_message)) == (ErrorCode.INVALID_CONFIG, 32_767)


async def test_validate_only_makes_nothing(scene: Scene) -> None:
    result = (await ask(scene, requested("new", 5), validate_only=True))[0]
    assert (result.error_code, result.num_partitions) == (0, 5)
    assert scene.topics.partition_count("new") is None


@pytest.mark.parametrize(
    ("wanted", "code", "words"),
    [
        (requested("__consumer_offsets"), ErrorCode.TOPIC_ALREADY_EXISTS, "already exists"),
        (requested("__group_events"), ErrorCode.TOPIC_ALREADY_EXISTS, "already exists"),
        (requested("../../etc"), ErrorCode.INVALID_TOPIC_EXCEPTION, "characters"),
        (requested(""), ErrorCode.INVALID_TOPIC_EXCEPTION, "empty"),
        (requested("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION, "249"),
        (requested("new", -2), ErrorCode.INVALID_PARTITIONS, "non-positive"),
        (requested("new", MAX_PARTITIONS + 1), ErrorCode.POLICY_VIOLATION, "large number"),
        (requested("new", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR, "larger than 0"),
        (requested("new", 1, -2), ErrorCode.INVALID_REPLICATION_FACTOR, "larger than 0"),
        (requested("new", 0, 3), ErrorCode.INVALID_PARTITIONS, "non-positive"),
        (requested("new", 0, -2), ErrorCode.INVALID_REPLICATION_FACTOR, "larger than 0"),
        (requested("new", MAX_PARTITIONS), ErrorCode.POLICY_VIOLATION, "large batch"),
        (
            requested("new", configs=[CreatableTopicConfig(name="no.such", value="1")]),
            ErrorCode.INVALID_CONFIG,
            "no.such",
        ),
        (
            requested("new", configs=[CreatableTopicConfig(name="retention.ms", value=None)]),
            ErrorCode.INVALID_CONFIG,
            "Null",
        ),
        (
            requested(
                "new", configs=[CreatableTopicConfig(name="max.message.bytes", value="many")]
            ),
            ErrorCode.INVALID_CONFIG,
            "many",
        ),
    ],
)
async def test_what_cannot_be_made(scene, wanted, code, words):
    result = (await ask(scene, wanted))[0]
    assert (result.error_code, result.num_partitions) == (code, -1)
    assert words in result.error_message
    assert scene.topics.snapshot()["topics"] == 1


async def test_names_that_collide(scene: Scene) -> None:
    results = await ask(scene, requested("a.b"), requested("a_b"), requested("c"))
    assert [r.error_code for r in results] == [0, ErrorCode.INVALID_TOPIC_EXCEPTION, 0]
    result = (await ask(scene, requested("a_b")))[0]
    assert (result.error_code, "a.b" in result.error_message) == (17, True)


async def test_a_name_twice_in_one_request_is_refused_once(scene: Scene) -> None:
    results = await ask(scene, requested("new"), requested("other"), requested("new"))
    assert [(r.name, r.error_code) for r in results] == [("new", 42), ("other", 0)]
    assert scene.topics.partition_count("new") is None


async def test_a_manual_assignment_gives_the_number_of_partitions(scene: Scene) -> None:
    result = (await ask(scene, assigned((1, [7]), (0, [7]), (2, [7]))))[0]
    assert (result.error_code, result.num_partitions) == (0, 3)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (assigned((0, [7]), (0, [8])), "multiple manual partition assignments for partition 0"),
        (assigned((1, [7])), "consecutive 0-based"),
        (assigned((-1, [7])), "consecutive 0-based"),
        (assigned((0, [7]), (2, [])), "empty replica list"),
        (assigned((0, [8])), "broker 8, but no such broker"),
        (assigned((0, [7, 8])), "broker 8, but no such broker"),
        (assigned((0, [7, 7])), "broker 7 more than once"),
    ],
)
async def test_wrong_assignments(scene, wanted, words):
    result = (await ask(scene, wanted))[0]
    assert (result.error_code, words in result.error_message) == (ASSIGNMENT, True)


async def test_too_many_partitions_refuse_the_whole_request(scene: Scene) -> None:
    results = await ask(
        scene, requested("a", MAX_PARTITIONS - 10), requested("b", -1), requested("c", 8)
    )
    assert [r.error_code for r in results] == [ErrorCode.POLICY_VIOLATION] * 3
    assert scene.topics.snapshot()["topics"] == 1


async def test_too_large_a_batch_is_refused_before_anything_is_told_of_it(scene, described):
    results = await ask(scene, *(requested(f"n{number}") for number in range(5_001)))
    assert {r.error_code for r in results} == {ErrorCode.POLICY_VIOLATION}
    assert scene.topics.snapshot()["topics"] == 1
    assert described == []


async def test_configs_in_effect_are_found_once_for_topics_with_the_same(scene, described):
    own = [CreatableTopicConfig(name="retention.ms", value="1000")]
    results = await ask(
        scene, requested("a"), requested("b", configs=own), requested("c"), validate_only=True
    )
    values = [next(c.value for c in r.configs if c.name == "retention.ms") for r in results]
    assert values == ["604800000", "1000", "604800000"]
    assert described == ["a", "b"]


@pytest.fixture
def described(monkeypatch):
    """The topics whose configs in effect were looked for."""
    names = []
    of = EffectiveConfigs.of

    def noting(self, topic):
        names.append(topic.name)
        return of(self, topic)

    monkeypatch.setattr(EffectiveConfigs, "of", noting)
    return names


async def test_without_time_nothing_is_made(scene: Scene) -> None:
    result = (await ask(scene, requested("new"), timeout_ms=0))[0]
    assert (result.error_code, result.error_message) == (ErrorCode.REQUEST_TIMED_OUT, None)
    assert scene.topics.partition_count("new") is None


@pytest.mark.parametrize("field", ["num_partitions", "replication_factor"])
async def test_an_assignment_leaves_no_room_for_counts(scene, field):
    wanted = assigned((0, [7]))
    setattr(wanted, field, 1)
    assert (await ask(scene, wanted))[0].error_code == ErrorCode.INVALID_REQUEST


async def test_two_requests_at_once_make_one_topic(scene: Scene) -> None:
    requests = [CreateTopicsRequest(topics=[requested("new")]) for _ in range(2)]
    replies = [scene.send(7, request) for request in requests]
    answers = await asyncio.gather(*(reply.wait() for reply in replies))
    assert sorted(a.topics[0].error_code for a in answers) == [0, ErrorCode.TOPIC_ALREADY_EXISTS]


async def test_the_answer_waits_for_the_disk(scene: Scene) -> None:
    await ask(scene, requested("new"))
    scene.disk.power_cut("lose")
    scene.files.kill()
    assert Scene(scene.disk).topics.partition_count("new") == 1


async def test_a_full_disk_makes_none_of_them(scene: Scene) -> None:
    scene.disk.capacity = 0
    results = await ask(scene, requested("a"), requested("t"), requested("b"))
    assert [r.error_code for r in results] == [56, 36, 56]
    scene.disk.capacity = None
    assert [r.error_code for r in await ask(scene, requested("a"), requested("b"))] == [0, 0]
