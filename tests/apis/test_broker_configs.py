"""Configs of what is not a topic: the settings in use, and kinds that have no configs here."""

from typing import Any

import pytest

from groupkeeper.apis.broker_configs import AlterConfigOp, BrokerConfigs
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.describe_configs import (
    ConfigKind,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    ResourceType,
)
from groupkeeper.settings.table import TABLE, Settings

BROKER, LOGGER = ResourceType.BROKER, ResourceType.BROKER_LOGGER
METRICS, GROUP = ResourceType.CLIENT_METRICS, ResourceType.GROUP
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
STATIC, DEFAULT = 4, 5
SECRETS = {key for key, row in TABLE.items() if row.secret}
CONFIGS = BrokerConfigs(7, Settings(group_max_size=50))


def described(
    name: str = "7", keys: list[str] | None = None, **more: Any
) -> dict[str, DescribeConfigsResourceResult]:
    resource = DescribeConfigsResource(
        resource_type=BROKER, resource_name=name, configuration_keys=keys
    )
    results = CONFIGS.describe(resource, DescribeConfigsRequest(**more))
    return {result.name: result for result in results}


@pytest.mark.parametrize("keys", [None, []])
def test_a_broker_has_the_settings_in_use(keys: list[str] | None) -> None:
    found = described(keys=keys)
    assert list(found) == list(TABLE)
    assert all(each.read_only for each in found.values())
    assert {key for key, each in found.items() if each.is_sensitive} == SECRETS
    told = {each.name: (each.value, each.config_source) for each in found.values()}
    assert told["group.max.size"] == ("50", STATIC)
    assert told["auto.create.topics.enable"] == ("true", DEFAULT)
    assert told["node.id"] == ("7", STATIC), "as the command line gave it"


def test_passwords_and_keys_are_never_shown() -> None:
    resource = DescribeConfigsResource(
        resource_type=BROKER, resource_name="7", configuration_keys=["ssl.key.password"]
    )
    request = DescribeConfigsRequest(include_synonyms=True)
    [found] = BrokerConfigs(7, Settings(ssl_key_password="PLANTED")).describe(resource, request)
    assert (found.value, found.is_sensitive, found.config_type) == (None, True, ConfigKind.PASSWORD)
    assert [(each.name, each.value) for each in found.synonyms] == [("ssl.key.password", None)]


def test_a_setting_in_another_unit_is_a_synonym_of_those_before_it() -> None:
    settings = Settings(log_retention_minutes=5, log_retention_hours=24)
    names = ["log.retention.ms", "log.retention.minutes", "log.retention.hours"]
    resource = DescribeConfigsResource(
        resource_type=BROKER, resource_name="7", configuration_keys=names
    )
    request = DescribeConfigsRequest(include_synonyms=True)
    told = {
        one.name: (one.value, [(each.name, each.value, each.source) for each in one.synonyms])
        for one in BrokerConfigs(7, settings).describe(resource, request)
    }
    hours = [("log.retention.hours", "24", STATIC), ("log.retention.hours", "168", DEFAULT)]
    assert told == {
        "log.retention.ms": (None, []),
        "log.retention.minutes": ("5", [("log.retention.minutes", "5", STATIC), *hours]),
        "log.retention.hours": ("24", hours),
    }


def test_names_choose_and_unknown_ones_are_left_out() -> None:
    assert list(described(keys=["group.max.size", "nope"])) == ["group.max.size"]


def test_all_askers_share_what_is_told() -> None:
    # A request may ask for many names of one broker, each written differently.
    first, second = described(), described("+7", ["group.max.size"])
    assert second == {"group.max.size": first["group.max.size"]}
    assert second["group.max.size"] is first["group.max.size"]


def test_types_are_told() -> None:
    kinds = {each.name: each.config_type for each in described().values()}
    assert kinds["auto.create.topics.enable"] == ConfigKind.BOOLEAN
    assert kinds["log.cleaner.min.cleanable.ratio"] == ConfigKind.DOUBLE
    assert kinds["log.cleanup.policy"] == ConfigKind.LIST
    assert kinds["log.retention.minutes"] == ConfigKind.INT
    assert kinds["log.retention.ms"] == ConfigKind.LONG
    assert kinds["group.max.size"] == ConfigKind.INT
    assert kinds["offsets.retention.check.interval.ms"] == ConfigKind.LONG


