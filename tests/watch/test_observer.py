"""An observer beside a server: what it infers, what it serves, and how it goes on after its end."""

import re
from pathlib import Path
from typing import cast

import pytest

from groupkeeper.history.rounds import Folding, Round
from groupkeeper.observe.exposition import OBSERVER, OBSERVER_COUNTERS
from groupkeeper.observe.metrics import Metrics
from groupkeeper.observe.status import status_of
from groupkeeper.protocol.group_events import Event
from groupkeeper.protocol.messages.delete_groups import DeleteGroupsRequest
from groupkeeper.protocol.record_batch import CorruptBatch
from groupkeeper.storage.errors import StorageError
from groupkeeper.watch.partition import PartitionWatch
from groupkeeper.watch.report import known_since_ms
from groupkeeper.watch.views import WatchedPartition
from tests.analytics.logs import batch, group
from tests.support.requests import join_request
from tests.support.served import Client, Lines, Served, settle
from tests.support.stored import FULL
from tests.support.virtual_loop import VirtualExecutor
from tests.support.web import Web
from tests.watch.observed import Observed

YEAR_MS = 365 * 24 * 3_600_000
Codes = dict[tuple[str, int], str]


@pytest.fixture
def observed(served: Served) -> Observed:
    return Observed(served)


def codes(events: list[Event]) -> Codes:
    """The cause of each completed round, by group and generation."""
    folds, found = dict[str, Folding](), Codes()
    for event in events:
        if event.group is not None:
            for each in folds.setdefault(event.group, Folding()).add(event):
                if isinstance(each, Round) and each.outcome == "completed":
                    found[each.group, each.generation] = str((each.cause or {}).get("code"))
    return found


def play(served: Served, group: str = "billing") -> tuple[Client, str]:
    """Two members join one after the other, and the second leaves."""
    ann, bea = served.client(), served.client()
    first, _ = settle(ann, group)
    bea_joins(served, ann, bea, group, first)
    return ann, first


def bea_joins(served: Served, ann: Client, bea: Client, group: str, first: str) -> None:
    bea.send(3, join_request(group, ""))
    served.advance(0.5)
    joined = ann.join(group, first)
    second = bea.take()
    assert second.error_code == 0
    plan = {joined.leader: b"plan"}
    leader = ann if joined.leader == first else bea
    leader.sync(joined.leader, joined.generation_id, group, **plan)
    served.advance(1)
    assert bea.leave(second.member_id, group_id=group) == 0
    served.advance(0.5)
    again = ann.join(group, first)
    ann.sync(first, again.generation_id, group, **{first: b"plan"})


def test_causes_are_those_that_the_server_stored(observed: Observed) -> None:
    play(observed.served)
    observed.caught_up()
    inferred, told = codes(observed.inferred()), codes(observed.told())
    assert inferred == told
    assert [*told.values()] == ["member_joined", "member_joined", "member_left"]


def test_nothing_but_reads_is_asked_of_the_cluster(observed: Observed) -> None:
    play(observed.served)
    observed.caught_up()
    reads = {"FetchRequest", "ListOffsetsRequest", "MetadataRequest"}
    assert observed.cluster.asked == reads | {"ListGroupsRequest", "DescribeGroupsRequest"}


def test_without_asking_only_the_log_is_read(served: Served) -> None:
    observed = Observed(served, ask=False)
    play(served)
    observed.caught_up()
    served.advance(5)
    assert observed.cluster.asked == {"FetchRequest", "ListOffsetsRequest", "MetadataRequest"}


def test_groups_are_served_as_a_server_serves_them(observed: Observed) -> None:
    _, first = play(observed.served)
    observed.caught_up()
    [row] = observed.web.found("groups")["groups"]
    assert (row["group"], row["state"], row["members"], row["generation"]) == (
        *("billing", "Stable"),
        *(1, 3),
    )
    assert row["round"] == 3
    cause = row["last_cause"]
    assert (cause["code"], cause["source"], cause["confidence"]) == ("member_left", "log", 0.97)
    assert "left" in cause["text"]
    group = observed.web.found("groups", "billing")
    assert (group["leader"], group["writes_enabled"]) == (first, False)
    [member] = observed.web.found("groups", "billing", "members")["members"]
    assert (member["member_id"], member["last_heard_ms"]) == (first, None)


