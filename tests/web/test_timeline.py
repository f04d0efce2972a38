"""Rounds, events and the answer to why, from what is stored."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from groupkeeper.history.returns import find_returns
from groupkeeper.history.rounds import Folding
from groupkeeper.observe.http_exchange import HttpRequest
from groupkeeper.protocol import group_events
from groupkeeper.protocol.group_events import encode
from groupkeeper.turns import Turns
from groupkeeper.web import stored_events, timeline
from groupkeeper.web.parts import READERS
from groupkeeper.web.stored_events import EventReader
from groupkeeper.why.entries import entry_json
from tests.support.served import Client, Served, settle
from tests.support.stored_events import stored
from tests.support.web import Web


@pytest.fixture
def served(serve: Callable[..., Served]) -> Served:
    return serve("offsets.topic.num.partitions=1")  # groups share the log of events


def rounds(served: Served, client: Client, times: int, group: str = "g") -> None:
    """Two for each time: a member joins and leaves."""
    for _ in range(times):
        member_id, _ = settle(client, group)
        client.leave(member_id, group_id=group)
    served.advance(0.3)


def values(served: Served, group: str = "g") -> list[Any]:
    """Of all events that are the group's or the partition's."""
    found = [each for each in stored(served, group) if each.group in (group, None)]
    return [json.loads(encode(each)) for each in found]


KINDS = ("events", "rounds", "why")


def numbers(found: dict[str, Any]) -> list[int]:
    return [each["round"] for each in found["rounds"]]


def test_rounds_as_the_command_prints_them(served: Served, web: Web) -> None:
    rounds(served, served.client(), 2)
    found = web.found("groups", "g", "rounds")["rounds"]
    folding = Folding()
    entries = [entry for event in stored(served) for entry in folding.add(event)]
    find_returns(entries)
    told = [entry_json(each) for each in entries]
    assert found == [each for each in json.loads(json.dumps(told)) if each["kind"] == "round"]
    assert "joined the empty group" in found[0]["text"]
    assert found[0]["text"].startswith(found[0]["cause_text"] + " ")


def test_why_has_what_happened_between_them_and_the_present(served: Served, web: Web) -> None:
    rounds(served, served.client(), 1)
    entries = web.found("groups", "g", "why")["entries"]
    assert [each["kind"] for each in entries] == ["round", "round", "live"]
    assert entries[-1]["state"] == "Empty"


def test_the_last_rounds_and_those_before(served: Served, web: Web) -> None:
    rounds(served, served.client(), 7)
    assert numbers(web.found("groups", "g", "rounds")) == [*range(5, 15)]
    last = web.found("groups", "g", "rounds", last=5)
    assert numbers(last) == [*range(10, 15)]
    before = web.found("groups", "g", "rounds", last=8, before=last["next"])
    assert numbers(before) == [*range(2, 10)]
    first = web.found("groups", "g", "rounds", last=3, before=before["next"])
    assert (numbers(first), first["next"]) == ([1], None)
    whole = web.found("groups", "g", "rounds", last=100)["rounds"]
    in_parts = first["rounds"] + before["rounds"] + last["rounds"]
    assert [len(each["added"]) for each in in_parts] == [len(each["added"]) for each in whole]


def test_rounds_since_a_time(served: Served, web: Web) -> None:
    client = served.client()
    rounds(served, client, 2)
    served.advance(60)
    since = served.server.clock.wall()
    rounds(served, client, 12)
    assert numbers(web.found("groups", "g", "rounds", since=since)) == [*range(5, 29)]
    assert numbers(web.found("groups", "g", "rounds", since=since, last=1)) == [28]
    assert numbers(web.found("groups", "g", "rounds", since=since + 60_000)) == []


def test_a_busy_neighbour_does_not_hide_a_group(
    served: Served, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_events, "FIRST_PIECE", 10)
    rounds(served, served.client(), 2, "quiet")
    rounds(served, served.client(), 40, "busy")
    assert numbers(web.found("groups", "quiet", "rounds", last=2)) == [3, 4]


def test_one_answer_reads_a_limited_part_of_the_log_and_says_where_to_go_on(
    served: Served, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_events, "FIRST_PIECE", 10)
    monkeypatch.setattr(stored_events, "READ_BYTES", 4_000)
    rounds(served, served.client(), 3, "quiet")
    rounds(served, served.client(), 10, "busy")
    found, answers = web.found("groups", "quiet", "rounds"), 1
    seen = numbers(found)
    while found["next"] is not None:
        found = web.found("groups", "quiet", "rounds", before=found["next"])
        seen = numbers(found) + seen
        answers += 1
    assert answers > 3
    assert set(seen) == {*range(1, 7)}


# -- events --------------------------------------------------------------------------------------


def test_events_as_they_are_stored(served: Served, web: Web) -> None:
    rounds(served, served.client(), 2)
    rounds(served, served.client(), 2, "other")
    found = web.found("groups", "g", "events")
    assert found["events"] == values(served)
    assert found["more"] is False


def test_the_last_events(served: Served, web: Web) -> None:
    rounds(served, served.client(), 5)
    assert web.found("groups", "g", "events", limit=4)["events"] == values(served)[-4:]


def test_events_go_on_after_a_place(served: Served, web: Web) -> None:
    client = served.client()
    rounds(served, client, 3)
    whole = values(served)
    first = f"{whole[0]['epoch']}.{whole[0]['seq']}"
    found = web.found("groups", "g", "events", after=first, limit=3)
    assert (found["events"], found["more"]) == (whole[1:4], True)
    rest = web.found("groups", "g", "events", after=found["next"])
    assert (rest["events"], rest["more"]) == (whole[4:], False)
    rounds(served, served.client(), 1, "other")
    nothing = web.found("groups", "g", "events", after=rest["next"])
    assert nothing["events"] == []
    rounds(served, client, 1)
    new = web.found("groups", "g", "events", after=nothing["next"])
    assert new["events"] == values(served)[len(whole) :]


def test_any_place_is_found(served: Served, web: Web) -> None:
    rounds(served, served.client(), 3)
    for place in ("0.0", "1.0", "1.7", "1.100000", "7.0"):
        after = tuple(map(int, place.split(".")))
        found = web.found("groups", "g", "events", after=place)["events"]
        assert found == [each for each in values(served) if (each["epoch"], each["seq"]) > after]


def test_places_go_on_over_restarts(served: Served) -> None:
    rounds(served, served.client(), 2)
    served.restart()
    served.settled()
    rounds(served, served.client(), 1)
    web = Web(served)
    whole = values(served)
    assert len({each["epoch"] for each in whole}) == 2
    assert {None, "g"} == {each["group"] for each in whole}, "and the load of the partition"
    for index, each in enumerate(whole):
        place = f"{each['epoch']}.{each['seq']}"
        found = web.found("groups", "g", "events", after=place)
        assert found["events"] == whole[index + 1 :]


def test_without_stored_events_there_are_none(serve: Callable[..., Served]) -> None:
    served = serve("offsets.topic.num.partitions=1", "group.events.enabled=false")
    settle(served.client(), "g")
    web = Web(served)
    assert web.found("groups", "g", "events")["events"] == []
    assert web.found("groups", "g", "rounds")["rounds"] == []
    assert [each["kind"] for each in web.found("groups", "g", "why")["entries"]] == ["live"]


def test_where_no_event_was_ever_stored_there_are_none(served: Served) -> None:
    """Its partition has no log of events yet, which is no closed one."""
    web, line = Web(served), "group 'nope' does not exist, and has no such events"
    for path in KINDS:
        status, found = web.get("groups", "nope", path)
        assert (status, found["error"]) == (404, line)
    assert served.client().commit(1) == 0  # a group that never had members
    assert {web.get("groups", "g", path)[0] for path in KINDS} == {200}
    answer = web.answer("follow", "group=g", headers={"last-event-id": "1.1"})
    assert answer.status == 200


def test_a_log_of_events_that_is_closed_is_told(served: Served) -> None:
    settle(served.client(), "g")
    stored(served)
    served.stop()
    for name in served.disk.children("data/__group_events-0"):
        served.disk.remove(f"data/__group_events-0/{name}")
    served.start()
    served.settled()
    for path in KINDS:
        status, found = Web(served).get("groups", "g", path)
        assert status == 503
        assert found["error"] == "the events are unavailable: their log is closed"


@pytest.mark.parametrize("setting", [True, False])
def test_rounds_say_whether_events_are_stored(serve: Callable[..., Served], setting: bool) -> None:
    served = serve(f"group.events.enabled={str(setting).lower()}")
    rounds(served, served.client(), 1)
    settle(served.client(), "g")
    assert Web(served).found("groups", "g", "rounds")["events_enabled"] is setting


def test_events_of_a_later_version_are_counted(
    served: Served, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds(served, served.client(), 2)
    count = len(values(served))
    monkeypatch.setattr(group_events, "VERSION", 2)
    found = web.found("groups", "g", "rounds")
    assert (found["rounds"], found["unknown"]) == ([], {"unreadable": count})


def test_an_answer_has_a_limited_number_of_bytes(
    served: Served, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds(served, served.client(), 3)
    monkeypatch.setattr(timeline, "EVENTS_BYTES", 1_500)
    stored_ones, found = values(served), web.found("groups", "g", "events", after="0.0")
    got = [found["events"]]
    while found["more"]:
        found = web.found("groups", "g", "events", after=found["next"])
        got.append(found["events"])
    assert [each for some in got for each in some] == stored_ones
    assert len(got) > 3
    last = web.found("groups", "g", "events")["events"]
    assert 0 < len(last) < len(stored_ones)
    assert last == stored_ones[-len(last) :]


def test_few_answers_are_made_from_events_at_a_time(
    served: Served, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds(served, served.client(), 3)
    at_a_time, most, read = 0, 0, EventReader.read

    async def counted(self: EventReader, start: int, end: int) -> AsyncIterator[Any]:
        nonlocal at_a_time, most
        at_a_time += 1
        most = max(most, at_a_time)
        async for piece in read(self, start, end):
            yield piece
        at_a_time -= 1

    async def ask() -> list[Any]:
        asked = [web.api.answer(HttpRequest("GET", "groups/g/rounds")) for _ in range(9)]
        return await asyncio.gather(*asked)

    monkeypatch.setattr(EventReader, "read", counted)
    answers = served.run(ask())
    assert [each.status for each in answers] == 9 * [200]
    assert most == READERS


def test_what_is_deleted_meanwhile_is_skipped(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_events, "FIRST_PIECE", 10)
    served = serve("offsets.topic.num.partitions=1", "group.events.retention.ms=3600000")
    reader = EventReader(served.server.topics, Turns(), 0, "g")
    rounds(served, served.client(), 10)
    count = len(values(served))
    pieces = reader.backwards(0, count)
    found = [each.place for each in served.run(anext(pieces))[1]]
    for _ in range(3):
        served.advance(3_000)
        rounds(served, served.client(), 1)
    start, _ = served.run(reader.bounds())
    assert start >= count, "retention"

    async def rest() -> None:
        async for _, piece in pieces:
            found.extend(each.place for each in piece)

    served.run(rest())
    assert len(found) == 10, "and not those that were written later"