def test_synonyms_and_documentation_are_given_when_asked_for() -> None:
    plain = described()["group.max.size"]
    assert (plain.synonyms, plain.documentation) == ([], None)
    asked = described(include_synonyms=True, include_documentation=True)
    assert asked["group.max.size"].documentation == TABLE["group.max.size"].doc
    places = {
        name: [(s.name, s.value, s.source) for s in asked[name].synonyms]
        for name in ("group.max.size", "num.partitions")
    }
    assert places == {
        "group.max.size": [
            ("group.max.size", "50", STATIC),
            ("group.max.size", "2147483647", DEFAULT),
        ],
        "num.partitions": [("num.partitions", "1", DEFAULT)],
    }


def test_the_default_of_all_brokers_is_empty() -> None:
    assert described("") == {}


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        (BROKER, "7", None),
        (BROKER, "+07", None),
        (BROKER, "", None),
        (BROKER, "8", "Unexpected broker id, expected 7 or empty string, but received 8"),
        (BROKER, " 7", "Broker id must be an integer, but it is:  7"),
        (BROKER, "9999999999", "Broker id must be an integer, but it is: 9999999999"),
        (LOGGER, "7", None),
        (LOGGER, "", "Broker id must not be empty"),
        (LOGGER, "8", "Unexpected broker id, expected 7 but received 8"),
        (LOGGER, "x", "Broker id must be an integer, but it is: x"),
        (METRICS, "m", None),
        (METRICS, "", "Client metrics subscription name must not be empty"),
        (GROUP, "g", None),
        (GROUP, "", "Group name must not be empty"),
    ],
)
def test_what_can_be_described(kind: ResourceType, name: str, message: str | None) -> None:
    expected = None if message is None else (ErrorCode.INVALID_REQUEST, message)
    assert CONFIGS.describe_refusal(kind, name) == expected


@pytest.mark.parametrize("kind", [LOGGER, METRICS])
def test_the_other_kinds_have_no_configs(kind: ResourceType) -> None:
    resource = DescribeConfigsResource(resource_type=kind, resource_name="7")
    assert CONFIGS.describe(resource, DescribeConfigsRequest()) == []


FIXED = "Cannot update these configs dynamically: "
NO_LIST = "key a because its type is not LIST."


@pytest.mark.parametrize(
    ("kind", "name", "operations", "code", "message"),
    [
        (BROKER, "7", {"node.id": SET}, 42, FIXED + "Set(node.id)"),
        (BROKER, "", {"a": SET, "b": DELETE, "c": SET}, 42, FIXED + "Set(a, c)"),
        (BROKER, "8", {"a": SET}, 42, "Unexpected broker id, expected 7, but received 8"),
        (BROKER, "x", {"a": SET}, 42, "Node id must be an integer, but it is: x"),
        (BROKER, "7", {"a": APPEND}, 40, "Config value append is not allowed for config key: a"),
        (LOGGER, "7", {"x": SET}, 40, "Logger x does not exist!"),
        (LOGGER, "7", {"x": DELETE}, 40, "Logger x does not exist!"),
        (LOGGER, "7", {"x": APPEND}, 42, "APPEND operation is not allowed for the BROKER_LOGGER"),
        (LOGGER, "8", {"x": SET}, 42, "Unexpected node id. Expected 7, but received 8"),
        (LOGGER, "", {"x": SET}, 42, "Node id must be an integer, but it is: "),
        (METRICS, "m", {"x": SET}, 42, "Unknown client metrics configuration: x"),
        (METRICS, "", {"x": SET}, 42, "Subscription name can't be empty"),
        (METRICS, "", {"a": APPEND}, 40, "Can't APPEND to " + NO_LIST),
        (METRICS, "", {"a": SUBTRACT}, 40, "Can't SUBTRACT to " + NO_LIST),
    ],
)
def test_nothing_can_be_set(
    kind: ResourceType, name: str, operations: dict[str, int], code: int, message: str
) -> None:
    changes = [AlterConfigOp(key, operation, "1") for key, operation in operations.items()]
    refusal = CONFIGS.alter_refusal(kind, name, changes)
    assert refusal is not None
    assert refusal.error == code
    assert (refusal.message or "").startswith(message)


@pytest.mark.parametrize(
    ("kind", "name"), [(BROKER, "7"), (BROKER, ""), (LOGGER, "7"), (METRICS, "m")]
)
def test_who_sets_nothing_is_not_refused(kind: ResourceType, name: str) -> None:
    assert CONFIGS.alter_refusal(kind, name, []) is None
    unset = [AlterConfigOp("node.id", DELETE, None)]
    if kind is not LOGGER:
        assert CONFIGS.alter_refusal(kind, name, unset) is None
