"""AlterConfigs and IncrementalAlterConfigs of topics: what is kept, acts and survives, and what is
refused with which words.
"""

import asyncio
import dataclasses

import pytest

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.create_topics import CreatableTopicConfig
from groupkeeper.topics import configs
from tests.apis import config_calls
from tests.apis.config_calls import APPEND, BROKER, DELETE, GROUP, LOGGER, SET, SUBTRACT, TOPIC
from tests.topics.scene import NOW, HeldWorker, Scene, batch

UNKNOWN, INVALID_TOPIC = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION
INVALID, REQUEST = ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST
LIMIT, REPLICAS = "max.message.bytes", "follower.replication.throttled.replicas"
OLD = {
    "message.format.version": "3.0",
    "min.compaction.lag.ms": "-5",
    "remote.storage.enable": "true",
    "segment.bytes": "1",
}
TOO_LONG = (
    "The configuration value cannot be added because it exceeds the maximum value size of "
    "32767 bytes."
)


async def change(scene, *changes, topic="t", **more):
    """The error code and message of one topic."""
    [outcome] = await config_calls.change(scene, (TOPIC, topic, list(changes)), **more)
    return outcome


async def replace(scene, **configs):
    return await config_calls.replace(scene, TOPIC, "t", **configs)


async def own(scene, topic="t"):
    """The configs that the topic has of its own."""
    [result] = await config_calls.describe(scene, (TOPIC, topic, None))
    return {config.name: config.value for config in result.configs if config.config_source == 1}


async def test_a_config_is_set_and_deleted(scene: Scene) -> None:
    assert await change(scene, ("retention.ms", SET, " 7 ")) == (0, None)
    assert await change(scene, (LIMIT, SET, "9")) == (0, None)
    assert await own(scene) == {"retention.ms": "7", LIMIT: "9"}
    assert await change(scene, ("retention.ms", DELETE, "x"), ("nope", DELETE, None)) == (0, None)
    assert await own(scene) == {LIMIT: "9"}


async def test_the_older_request_unsets_what_it_does_not_name(scene: Scene) -> None:
    assert await replace(scene, retention_ms="7", max_message_bytes="9") == (0, None)
    assert await replace(scene, retention_ms="8") == (0, None)
    assert await own(scene) == {"retention.ms": "8"}
    assert await replace(scene) == (0, None)
    assert await own(scene) == {}


@pytest.mark.parametrize(
    ("steps", "policy"),
    [
        ([(APPEND, "compact")], "delete,compact"),
        ([(APPEND, "compact"), (APPEND, "compact,delete")], "delete,compact"),
        ([(APPEND, "compact"), (SUBTRACT, "delete")], "compact"),
        ([(SUBTRACT, "delete")], ""),
        ([(SUBTRACT, "compact")], "delete"),
        ([(SET, ""), (APPEND, "compact,compact")], "compact"),
    ],
)
async def test_a_list_is_edited_from_kafkas_default_on(scene, steps, policy):
    for operation, value in steps:
        assert await change(scene, ("cleanup.policy", operation, value)) == (0, None)
    assert await own(scene) == {"cleanup.policy": policy}


@pytest.mark.parametrize(
    ("requested", "message"),
    [
        (("nope", SET, "1"), "Unknown topic config name: nope"),
        (("retention.ms", SET, "x"), "Invalid value x for configuration retention.ms: Not a numb"),
        (("retention.ms", APPEND, "3"), "Can't APPEND to key retention.ms because its type is n"),
        (("nope", SUBTRACT, "3"), "Can't SUBTRACT to key nope because its type is not LIST."),
        (("cleanup.policy", APPEND, "bad"), "Invalid value bad for configuration cleanup.policy"),
        (("n" * 32_767, SET, "1"), "Unknown topic config name: nnn"),
    ],
)
async def test_one_bad_wish_leaves_all_configs_of_the_topic_as_they_are(scene, requested, message):
    code, told = await change(scene, (LIMIT, SET, "9"), requested)
    assert code == INVALID
    assert told.startswith(message)
    assert len(told) <= 32_767
    assert await own(scene) == {}


@pytest.mark.parametrize(
    ("kept", "taken", "left"),
    [("1:1,2:2,1:1,3:3", "1:1", "2:2,1:1,3:3"), ("1:1,2:2,1:1", "1:1,1:1,4:4", "2:2")],
)
async def test_an_item_goes_as_often_as_it_is_given(scene, kept, taken, left):
    assert await change(scene, (REPLICAS, SET, kept)) == (0, None)
    assert await change(scene, (REPLICAS, SUBTRACT, taken)) == (0, None)
    assert await own(scene) == {REPLICAS: left}


def replicas(first, count):
    """A list of so many items of nine bytes, with commas between them."""
    return ",".join(f"{first + at}:{at:04}" for at in range(count))


