"""Calls that change something."""

from collections.abc import Callable
from typing import Any

import pytest

from groupkeeper.web.schemas import MEMBERS_MOST
from tests.groups.test_lag import produce
from tests.support.requests import commit_request, join_request
from tests.support.served import Lines, Served, settle
from tests.support.stored_events import stored
from tests.support.web import Web

REMOVE = ("groups", "g", "members", "remove")
RESET = ("groups", "g", "offsets", "reset")
FORGET = ("groups", "g", "offsets", "delete")
DELETE = ("groups", "g", "delete")
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
    assert web.post(*FORGET, offsets=[{"topic": "orders", "partition": 0}])[0] == 403
    assert web.post(*DELETE, dry_run=True)[0] == 403
    assert web.found("groups", "g")["writes_enabled"] is False
    assert served.members("g") == 1


def test_the_role_of_a_token_decides_whatever_the_setting_says(
    serve: Callable[..., Served], lines: Lines
) -> None:
    reader: dict[str, Any] = {"principal": "Token:board", "may_write": False}
    writer: dict[str, Any] = {"principal": "Token:ops", "may_write": True}
    for setting in ("http.api.write=true", "http.api.write=false"):
        served = serve(setting, "offsets.topic.num.partitions=1")
        web = Web(served)
        member_id, _ = settle(served.client(), "g")
        named = {"members": [{"member_id": member_id}]}
        status, found = web.post(*REMOVE, asker=reader, **named)
        told = "Token:board has the role read: send a token with the role write"
        assert (status, found["error"]) == (403, told)
        assert web.post(*DELETE, asker=reader, dry_run=True)[0] == 403
        assert served.server.metrics.denied == {("HTTP", "GROUP"): 2}
        assert web.group("g", reader)["writes_enabled"] is False
        assert web.group("g", writer)["writes_enabled"] is True
        assert served.members("g") == 1
        assert web.post(*REMOVE, asker=writer, **named)[0] == 200
        assert served.members("g") == 0
    denied = [each for each in lines() if each["event"] == "denied"]
    assert len(denied) == 2, "one a second for each address"
    assert (denied[0]["principal"], denied[0]["client"], denied[0]["api"]) == (
        "Token:board",
        "/10.0.0.7",
        "HTTP",
    )


def test_the_name_of_a_token_is_in_the_event_of_a_removal(served: Served, web: Web) -> None:
    member_id, _ = settle(served.client(), "g")
    ops = {"principal": "Token:ops", "may_write": True}
    web.post(*REMOVE, asker=ops, members=[{"member_id": member_id}])
    [event] = [each for each in stored(served) if each.type == "member_removed"]
    assert event.fields["cause"]["who"]["principal"] == "Token:ops"
    served.advance(1)
    texts = [each["text"] for each in web.found("groups", "g", "why")["entries"] if "text" in each]
    assert any("logged in as Token:ops" in each for each in texts), texts


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
        ({"group": "g"}, "unknown field 'group': give members, reason, dry_run"),
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
    assert (cause["who"]["client_id"], cause["who"]["host"]) == ("http", "10.0.0.7")


def test_a_dynamic_member_and_one_that_does_not_exist(served: Served, web: Web) -> None:
    member_id, _ = settle(served.client(), "g")
    wanted = [{"member_id": member_id}, {"member_id": "nobody"}, {"instance_id": "MAX"}]
    status, found = web.post(*REMOVE, members=wanted)
    errors = [each["error"] for each in found["members"]]
    assert (status, errors) == (200, [None, "UNKNOWN_MEMBER_ID", "UNKNOWN_MEMBER_ID"])
    assert served.members("g") == 0


@pytest.mark.parametrize(
    ("named", "error"),
    [
        ({"member_id": "{pending}"}, None),
        ({"instance_id": "SAM"}, None),
        ({"instance_id": "SAM", "member_id": "{SAM}"}, None),
        ({"instance_id": "SAM", "member_id": "other"}, "FENCED_INSTANCE_ID"),
        ({"instance_id": "MAX"}, "UNKNOWN_MEMBER_ID"),
        ({"member_id": "other"}, "UNKNOWN_MEMBER_ID"),
        ({"member_id": "{SAM}"}, None),
    ],
)
def test_a_dry_run_answers_as_the_removal_and_changes_nothing(
    served: Served, web: Web, named: dict[str, str], error: str | None
) -> None:
    client = served.client()
    settle(client, "g", group_instance_id="SAM")
    ids = {"{SAM}": served.group().instances["SAM"]}
    ids["{pending}"] = client.call(5, join_request("g", "")).member_id
    body = {"members": [{name: ids.get(each, each) for name, each in named.items()}]}
    before = stored(served)
    tried = web.post(*REMOVE, dry_run=True, **body)
    assert (stored(served), served.members("g")) == (before, 1)
    done = web.post(*REMOVE, **body)
    assert [each["error"] for each in tried[1]["members"]] == [error]
    assert tried[1] == done[1] | {"dry_run": True}


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
    more = [{"before": 3, "end": 5}, {"before": None, "end": 0}, {"before": None, "end": 0}]
    wanted = [offset(*each) | some for each, some in zip(result, more, strict=True)]
    assert (found["offsets"], found["dry_run"]) == (wanted, False)
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


