"""DescribeConfigs: every config of a topic, where it comes from, and what is asked for besides.
ListConfigResources: what can be described.
"""

import sys
from typing import Any

import pytest

from groupkeeper.apis.broker_configs import BrokerConfigs
from groupkeeper.apis.describe_configs import DescribeConfigsHandler
from groupkeeper.coordinator.caller import Caller
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.create_topics import CreatableTopicConfig
from groupkeeper.protocol.messages.describe_configs import (
    ConfigKind,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from groupkeeper.protocol.messages.list_config_resources import ListConfigResourcesRequest
from groupkeeper.topics.configs import TABLE
from tests.apis.config_calls import BROKER, GROUP, LOGGER, METRICS, TOPIC, describe
from tests.support.slices import whole
from tests.topics.scene import Reply, Scene

TOPIC_CONFIG, STATIC, DEFAULT = 1, 4, 5


async def ask(scene, name="t", keys=None, **more):
    [result] = await describe(scene, (TOPIC, name, keys), **more)
    return result


async def one(scene, key, name="t", **more):
    return (await ask(scene, name, [key], **more)).configs[0]


@pytest.fixture
async def limited(scene):
    configs = [CreatableTopicConfig(name="max.message.bytes", value="2000")]
    await scene.create("limited", configs=configs)
    return scene


@pytest.mark.parametrize("keys", [None, []])
async def test_all_configs_are_described_when_no_name_is_given(scene, keys):
    result = await ask(scene, keys=keys)
    assert (result.error_code, result.error_message) == (0, "")
    assert (result.resource_type, result.resource_name) == (2, "t")
    assert [config.name for config in result.configs] == list(TABLE)


async def test_unknown_names_are_left_out(scene: Scene) -> None:
    result = await ask(scene, keys=["retention.ms", "nope"])
    assert [config.name for config in result.configs] == ["retention.ms"]
    assert (await ask(scene, keys=["nope"])).configs == []


async def test_what_topics_have_in_common_is_made_once_for_all(limited):
    # A request may name thousands of topics, and each has all configs.
    for more in ({}, {"include_synonyms": True}, {"include_documentation": True}):
        own, other = [(await ask(limited, name, **more)).configs for name in ("limited", "t")]
        different = [a.name for a, b in zip(own, other, strict=True) if a is not b]
        assert different == ["max.message.bytes"]


@pytest.mark.parametrize("keys", [[str(at) for at in range(500)], ["retention.ms"]])
async def test_what_is_not_asked_for_costs_nothing(scene, keys):
    everything = DescribeConfigsResource(
        resource_type=2, resource_name="t", configuration_keys=None
    )
    resource = DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=keys)
    request = DescribeConfigsRequest(resources=[resource])
    no_groups: Any = None
    describer = DescribeConfigsHandler(scene.topics, BrokerConfigs(7, scene.settings), no_groups)
    whole(describer.handle(DescribeConfigsRequest(resources=[everything]), Caller(4), Reply()))
    describe = describer.handle(request, Caller(4), Reply())
    calls = 0

    def count(frame, event, arg):
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        whole(describe)
    finally:
        sys.setprofile(before)
    assert 0 < calls < len(TABLE)


async def test_a_default_and_a_value_of_the_topic(limited):
    own = await one(limited, "max.message.bytes", "limited")
    assert (own.value, own.config_source, own.is_default) == ("2000", TOPIC_CONFIG, False)
    default = await one(limited, "max.message.bytes")
    assert (default.value, default.config_source, default.is_default) == ("1048588", DEFAULT, True)
    assert (default.read_only, default.is_sensitive) == (False, False)
    assert (default.config_type, default.documentation, default.synonyms) == (
        ConfigKind.INT,
        None,
        [],
    )


async def test_a_setting_of_the_server_comes_before_the_default(limited):
    scene = await limited.restart(message_max_bytes=3000, log_segment_bytes=5000)
    found = await one(scene, "segment.bytes")
    assert (found.value, found.config_source) == ("5000", STATIC)
    found = await one(scene, "max.message.bytes", "limited", include_synonyms=True)
    assert [(s.name, s.value, s.source) for s in found.synonyms] == [
        ("max.message.bytes", "2000", TOPIC_CONFIG),
        ("message.max.bytes", "3000", STATIC),
        ("message.max.bytes", "1048588", DEFAULT),
    ]


async def test_what_no_broker_setting_stands_behind_has_no_synonyms_by_default(
    scene: Scene,
) -> None:
    assert (await one(scene, "retention.ms", include_synonyms=True)).synonyms == []


