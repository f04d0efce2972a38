"""How far groups are behind, asked of a whole server."""

from groupkeeper.groups import lag
from groupkeeper.groups.lag import GroupLags, PartitionLag
from groupkeeper.topics.slices import ITEMS
from tests.support.requests import (
    commit_request,
    create_request,
    delete_records_request,
    delete_topic_request,
    produce_request,
)
from tests.support.served import Client, Served, settle
from tests.support.slices import counted

WRITTEN = 1_700_000_000_000
Rows = dict[str, list[PartitionLag]]


def produce(client: Client, times: int, partition: int = 0) -> None:
    """So many batches of one record, a second from each to the next."""
    for number in range(times):
        written = WRITTEN + number * 1000
        client.call(9, produce_request("orders", partition, b"value", time=written))


def lags(served: Served) -> GroupLags:
    return served.server.lags


def ask(served: Served, *groups: str, now_ms: int | None = None) -> Rows:
    return served.run(lags(served).of(groups, now_ms))


def test_the_lag_is_what_is_left_to_read_and_the_age_of_the_next_record(served: Served) -> None:
    client = served.client()
    produce(client, times=5)
    groups = {"behind": 3, "at the end": 5, "beyond": 9, "without": -1}
    for group_id, offset in groups.items():
        client.commit(offset, group_id)
    [behind] = ask(served, "behind")["behind"]
    assert behind == PartitionLag("orders", 0, committed=3, start_offset=0, end_offset=5)
    assert (behind.lag, behind.next_offset, behind.lag_ms) == (2, 3, None)
    found = ask(served, *groups, now_ms=WRITTEN + 10_000)
    assert {name: [(each.lag, each.lag_ms) for each in rows] for name, rows in found.items()} == {
        "behind": [(2, 7_000)],
        "at the end": [(0, 0)],
        "beyond": [(0, 0)],
        "without": [],
    }
    assert ask(served, "behind", now_ms=WRITTEN - 1)["behind"][0].lag_ms == 0, "of the future"


def test_deleted_records_are_no_lag(served: Served) -> None:
    client = served.client()
    produce(client, times=5)
    client.commit(1)
    client.call(2, delete_records_request("orders", 0, 4))
    [found] = ask(served, "g", now_ms=WRITTEN + 10_000)["g"]
    assert (found.committed, found.start_offset, found.next_offset, found.lag) == (1, 4, 4, 1)
    assert found.lag_ms == 6_000


def test_a_deleted_topic_has_no_lag(served: Served) -> None:
    client = served.client()
    client.call(8, commit_request({("orders", 0): 1, ("payments", 2): 0}))
    client.call(6, delete_topic_request("orders"))
    assert [(each.topic, each.partition) for each in ask(served, "g")["g"]] == [("payments", 2)]


def test_a_topic_that_no_member_subscribes_is_marked_and_has_no_lag_in_time(served: Served) -> None:
    """Unless there are no members: then what is not read is late."""
    client = served.client()
    produce(client, times=2)
    places = {("orders", 0): 1, ("payments", 2): 0}
    client.call(8, commit_request(places))
    client.call(9, produce_request("payments", 2, b"value", time=WRITTEN))

    def rows() -> list[tuple[str, bool, int | None]]:
        found = ask(served, "g", now_ms=WRITTEN + 10_000)["g"]
        return [(each.topic, each.is_subscribed, each.lag_ms) for each in found]

    both = [("orders", True, 9_000), ("payments", True, 10_000)]
    assert rows() == both
    member_id, _ = settle(client)  # to orders
    assert rows() == [both[0], ("payments", False, None)]
    client.leave(member_id)
    assert rows() == both


def test_groups_that_do_not_exist_or_are_not_served_are_left_out(served: Served) -> None:
    client = served.client()
    client.commit(1)
    assert list(ask(served, "g", "nobody's")) == ["g"]
    served.fail("g")
    assert ask(served, "g") == {}


def test_a_large_group_is_read_in_slices(served: Served) -> None:
    client, many = served.client(), 1_000
    client.call(4, create_request("wide", partitions=many))
    client.call(8, commit_request({("wide", index): 0 for index in range(many)}))
    found, slices = counted(lag.lags_of(served.group(), {}, lag.Pace()))
    assert found == []
    assert slices > many // ITEMS


def test_every_partition_of_every_topic_has_an_extent(served: Served) -> None:
    client = served.client()
    produce(client, times=2, partition=5)
    extents = served.run(lags(served).extents())
    assert {place: extents[place].end_offset for place in (("orders", 5), ("payments", 0))} == {
        ("orders", 5): 2,
        ("payments", 0): 0,
    }


def test_what_stands_still_is_looked_up_once(served: Served, monkeypatch) -> None:
    client = served.client()
    produce(client, times=5)
    positions = served.server.topics.positions
    asked: list[object] = []
    look_up = positions.times

    async def times(wanted):
        asked.extend(wanted)
        return await look_up(wanted)

    monkeypatch.setattr(positions, "times", times)
    of_all = lags(served)
    one, other = ("orders", 0, 1), ("orders", 0, 2)
    found = {one: WRITTEN + 1000, other: WRITTEN + 2000}
    assert served.run(of_all.times_of([one])) == {one: WRITTEN + 1000}
    assert served.run(of_all.times_of([one, other])) == found
    assert served.run(of_all.times_of([other])) == {other: WRITTEN + 2000}
    assert served.run(of_all.times_of([one])) == {one: WRITTEN + 1000}
    assert asked == [one, other, one]


def test_few_records_are_looked_at_for_one_question(served: Served, monkeypatch) -> None:
    client = served.client()
    produce(client, times=5)
    monkeypatch.setattr(lag, "TIMES_MOST", 2)
    of_all = lags(served)
    wanted = [("orders", 0, offset) for offset in range(5)]
    assert [len(served.run(of_all.times_of(wanted))) for _ in range(3)] == [2, 4, 5]


def test_a_topic_made_anew_has_its_own_times(served: Served) -> None:
    client = served.client()
    produce(client, times=2)
    of_all = lags(served)
    assert served.run(of_all.times_of([("orders", 0, 1)])) != {}
    client.call(6, delete_topic_request("orders"))
    served._make_topics()
    assert served.run(of_all.times_of([("orders", 0, 1)])) == {}