def test_a_dry_run_of_a_reset_says_what_would_be_set(served: Served, web: Web) -> None:
    client = served.client()
    produce(client, times=5)
    client.commit(3)
    wanted = [offset("orders", 0, "earliest"), offset("orders", 1, "latest")]
    status, tried = web.post(*RESET, offsets=wanted, dry_run=True)
    assert status == 200
    assert tried["offsets"][0] == offset("orders", 0, 0) | {"before": 3, "end": 5}
    assert client.fetched() == {("orders", 0): 3}
    assert web.post(*RESET, offsets=wanted)[1] == tried | {"dry_run": False}
    assert client.fetched() == {("orders", 0): 0, ("orders", 1): 0}
    settle(client, "g")
    assert web.post(*RESET, offsets=wanted, dry_run=True)[0] == 409


# -- deletions -----------------------------------------------------------------------------------


def place(topic: str, partition: int = 0) -> dict[str, Any]:
    return {"topic": topic, "partition": partition}


def test_offsets_are_deleted_of_topics_that_no_member_subscribes(served: Served, web: Web) -> None:
    client = served.client()
    client.call(8, commit_request({("orders", 0): 3, ("payments", 2): 4}))
    settle(client, "g")  # to orders
    wanted = [place("payments", 2), place("orders"), place("none"), place("payments", 9)]
    wanted.append(place("payments", 1))
    status, tried = web.post(*FORGET, offsets=wanted, dry_run=True)
    assert (status, client.fetched()) == (200, {("orders", 0): 3, ("payments", 2): 4})
    errors = ["GROUP_SUBSCRIBED_TO_TOPIC", *["UNKNOWN_TOPIC_OR_PARTITION"] * 2]
    assert [each["error"] for each in tried["offsets"]] == [None, *errors, None]
    assert [each["before"] for each in tried["offsets"]] == [4, 3, None, None, None]
    assert web.post(*FORGET, offsets=wanted)[1] == tried | {"dry_run": False}
    assert client.fetched() == {("orders", 0): 3}
    [event] = [each for each in stored(served) if each.type == "offsets_deleted"]
    assert (event.fields["why"], event.fields["who"]["client_id"]) == ("request", "http")


def test_offsets_of_running_members_that_are_no_consumers_stay(served: Served, web: Web) -> None:
    client = served.client()
    client.commit(3)
    request = join_request("g", "")
    request.protocol_type = "connect"
    assert client.call(3, request).error_code == 0
    status, found = web.post(*FORGET, offsets=[place("orders")])
    assert status == 409
    assert (
        "offsets of the protocol type 'connect' are deleted only while it is Emp"
        in (found["error"])
    )
    assert client.fetched() == {("orders", 0): 3}


def test_an_empty_group_is_deleted_with_its_offsets(served: Served, web: Web) -> None:
    client = served.client()
    client.call(8, commit_request({("orders", 0): 3, ("payments", 2): 4}))
    member_id, _ = settle(client, "g")
    status, found = web.post(*DELETE, dry_run=True)
    assert status == 409
    line = "group 'g' is Stable with 1 members: stop its consumers first, it is deleted only while"
    assert found["error"].startswith(line)
    client.leave(member_id)
    status, tried = web.post(*DELETE, dry_run=True)
    assert (status, tried["offsets"], len(client.fetched())) == (200, 2, 2)
    assert web.post(*DELETE)[1] == tried | {"dry_run": False}
    assert web.get("groups", "g")[0] == 404
    [event] = [each for each in stored(served) if each.type == "group_deleted"]
    assert (event.fields["why"], event.fields["who"]["host"]) == ("request", "10.0.0.7")


def test_the_page_is_told_that_it_may_change_groups(served: Served, web: Web) -> None:
    served.client().commit(1)
    assert web.found("groups", "g")["writes_enabled"] is True