@pytest.mark.parametrize(
    ("key", "settings", "value", "source", "synonyms"),
    [
        # As Kafka 4.1 answers: what is given in another unit alone is in effect, and not named.
        ("retention.ms", {"log_retention_hours": 24}, "86400000", DEFAULT, []),
        ("retention.ms", {"log_retention_hours": -1}, "-1", DEFAULT, []),
        (
            "retention.ms",
            {"log_retention_ms": 9000, "log_retention_minutes": 3},
            "9000",
            STATIC,
            [
                ("log.retention.ms", "9000", STATIC),
                ("log.retention.minutes", "3", STATIC),
                ("log.retention.hours", "168", DEFAULT),
            ],
        ),
        (
            "segment.ms",
            {"log_roll_ms": 1000, "log_roll_hours": 3},
            "1000",
            STATIC,
            [
                ("log.roll.ms", "1000", STATIC),
                ("log.roll.hours", "3", STATIC),
                ("log.roll.hours", "168", DEFAULT),
            ],
        ),
        (
            "min.cleanable.dirty.ratio",
            {"log_cleaner_min_cleanable_ratio": 0.00001},
            "1.0E-5",
            STATIC,
            [
                ("log.cleaner.min.cleanable.ratio", "1.0E-5", STATIC),
                ("log.cleaner.min.cleanable.ratio", "0.5", DEFAULT),
            ],
        ),
        (
            "cleanup.policy",
            {"log_cleanup_policy": ""},
            "",
            STATIC,
            [("log.cleanup.policy", "", STATIC), ("log.cleanup.policy", "delete", DEFAULT)],
        ),
    ],
)
async def test_settings_stand_behind_configs_of_topics(
    scene, key, settings, value, source, synonyms
):
    found = await one(await scene.restart(**settings), key, include_synonyms=True)
    assert (found.value, found.config_source) == (value, source)
    assert [(s.name, s.value, s.source) for s in found.synonyms] == synonyms


async def test_the_group_topic_says_what_a_broker_gives_its_own(scene: Scene) -> None:
    result = await ask(scene, "__consumer_offsets")
    own = {c.name: c.value for c in result.configs if c.config_source == TOPIC_CONFIG}
    assert own == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("..", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("n" * 32_767, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
async def test_a_topic_that_is_not_there(scene, name, code):
    result = await ask(scene, name)
    assert (result.error_code, result.resource_name, result.configs) == (code, name, [])
    assert bool(result.error_message) == (code == ErrorCode.INVALID_TOPIC_EXCEPTION)
    assert len(result.error_message) <= 32_767


# -- several resources -----------------------------------------------------------------------------


async def test_all_kinds_are_described_in_the_order_asked(scene: Scene) -> None:
    await scene.create("u")
    results = await describe(
        scene,
        (GROUP, "g", None),
        (TOPIC, "u", ["retention.ms"]),
        (BROKER, "7", ["num.partitions"]),
        (TOPIC, "nope", None),
        (BROKER, "1", None),
        (TOPIC, "t", ["retention.ms"]),
        (BROKER, "n" * 32_767, None),
    )
    told = [(r.resource_type, r.resource_name, r.error_code, len(r.configs)) for r in results]
    invalid = ErrorCode.INVALID_REQUEST
    assert told == [
        (GROUP, "g", 0, 16),
        (TOPIC, "u", 0, 1),
        (BROKER, "7", 0, 1),
        (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0),
        (BROKER, "1", invalid, 0),
        (TOPIC, "t", 0, 1),
        (BROKER, "n" * 32_767, invalid, 0),
    ]
    assert len(results[-1].error_message) == 32_767


async def test_an_unknown_kind_spoils_the_whole_request(scene: Scene) -> None:
    for kind in (0, 1, 3, 5, 64, -1):
        results = await describe(scene, (kind, "x", None), (TOPIC, "t", None))
        assert [r.error_code for r in results] == [ErrorCode.INVALID_REQUEST] * 2
        assert {r.error_message[:24] for r in results} == {"This most likely occurs "}


async def test_what_is_asked_twice_is_answered_once(scene: Scene) -> None:
    """In a request it takes some bytes, in the answer thousands."""
    results = await describe(scene, *[(TOPIC, "t", None)] * 1000, (TOPIC, "t", ["retention.ms"]))
    assert [len(result.configs) for result in results] == [33, 1]
    assert await describe(scene) == []


# -- ListConfigResources ---------------------------------------------------------------------------


async def test_resources_are_listed_by_type(scene: Scene) -> None:
    """KIP-1142. The first version lists client metrics, and there are none."""
    node = [(BROKER, "7"), (LOGGER, "7")]
    topics = [(TOPIC, name) for name in ("__consumer_offsets", "__group_events", "t")]
    unsupported = ErrorCode.UNSUPPORTED_VERSION
    for version, kinds, error, found in (
        (1, [], 0, topics + node),
        (1, [TOPIC], 0, topics),
        (1, [TOPIC, TOPIC, LOGGER], 0, [*topics, node[1]]),
        (1, [BROKER], 0, node[:1]),
        (1, [METRICS, GROUP], 0, []),
        (1, [0], unsupported, []),
        (1, [TOPIC, 3], unsupported, []),
        (1, [-1], unsupported, []),
        (0, [], 0, []),
    ):
        response = await scene.ask(version, ListConfigResourcesRequest(resource_types=kinds))
        told = sorted(
            (each.resource_type, each.resource_name) for each in response.config_resources
        )
        assert (response.error_code, told) == (error, found), (version, kinds)