async def test_a_list_cannot_grow_beyond_what_an_answer_can_hold(scene: Scene) -> None:
    kept = replicas(1000, 3_000)
    assert await change(scene, (REPLICAS, SET, kept)) == (0, None)
    refused = await change(scene, (REPLICAS, APPEND, replicas(5000, 300)))
    assert refused == (INVALID, TOO_LONG)
    assert await own(scene) == {REPLICAS: kept}
    assert await change(scene, (REPLICAS, APPEND, replicas(5000, 276))) == (0, None)
    longest = f"{kept},{replicas(5000, 276)}"
    assert await own(scene) == {REPLICAS: longest}
    assert await change(scene, (REPLICAS, APPEND, "1:123456")) == (INVALID, TOO_LONG)
    assert await change(scene, (REPLICAS, APPEND, "1:12345")) == (0, None)
    assert len((await own(scene))[REPLICAS]) == 32_767


@pytest.mark.parametrize("topic", ["t", "nope", "", "a b"])
async def test_the_length_is_checked_first(scene, topic):
    add = ("cleanup.policy", APPEND, "x" * 32_767)
    assert await change(scene, ("nope", SET, "1"), add, topic=topic) == (INVALID, TOO_LONG)


async def test_what_is_kept_counts_when_configs_must_go_together(scene: Scene) -> None:
    await change(scene, ("max.compaction.lag.ms", SET, "5"))
    code, told = await change(scene, ("min.compaction.lag.ms", SET, "6"))
    assert (code, told[:32]) == (INVALID, "conflict topic config setting mi")


async def test_values_are_compared_with_the_servers_where_the_topic_has_none(scene: Scene) -> None:
    scene = await scene.restart(log_cleaner_max_compaction_lag_ms=5)
    conflict = (
        "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)"
    )
    assert await change(scene, ("min.compaction.lag.ms", SET, "10")) == (INVALID, conflict)
    config = CreatableTopicConfig(name="min.compaction.lag.ms", value="10")
    refused = await scene.create("u", configs=[config])
    assert (refused.error_code, refused.error_message) == (INVALID, conflict)
    assert (await change(scene, ("min.compaction.lag.ms", SET, "5")))[0] == 0


@pytest.mark.parametrize(
    ("topic", "requested", "code", "message"),
    [
        ("nope", ("retention.ms", SET, "1"), UNKNOWN, "The topic 'nope' does not exist."),
        ("nope", ("nope", SET, "1"), INVALID, "Unknown topic config name: nope"),
        ("a b", ("nope", SET, "1"), INVALID_TOPIC, "Topic name is invalid: 'a b' contains"),
        ("", ("nope", SET, "1"), ErrorCode.INVALID_REQUEST, "Default topic resources are not al"),
        ("", ("nope", APPEND, "1"), INVALID, "Can't APPEND to key nope"),
        ("__consumer_offsets", (LIMIT, SET, "1"), INVALID_TOPIC, "Topic '__consumer_offsets' is"),
    ],
)
async def test_checks_have_kafkas_order(scene, topic, requested, code, message):
    refused, told = await change(scene, requested, topic=topic)
    assert (refused, told[: len(message)]) == (code, message)


async def test_every_resource_stands_or_falls_by_itself(scene: Scene) -> None:
    await scene.create("u")
    outcomes = await config_calls.change(
        scene,
        (BROKER, "7", [("node.id", SET, "3")]),
        (TOPIC, "t", [(LIMIT, SET, "9")]),
        (0, "x", [("a", SET, "b")]),
        (TOPIC, "nope", [(LIMIT, SET, "9")]),
        (TOPIC, "u", [("retention.ms", SET, "x")]),
        (GROUP, "g", [("a", DELETE, None)]),
    )
    assert outcomes == [
        (REQUEST, "Cannot update these configs dynamically: Set(node.id)"),
        (0, None),
        (REQUEST, "Unknown resource type 0"),
        (UNKNOWN, "The topic 'nope' does not exist."),
        (INVALID, "Invalid value x for configuration retention.ms: Not a number of type LONG"),
        (0, None),
    ]
    assert (await own(scene), await own(scene, "u")) == ({LIMIT: "9"}, {})


async def test_a_resource_that_comes_twice_is_not_altered_at_all(scene: Scene) -> None:
    await scene.create("u")
    asked = [(TOPIC, name, [(LIMIT, SET, "9")]) for name in ("t", "u", "t")]
    twice = (REQUEST, "Each resource must appear at most once.")
    assert await config_calls.change(scene, *asked) == [twice, (0, None), twice]
    assert (await own(scene), await own(scene, "u")) == ({}, {LIMIT: "9"})


async def test_what_is_wrong_in_itself_is_refused_first(scene: Scene) -> None:
    for changes, message in (
        ([("a", SET, "1"), ("a", DELETE, None)], "Error due to duplicate config keys"),
        ([("a", SET, None), ("a", SET, None)], "Error due to duplicate config keys"),
        ([("a", SET, None), ("b", APPEND, None)], "Null value not supported for : a, b"),
        ([("a", 4, "1")], "Unknown operations type 4"),
        ([("a", -1, "1")], "Unknown operations type -1"),
    ):
        asked = [
            (kind, name, changes) for kind, name in ((TOPIC, "t"), (BROKER, "7"), (GROUP, "g"))
        ]
        assert await config_calls.change(scene, *asked) == [(REQUEST, message)] * 3


