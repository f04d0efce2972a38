"""Calls that change something."""

from collections.abc import Callable
from typing import Any

import pytest

from groupkeeper.web.schemas import MEMBERS_MOST
from tests.groups.test_lag import produce
from tests.support.served import Served, settle
from tests.support.stored_events import stored
from tests.support.web import Web

REMOVE = ("groups", "g", "members", "remove")
RESET = ("groups", "g", "offsets", "reset")
ANY = {"members": [{"member_id": "x"}]}
Offsets = list[dict[str, Any]]


@pytest.fixture
def served(serve: Callable[..., Served]) -> Served:
    return serve("offsets.topic.num.partitions=4", "http.api.write=true")


def offset(topic: str, partition: int, at: Any) -> dict[str, Any]:
    return {"topic": topic, "partition": partition, "offset": at}


# -- who may -------------------------------------------------------------------------------------


def test_changes_are_switched_off_by_default(serve: Callable[..., Served]) -> None:
    served = serve()
    web = Web(served)
    member_id, _ = settle(served.client(), "g")
    status, found = web.post(*REMOVE, members=[{"member_id": member_id}])
    assert (status, found["error"]) == (
        403,
        "changes over HTTP are disabled: start the server with http.api.write=true",
    )
    assert web.post(*RESET, offsets=[offset("orders", 0, 1)])[0] == 403
    assert served.members("g") == 1


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_only_json_is_taken(served: Served, web: Web, kind: str) -> None:
    status, found = web.post(*REMOVE, headers={"content-type": kind}, **ANY)
    assert (status, found["error"]) == (415, "send the body with Content-Type: application/json")


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ({}, "'members' is missing"),
        ({"members": []}, f"'members' has 0 items: give 1 to {MEMBERS_MOST}"),
        (
            {"members": [1]},
            "'members[0]' is not of type object: A `member_id` or an `instance_id`.",
        ),
        (
            {"members": [{}]},
            "'members[0]' has 0 fields: give 1 or more: A `member_id` or an `instance_id`.",
        ),
        ({"members": [{"id": "x"}]}, "unknown field 'members[0].id': give member_id, instance_id"),
        ({"members": [{"member_id": 1}]}, "'members[0].member_id' is not of type string"),
        (
            {"members": [{"member_id": "x" * 32_768}]},
            "'members[0].member_id' has 32768 characters: give 1 to 32767",
        ),
        ({"group": "g"}, "unknown field 'group': give members, reason"),
        (ANY | {"reason": ""}, "'reason' has 0 characters: give 1 to 1000: For events and logs."),
    ],
)
def test_what_is_wrong_with_a_body(
    served: Served, web: Web, body: dict[str, Any], line: str
) -> None:
    settle(served.client(), "g")
    status, found = web.post(*REMOVE, **body)
    assert (status, found["error"]) == (400, line)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"[" * 50_000])
def test_a_body_that_is_no_object(served: Served, web: Web, body: bytes) -> None:
    headers = {"host": "localhost", "content-type": "application/json"}
    assert web.answer("/".join(REMOVE), "", "POST", headers=headers, body=body).status == 400


# -- members -------------------------------------------------------------------------------------


def test_members_are_removed_by_id_or_instance_and_it_is_told_who_did_it(
    served: Served, web: Web
) -> None:
    settle(served.client(), "g", group_instance_id="SAM")
    status, found = web.post(*REMOVE, members=[{"instance_id": "SAM"}], reason="ticket 4711")
    assert status == 200
    assert found["members"] == [{"member_id": None, "instance_id": "SAM", "error": None}]
    assert served.members("g") == 0
    [removed] = [each for each in stored(served) if each.type == "member_removed"]
    cause = removed.fields["cause"]
    assert (cause["code"], cause["reason"]) == ("member_removed_by_admin", "ticket 4711")
    assert (cause["who"]["client_id"], cause["who"]["host"]) == ("http", "/10.0.0.7")


def test_a_dynamic_member_and_one_that_does_not_exist(served: Served, web: Web) -> None:
    member_id, _ = settle(served.client(), "g")
    wanted = [{"member_id": member_id}, {"member_id": "nobody"}, {"instance_id": "MAX"}]
    status, found = web.post(*REMOVE, members=wanted)
    errors = [each["error"] for each in found["members"]]
    assert (status, errors) == (200, [None, "UNKNOWN_MEMBER_ID", "UNKNOWN_MEMBER_ID"])
    assert served.members("g") == 0


def test_members_of_a_group_that_does_not_exist(web: Web) -> None:
    assert web.post(*REMOVE, **ANY)[0] == 404


# -- offsets -------------------------------------------------------------------------------------


def test_offsets_are_set_by_number_or_word(served: Served, web: Web) -> None:
    client = served.client()
    produce(client, times=5)
    client.commit(3)
    wanted = [offset("orders", 0, "latest"), offset("orders", 1, "earliest")]
    status, found = web.post(*RESET, offsets=[*wanted, offset("payments", 2, 7)])
    assert status == 200
    result = [("orders", 0, 5), ("orders", 1, 0), ("payments", 2, 7)]
    assert found["offsets"] == [offset(*each) for each in result]
    assert client.fetched() == {each[:2]: each[2] for each in result}
    resets = [each for each in stored(served) if each.type == "offsets_reset"]
    assert resets[-1].fields["who"]["client_id"] == "http"


def test_only_an_empty_groups_offsets_are_reset(served: Served, web: Web) -> None:
    client = served.client()
    client.commit(3)
    settle(client, "g")
    status, found = web.post(*RESET, offsets=[offset("orders", 0, 1)])
    assert status == 409
    assert found["error"].startswith("group 'g' is Stable with 1 members: stop its consumers first")
    assert client.fetched() == {("orders", 0): 3}


@pytest.mark.parametrize(
    ("offsets", "line"),
    [
        ([offset("orders", 0, 9), offset("orders", 6, 0)], "no partition 6 of topic 'orders'"),
        ([offset("none", 0, 0)], "there is no partition 0 of topic 'none'"),
        ([offset("orders", 0, 0), offset("orders", 0, 1)], "is named twice"),
        ([offset("orders", 0, -1)], "'offsets[0].offset' is -1: give 0 to 9223372036854775807"),
        ([offset("orders", 0, True)], "is not of type integer or string: A number, `earliest`"),
        ([offset("orders", 0, "last")], "is 'last': A number, `earliest` or `latest`."),
        ([offset("orders", -1, 0)], "'offsets[0].partition' is -1: give 0 to 2147483647"),
        ([{"partition": 0, "offset": 0}], "'offsets[0].topic' is missing"),
    ],
)
def test_nothing_is_set_if_something_is_wrong(
    served: Served, web: Web, offsets: Offsets, line: str
) -> None:
    client = served.client()
    client.commit(3)
    status, found = web.post(*RESET, offsets=offsets)
    assert status == 400
    assert line in found["error"]
    assert client.fetched() == {("orders", 0): 3}


def test_a_group_is_not_made_by_a_reset(served: Served, web: Web) -> None:
    assert web.post(*RESET, offsets=[offset("orders", 0, 1)])[0] == 404
    assert web.found("groups")["total"] == 0
