"""Configs of groups: set, described, listed and kept, for groups that exist and for others."""

from typing import Any

import pytest

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.delete_groups import DeleteGroupsRequest
from groupkeeper.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from groupkeeper.protocol.messages.list_config_resources import ListConfigResourcesRequest
from groupkeeper.protocol.messages.list_groups import ListGroupsRequest
from tests.apis.config_calls import (
    APPEND,
    BROKER,
    DELETE,
    GROUP,
    SET,
    SUBTRACT,
    TOPIC,
    Change,
    Outcome,
    alter_request,
    outcomes,
    replace_request,
)
from tests.support.served import Client, Served, settle

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
GRACE, RESERVE_ON = "classic.scheduled.rebalance.max.delay.ms", "classic.reserve.on"
MATCH = "classic.seat.match"
DEFAULTS = {
    "classic.rebalance.step.interval.ms": "1000",
    "classic.rebalance.step.partitions": "0",
    "classic.remote.assignor": "",
    "classic.metadata.watch": "false",
    "classic.expected.instance.ids": "",
    "classic.expected.max.wait.ms": "60000",
    "classic.leader.preference": "first",
    "classic.unexpected.members": "allow",
    "classic.rebalance.min.interval.ms": "0",
    "classic.scale.up.window.ms": "0",
    "classic.target.group.size": "0",
    GRACE: "0",
    RESERVE_ON: "lost",
    MATCH: "client.id,host",
    HEARTBEAT: "5000",
    SESSION: "45000",
}
INVALID = ErrorCode.INVALID_CONFIG


@pytest.fixture
def client(served: Served) -> Client:
    return served.client()


def change(client: Client, *changes: Change, group_id: str = "g", **more: Any) -> Outcome:
    request = alter_request((GROUP, group_id, list(changes)), **more)
    [outcome] = outcomes(client.call(1, request))
    return outcome


def described(client: Client, group_id: str = "g", **more: Any) -> Any:
    asked = DescribeConfigsResource(
        resource_type=GROUP, resource_name=group_id, configuration_keys=None
    )
    return client.call(4, DescribeConfigsRequest(resources=[asked], **more)).results[0]


def values(client: Client, group_id: str = "g") -> dict[str, str]:
    return {each.name: each.value for each in described(client, group_id).configs}


def listed(client: Client) -> list[str]:
    answer = client.call(1, ListConfigResourcesRequest(resource_types=[GROUP]))
    return [each.resource_name for each in answer.config_resources]


def test_a_config_is_set_and_deleted(client: Client) -> None:
    assert values(client) == DEFAULTS
    assert change(client, (SESSION, SET, "50000")) == (0, None)
    assert values(client) == DEFAULTS | {SESSION: "50000"}
    assert values(client, "another") == DEFAULTS
    assert listed(client) == ["g"]
    assert change(client, (SESSION, DELETE, None), (HEARTBEAT, DELETE, None)) == (0, None)
    assert (values(client), listed(client)) == (DEFAULTS, [])


def test_a_value_says_where_it_is_from(client: Client) -> None:
    change(client, (SESSION, SET, "50000"))
    *ours, heartbeat, session = described(client, include_synonyms=True).configs
    broker = "group.consumer.session.timeout.ms"
    told = [(each.name, each.value, each.source) for each in session.synonyms]
    assert (session.config_source, session.read_only, session.config_type) == (8, False, 3)
    assert told == [(SESSION, "50000", 8), (broker, "45000", 5)]
    assert heartbeat.config_source == 5
    assert [each.name for each in heartbeat.synonyms] == ["group.consumer.heartbeat.interval.ms"]
    assert [each.config_type for each in ours] == [7, 3, 2, 1, 3, 3, 3, 2, 7, 3, 3, 2, 3, 2]
    assert [each.synonyms[0].name for each in ours] == [f"group.{each.name}" for each in ours]


def test_lists_are_edited(client: Client) -> None:
    assert change(client, (RESERVE_ON, APPEND, "left")) == (0, None)
    assert values(client)[RESERVE_ON] == "lost,left"
    assert change(client, (RESERVE_ON, SUBTRACT, "lost")) == (0, None)
    assert values(client)[RESERVE_ON] == "left"
    refused = change(client, (MATCH, APPEND, "any"))
    assert refused == (INVALID, f"Can't APPEND to key {MATCH} because its type is not LIST.")


def test_the_order_of_a_match_does_not_count(client: Client) -> None:
    assert change(client, (MATCH, SET, "host, client.id")) == (0, None)


def test_the_older_request_unsets_what_it_does_not_name(client: Client) -> None:
    change(client, (SESSION, SET, "50000"))
    assert outcomes(client.call(2, replace_request(GROUP, "g", {HEARTBEAT: "6000"}))) == [(0, None)]
    assert values(client) == DEFAULTS | {HEARTBEAT: "6000"}


