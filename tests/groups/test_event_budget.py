"""Events are bounded in bytes: of a sender, a group, a partition, in all; and by the disk."""

from itertools import count

import pytest

from groupkeeper.groups import event_budget
from groupkeeper.groups.event_budget import ByteLimit, Charged, EventBudget, Rate
from groupkeeper.groups.event_room import EventRoom
from groupkeeper.groups.event_sums import NAME_CHARACTERS, REFUSALS_S
from groupkeeper.history.rounds import COMPLETED, EMPTIED, SUPERSEDED, Folding, Round
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.group_events import encode
from groupkeeper.protocol.messages.delete_groups import DeleteGroupsRequest
from groupkeeper.topics import effective_configs
from tests.support.fake_files import FakeFiles
from tests.support.requests import join_request
from tests.support.served import Client, Lines, Serve, Served, groups_apart, settle
from tests.support.stored_events import stored, types

ONE = "offsets.topic.num.partitions=1"
MIB = 1024 * 1024


class DiskOfSize(FakeFiles):
    """A process's view of a disk with so many free bytes; negative: it cannot tell."""

    free = 10_000

    def space(self, folder: str) -> tuple[int, int]:
        return 100_000, self.free


def size(served: Served) -> int:
    """Bytes of all events of a server of one partition, stored or not in the journal any more."""
    return sum(len(encode(event)) for event in stored(served))


def storm(client: Client, group_id: str, rounds: int) -> None:
    """One client that joins, syncs and leaves, again and again."""
    for _ in range(rounds):
        member_id, _ = settle(client, group_id)
        assert client.leave(member_id, group_id=group_id) == ErrorCode.NONE


# -- limits of bytes -------------------------------------------------------------------------------


def test_a_limit_lets_a_burst_through_and_then_its_rate() -> None:
    limit, passed = ByteLimit(Rate(burst=1_000, per_s=100)), 0
    for now_ms in range(0, 60_000, 10):
        if limit.has_room("a", now_ms):
            limit.charge("a", 50, now_ms)
            passed += 50
    assert 1_000 + 60 * 100 <= passed <= 1_000 + 60 * 100 + 50
    assert limit.has_room("b", 60_000)
    assert limit.has_room("a", 120_000)


def test_of_more_keys_than_it_tells_apart_it_forgets_the_oldest() -> None:
    limit = ByteLimit(Rate(burst=1, per_s=1))
    for key in range(event_budget.KEYS_MOST + 1):
        limit.charge(key, 100, 0)
    assert limit.has_room(0, 0)
    assert not limit.has_room(1, 0)


def charged(budget: EventBudget, event: Charged, most: int = 200 * MIB) -> int:
    """How many bytes the budget lets through at once."""
    passed = 0
    while passed < most and budget.admits(event, 0, has_room=True):
        budget.charge(event, 64 * 1024, 0)
        passed += 64 * 1024
    return passed


def test_what_is_charged_by_whom() -> None:
    joined = Charged("member_joined", 0, "g", "/10.0.0.1", 0)
    assert charged(EventBudget(-1), joined) == event_budget.GROUP.burst
    budget, numbers = EventBudget(-1), count()
    of_groups = sum(charged(budget, joined._replace(group=f"g{next(numbers)}")) for _ in range(5))
    assert of_groups == event_budget.SENDER.burst, "of one host, over all groups"
    of_hosts = of_groups + sum(
        charged(budget, joined._replace(group=f"g{next(numbers)}", host=f"/10.0.1.{n}"))
        for n in range(9)
    )
    assert of_hosts == event_budget.PARTITION.burst
    of_all = of_hosts + sum(
        charged(budget, joined._replace(group=f"g{next(numbers)}", host=f"/h{n}", partition=n))
        for n in range(50)
    )
    assert of_all == event_budget.TOTAL.burst
    small = EventBudget(8 * MIB)
    assert charged(small, joined) == MIB, "an eighth of what may be kept"


def test_a_rebalance_that_runs_is_not_forgotten_for_others() -> None:
    """More groups than are told apart rebalance at once: each is told whole, or not at all."""

    def event(kind: str, group: int, number: int = 1) -> Charged:
        return Charged(kind, 0, f"g{group}", None, number)

    budget, groups = EventBudget(-1), event_budget.KEYS_MOST + 100
    for group in range(groups):
        assert budget.admits(event("rebalance_started", group), 0, has_room=True)
    budget.charge(event("rebalance_started", 0), 40 * MIB, 0)
    left_out = range(groups, 2 * groups)
    for group in left_out:
        assert not budget.admits(event("rebalance_started", group), 0, has_room=True)
    for group in range(groups):
        assert budget.admits(event("rebalance_completed", group), 0, has_room=True)
    later = 10_000_000
    for group in left_out:
        assert not budget.admits(event("rebalance_joined", group), later, has_room=True)
        assert not budget.admits(event("rebalance_completed", group), later, has_room=True)
        assert not budget.admits(event("member_removed", group), later, has_room=True)
    assert budget.admits(event("member_removed", left_out[0]), later, has_room=True), "forgotten"
    assert budget.admits(event("rebalance_started", left_out[-1], 2), later, has_room=True)
    assert budget.admits(event("rebalance_completed", left_out[-1], 2), later, has_room=True)


