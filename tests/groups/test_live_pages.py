"""`GET /groups/GROUP`, of a whole server."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from groupkeeper.groups.live_pages import ROWS_IN_A_SLICE, LivePages
from groupkeeper.turns import Turns
from tests.support.requests import join_request
from tests.support.served import Served, settle
from tests.support.stored_events import stored


def ask(served: Served, group_id: str) -> tuple[int, dict[str, Any]]:
    server = served.server
    pages = LivePages(server.group_partitions, Turns(), server.about, server.personal)
    status, content_type, body = served.run(pages.page(group_id))
    assert content_type == "application/json"
    return status, json.loads(body)


def test_a_group(served: Served) -> None:
    client = served.client()
    member_id, _ = settle(client, "g")
    status, found = ask(served, "g")
    assert status == 200
    assert (found["cluster"], found["node"]) == (served.server.topics.cluster_id, 0)
    assert (found["group"], found["state"]) == ("g", "Stable")
    assert [each["member"] for each in found["members"]] == [member_id]


def test_a_group_without_members(served: Served) -> None:
    client = served.client()
    member_id, _ = settle(client, "g")
    client.leave(member_id)
    status, found = ask(served, "g")
    assert (status, found["state"], found["members"]) == (200, "Empty", [])


def test_a_group_that_does_not_exist(served: Served) -> None:
    status, found = ask(served, "nobody's")
    assert status == 404
    assert found["error"] == "group 'nobody's' does not exist"
    assert found["cluster"] == served.server.topics.cluster_id


def test_a_partition_that_does_not_serve(served: Served) -> None:
    settle(served.client(), "g")
    served.fail("g")
    status, found = ask(served, "g")
    assert status == 503
    assert found["error"] == "the partition of group 'g' is closed"


def test_many_members_are_encoded_in_slices(served: Served) -> None:
    many = 2 * ROWS_IN_A_SLICE + 1
    for _ in range(many):
        served.client().send(3, join_request("g"))
    served.advance(1)
    status, found = ask(served, "g")
    assert (status, len(found["members"])) == (200, many)
    assert len({each["member"] for each in found["members"]}) == many


@pytest.mark.parametrize("mode", ["keep", "hash", "omit"])
def test_addresses_and_reasons_are_shown_as_events_store_them(
    serve: Callable[..., Served], mode: str
) -> None:
    served = serve(f"group.events.personal={mode}")
    client = served.client()
    settle(client, "g")
    client.send(9, join_request("g", "", group_instance_id="SAM", reason="ticket 4711"))
    served.advance(0.2)
    status, found = ask(served, "g")
    [joined] = [each for each in stored(served) if each.type == "member_joined"][:1]
    assert (status, found["rebalance"]["cause"]["code"]) == (200, "static_member_joined")
    assert found["members"][0]["host"] == joined.fields["who"]["host"]
    text = json.dumps(found)
    assert ("127.0.0.1" in text, "ticket 4711" in text) == (mode == "keep", mode == "keep")
    assert found["members"][0]["client_id"] == "tester"