def test_an_address_has_one_form_in_all_answers(observed: Observed) -> None:
    play(observed.served)
    observed.caught_up()
    for web in (observed.web, Web(observed.served)):
        group, why = web.found("groups", "billing"), web.found("groups", "billing", "why")
        hosts = {each["host"] for each in group["live"]["members"]}
        hosts |= {each["cause"]["who"]["host"] for each in why["entries"] if each.get("cause")}
        rows = web.found("groups", "billing", "members")["members"]
        assert hosts | {each["host"] for each in rows} == {"127.0.0.1"}


def test_what_only_requests_of_members_show_is_not_known(observed: Observed) -> None:
    play(observed.served)
    observed.caught_up()
    [member] = observed.web.found("groups", "billing")["live"]["members"]
    names = ("heard", "heard_ms_ago", "joined", "synced")
    assert [member[each] for each in names] == [None] * 4


def test_rounds_say_that_they_are_inferred_and_how_sure(observed: Observed) -> None:
    play(observed.served)
    observed.caught_up()
    found = observed.web.found("groups", "billing", "rounds")["rounds"]
    assert [each["cause"]["code"] for each in found] == [
        *("member_joined", "member_joined", "member_left")
    ]
    assert {each["source"] for each in found} == {"log"}
    assert [each["confidence"] for each in found] == [0.99, 0.99, 0.97]
    why = observed.web.found("groups", "billing", "why")
    assert [each["kind"] for each in why["entries"]] == ["round", "round", "round", "live"]
    assert why["unknown"] == {}
    assert observed.web.found("groups", "billing", "timeline")["entries"]


def test_pages_of_rounds_follow_each_other(observed: Observed) -> None:
    play(observed.served)
    observed.caught_up()
    last = observed.web.found("groups", "billing", "rounds", last=1)
    assert [each["generation"] for each in last["rounds"]] == [3]
    before = observed.web.found("groups", "billing", "rounds", last=1, before=last["next"])
    assert [each["generation"] for each in before["rounds"]] == [2]


def test_events_are_served_with_source_and_confidence(observed: Observed) -> None:
    play(observed.served)
    observed.caught_up()
    events = observed.web.found("groups", "billing", "events")["events"]
    assert {each["source"] for each in events} == {"log"}
    assert all(0 < each["confidence"] < 1 for each in events)


def test_a_stream_brings_events_as_their_records_appear(observed: Observed) -> None:
    observed.caught_up()
    answer = observed.web.answer("follow", "group=billing")
    pieces = aiter(answer.body)  # type: ignore[arg-type]
    assert b"events follow" in observed.run(anext(pieces))
    settle(observed.served.client(), "billing")
    assert b'"group_created"' in observed.run(anext(pieces))
    observed.run(answer.body.aclose())  # type: ignore[union-attr]


def test_a_stream_that_is_not_read_holds_up_nobody_and_goes_on_later(observed: Observed) -> None:
    observed.caught_up()
    answer = observed.web.answer("follow", "")
    pieces = aiter(answer.body)  # type: ignore[arg-type]
    assert b"events follow" in observed.run(anext(pieces))
    for number in range(40):
        play(observed.served, f"group-{number}")
    observed.caught_up()
    assert len(observed.web.found("groups")["groups"]) == 40
    created = b""
    while created.count(b'"group_created"') < 40:
        created += observed.run(anext(pieces))
    observed.run(answer.body.aclose())  # type: ignore[union-attr]


def test_changes_are_refused(observed: Observed) -> None:
    play(observed.served)
    observed.caught_up()
    for path, body in {
        ("members", "remove"): {"members": [{"member_id": "m"}]},
        ("offsets", "reset"): {"offsets": [{"topic": "orders", "partition": 0, "offset": 1}]},
        ("offsets", "delete"): {"offsets": [{"topic": "orders", "partition": 0}]},
        ("delete",): {},
    }.items():
        status, answer = observed.web.post("groups", "billing", *path, **body)
        assert status == 403
        assert "this is an observer, which is read-only" in answer["error"]


def test_an_unknown_group_is_not_found(observed: Observed) -> None:
    observed.caught_up()
    assert observed.web.error("groups", "nobody")[0] == 404
    assert observed.web.error("groups", "nobody", "why")[0] == 404


def test_a_deleted_group_is_gone_and_its_history_stays(observed: Observed) -> None:
    ann, first = play(observed.served)
    ann.leave(first, group_id="billing")
    ann.call(2, DeleteGroupsRequest(groups_names=["billing"]))
    observed.caught_up()
    assert observed.web.found("groups")["groups"] == []
    entries = observed.web.found("groups", "billing", "why")["entries"]
    assert entries[-1]["type"] == "group_deleted"