def test_of_rebalances_that_run_the_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_budget, "RUNNING_MOST", 2)
    budget = EventBudget(-1)
    for group in "abc":
        began = Charged("rebalance_started", 0, group, None, 1)
        assert not budget.admits(began, 0, has_room=False)
    ends = [Charged("rebalance_completed", 0, group, None, 1) for group in "abc"]
    assert [budget.admits(end, 0, has_room=True) for end in ends] == [True, False, False]


def test_stale_requests_of_a_host_have_a_small_limit_of_their_own() -> None:
    stale = Charged("requests_refused", 0, "g", "/10.0.0.1", 0)
    budget = EventBudget(-1)
    assert charged(budget, stale) == event_budget.REFUSED.burst
    assert budget.admits(stale._replace(type="member_joined"), 0, has_room=True)


# -- what clients can cause ------------------------------------------------------------------------


@pytest.mark.parametrize("length", [28, 30_000])
def test_joins_that_are_refused_write_no_events(serve: Serve, length: int) -> None:
    served = serve()
    client = served.client()
    for number in range(300):
        answer = client.call(5, join_request(f"g{number}".ljust(length, "x"), ""))
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    served.advance(1_300)
    names = served.disk.children("data")
    assert not [name for name in names if name.startswith("__group_events")]


def test_stale_requests_for_long_ids_cost_short_events(served: Served) -> None:
    client = served.client()
    for _ in range(3):
        code = client.beat("m" * 30_000, 1, "g" * 30_000)
        assert code == ErrorCode.UNKNOWN_MEMBER_ID
    served.advance(REFUSALS_S + 1)
    told = stored(served, "g" * 30_000)
    assert [event.type for event in told] == ["requests_refused"] * 2
    assert sum(event.fields["count"] for event in told) == 3
    assert {event.group for event in told} == {"g" * NAME_CHARACTERS}
    assert all(len(encode(event)) < 1_500 for event in told)


