"""Who changed groups, topics, configs, users and ACLs: the lines of the logger `access`."""

from collections.abc import Callable
from typing import Any

import pytest

from groupkeeper.coordinator.caller import ANONYMOUS
from groupkeeper.observe.seldom import AUDIT_S, SHOWN, AuditLines
from groupkeeper.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from groupkeeper.protocol.messages.delete_groups import DeleteGroupsRequest
from groupkeeper.protocol.messages.describe_configs import ResourceType
from groupkeeper.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from groupkeeper.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.requests import (
    create_request,
    delete_records_request,
    delete_topic_request,
    offset_delete_request,
    produce_request,
)
from tests.support.served import Client, Lines, Served, settle
from tests.support.web import Web

OPS: dict[str, Any] = {"principal": "Token:ops", "may_write": True}
Told = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def served(serve: Callable[..., Served]) -> Served:
    served = serve("offsets.topic.num.partitions=4")
    served.advance(AUDIT_S * 1.1)  # the line about the topics that it begins with is told
    return served


@pytest.fixture
def told(served: Served, lines: Lines) -> Told:
    """What the logger has written, a second later."""

    def told() -> list[dict[str, Any]]:
        served.advance(AUDIT_S * 1.1)
        return [each for each in lines() if each["logger"] == "access"]

    return told


def alter(client: Client, *names: tuple[ResourceType, str], validate_only: bool = False) -> None:
    configs = {
        ResourceType.TOPIC: AlterableConfig(name="retention.ms", value="5000"),
        ResourceType.GROUP: AlterableConfig(name="consumer.session.timeout.ms", value="45000"),
    }
    request = IncrementalAlterConfigsRequest(
        validate_only=validate_only,
        resources=[
            AlterConfigsResource(resource_type=kind, resource_name=name, configs=[configs[kind]])
            for kind, name in names
        ],
    )
    client.call(1, request)


def changes(told: Told) -> list[str]:
    return [each["changes"] for each in told()]


# -- groups ----------------------------------------------------------------------------------------


def test_a_member_that_another_client_removed(served: Served, told: Told) -> None:
    member_id, _ = settle(served.client(), "g")
    Web(served).post(
        "groups", "g", "members", "remove", asker=OPS, members=[{"member_id": member_id}]
    )
    [line] = told()
    assert (line["event"], line["principal"], line["client"], line["client_id"]) == (
        "group changed",
        "Token:ops",
        "/10.0.0.7",
        "http",
    )
    assert (line["changes"], line["count"], line["times"]) == (
        f"g: member {member_id} removed",
        1,
        1,
    )


def test_a_member_that_left_has_changed_nothing(served: Served, told: Told) -> None:
    client = served.client()
    member_id, _ = settle(client, "g")
    client.leave(member_id)
    assert told() == []


def test_offsets_and_groups(served: Served, told: Told) -> None:
    admin = served.client()
    admin.commit(5, "g")
    assert changes(told) == ["g: offsets of orders set: 1"]
    admin.call(0, offset_delete_request([("orders", 0)], "g"))
    assert changes(told)[1:] == ["g: offsets deleted: 1"]
    admin.commit(5, "g")
    admin.call(2, DeleteGroupsRequest(groups_names=["g"]))
    found = told()[2:]
    assert [each["changes"] for each in found] == ["g: offsets of orders set: 1", "g: deleted"]
    assert {(each["principal"], each["client"]) for each in found} == {(ANONYMOUS, "/127.0.0.1")}


def test_offsets_of_members_are_no_change(served: Served, told: Told) -> None:
    client = served.client()
    member_id, generation = settle(client, "g")
    client.commit(5, "g", member_id=member_id, generation=generation)
    assert told() == []


# -- configs ---------------------------------------------------------------------------------------


def test_configs_of_topics_and_groups(served: Served, told: Told) -> None:
    admin = served.client()
    both = (ResourceType.TOPIC, "orders"), (ResourceType.GROUP, "g")
    alter(admin, *both, validate_only=True)
    alter(admin, (ResourceType.TOPIC, "unknown"))
    assert told() == []
    alter(admin, *both)
    assert [(each["event"], each["changes"], each["count"]) for each in told()] == [
        ("configs changed", "group g", 1),
        ("configs changed", "topic orders", 1),
    ]