# -- ready ---------------------------------------------------------------------------------------


def test_it_is_ready_when_it_has_caught_up(served: Served) -> None:
    play(served)
    observed = Observed(served)
    assert {each.state for each in observed.server.groups.snapshots()} == {"loading"}
    status, line = observed.web.error("groups", "billing")
    assert (status, "is loading" in line) == (503, True)
    observed.caught_up()
    assert {each.state for each in observed.server.groups.snapshots()} == {"active"}
    assert observed.web.found("groups", "billing")["state"] == "Stable"


def test_a_partition_says_how_much_is_left_to_read(observed: Observed) -> None:
    partition = WatchedPartition(0, observed.server.clock)
    partition.left = 7
    assert partition.snapshot().reason == "7 records are left to read"


def test_metrics_count_rebalances_after_the_history(observed: Observed) -> None:
    observed.caught_up()
    play(observed.served)
    observed.caught_up()
    counts = observed.server.metrics.counts
    assert counts["rebalances", "member_joined"] == 2
    assert counts["rebalances", "member_left"] == 1
    again = Observed(observed.served)
    again.caught_up()
    assert again.server.metrics.counts["rebalances", "member_joined"] == 0


def test_metrics_say_what_was_read_and_what_was_not(observed: Observed) -> None:
    play(observed.served)
    observed.caught_up()
    text = observed.metrics()
    assert re.search(r"^groupkeeper_observer_records_read_total [1-9]", text, re.MULTILINE)
    assert "groupkeeper_observer_records_left 0.0" in text
    assert 'kafka_consumergroup_members{consumergroup="billing"} 1' in text
    assert "kafka_brokers 1\n" in text
    page = (Path(__file__).parents[2] / "docs" / "observe.md").read_text(encoding="utf-8")
    for name in (*OBSERVER, *(f"{each}_total" for each in OBSERVER_COUNTERS)):
        assert f"`groupkeeper_{name}`" in page


def test_what_cannot_be_read_is_told_once(observed: Observed, lines: Lines) -> None:
    data = bytearray(batch([group("g", 1, "ann")], base=0))
    data[-1] ^= 1
    observed.caught_up()
    for _ in range(2):
        start = observed.server.position(3)
        observed.run(observed.server.take(3, start, bytes(data), 9))
    told = [line for line in lines() if line["event"] == "records cannot be read"]
    assert [line["partition"] for line in told] == [3]
    assert "wrong checksum" in told[0]["first"]


def test_a_group_that_cannot_be_read_is_told(observed: Observed, lines: Lines) -> None:
    key, value = group("g", 1, "ann")
    observed.caught_up()
    start = observed.server.position(3)
    data = batch([(key, b"\0\x63" + value[2:])], base=start)
    observed.run(observed.server.take(3, start, data, start + 1))
    [line] = [line for line in lines() if line["event"] == "records cannot be read"]
    assert line["first"] == f"partition 3: offset {start}: unreadable value of group 'g'"
    assert "groupkeeper_observer_records_unreadable_total 1.0" in observed.metrics()


@pytest.mark.parametrize("length", [-20, 1 << 30])
def test_bytes_that_are_no_batch_are_not_passed(observed: Observed, length: int) -> None:
    observed.caught_up()
    start = observed.server.position(3)
    data = bytearray(batch([group("g", 1, "ann")], base=start))
    data[8:12] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(CorruptBatch):
        observed.run(observed.server.take(3, start, bytes(data), start + 1))
    assert observed.server.position(3) == start


def test_a_clock_that_jumps_changes_nothing(observed: Observed) -> None:
    ann, first = play(observed.served)
    observed.caught_up()
    clock = observed.server.clock
    wall = clock.wall
    clock.wall = lambda: wall() + YEAR_MS  # type: ignore[method-assign]
    bea_joins(observed.served, ann, observed.served.client(), "billing", first)
    observed.caught_up()
    clock.wall = lambda: wall() - YEAR_MS  # type: ignore[method-assign]
    bea_joins(observed.served, ann, observed.served.client(), "billing", first)
    observed.caught_up()
    assert codes(observed.inferred()) == codes(observed.told())
    assert max(each.at_ms for each in observed.inferred()) <= wall()
    assert observed.web.found("groups", "billing")["round"] == 7


# -- its disk ------------------------------------------------------------------------------------


