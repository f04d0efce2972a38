"""Lag over HTTP."""

from groupkeeper.groups.lag import PartitionLag
from groupkeeper.topics.slices import ITEMS, Pace
from groupkeeper.web.lag_history import HISTORIES, KEPT_S, POINT_S, POINTS, point
from tests.groups.test_lag import produce
from tests.support.requests import commit_request, produce_request
from tests.support.served import Served, settle
from tests.support.web import Web

MINUTE_MS = int(POINT_S * 1000)


def test_lag_by_partition(served: Served, web: Web) -> None:
    client = served.client()
    produce(client, times=5)
    produce(client, times=2, partition=1)
    client.commit(3)
    found = web.found("groups", "g", "lag")
    [row] = found["partitions"]
    ago = row.pop("lag_ms")
    place = {"topic": "orders", "partition": 0, "subscribed": True}
    assert row == place | {"committed": 3, "end": 5, "lag": 2}
    assert (found["records"], found["lag_ms"]) == (2, ago)
    assert found["history"] == [{"at_ms": found["at_ms"], "records": 2, "lag_ms": ago}]


def test_lag_in_the_list_and_of_a_group(served: Served, web: Web) -> None:
    client = served.client()
    produce(client, times=5)
    client.commit(3)
    client.commit(5, "no lag")
    served.advance(60)
    [behind, not_behind] = web.found("groups")["groups"]
    assert behind["lag"]["records"] == 2
    assert behind["lag"]["seconds"] > 50
    assert web.found("groups", "g")["lag"]["records"] == 2
    assert not_behind["lag"] == {"records": 0, "seconds": 0}


def test_a_topic_that_no_member_subscribes_is_shown_and_not_counted(
    served: Served, web: Web
) -> None:
    client = served.client()
    produce(client, times=5)
    client.call(9, produce_request("payments", 2, b"value"))
    client.call(8, commit_request({("orders", 0): 5, ("payments", 2): 0}))
    assert web.found("groups", "g")["lag"]["records"] == 1, "without members it is late"
    settle(client)
    assert web.found("groups", "g")["lag"] == {"records": 0, "seconds": 0}
    found = web.found("groups", "g", "lag")
    assert (found["records"], found["lag_ms"]) == (0, 0)
    rows = [(each["topic"], each["lag"], each["subscribed"]) for each in found["partitions"]]
    assert rows == [("orders", 0, True), ("payments", 1, False)]


def test_the_past_is_one_point_a_minute_from_the_first_question_on(
    served: Served, web: Web
) -> None:
    client = served.client()
    produce(client, times=5)
    client.commit(3)
    served.advance(300)
    assert len(web.found("groups", "g", "lag")["history"]) == 1
    served.advance(1)
    client.commit(4)
    served.advance(2.5 * POINT_S)
    points = web.found("groups", "g", "lag")["history"]
    assert [each["records"] for each in points] == [2, 1, 1]
    between = points[2]["at_ms"] - points[1]["at_ms"]
    assert abs(between - MINUTE_MS) < 100


def test_it_is_an_hour_and_ends_an_hour_after_the_last_question(served: Served, web: Web) -> None:
    served.client().commit(0)
    web.found("groups", "g", "lag")
    served.advance(KEPT_S - POINT_S / 2)
    assert len(web.found("groups", "g", "lag")["history"]) == POINTS
    served.advance(KEPT_S + 2 * POINT_S)
    assert len(web.found("groups", "g", "lag")["history"]) == 1


def test_the_past_of_a_limited_number_of_groups_is_kept(served: Served, web: Web) -> None:
    client = served.client()
    for number in range(HISTORIES + 1):
        client.commit(0, f"g{number}")
    web.found("groups", "g0", "lag")
    served.advance(1.5 * POINT_S)
    for number in range(1, HISTORIES + 1):
        assert len(web.found("groups", f"g{number}", "lag")["history"]) == 1
    assert len(web.found("groups", "g0", "lag")["history"]) == 1, "it was asked for longest ago"
    served.advance(1.5 * POINT_S)
    assert len(web.found("groups", "g2", "lag")["history"]) > 1


def test_a_group_without_offsets_has_none(served: Served, web: Web) -> None:
    served.client().join("g")
    assert web.found("groups", "g")["lag"] is None
    found = web.found("groups", "g", "lag")
    assert (found["partitions"], found["records"], found["lag_ms"]) == ([], 0, 0)


def test_a_point_of_many_partitions_is_made_in_slices() -> None:
    lags = [PartitionLag("orders", number, 1, 0, 3, 7) for number in range(10 * ITEMS)]
    assert sum(1 for _ in point(lags, 5, Pace())) == 10


def test_partitions_are_in_order(served: Served, web: Web) -> None:
    client = served.client()
    for partition in (2, 0, 1):
        produce(client, times=1, partition=partition)
    offsets = {("orders", number): 1 for number in (2, 0, 1)}
    client.call(8, commit_request(offsets, "g"))
    rows = web.found("groups", "g", "lag")["partitions"]
    assert [each["partition"] for each in rows] == [0, 1, 2]