# -- topics ----------------------------------------------------------------------------------------


def test_topics_that_were_created_and_deleted(served: Served, told: Told) -> None:
    admin = served.client()
    admin.call(4, create_request("a", "b"))
    only = create_request("c")
    only.validate_only = True
    admin.call(4, only)
    admin.call(4, create_request("a"))
    admin.call(6, delete_topic_request("b"))
    admin.call(6, delete_topic_request("b"))
    found = told()
    assert [(each["event"], each["changes"], each["count"]) for each in found] == [
        ("topics created", "a; b", 2),
        ("topics deleted", "b", 1),
    ]
    assert {(each["principal"], each["client"]) for each in found} == {(ANONYMOUS, "/127.0.0.1")}


def test_a_topic_that_a_request_for_metadata_created(served: Served, told: Told) -> None:
    client = served.client()
    for name in ("new", "new", "no topic's name"):
        client.call(4, MetadataRequest(topics=[MetadataRequestTopic(name=name)]))
    [line] = told()
    assert (line["event"], line["changes"], line["count"]) == ("topics created", "new", 1)


def test_partitions_that_were_added(served: Served, told: Told) -> None:
    admin = served.client()
    for count, validate_only in ((8, True), (8, False), (8, False)):
        grown = CreatePartitionsTopic(name="orders", count=count, assignments=None)
        request = CreatePartitionsRequest(
            topics=[grown], timeout_ms=1_000, validate_only=validate_only
        )
        admin.call(2, request)
    [line] = told()
    assert (line["event"], line["changes"]) == ("partitions created", "orders: 8 partitions")


def test_records_that_were_deleted(served: Served, told: Told) -> None:
    client = served.client()
    client.call(8, produce_request("orders", 0, b"first", b"second"))
    for offset in (3, 1, 1, 0):
        client.call(2, delete_records_request("orders", 0, offset))
    [line] = told()
    assert (line["event"], line["changes"]) == ("records deleted", "orders-0: before 1")


def test_a_change_that_could_not_be_written_is_none(served: Served, told: Told) -> None:
    admin = served.client()
    served.disk.capacity = 0
    admin.call(4, create_request("a"))
    admin.call(6, delete_topic_request("orders"))
    assert told() == []


# -- a line a second -------------------------------------------------------------------------------


def test_what_follows_is_told_together_and_nothing_is_hidden(served: Served, told: Told) -> None:
    admin = served.client()
    for number in range(10):
        admin.commit(5, f"g{number}")
    first, rest = told()
    assert (first["changes"], first["times"]) == ("g0: offsets of orders set: 1", 1)
    assert rest["changes"].startswith("g1: offsets of orders set: 1; g2: ")
    assert rest["changes"].endswith("; g5: offsets of orders set: 1; ...")
    assert (rest["count"], rest["times"]) == (9, 9)
    admin.commit(1, "g0")
    assert len(told()) == 3


class Somebody:
    """Who changes something."""

    def __init__(self, principal: str, host: str) -> None:
        self.principal, self.host, self.client_id = principal, host, "admin"


def test_principals_and_addresses_do_not_hide_behind_each_other(served: Served, told: Told) -> None:
    audit = AuditLines()
    some: list[Any] = [Somebody("User:a", "/1"), Somebody("User:b", "/1"), Somebody("User:a", "/2")]

    async def change() -> None:
        for who in some * 3:
            audit.tell("acls created", who, ["x"] * (SHOWN + 1), 100)

    served.run(change())
    found = [(each["principal"], each["client"], each["count"]) for each in told()]
    who = [("User:a", "/1"), ("User:b", "/1"), ("User:a", "/2")]
    assert found[:3] == [(*each, 100) for each in who]
    assert sorted(found[3:]) == sorted((*each, 200) for each in who)
    assert all(each["changes"] == "x; x; x; x; x; ..." for each in told())
