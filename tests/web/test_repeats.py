"""The timeline: what happened between rebalances, with repeated events in one row."""

from collections.abc import Callable
from typing import Any

import pytest

from groupkeeper.topics.slices import ITEMS
from groupkeeper.web import repeats
from groupkeeper.web.repeats import timeline_rows
from tests.support.requests import commit_request, heartbeat
from tests.support.served import Client, Served, settle
from tests.support.slices import counted, whole
from tests.support.stored_events import stored
from tests.support.told_events import Told, who
from tests.support.web import Web


@pytest.fixture
def served(serve: Callable[..., Served]) -> Served:
    return serve("offsets.topic.num.partitions=1")


def restarts(served: Served, client: Client, times: int, instance: str = "SAM") -> None:
    """A static member that takes its place again, without a rebalance."""
    for _ in range(times):
        served.advance(1)
        assert client.join("g", group_instance_id=instance).error_code == 0
    served.advance(0.3)


def rows(web: Web, **query: Any) -> list[tuple[str, int]]:
    """Type and number of each row of events, and the round of others."""
    entries = web.found("groups", "g", "timeline", **query)["entries"]
    return [
        ("round", each["round"]) if each["kind"] == "round" else (each["type"], each["count"])
        for each in entries
    ]


def test_repeated_restarts_are_one_row_with_the_words_of_why(served: Served, web: Web) -> None:
    client = served.client()
    settle(client, group_instance_id="SAM")
    restarts(served, client, 3)
    assert rows(web)[-2:] == [("round", 1), ("member_replaced", 3)]
    row = web.found("groups", "g", "timeline")["entries"][-1]
    told = [each["text"] for each in web.found("groups", "g", "why")["entries"][-4:-1]]
    assert row["text"] == "SAM restarted 3 times in 2.0 s, away for 1.0 s, without a rebalance"
    assert [each.partition("Z  ")[2] for each in told] == [
        line["text"] for line in row["lines"][::-1]
    ]
    assert "restarted after 1.0 s and took the place of" in row["lines"][0]["text"]
    events = [each for each in stored(served) if each.type == "member_replaced"]
    assert (row["first_ms"], row["last_ms"]) == (events[0].at_ms, events[-1].at_ms)
    assert (row["epoch"], row["seq"]) == (events[0].epoch, events[0].seq)


def test_a_rebalance_and_a_load_end_a_row(served: Served, web: Web) -> None:
    client = served.client()
    settle(client, group_instance_id="SAM")
    restarts(served, client, 2)
    other = served.client()
    other.join("g", group_instance_id="MAX")
    client.join("g", group_instance_id="SAM")
    served.advance(70)
    before = rows(web)
    assert before[1:3] == [("member_replaced", 2), ("round", 2)]
    served.restart_cleanly()
    served.settled()
    served.advance(0.3)
    found = rows(Web(served))
    assert {("coordinator_closed", 1), ("coordinator_loaded", 1)} <= {*found}


def test_a_stall_of_the_coordinator_ends_a_row_and_is_one() -> None:
    told = Told()
    for at_ms in (1, 2):
        told.at(at_ms).tell("member_fenced", who=who(), api="Heartbeat")
    told.at(9).tell("coordinator_stalled", what="log", from_ms=3, duration_ms=6_000, jump_ms=None)
    told.at(10).tell("member_fenced", who=who(), api="Heartbeat")
    found = whole(timeline_rows(told.events))
    rows = [each.as_json() for each in found if isinstance(each, repeats.EventsRow)]
    kinds = [(each["type"], each["count"]) for each in rows]
    assert kinds == [("member_fenced", 2), ("coordinator_stalled", 1), ("member_fenced", 1)]
    line = "the coordinator had not answered for 6.0 s: its log could not be written"
    assert rows[1]["text"] == line


def test_many_events_are_folded_in_slices() -> None:
    told = Told()
    told.tell("member_fenced", who=who(), api="Heartbeat")
    found, slices = counted(timeline_rows(told.events * 10 * ITEMS))
    assert (len(found), slices) == (1, 11)


def test_kinds_of_events_are_apart_and_in_the_order_of_their_last_ones(
    served: Served, web: Web
) -> None:
    client = served.client()
    client.call(8, commit_request({("orders", 0): 5}))
    client.call(8, commit_request({("orders", 0): 2}))
    member_id, generation = settle(client, group_instance_id="SAM")
    restarts(served, client, 1)
    client.call(3, heartbeat(member_id, generation, "g", "SAM"))  # its id is another's now
    restarts(served, client, 1)
    found = rows(web)
    assert found[0] == ("offsets_reset", 2)
    assert found[-2:] == [("member_fenced", 1), ("member_replaced", 2)]


def test_a_row_has_the_last_sentences_only(
    served: Served, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeats, "SHOWN", 2)
    client = served.client()
    settle(client, group_instance_id="SAM")
    restarts(served, client, 5)
    row = web.found("groups", "g", "timeline")["entries"][-1]
    assert (row["count"], len(row["lines"])) == (5, 2)
    assert row["lines"][0]["at_ms"] == row["last_ms"] > row["lines"][1]["at_ms"]


def test_earlier_rows_are_those_before_a_place(served: Served, web: Web) -> None:
    client = served.client()
    for _ in range(3):
        settle(client, group_instance_id="SAM")
        restarts(served, client, 2)
        client.leave(served.group().instances["SAM"])
        served.advance(0.3)
    last = web.found("groups", "g", "timeline", last=2)
    whole = web.found("groups", "g", "timeline", last=100)["entries"]
    parts = last["entries"]
    while last["next"] is not None:
        last = web.found("groups", "g", "timeline", last=2, before=last["next"])
        parts = last["entries"] + parts
    assert parts == whole
    assert sum(each["kind"] == "events" for each in whole) >= 3


def test_a_group_that_does_not_exist(web: Web) -> None:
    assert web.error("groups", "nope", "timeline")[0] == 404
