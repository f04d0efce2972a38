"""How the logs of a topic are kept: configs over settings, and what follows from them."""

import pytest

from groupkeeper.settings.setting import LONG_MAX
from groupkeeper.settings.table import load
from groupkeeper.storage.log.limits import Limits
from groupkeeper.topics.catalog import Topic
from groupkeeper.topics.effective_configs import EffectiveConfigs
from groupkeeper.topics.log_policy import LogPolicy
from groupkeeper.topics.timestamps import TimestampRules
from tests.support.requests import topic_configs
from tests.topics.scene import NOW, Scene, batch

WEEK = 7 * 86_400_000
SERVER = {
    "log.cleanup.policy": "compact,delete",
    "log.retention.hours": "1",
    "log.retention.bytes": "2",
    "log.segment.bytes": "30",
    "log.roll.hours": "4",
    "log.index.interval.bytes": "5",
    "log.index.size.max.bytes": "6",
    "log.cleaner.delete.retention.ms": "7",
    "log.cleaner.min.compaction.lag.ms": "8",
    "log.cleaner.max.compaction.lag.ms": "9",
    "log.cleaner.min.cleanable.ratio": "0.25",
}
TOPIC = {
    "cleanup.policy": "delete, compact",
    "retention.ms": "-1",
    "retention.bytes": "20",
    "segment.bytes": "300",
    "segment.ms": "4000",
    "index.interval.bytes": "50",
    "segment.index.bytes": "60",
    "delete.retention.ms": "70",
    "min.compaction.lag.ms": "80",
    "max.compaction.lag.ms": "9000",
    "min.cleanable.dirty.ratio": "1.0E-4",
}


def policy(configs: dict[str, str] | None = None, **settings: str) -> LogPolicy:
    given = [f"{key.replace('_', '.')}={value}" for key, value in settings.items()]
    topic = Topic("t", b"", 1, configs or {})
    return EffectiveConfigs(load(assignments=given)[0]).policy(topic)


def test_the_defaults_are_kafkas() -> None:
    assert policy() == LogPolicy(
        compacts=False,
        deletes=True,
        retention_ms=WEEK,
        retention_bytes=-1,
        limits=Limits(segment_bytes=1_073_741_824, segment_ms=WEEK),
        delete_retention_ms=86_400_000,
        min_lag_ms=0,
        max_lag_ms=LONG_MAX,
        min_dirty_ratio=0.5,
    )


def test_settings_hold_where_the_topic_sets_nothing() -> None:
    settings = {key.replace(".", "_"): value for key, value in SERVER.items()}
    assert policy(**settings) == LogPolicy(
        compacts=True,
        deletes=True,
        retention_ms=3_600_000,
        retention_bytes=2,
        limits=Limits(30, segment_ms=9, index_interval_bytes=5, index_bytes=6),
        delete_retention_ms=7,
        min_lag_ms=8,
        max_lag_ms=9,
        min_dirty_ratio=0.25,
    )
    assert (
        policy(TOPIC, **settings)
        == policy(TOPIC)
        == LogPolicy(
            compacts=True,
            deletes=True,
            retention_ms=-1,
            retention_bytes=20,
            limits=Limits(300, segment_ms=4_000, index_interval_bytes=50, index_bytes=60),
            delete_retention_ms=70,
            min_lag_ms=80,
            max_lag_ms=9_000,
            min_dirty_ratio=0.0001,
        )
    )


@pytest.mark.parametrize(
    ("configs", "segment_ms"),
    [
        ({"segment.ms": "5", "max.compaction.lag.ms": "3"}, 5),
        ({"segment.ms": "5", "max.compaction.lag.ms": "3", "cleanup.policy": "compact"}, 3),
        ({"segment.ms": "2", "max.compaction.lag.ms": "3", "cleanup.policy": "compact"}, 2),
    ],
)
def test_a_compacted_topic_also_rolls_when_it_must_be_compacted(
    configs: dict[str, str], segment_ms: int
) -> None:
    assert policy(configs).limits.segment_ms == segment_ms