async def test_the_older_request_has_the_same_rules(scene: Scene) -> None:
    refused = await replace(scene, retention_ms=None)
    assert refused == (REQUEST, "Null value not supported for : retention.ms")
    refused = await config_calls.replace(scene, LOGGER, "7", x="INFO")
    assert refused == (REQUEST, "Unknown resource type 8")
    assert (await config_calls.replace(scene, BROKER, "7", node_id="1"))[0] == REQUEST


async def test_a_message_that_repeats_too_much_is_cut(scene: Scene) -> None:
    [(code, message)] = await config_calls.change(scene, (GROUP, "g", [("n" * 32_767, SET, "1")]))
    assert (code, len(message)) == (INVALID, 32_767)


@pytest.fixture
async def old(scene):
    """A catalog of a release that had other names and other bounds."""
    topic = scene.topics.catalog.by_name["t"]
    await scene.topics.catalog.change([dataclasses.replace(topic, configs=dict(OLD))], NOW)
    return await scene.restart()


async def test_what_an_older_release_stored_refuses_no_change(old):
    kept = {name: value for name, value in OLD.items() if name in configs.TABLE}
    assert await change(old, (LIMIT, SET, "9")) == (0, None)
    assert await own(old) == {**kept, LIMIT: "9"}
    assert await change(old, ("message.format.version", DELETE, None)) == (0, None)
    assert await change(old, ("message.format.version", SET, "3.0")) == (
        INVALID,
        "Unknown topic config name: message.format.version",
    )
    assert await replace(old, retention_ms="7") == (0, None)
    assert await own(old) == {"retention.ms": "7"}


async def test_a_new_value_is_judged_with_what_an_older_release_stored(old):
    code, told = await change(old, ("max.compaction.lag.ms", SET, "5"))
    assert (code, told[:41]) == (INVALID, "Invalid value -5 for configuration min.co")
    both = (("max.compaction.lag.ms", SET, "5"), ("min.compaction.lag.ms", DELETE, None))
    assert await change(old, *both) == (0, None)


async def test_validate_only_changes_nothing(scene: Scene) -> None:
    assert await change(scene, (LIMIT, SET, "9"), validate_only=True) == (0, None)
    assert (await change(scene, (LIMIT, SET, "x"), validate_only=True))[0] == INVALID
    assert await own(scene) == {}


async def test_a_limit_acts_at_once_and_no_longer_when_it_is_gone(scene: Scene) -> None:
    assert (await scene.produce("t", 0, batch("a" * 500))).error_code == 0
    for limit in ("100", "0"):
        await change(scene, (LIMIT, SET, limit))
        refused = await scene.produce("t", 0, batch("a" * 500))
        assert refused.error_code == ErrorCode.MESSAGE_TOO_LARGE
    await change(scene, (LIMIT, DELETE, None))
    assert (await scene.produce("t", 0, batch("a" * 500))).error_code == 0


@pytest.mark.parametrize("again", [Scene.restart, Scene.kill])
async def test_configs_survive_with_partitions_and_id(scene, again):
    before = (await scene.metadata("t")).topics[0]
    await change(scene, (LIMIT, SET, "9"))
    scene = again(scene)
    scene = scene if isinstance(scene, Scene) else await scene
    assert await own(scene) == {LIMIT: "9"}
    assert (await scene.metadata("t")).topics[0] == before


@pytest.mark.parametrize("version", [0, 1])
async def test_a_disk_that_refuses_leaves_everything_as_it_was(scene, version):
    scene.disk.capacity = 0
    asked = [(TOPIC, name, [(LIMIT, SET, "9")]) for name in ("nope", "t")]
    outcomes = await config_calls.change(scene, *asked, version=version)
    assert [code for code, _ in outcomes] == [UNKNOWN, ErrorCode.KAFKA_STORAGE_ERROR]
    assert await own(scene) == {}


async def test_what_changes_nothing_is_not_written(scene: Scene) -> None:
    await scene.create("u")
    assert await change(scene, (LIMIT, SET, "9"), ("preallocate", SET, "true")) == (0, None)
    scene.disk.capacity = 0
    assert await change(scene, (LIMIT, SET, " 09"), ("retention.ms", DELETE, None)) == (0, None)
    assert await change(scene) == (0, None)
    assert await replace(scene, preallocate="TRUE", max_message_bytes="9") == (0, None)
    assert scene.failures == []
    outcomes = await config_calls.change(
        scene, *[(TOPIC, name, [(LIMIT, SET, "9")]) for name in ("t", "u")]
    )
    codes = [code for code, _ in outcomes]
    assert codes == [0, ErrorCode.KAFKA_STORAGE_ERROR], "of those that must be written"


async def test_nobody_is_told_before_it_is_durable(scene: Scene) -> None:
    held = HeldWorker()
    scene.topics.catalog._worker = held
    changing = asyncio.ensure_future(change(scene, (LIMIT, SET, "9")))
    for _ in range(5):
        await asyncio.sleep(0)
    assert await own(scene) == {}
    assert not changing.done()
    held.go.set()
    await changing
    assert await own(scene) == {LIMIT: "9"}