def test_a_storm_of_rebalances_is_told_in_part_and_each_of_them_whole(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    monkeypatch.setattr(event_budget, "GROUP", Rate(20_000, 100))
    served = serve(ONE)
    client = served.client()
    storm(client, "g", 60)
    served.advance(2)
    events = stored(served)
    assert 16_000 < size(served) < 20_000 + 8_000
    folding = Folding()
    told = [each for event in events for each in folding.add(event) if isinstance(each, Round)]
    assert len(told) < 30
    assert {each.outcome for each in told} <= {COMPLETED, EMPTIED, SUPERSEDED}
    dropped = [event.fields for event in events if event.type == "events_dropped"]
    begun = sum(event.type == "rebalance_started" for event in events)
    left_out = sum(sum(fields["causes"].values()) for fields in dropped)
    counts = served.server.metrics.counts
    assert left_out == counts["events_dropped", "rebalance_started"]
    assert begun + left_out >= 60
    assert dropped[0]["who"]["client_id"] == "tester"
    settle(client, "another")
    assert [e.type for e in stored(served) if e.group == "another"][-1] == "rebalance_completed"
    [line] = [line for line in lines() if line["event"] == "events left out"]
    assert line["count"] > 0 and "rebalance" in line["types"]
    served.advance(1_000)
    storm(served.client(), "g", 1)
    last = [event.type for event in stored(served) if event.group == "g"][-1]
    assert last in ("group_emptied", "rebalance_abandoned")


def test_one_host_with_ever_new_groups_has_one_limit(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_budget, "SENDER", Rate(20_000, 100))
    served = serve(ONE)
    client = served.client()
    for number in range(40):
        client.commit(1, f"g{number}")
        client.call(2, DeleteGroupsRequest(groups_names=[f"g{number}"]))
        storm(client, f"h{number}", 1)
    served.advance(2)
    assert 16_000 < size(served) < 20_000 + 8_000


# -- room ------------------------------------------------------------------------------------------


def with_disk_of_size(serve: Serve) -> tuple[Served, Client, DiskOfSize]:
    served = serve(ONE, "group.events.min.free.bytes=1000", start=False)
    served.machine.make_files = DiskOfSize
    served.start()
    disk = served.machine.files
    assert isinstance(disk, DiskOfSize)
    return served, served.client(), disk


def test_events_give_way_when_the_disk_is_nearly_full_and_come_back(
    serve: Serve, lines: Lines
) -> None:
    served, client, disk = with_disk_of_size(serve)
    settle(client, "before")
    assert "rebalance_completed" in types(served)
    served.advance(2)
    disk.free = 999
    settle(client, "meanwhile")
    served.advance(5)
    told = [line for line in lines() if "nearly full" in line["event"]]
    assert [(line["free_bytes"], line["least_bytes"]) for line in told] == [(999, 1000)]
    assert served.server.metrics.events_wait_for_room
    disk.free = 1_200
    served.advance(5)
    assert "meanwhile" not in {event.group for event in stored(served)}, "not before a quarter more"
    disk.free = 1_250
    served.advance(5)
    [dropped] = [event for event in stored(served) if event.type == "events_dropped"]
    assert dropped.fields["types"]["rebalance_completed"] == 1
    settle(client, "after")
    assert types(served)[-1] == "rebalance_completed"
    assert sum("the disk has room" in line["event"] for line in lines()) == 1
    assert set(served.states()) == {"active"}
    disk.free = -1
    served.advance(5)
    settle(client, "unknown")
    assert types(served)[-1] == "rebalance_completed", "what is free is not known"


def test_a_rebalance_that_began_without_room_is_not_told_by_its_end(serve: Serve) -> None:
    served, client, disk = with_disk_of_size(serve)
    disk.free = 0
    joined = client.join("g")
    served.advance(1)
    disk.free = 10_000
    served.advance(2)
    client.sync(joined.member_id, 1, **{joined.member_id: b"plan"})
    assert "rebalance_completed" not in types(served)


def test_counts_are_told_at_a_clean_end_unless_the_disk_is_nearly_full(serve: Serve) -> None:
    served, client, disk = with_disk_of_size(serve)
    settle(client, "before")
    disk.free = 0
    served.advance(2)
    settle(client, "meanwhile")
    served.advance(2)
    served.stop()
    disk.free = 10_000
    served.start()
    served.settled()
    kinds = types(served)
    assert "events_dropped" not in kinds
    assert kinds[-1] == "coordinator_loaded" and kinds[-2] != "coordinator_closed", "a reader knows"


def test_the_file_system_is_looked_at_once_a_second() -> None:
    looks: list[int] = []

    def free() -> int:
        looks.append(1)
        return 5

    room = EventRoom(10, free)
    assert not any(room.suffices(now_ms) for now_ms in range(0, 3_000, 100))
    assert len(looks) == 3
    assert EventRoom(0, free).suffices(0)
    assert len(looks) == 3


# -- retention -------------------------------------------------------------------------------------


def kept(served: Served) -> int:
    """Bytes in the segments of all logs of events."""
    logs = [each.log for each in served.server.event_logs.by_partition]
    return sum(segment.size for log in logs if log is not None for segment in log.segments)


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effective_configs, "EVENT_SEGMENT_LEAST", 2_000)
    monkeypatch.setattr(event_budget, "TOTAL", Rate(MIB, MIB))
    monkeypatch.setattr(event_budget, "TOTAL_SHARE", 0.001)


@pytest.mark.usefixtures("small_segments")
@pytest.mark.parametrize("key", ["retention.bytes", "retention.total.bytes"])
def test_the_oldest_segments_go_when_logs_are_too_large(serve: Serve, key: str) -> None:
    partitions = 1 if key == "retention.bytes" else 3
    served = serve(f"offsets.topic.num.partitions={partitions}", f"group.events.{key}=30000")
    client = served.client()
    for number in range(60):
        settle(client, f"g{number}")
        served.advance(1)
    stored(served)
    assert kept(served) > 60_000
    served.advance(301)
    assert 20_000 < kept(served) <= 30_000 + 5_000
    groups = {event.group for number in range(9) for event in stored(served, f"g{number}")}
    assert "g59" in groups
    assert not groups & {"g0", "g1", "g2"}


@pytest.mark.usefixtures("small_segments")
def test_a_noisy_partition_takes_no_events_of_a_quiet_one(serve: Serve) -> None:
    limit = "group.events.retention.total.bytes=30000"
    served = serve("offsets.topic.num.partitions=3", limit)
    names = [f"g{number}" for number in range(200)]
    places = {name: served.driver(name).index for name in names}
    for name in (name for name in names if places[name] != places["g0"]):
        settle(served.client(), name)
        served.advance(1)
        if kept(served) > 8_000:
            break
    quiet = {name: stored(served, name) for name in groups_apart(3, 3) if name != "g0"}
    assert all(quiet.values())
    for name in [name for name in names if places[name] == places["g0"]][:50]:
        settle(served.client(), name)
        served.advance(1)
    assert kept(served) > 45_000
    served.advance(301)
    assert kept(served) <= 30_000
    for name, events in quiet.items():
        assert stored(served, name)[: len(events)] == events
    assert "g0" not in {event.group for event in stored(served, "g0")}
