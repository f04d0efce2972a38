"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources over the wire: all
kinds of resources together, in order, and what is wrong with a request in itself.
"""

from typing import Any

import pytest

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages import alter_configs as legacy
from groupkeeper.protocol.messages import incremental_alter_configs as incremental
from groupkeeper.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from groupkeeper.protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.support.served import Served

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND = 0, 1, 2
INVALID_REQUEST = ErrorCode.INVALID_REQUEST

Asked = tuple[int, str, list[str] | None]
Wish = tuple[int, str, list[tuple[str, int, str | None]]]


def describe(served: Served, *resources: Asked, version: int = 4, **more: Any) -> list[Any]:
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
            for kind, name, keys in resources
        ],
        **more,
    )
    return list(served.client().call(version, request).results)


def change(
    served: Served, *requested_topics: Wish, version: int = 1, **more: Any
) -> list[tuple[int, str | None]]:
    """Codes and messages, for resources in the order of the request."""
    request = incremental.IncrementalAlterConfigsRequest(
        resources=[
            incremental.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    incremental.AlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in changes
                ],
            )
            for kind, name, changes in requested_topics
        ],
        **more,
    )
    results = served.client().call(version, request).responses
    assert [(r.resource_type, r.resource_name) for r in results] == [
        w[:2] for w in requested_topics
    ]
    return [(result.error_code, result.error_message) for result in results]


def replace(
    served: Served, kind: int, name: str, version: int = 2, **configs: str | None
) -> tuple[int, str | None]:
    resource = legacy.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            legacy.AlterableConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )
    request = legacy.AlterConfigsRequest(resources=[resource])
    [result] = served.client().call(version, request).responses
    return result.error_code, result.error_message


def retention(served: Served, topic: str = "orders") -> str:
    [result] = describe(served, (TOPIC, topic, ["retention.ms"]))
    return str(result.configs[0].value)


# -- DescribeConfigs -------------------------------------------------------------------------------


def test_all_kinds_are_described_in_the_order_asked(served: Served) -> None:
    results = describe(
        served,
        (GROUP, "g", None),
        (TOPIC, "payments", ["retention.ms"]),
        (BROKER, "0", ["num.partitions"]),
        (TOPIC, "nope", None),
        (BROKER, "1", None),
        (TOPIC, "orders", ["retention.ms"]),
    )
    told = [(r.resource_type, r.resource_name, r.error_code, len(r.configs)) for r in results]
    assert told == [
        (GROUP, "g", 0, 0),
        (TOPIC, "payments", 0, 1),
        (BROKER, "0", 0, 1),
        (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0),
        (BROKER, "1", INVALID_REQUEST, 0),
        (TOPIC, "orders", 0, 1),
    ]


def test_each_version_tells_what_it_can(served: Served) -> None:
    asked = (TOPIC, "orders", ["max.message.bytes"])
    [[old], [first], [third]] = [
        describe(served, asked, version=version, include_synonyms=True, include_documentation=True)[
            0
        ].configs
        for version in (0, 1, 3)
    ]
    assert (old.is_default, old.config_source, old.synonyms) == (True, -1, [])
    assert (first.config_source, first.config_type) == (5, 0)
    assert len(first.synonyms) == 1
    assert (third.config_type, bool(third.documentation)) == (3, True)


@pytest.mark.parametrize("kind", [0, 1, 3, 5, 64, -1])
def test_an_unknown_kind_spoils_the_whole_request(served: Served, kind: int) -> None:
    results = describe(served, (kind, "x", None), (TOPIC, "orders", None))
    assert [r.error_code for r in results] == [INVALID_REQUEST] * 2
    assert {r.error_message[:24] for r in results} == {"This most likely occurs "}


def test_what_is_asked_twice_is_answered_once(served: Served) -> None:
    """In a request it takes some bytes, in the answer thousands."""
    results = describe(
        served, *[(TOPIC, "orders", None)] * 1000, (TOPIC, "orders", ["retention.ms"])
    )
    assert [len(result.configs) for result in results] == [33, 1]
    assert describe(served) == []


# -- ListConfigResources ---------------------------------------------------------------------------

NODE = [(BROKER, "0"), (LOGGER, "0")]
TOPICS = [(TOPIC, name) for name in ("__consumer_offsets", "__group_events", "orders", "payments")]


def listed(served: Served, *kinds: int, version: int = 1) -> tuple[int, list[tuple[int, str]]]:
    request = ListConfigResourcesRequest(resource_types=list(kinds))
    response = served.client().call(version, request)
    found = [(each.resource_type, each.resource_name) for each in response.config_resources]
    return response.error_code, sorted(found)


@pytest.mark.parametrize(
    ("kinds", "found"),
    [
        ([], TOPICS + NODE),
        ([TOPIC], TOPICS),
        ([TOPIC, TOPIC, LOGGER], [*TOPICS, NODE[1]]),
        ([BROKER], NODE[:1]),
        ([METRICS, GROUP], []),
    ],
)
def test_resources_are_listed_by_type(
    served: Served, kinds: list[int], found: list[tuple[int, str]]
) -> None:
    """KIP-1142."""
    assert listed(served, *kinds) == (0, found)


@pytest.mark.parametrize("kinds", [[0], [TOPIC, 3], [-1]])
def test_an_unknown_type_is_an_unsupported_version(served: Served, kinds: list[int]) -> None:
    assert listed(served, *kinds) == (ErrorCode.UNSUPPORTED_VERSION, [])


def test_the_first_version_lists_client_metrics_and_there_are_none(served: Served) -> None:
    assert listed(served, version=0) == (0, [])


# -- AlterConfigs and IncrementalAlterConfigs ------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1])
def test_a_topics_config_is_set_and_survives_a_crash(served: Served, version: int) -> None:
    requested = (TOPIC, "orders", [("retention.ms", SET, "5")])
    assert change(served, requested, version=version) == [(0, None)]
    served.restart()
    assert retention(served) == "5"


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_older_request_works_in_every_version(served: Served, version: int) -> None:
    assert replace(served, TOPIC, "orders", version, retention_ms="5") == (0, None)
    assert retention(served) == "5"


def test_every_resource_stands_or_falls_by_itself(served: Served) -> None:
    results = change(
        served,
        (BROKER, "0", [("node.id", SET, "3")]),
        (TOPIC, "orders", [("retention.ms", SET, "5")]),
        (0, "x", [("a", SET, "b")]),
        (TOPIC, "payments", [("retention.ms", SET, "x")]),
        (GROUP, "g", [("a", DELETE, None)]),
    )
    assert results == [
        (INVALID_REQUEST, "Cannot update these configs dynamically: Set(node.id)"),
        (0, None),
        (INVALID_REQUEST, "Unknown resource type 0"),
        (
            ErrorCode.INVALID_CONFIG,
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        (0, None),
    ]
    assert (retention(served), retention(served, "payments")) == ("5", "604800000")


def test_a_resource_that_comes_twice_is_not_altered_at_all(served: Served) -> None:
    twice = (INVALID_REQUEST, "Each resource must appear at most once.")
    requested_topics: list[Wish] = [
        (TOPIC, name, [("retention.ms", SET, "5")]) for name in ("orders", "payments", "orders")
    ]
    assert change(served, *requested_topics) == [twice, (0, None), twice]
    assert (retention(served), retention(served, "payments")) == ("604800000", "5")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([("a", SET, "1"), ("a", DELETE, None)], "Error due to duplicate config keys"),
        ([("a", SET, None), ("a", SET, None)], "Error due to duplicate config keys"),
        ([("a", SET, None), ("b", APPEND, None)], "Null value not supported for : a, b"),
        ([("a", 4, "1")], "Unknown operations type 4"),
        ([("a", -1, "1")], "Unknown operations type -1"),
    ],
)
@pytest.mark.parametrize(("kind", "name"), [(TOPIC, "orders"), (BROKER, "0"), (GROUP, "g")])
def test_what_is_wrong_in_itself_is_refused_first(
    served: Served, kind: int, name: str, changes: Any, message: str
) -> None:
    assert change(served, (kind, name, changes)) == [(INVALID_REQUEST, message)]


def test_the_older_request_has_the_same_rules(served: Served) -> None:
    refused = replace(served, TOPIC, "orders", retention_ms=None)
    assert refused == (INVALID_REQUEST, "Null value not supported for : retention.ms")
    assert replace(served, LOGGER, "0", x="INFO") == (INVALID_REQUEST, "Unknown resource type 8")
    assert replace(served, BROKER, "0", node_id="1")[0] == INVALID_REQUEST


def test_validate_only_reaches_the_topics(served: Served) -> None:
    requested = (TOPIC, "orders", [("retention.ms", SET, "5")])
    assert change(served, requested, validate_only=True) == [(0, None)]
    assert retention(served) == "604800000"


def test_a_message_that_repeats_too_much_is_cut(served: Served) -> None:
    [(code, message)] = change(served, (GROUP, "g", [("n" * 32_767, SET, "1")]))
    assert code == ErrorCode.INVALID_CONFIG
    assert message is not None
    assert len(message) == 32_767
    [result] = describe(served, (BROKER, "n" * 32_767, None))
    assert len(result.error_message) == 32_767


def test_there_are_no_loggers_to_describe_or_set(served: Served) -> None:
    [result] = describe(served, (LOGGER, "0", None))
    assert (result.error_code, result.configs) == (0, [])
    refused = (ErrorCode.INVALID_CONFIG, "Logger root does not exist!")
    assert change(served, (LOGGER, "0", [("root", SET, "DEBUG")])) == [refused]