@pytest.mark.parametrize(
    ("configs", "expires"),
    [
        ({}, True),
        ({"cleanup.policy": "compact"}, False),
        ({"cleanup.policy": ""}, False),
        ({"retention.ms": "-1"}, False),
        ({"retention.ms": "-1", "retention.bytes": "0"}, True),
        ({"retention.ms": "0"}, True),
    ],
)
def test_retention_applies_to_topics_with_a_limit(configs: dict[str, str], expires: bool) -> None:
    assert policy(configs).expires is expires


def test_names_that_this_release_does_not_have_do_not_count() -> None:
    assert policy({"no.longer.known": "1"}) == policy()


def test_the_group_topic_is_compacted_and_rolls_as_the_settings_say() -> None:
    given = ["offsets.topic.segment.bytes=7", "log.roll.ms=8", "log.cleanup.policy=delete"]
    effective = EffectiveConfigs(load(assignments=given)[0])
    found = effective.group_topic_policy
    assert (found.compacts, found.deletes) == (True, False)
    assert found.limits == Limits(7, segment_ms=8)
    assert effective.policy(Topic("__consumer_offsets", b"", 1, internal=True)) == found


# -- in a server ---------------------------------------------------------------------------------


def bases(scene: Scene) -> list[int]:
    files = scene.disk.children("data/t-0")
    return [int(name[:20]) for name in files if name.endswith(".log")]


async def test_another_segment_ms_acts_from_the_next_batch_on(scene: Scene) -> None:
    for seconds in (0, 2, 4):
        await scene.produce("t", 0, batch(timestamp=NOW + 1_000 * seconds))
    await scene.alter("t", segment_ms=5_000)
    await scene.produce("t", 0, batch(timestamp=NOW + 5_000))
    assert bases(scene) == [0]
    await scene.produce("t", 0, batch(timestamp=NOW + 5_001))
    assert bases(scene) == [0, 4]


async def test_another_segment_bytes_acts_from_the_next_batch_on(scene: Scene) -> None:
    large = batch("v" * 600_000)
    for _ in range(3):
        await scene.produce("t", 0, large)
    await scene.alter("t", segment_bytes=1_048_576)
    for _ in range(3):
        await scene.produce("t", 0, large)
    assert bases(scene) == [0, 3, 4, 5]


async def test_the_index_configs_act_from_the_next_segment_on(scene: Scene) -> None:
    await scene.alter("t", index_interval_bytes=0, segment_index_bytes=40)
    for _ in range(8):
        await scene.produce("t", 0, batch())
    assert len(bases(scene)) > 1
    await scene.alter("t", segment_index_bytes=10_485_760)
    count = len(bases(scene))
    for _ in range(20):
        await scene.produce("t", 0, batch())
    assert len(bases(scene)) == count


async def test_a_topics_own_configs_hold_after_a_restart(scene: Scene) -> None:
    await scene.create("u", configs=topic_configs(segment_ms=1000))
    await scene.produce("u", 0, batch())
    scene = await scene.restart()
    await scene.produce("u", 0, batch(timestamp=NOW + 1_001))
    await scene.produce("u", 0, batch(timestamp=NOW + 2_001))
    await scene.produce("u", 0, batch(timestamp=NOW + 2_002))
    files = [name for name in scene.disk.children("data/u-0") if name.endswith(".log")]
    assert [int(name[:20]) for name in files] == [0, 1, 3]


def test_rules_for_timestamps_are_read_from_topic_and_server() -> None:
    assert policy().timestamps == TimestampRules()
    keys = ("type", "before_max_ms", "after_max_ms")
    own, server = ("LogAppendTime", "1", "2"), ("LogAppendTime", "3", "4")
    configs = {
        f"message.timestamp.{key.replace('_', '.')}": v for key, v in zip(keys, own, strict=True)
    }
    settings = {f"log_message_timestamp_{key}": v for key, v in zip(keys, server, strict=True)}
    assert policy(configs).timestamps == TimestampRules(True, 1, 2)
    assert policy(**settings).timestamps == TimestampRules(True, 3, 4)
    assert policy(configs | {"message.timestamp.type": "CreateTime"}, **settings).timestamps == (
        TimestampRules(False, 1, 2)
    )