def test_what_is_only_validated_is_not_kept(client: Client) -> None:
    assert change(client, (SESSION, SET, "50000"), validate_only=True) == (0, None)
    refused = change(client, (SESSION, SET, "1"), validate_only=True)
    assert refused[0] == INVALID
    assert values(client) == DEFAULTS


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([("x", DELETE, None), ("y", SET, "1")], "Unknown group config name: y"),
        ([(SESSION, APPEND, "1")], f"Can't APPEND to key {SESSION} because its type is not LIST."),
        (
            [(SESSION, SET, "long")],
            f"Invalid value long for configuration {SESSION}: Not a number of type INT",
        ),
        (
            [(SESSION, SET, "2147483648")],
            f"Invalid value 2147483648 for configuration {SESSION}: Not a number of type INT",
        ),
        (
            [(SESSION, SET, "0")],
            f"Invalid value 0 for configuration {SESSION}: Value must be at least 1",
        ),
        (
            [(SESSION, SET, "44999")],
            f"{SESSION} must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        (
            [(GRACE, SET, "-1")],
            f"Invalid value -1 for configuration {GRACE}: Value must be at least 0",
        ),
        (
            [(GRACE, SET, "1800001")],
            f"Invalid value 1800001 for configuration {GRACE}: Value must be no more than 1800000",
        ),
        (
            [(RESERVE_ON, SET, "lost,found")],
            (
                f"Invalid value found for configuration {RESERVE_ON}: String must be one of: "
                "left, lost"
            ),
        ),
        (
            [(MATCH, SET, "host")],
            (
                f"Invalid value host for configuration {MATCH}: String must be one of: "
                "'client.id,host', 'client.id', 'any'"
            ),
        ),
        (
            [(HEARTBEAT, SET, "15001")],
            f"{HEARTBEAT} must be less than or equal to group.consumer.max.heartbeat.interval.ms",
        ),
    ],
)
def test_what_a_group_cannot_have_is_refused(
    client: Client, changes: list[Change], message: str
) -> None:
    assert change(client, *changes) == (INVALID, message)
    assert (values(client), listed(client)) == (DEFAULTS, [])


def test_a_group_has_a_name(client: Client) -> None:
    refused = change(client, (SESSION, SET, "50000"), group_id="")
    message = "Default group resources are not allowed."
    assert refused == (ErrorCode.INVALID_REQUEST, message)
    assert described(client, "").error_message == "Group name must not be empty"


def test_groups_topics_and_brokers_are_changed_and_described_together(client: Client) -> None:
    request = alter_request(
        (GROUP, "g", [(SESSION, SET, "50000")]),
        (TOPIC, "orders", [("retention.ms", SET, "7")]),
        (GROUP, "bad", [("x", SET, "1")]),
        (BROKER, "0", [("node.id", SET, "3")]),
    )
    codes = [code for code, _ in outcomes(client.call(1, request))]
    assert codes == [0, 0, INVALID, ErrorCode.INVALID_REQUEST]
    asked = [
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=[key])
        for kind, name, key in (
            (TOPIC, "orders", "retention.ms"),
            (GROUP, "g", SESSION),
            (GROUP, "other", SESSION),
        )
    ]
    results = client.call(4, DescribeConfigsRequest(resources=asked)).results
    assert [each.configs[0].value for each in results] == ["7", "50000", "45000"]


def test_configs_outlive_the_group_and_the_server(served: Served) -> None:
    client = served.client()
    member_id, _ = settle(client)
    assert change(client, (SESSION, SET, "50000")) == (0, None)
    assert change(client, (HEARTBEAT, SET, "6000"), group_id="never there") == (0, None)
    client.leave(member_id)
    client.call(2, DeleteGroupsRequest(groups_names=["g"]))
    assert values(client) == DEFAULTS | {SESSION: "50000"}
    served.cut_power()
    served.settled()
    client = served.client()
    assert values(client) == DEFAULTS | {SESSION: "50000"}
    assert values(client, "never there") == DEFAULTS | {HEARTBEAT: "6000"}
    assert change(client, (SESSION, DELETE, None)) == (0, None)
    served.cut_power()
    served.settled()
    assert values(served.client()) == DEFAULTS


def test_no_group_is_made_of_configs(client: Client) -> None:
    change(client, (SESSION, SET, "50000"))
    assert client.call(4, ListGroupsRequest()).groups == []


def test_a_partition_that_is_loading_refuses_with_words(served: Served, client: Client) -> None:
    served.fail("g")
    request = alter_request((GROUP, "g", [(SESSION, SET, "50000")]))
    client.deliver(client.frame(1, request))
    [(code, message)] = outcomes(client.take())
    assert code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert message == "The group's partition is being loaded: try again."


def test_many_groups_are_changed_and_described_at_once(client: Client) -> None:
    names = [f"g{number}" for number in range(3_000)]
    asked = [(GROUP, name, [(SESSION, SET, "50000")]) for name in names]
    assert outcomes(client.call(1, alter_request(*asked))) == [(0, None)] * 3_000
    resources = [
        DescribeConfigsResource(resource_type=GROUP, resource_name=name, configuration_keys=None)
        for name in names
    ]
    results = client.call(4, DescribeConfigsRequest(resources=resources)).results
    assert {each.configs[-1].value for each in results} == {"50000"}
    assert sorted(listed(client)) == sorted(names)
