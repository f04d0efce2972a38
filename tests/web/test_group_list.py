"""`GET /groups`."""

from groupkeeper.web.group_list import LIMIT
from tests.support.requests import join_request
from tests.support.served import Served, settle
from tests.support.web import Web


def ids(found: dict[str, object]) -> list[str]:
    groups = found["groups"]
    assert isinstance(groups, list)
    return [each["group"] for each in groups]


def test_a_row(served: Served, web: Web) -> None:
    settle(served.client(), "billing")
    [row] = web.found("groups")["groups"]
    cause = row.pop("last_cause")
    assert row == {
        "group": "billing",
        "type": "classic",
        "state": "Stable",
        "protocol_type": "consumer",
        "members": 1,
        "generation": 1,
        "round": 1,
        "in_state_since_ms": served.group("billing").state_timestamp_ms,
        "lag": None,
    }
    assert cause["code"] == "member_joined"
    assert cause["text"] == "tester-00000001 (on 127.0.0.1) joined as a new member."
    assert 0 <= row["in_state_since_ms"] - cause["at_ms"] < 100


def test_groups_come_in_the_order_of_their_ids_whatever_their_partition(
    served: Served, web: Web
) -> None:
    client = served.client()
    for name in ("c", "a", "ü", "b"):
        client.commit(1, name)
    found = web.found("groups")
    assert ids(found) == ["a", "b", "c", "ü"]
    assert (found["next"], found["total"], found["not_active"]) == (None, 4, [])


def test_pages_go_on_after_the_last_id_whatever_appears_or_vanishes(
    served: Served, web: Web
) -> None:
    client = served.client()
    for number in range(6):
        client.commit(1, f"g{number}")
    first = web.found("groups", limit=2)
    assert (ids(first), first["next"], first["total"]) == (["g0", "g1"], "g1", 6)
    client.commit(1, "a")
    second = web.found("groups", limit=3, after=first["next"])
    assert (ids(second), second["next"], second["total"]) == (["g2", "g3", "g4"], "g4", 7)
    last = web.found("groups", limit=3, after="g4")
    assert (ids(last), last["next"]) == (["g5"], None)


def test_an_id_that_is_too_long_for_a_request_hides_no_other(served: Served, web: Web) -> None:
    client = served.client()
    for name in ("a", "l" * 6_000, "l" * 300, "lm", "z"):
        client.commit(1, name)
    first = web.found("groups", limit=3)
    assert ids(first) == ["a", "l" * 300, "l" * 6_000]
    assert len(first["next"]) < 400
    assert ids(web.found("groups", after=first["next"])) == ["lm", "z"]


def test_search_is_for_any_part_in_any_case_or_a_state(served: Served, web: Web) -> None:
    client = served.client()
    for name in ("Billing-eu", "billing-us", "orders"):
        client.commit(1, name)
    settle(client, "stable")
    found = web.found("groups", search="BILL")
    assert (ids(found), found["total"]) == (["Billing-eu", "billing-us"], 2)
    assert ids(web.found("groups", state="Stable")) == ["stable"]
    assert len(ids(web.found("groups", state="Empty"))) == 3


def test_there_are_fifty_unless_the_request_says_more(served: Served, web: Web) -> None:
    client = served.client()
    for number in range(LIMIT + 1):
        client.commit(1, f"g{number}")
    assert len(ids(web.found("groups"))) == LIMIT == 50
    assert len(ids(web.found("groups", limit=LIMIT + 1))) == LIMIT + 1


def test_the_last_cause_is_not_known_after_a_restart(served: Served, web: Web) -> None:
    settle(served.client(), "g")
    served.restart()
    served.settled()
    [row] = Web(served).found("groups")["groups"]
    assert (row["state"], row["last_cause"]) == ("Stable", None)


def test_partitions_that_do_not_serve_are_told(served: Served, web: Web) -> None:
    client = served.client()
    client.commit(1, "g")
    served.fail("g")
    found = web.found("groups")
    index = served.driver("g").index
    [row] = found["not_active"]
    assert (row["partition"], row["state"]) == (index, "closed")
    assert row["reason"] == served.driver("g").snapshot().reason
    assert row["reason"]
    assert ids(found) == []


def test_a_group_that_rebalances(served: Served, web: Web) -> None:
    settle(served.client(), "g")
    served.client().send(3, join_request("g"))
    served.advance(0.1)
    [row] = web.found("groups", state="PreparingRebalance")["groups"]
    assert (row["members"], row["round"]) == (2, 2)
