"""One group, its members, and a static member, of a whole server."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.requests import join_request
from tests.support.served import Served, settle
from tests.support.stored_events import stored
from tests.support.web import Web, whole

PLAN = bytes.fromhex("0000 00000001 0006") + b"orders" + bytes.fromhex("00000002 00000000 00000003")
PLAN += bytes.fromhex("ffffffff")


def settle_with(served: Served, plan: bytes, group: str = "g", **fields: Any) -> str:
    """A group of one member that has an assignment; its id."""
    client = served.client()
    joined = client.join(group, **fields)
    client.sync(joined.member_id, joined.generation_id, group, **{joined.member_id: plan})
    return str(joined.member_id)


def test_a_group(served: Served, web: Web) -> None:
    member_id, _ = settle(served.client(), "g")
    found = web.found("groups", "g")
    assert (found["cluster"], found["node"]) == (served.server.topics.cluster_id, 0)
    assert (found["group"], found["state"], found["members"]) == ("g", "Stable", 1)
    assert (found["protocol"], found["leader"]) == ("range", member_id)
    assert [each["member"] for each in found["live"]["members"]] == [member_id]


def test_a_group_without_members(served: Served, web: Web) -> None:
    client = served.client()
    member_id, _ = settle(client, "g")
    client.leave(member_id)
    found = web.found("groups", "g")
    assert (found["state"], found["members"], found["live"]["members"]) == ("Empty", 0, [])


def test_whom_a_rebalance_waits_for_and_what_comes_next(served: Served, web: Web) -> None:
    member_id, _ = settle(served.client(), "g")
    served.client().send(3, join_request("g"))
    served.advance(0.1)
    live = web.found("groups", "g")["live"]
    assert live["waiting_for"] == [member_id]
    assert live["rebalance"]["cause"]["code"] == "member_joined"
    assert live["phase_timer"]["name"] == "join"
    assert live["next_timer"]["member"] == member_id


def test_a_group_that_does_not_exist(served: Served, web: Web) -> None:
    status, found = web.get("groups", "nobody's")
    assert (status, found["error"]) == (404, "group 'nobody's' does not exist")
    assert found["cluster"] == served.server.topics.cluster_id


def test_a_partition_that_does_not_serve(served: Served, web: Web) -> None:
    settle(served.client(), "g")
    served.fail("g")
    for path in ("", "/members", "/rounds", "/events", "/why", "/instances/i"):
        answer = web.answer(f"groups/g{path}")
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        error = json.loads(whole(answer))["error"]
        start, why = (
            "the partition of group 'g' is closed: ",
            "the lock was removed; tried again in",
        )
        assert error.startswith(start) and why in error


def test_many_members_are_encoded_in_slices(served: Served, web: Web) -> None:
    many = 201
    for _ in range(many):
        served.client().send(3, join_request("g"))
    served.advance(1)
    rows = web.found("groups", "g")["live"]["members"]
    assert len({each["member"] for each in rows}) == len(rows) == many
    assert len(web.found("groups", "g", "members")["members"]) == many


@pytest.mark.parametrize("mode", ["keep", "hash", "omit"])
def test_addresses_and_reasons_are_shown_as_events_store_them(
    serve: Callable[..., Served], mode: str
) -> None:
    served = serve(f"group.events.personal={mode}")
    web = Web(served)
    settle(served.client(), "g")
    request = join_request("g", "", group_instance_id="SAM", reason="ticket 4711")
    served.client().send(9, request)
    served.advance(0.2)
    found = [web.found("groups", "g"), web.found("groups"), web.found("groups", "g", "members")]
    [joined] = [each for each in stored(served) if each.type == "member_joined"][:1]
    assert found[0]["live"]["rebalance"]["cause"]["code"] == "static_member_joined"
    host = joined.fields["who"]["host"]
    assert found[0]["live"]["members"][0]["host"] == host
    assert found[2]["members"][0]["host"] == host
    text = json.dumps(found)
    assert ("127.0.0.1" in text, "ticket 4711" in text) == (mode == "keep", mode == "keep")
    assert found[2]["members"][0]["client_id"] == "tester"


# -- members -------------------------------------------------------------------------------------


def test_members_with_what_they_have(served: Served, web: Web) -> None:
    member_id = settle_with(served, PLAN, group_instance_id="SAM")
    served.advance(2)
    [member] = web.found("groups", "g", "members")["members"]
    assert (member["member_id"], member["instance_id"]) == (member_id, "SAM")
    assert member["assignment"] == [{"topic": "orders", "partitions": [0, 3]}]
    ago = served.server.clock.wall() - member["last_heard_ms"]
    assert 2_000 <= ago < 2_200


def test_an_assignment_of_another_protocol_is_not_read(served: Served, web: Web) -> None:
    settle_with(served, b"\xff")
    [member] = web.found("groups", "g", "members")["members"]
    assert member["assignment"] is None


def test_a_member_that_was_not_heard_of_since_the_load(served: Served) -> None:
    settle_with(served, PLAN)
    served.restart()
    served.settled()
    [member] = Web(served).found("groups", "g", "members")["members"]
    assert (member["last_heard_ms"], member["connection"]) == (None, None)


# -- a static member, for probes -----------------------------------------------------------------


def test_a_static_member_with_its_place(served: Served, web: Web) -> None:
    member_id = settle_with(served, PLAN, group_instance_id="SAM")
    found = web.found("groups", "g", "instances", "SAM")
    assert (found["stable"], found["member_id"]) == (True, member_id)
    assert found["owns"] == [{"topic": "orders", "partitions": [0, 3]}]
    assert found["since_ms"] == served.group("g").state_timestamp_ms


def test_a_static_member_in_a_rebalance_or_not_there(served: Served, web: Web) -> None:
    settle_with(served, PLAN, group_instance_id="SAM")
    status, found = web.get("groups", "g", "instances", "MAX")
    assert (status, found["stable"]) == (503, False)
    assert found["error"] == "no member of group 'g' has the instance id 'MAX'"
    assert web.get("groups", "nobody's", "instances", "SAM")[0] == 404
    served.client().send(3, join_request("g"))
    served.advance(0.1)
    status, found = web.get("groups", "g", "instances", "SAM")
    assert (status, found["stable"]) == (503, False)
    assert found["error"] == "group 'g' is PreparingRebalance, not Stable"
