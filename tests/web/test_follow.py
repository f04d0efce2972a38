"""Server-sent events, as they are sent."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from groupkeeper.observe.http_exchange import ANSWERS, HttpAnswer, Pieces
from groupkeeper.protocol.group_events import encode
from groupkeeper.web.follow import FOLLOWERS, GATHER_S, HEARTBEAT_S
from tests.support.served import Lines, Served, settle
from tests.support.stored_events import stored
from tests.support.web import Web, whole


class Follower:
    """Takes the pieces of a stream when it is told to."""

    def __init__(self, served: Served, web: Web, query: str = "", last: str | None = None) -> None:
        self._served = served
        headers = {} if last is None else {"last-event-id": last}
        self.answer: HttpAnswer = web.answer("follow", query, headers=headers)
        assert self.answer.status == 200, self.answer.body
        assert self.answer.content_type == "text/event-stream"
        assert not isinstance(self.answer.body, bytes)
        self.pieces: Pieces = self.answer.body
        self.text = ""
        self.ended = False

        self._reads = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def read(self, seconds: float = 0.5) -> list[str]:
        """Take what comes in this time; returns all that came so far."""
        if self._task is None:
            self._task = self._served.loop.create_task(self._take())
        self._reads.set()
        self._served.advance(seconds)
        self._reads.clear()
        return self.frames

    def close(self) -> None:
        """As the port does when the connection is closed."""

        async def close() -> None:
            if self._task is not None:
                self._task.cancel()
                await asyncio.gather(self._task, return_exceptions=True)
            await self.pieces.aclose()

        self._served.run(close())

    async def _take(self) -> None:
        async for piece in self.pieces:
            self.text += piece.decode()
            await self._reads.wait()
        self.ended = True

    @property
    def frames(self) -> list[str]:
        return [each for each in self.text.split("\n\n") if each]

    @property
    def events(self) -> list[Any]:
        """The events, each under its id."""
        found = []
        for frame in self.frames:
            lines = dict(line.split(": ", 1) for line in frame.split("\n"))
            if "id" in lines:
                event = json.loads(lines["data"])
                assert lines["id"] == f"{event['epoch']}.{event['seq']}"
                found.append(event)
        return found


def values(served: Served, group: str | None = None) -> list[Any]:
    """What is stored in all partitions, or of one group; in order within a partition."""
    found = []
    for index in range(4):
        names = [name for name in ("g", "h", "i", "j") if served.driver(name).index == index]
        events = stored(served, names[0]) if names else []
        found += [
            json.loads(encode(event))
            for event in events
            if group is None or event.group in (group, None)
        ]
    return found


def in_order(events: list[Any]) -> list[Any]:
    return sorted(events, key=lambda each: (each["group"] or "", each["epoch"], each["seq"]))


def test_a_stream_has_events_as_they_are_stored(served: Served, web: Web) -> None:
    settle(served.client(), "g")
    served.advance(0.3)
    before = values(served)
    follower = Follower(served, web)
    follower.read()
    assert follower.events == [], "it begins now"
    for group in ("h", "i", "g"):
        settle(served.client(), group)
    whole = values(served)
    follower.read()
    assert in_order([*before, *follower.events]) == in_order(whole)
    assert len(follower.events) > len(before)


def test_events_come_soon_and_after_they_are_durable(served: Served, web: Web) -> None:
    follower = Follower(served, web, "group=g")
    follower.read(0.1)
    settle(served.client(), "g")
    follower.read(2 * GATHER_S)
    assert [each["type"] for each in follower.events][-1] == "rebalance_completed"


def test_a_stream_of_one_group(served: Served, web: Web) -> None:
    follower = Follower(served, web, "group=g")
    follower.read()
    for group in ("h", "i", "j", "g"):
        settle(served.client(), group)
    served.advance(0.3)
    follower.read()
    assert {each["group"] for each in follower.events} == {"g"}
    assert follower.events == values(served, "g")


def test_it_goes_on_after_the_last_event_of_a_group(served: Served, web: Web) -> None:
    settle(served.client(), "g")
    served.advance(0.3)
    whole = values(served, "g")
    last = f"{whole[1]['epoch']}.{whole[1]['seq']}"
    follower = Follower(served, web, "group=g", last)
    follower.read()
    assert follower.events == whole[2:]
    follower = Follower(served, web, f"group=g&after={last}")
    follower.read()
    assert follower.events == whole[2:]
    follower = Follower(served, web, "group=g&after=0.0", last)
    follower.read()
    assert follower.events == whole[2:], "a browser that connects again"


def test_a_stream_of_all_groups_says_that_it_begins_now(served: Served, web: Web) -> None:
    follower = Follower(served, web, last="1.3")
    [_, gap] = follower.read()
    assert gap.startswith("event: gap\n")


def test_a_comment_tells_that_the_stream_lives(served: Served, web: Web) -> None:
    follower = Follower(served, web, "group=g")
    follower.read(HEARTBEAT_S - 1)
    assert ": no events" not in follower.frames
    follower.read(2)
    assert follower.frames[-1] == ": no events"


def test_a_last_event_that_is_no_place(served: Served, web: Web) -> None:
    answer = web.answer("follow", headers={"last-event-id": "x"})
    assert answer.status == 400


def test_a_group_whose_partition_does_not_serve(served: Served, web: Web) -> None:
    settle(served.client(), "g")
    served.fail("g")
    assert web.answer("follow", "group=g").status == 503


def test_a_stream_goes_on_while_its_partition_is_loaded_again(served: Served, web: Web) -> None:
    settle(served.client(), "g")
    served.advance(0.3)
    follower = Follower(served, web, "group=g")
    follower.read()
    served.fail("g")
    served.advance(3)
    settle(served.client(), "g", group_instance_id="SAM")
    follower.read(3)
    assert {"coordinator_closed", "coordinator_loaded", "member_joined"} <= {
        each["type"] for each in follower.events
    }


def test_a_limited_number_of_streams(served: Served, web: Web, lines: Lines) -> None:
    followers = [Follower(served, web) for _ in range(FOLLOWERS)]
    answer = web.answer("follow")
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
    assert served.server.metrics.counts["limits_reached", "http_followers"] == 1
    for _ in range(200):
        assert web.answer("follow", remote="10.0.0.7").status == 503
    [line] = [each for each in lines() if each.get("limit") == "http_followers"]
    assert (line["path"], line["times"]) == ("follow", 1)
    followers[0].close()  # before it began
    second = Follower(served, web)
    second.read()
    assert web.answer("follow").status == 503
    second.close()
    assert web.answer("follow", method="HEAD").status == 200
    assert web.answer("follow").status == 200
    assert FOLLOWERS < ANSWERS


def test_nothing_is_left_of_a_stream_that_was_closed(served: Served, web: Web) -> None:
    follower = Follower(served, web, "group=g")
    follower.read()
    partition = served.server.topics.partitions.find("__group_events", served.driver("g").index)
    assert partition is not None
    assert len(partition.watchers) == 1
    follower.close()
    assert len(partition.watchers) == 0


def test_a_stream_begins_now_also_where_a_log_is_opened_later(served: Served) -> None:
    settle(served.client(), "g")
    served.advance(0.3)
    before = values(served, "g")
    served.restart()
    follower = Follower(served, Web(served))
    follower.read(5)
    settle(served.client(), "g", group_instance_id="SAM")
    follower.read(3)
    found = [(each["epoch"], each["seq"]) for each in follower.events]
    assert not {(each["epoch"], each["seq"]) for each in before} & set(found)
    assert {"coordinator_loaded", "member_joined"} <= {each["type"] for each in follower.events}


@pytest.mark.parametrize("last", ["0.7", "1.1000", "99.3"])
def test_a_place_that_is_not_stored_is_a_gap(served: Served, web: Web, last: str) -> None:
    settle(served.client(), "g")
    served.advance(0.3)
    follower = Follower(served, web, "group=g", last)
    follower.read()
    assert ("event: gap" in follower.text) is (last != "0.7"), "all since the first are there"
    follower.close()
    [known] = values(served, "g")[-1:]
    follower = Follower(served, web, "group=g", f"{known['epoch']}.{known['seq']}")
    follower.read()
    assert "event: gap" not in follower.text


def test_a_closed_log_is_told_before_a_stream_begins(served: Served) -> None:
    settle(served.client(), "g")
    stored(served)
    index = served.driver("g").index
    served.stop()
    for name in served.disk.children(f"data/__group_events-{index}"):
        served.disk.remove(f"data/__group_events-{index}/{name}")
    served.start()
    served.settled()
    web = Web(served)
    for _ in range(FOLLOWERS + 1):
        answer = web.answer("follow", "group=g", headers={"last-event-id": "1.1"})
        assert answer.status == 503
        assert json.loads(whole(answer))["error"].startswith("the events are unavailable")


# -- where events are not stored -----------------------------------------------------------------


def test_events_that_are_not_stored_are_not_followed(serve: Callable[..., Served]) -> None:
    web = Web(serve("group.events.enabled=false"))
    answer = web.answer("follow", "group=g")
    assert answer.status == 409
    assert "set group.events.enabled" in json.loads(whole(answer))["error"]