def test_a_full_disk_ends_it(observed: Observed) -> None:
    observed.caught_up()
    observed.disk.failures = dict.fromkeys(range(observed.disk.calls, 1_000_000), FULL)
    play(observed.served)
    observed.served.until(observed._running.done)
    problem = observed._running.exception()
    assert isinstance(problem, (StorageError, OSError))
    assert "No space left on device" in str(problem)


def test_a_disk_that_stands_is_told_and_nothing_more_is_read(
    observed: Observed, lines: Lines
) -> None:
    observed.caught_up()
    executor = cast("VirtualExecutor", observed.server._executor)
    executor._free_at = observed.served.loop.time() + 60
    play(observed.served)
    fetches = observed.server.tail.stats.fetches
    observed.served.advance(40)
    assert observed.server.tail.stats.fetches <= fetches + 1
    observed.caught_up()
    assert codes(observed.inferred()) == codes(observed.told())
    told = [line["event"] for line in lines() if "directory" in line["event"]]
    assert told == ["the data directory does not answer", "the data directory answers again"]


# -- its end -------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_the_next_process_goes_on_where_the_last_one_ended(observed: Observed, end: str) -> None:
    ann, first = play(observed.served)
    observed.caught_up()
    before = observed.inferred()
    getattr(observed, end)()
    bea_joins(observed.served, ann, observed.served.client(), "billing", first)
    observed.start()
    observed.caught_up()
    events = observed.inferred()
    assert events[: len(before)] == before
    assert codes(events) == codes(observed.told())
    assert [each.seq for each in events] == [*range(len(events))]
    assert observed.web.found("groups", "billing")["round"] == 5


def test_the_status_says_what_was_read_and_since_when_causes_are_known(observed: Observed) -> None:
    play(observed.served)
    observed.caught_up()
    found = status_of(observed.server.metrics, {}, {})["observer"]
    assert (found["records_left"], found["losses"], found["groups_dropped"]) == (0, 0, 0)
    assert found["records_read"] > 0
    assert found["causes_known_since_ms"] is None


def test_causes_are_known_since_the_last_gap_of_all_partitions() -> None:
    """Not since the first record of a partition that has had none for long."""
    old, new, late = (PartitionWatch(number) for number in range(3))
    for fold, offset, at_ms in ((old, 7, 1_000), (new, 0, 9_000), (late, 8, 2_000)):
        fold.begin(offset, "topic")
        fold.feed(batch([group("g", 1, "m")], base=offset, base_time=at_ms, max_time=at_ms))
    assert known_since_ms([old, new, late, PartitionWatch(3)]) == 2_000
    assert known_since_ms([new]) is None


def test_events_that_could_not_be_stored_are_in_the_status() -> None:
    metrics = Metrics()
    metrics.observer = lambda: dict.fromkeys((*OBSERVER, *OBSERVER_COUNTERS), 2.0)
    found = status_of(metrics, {}, {})
    assert (found["events"]["dropped"], found["observer"]["causes_known_since_ms"]) == (2, None)


def test_it_survives_a_restart_of_the_broker(observed: Observed) -> None:
    ann, first = play(observed.served)
    observed.caught_up()
    observed.cluster.is_down = True
    observed.served.advance(20)
    observed.cluster.is_down = False
    bea_joins(observed.served, ann, observed.served.client(), "billing", first)
    observed.caught_up()
    assert codes(observed.inferred()) == codes(observed.told())


def test_answers_say_since_when_the_cluster_cannot_be_read(observed: Observed) -> None:
    play(observed.served)
    observed.caught_up()
    assert observed.web.found("groups", "billing")["unread"] is None
    observed.cluster.is_down = True
    observed.served.advance(20)
    for path in (["groups"], ["groups", "billing"]):
        unread = observed.web.found(*path)["unread"]
        assert unread["partitions"] == len(observed.server.folds)
        assert 15_000 <= unread["for_ms"] <= 20_000
    observed.cluster.is_down = False
    observed.caught_up()
    assert observed.web.found("groups", "billing")["unread"] is None


def test_a_stop_stores_the_state(observed: Observed) -> None:
    play(observed.served)
    observed.caught_up()
    positions = [each.position for each in observed.server.folds]
    observed.stop()
    observed.start()
    assert [each.position for each in observed.server.folds] == positions


def test_the_state_is_stored_from_time_to_time(observed: Observed) -> None:
    play(observed.served)
    observed.served.advance(40)
    observed.caught_up()
    positions = [each.position for each in observed.server.folds]
    observed.kill()
    observed.start()
    assert [each.position for each in observed.server.folds] == positions
