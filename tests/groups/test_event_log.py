"""What is stored of what happens to groups: in which order and rounds, within which limits."""

import asyncio
import json
from collections.abc import Callable

import pytest

from groupkeeper.coordinator.causes import Who
from groupkeeper.coordinator.facts import GroupCreated, NotedFact, RebalanceJoined
from groupkeeper.groups import driver, event_batch, event_limits, event_sums
from groupkeeper.groups.embedded_log import EmbeddedLog
from groupkeeper.groups.event_batch import EventMaker
from groupkeeper.groups.event_log import BEGIN_S, EventLog
from groupkeeper.groups.event_sums import COMMITS_S, CommitSums
from groupkeeper.groups.partition_log import LogOwner
from groupkeeper.observe.events import event_of
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.group_event_types import TYPES
from groupkeeper.protocol.group_events import Event
from groupkeeper.protocol.messages.delete_groups import DeleteGroupsRequest
from groupkeeper.protocol.messages.offset_commit import OffsetCommitRequestTopic
from groupkeeper.storage.errors import LockLost
from groupkeeper.storage.log import queued_log
from tests.support.broken import boom
from tests.support.partition_logs import RefusingDisk
from tests.support.requests import commit_request, create_request, join_request
from tests.support.served import Client, Lines, Serve, Served, groups_apart, settle
from tests.support.stored_events import counts_of_dropped, of_type, stored, types

ROUND = ["rebalance_started", "rebalance_joined", "rebalance_completed"]


# -- order and rounds ------------------------------------------------------------------------------


def test_a_round_of_a_group_is_stored_in_order(served: Served) -> None:
    settle(served.client())
    events = stored(served)
    assert [event.type for event in events] == ["group_created", "member_joined", *ROUND]
    assert {event.group for event in events} == {"g"}
    assert [event.seq for event in events] == list(range(5))
    assert {event.type for event in events} <= TYPES.keys()


def test_records_and_their_events_share_one_round_and_one_sync(served: Served) -> None:
    client = served.client()
    member_id = client.join("g").member_id
    types(served)
    before = served.syncs()
    assert client.sync(member_id, 1, **{member_id: b"plan"}).error_code == 0
    assert served.syncs() == before + 1
    assert types(served)[-1] == "rebalance_completed"
    assert served.syncs() == before + 1


def test_commits_cost_no_event_of_their_own(served: Served) -> None:
    client = served.client()
    member_id, generation = settle(client)
    before = len(stored(served))
    syncs = served.syncs()
    for offset in range(10):
        client.commit(offset, member_id=member_id, generation=generation)
    assert served.syncs() == syncs + 10
    assert len(stored(served)) == before
    served.advance(COMMITS_S)
    event = stored(served)[-1]
    assert (event.type, event.fields["requests"]) == ("commits", 10)
    assert event.fields["partitions"] == {"orders": [0]}
    assert event.fields["who"]["member"] == member_id
    assert (event.state, event.generation) == ("Stable", generation)
    served.advance(2 * COMMITS_S)
    assert types(served).count("commits") == 1, "only while there is activity"


def test_commits_and_the_end_tell_how_regular_heartbeats_were(served: Served) -> None:
    client = served.client()
    member_id, generation = settle(client)
    for pause in (3, 3, 7):
        served.advance(pause)
        assert client.beat(member_id, generation) == 0
        client.commit(1, member_id=member_id, generation=generation)
    served.advance(COMMITS_S)
    told = stored(served)[-1]
    assert (told.type, told.fields["heartbeats"]) == ("commits", 3)
    assert told.fields["longest_gap_ms"] // 1_000 == 7
    [joined] = of_type(served, "member_joined")
    [removed] = of_type(served, "member_removed")
    assert joined.fields["session_timeout_ms"] == 10_000
    assert (removed.fields["heartbeats"], removed.fields["longest_gap_ms"] // 1_000) == (3, 7)


def test_commits_of_too_many_members_and_places_are_counted_only(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_sums, "MEMBERS_MOST", 1)
    monkeypatch.setattr(event_sums, "PLACES_MOST", 2)
    client = served.client()
    places = {("orders", n): 1 for n in range(5)}
    client.call(8, commit_request(places, "g"))
    client.call(8, commit_request(places, served_beside(served)))
    served.advance(COMMITS_S + 2)
    events = {event.type: event for event in stored(served)}
    assert events["commits"].fields["partitions"] == {"orders": [0, 1]}
    assert events["commits"].fields["shortened"] == {"partitions": 5}
    assert events["events_dropped"].fields["types"] == {"commits": 1}


def test_only_what_was_accepted_is_told_as_committed(served: Served) -> None:
    client = served.client()
    places = {("orders", 0): 1, ("orders", 99): 7, ("nowhere", 3): 8}
    request = commit_request(places, "g")
    request.topics += [OffsetCommitRequestTopic(name=f"absent {n}") for n in range(2_000)]
    answer = client.call(8, request)
    assert [row.error_code for topic in answer.topics for row in topic.partitions].count(0) == 1
    served.advance(COMMITS_S)
    [event] = of_type(served, "commits")
    assert event.fields["partitions"] == {"orders": [0]}
    assert "shortened" not in event.fields
    assert (event.fields["heartbeats"], event.fields["longest_gap_ms"]) == (None, None), "no member"


def test_topics_beyond_the_limit_of_places_are_not_named(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_sums, "PLACES_MOST", 1)
    client = served.client()
    for topics in (["orders"], ["payments"], ["orders", "payments"]):
        client.call(8, commit_request(dict.fromkeys([(topic, 0) for topic in topics], 1), "g"))
    served.advance(COMMITS_S)
    [event] = of_type(served, "commits")
    assert event.fields["partitions"] == {"orders": [0]}
    assert event.fields["shortened"] == {"partitions": 2}


def served_beside(served: Served) -> str:
    """Another group of the same partition."""
    ids = (f"g{number}" for number in range(1000))
    return next(each for each in ids if served.driver(each) is served.driver("g"))


def test_stale_requests_of_one_sender_are_one_event_in_ten_seconds(served: Served) -> None:
    client = served.client()
    member_id, generation = settle(client)
    before = len(stored(served))
    for _ in range(40):
        assert client.beat(member_id, generation + 1) == ErrorCode.ILLEGAL_GENERATION
        served.advance(0.5)
        client.beat(member_id, generation)
    served.advance(11)
    refused = [event for event in stored(served)[before:] if event.type == "requests_refused"]
    assert refused[0].fields["count"] == 1, "the first one at once"
    assert sum(event.fields["count"] for event in refused) == 40
    assert len(refused) <= 4
    later = refused[1].fields
    assert later["first_ms"] < later["last_ms"] <= later["first_ms"] + 10_000
    client.beat(member_id, generation + 1)
    assert types(served)[-1] == "requests_refused"


def test_what_wrote_no_records_is_stored_after_a_tenth_of_a_second(serve: Serve) -> None:
    served = serve("offsets.topic.num.partitions=1")
    client = served.client()
    settle(client, group_instance_id="SAM")
    types(served)
    before = served.syncs()
    for _ in range(20):
        assert client.beat("nobody", 1, instance_id="SAM") == ErrorCode.FENCED_INSTANCE_ID
    served.advance(0.05)
    assert served.syncs() == before, "a refusal costs no sync"
    served.advance(0.1)
    assert served.syncs() == before + 1
    assert types(served).count("member_fenced") == 20


def test_events_without_records_go_before_those_of_later_records(serve: Serve) -> None:
    served = serve("offsets.topic.num.partitions=1")
    client = served.client()
    settle(client, group_instance_id="SAM")
    types(served)
    before = served.syncs()
    client.beat("nobody", 1, instance_id="SAM")
    settle(client, "other")
    assert types(served)[-6:] == ["member_fenced", "group_created", "member_joined", *ROUND]
    assert served.syncs() == before + 1, "that of the second group"


# -- starts and stops ------------------------------------------------------------------------------


def test_events_outlive_a_stop_and_a_kill(served: Served) -> None:
    settle(served.client())
    types(served)
    served.recover()
    assert types(served)[-1] == "coordinator_loaded"
    served.restart_cleanly()
    events = stored(served)
    kinds = ["coordinator_loaded", "coordinator_closed", "coordinator_loaded"]
    assert [event.type for event in events][5:] == kinds
    assert events[-2].fields == {"why": "stopped"}
    loaded = events[-1].fields
    assert (loaded["groups"], loaded["members"], loaded["records"]) == (1, 1, 1)
    assert [event.epoch for event in events] == [1] * 5 + [2] * 2 + [3]
    assert [event.seq for event in events] == [0, 1, 2, 3, 4, 0, 1, 0]


def test_what_waits_when_the_server_stops_is_written(served: Served) -> None:
    client = served.client()
    member_id, generation = settle(client, group_instance_id="SAM")
    assert client.commit(1, member_id=member_id, generation=generation) == 0
    client.beat("nobody", 1, instance_id="SAM")
    served.restart_cleanly()
    last = ["member_fenced", "commits", "coordinator_closed", "coordinator_loaded"]
    assert types(served)[-4:] == last


@pytest.mark.parametrize("turns", range(12))
def test_what_happens_during_the_first_round_is_written_at_the_stop(
    serve: Serve, turns: int
) -> None:
    served = serve("offsets.topic.num.partitions=1")
    client, other = served.client(), served.client()
    first = client.frame(8, commit_request({("orders", 0): 1}, "g"))
    served.at_once({client: first}, *[{}] * turns, {other: other.frame(3, join_request("h", ""))})
    joined = served.driver("h").peek("h") is not None
    served.restart_cleanly()
    kinds = types(served)
    assert kinds.count("group_created") == 1 + joined
    assert kinds.count("commits") == 1
    assert kinds.count("coordinator_closed") == 1
    assert kinds[-2:] == ["coordinator_closed", "coordinator_loaded"]


def test_a_partition_that_is_loaded_again_goes_on_in_its_event_log(served: Served) -> None:
    client = served.client()
    settle(client)
    types(served)
    served.disk.remove(f"data/leases/{served.driver('g').index}")
    served.advance(2)
    served.settled()
    settle(client, "g2")
    kinds = types(served)
    assert kinds[5:7] == ["coordinator_closed", "coordinator_loaded"]
    assert "the lock of shard" in stored(served)[5].fields["why"]


def test_what_was_dropped_is_told_before_a_clean_end(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if nothing else happens, and however short the time since the last
    `events_dropped`.
    """
    served = serve("offsets.topic.num.partitions=1")
    client = served.client()
    settle(client)
    served.advance(3)
    with monkeypatch.context() as patch:
        patch.setattr(event_batch, "event_of", lambda noted: 1 // 0)
        settle(client, "g2")
        served.advance(3)
        assert types(served)[-1] == "events_dropped"
        for group in ("g3", "g4"):
            settle(client, group)
            served.advance(0.2)
    _, counted = counts_of_dropped(served)
    served.restart_cleanly()
    told = [event.fields for event in of_type(served, "events_dropped")]
    assert len(told) == 3 and sum(fields["count"] for fields in told) == counted
    assert all(fields["count"] == sum(fields["types"].values()) for fields in told)
    kinds = types(served)
    assert kinds[-3:] == ["events_dropped", "coordinator_closed", "coordinator_loaded"]


@pytest.mark.parametrize("late", [False, True])
def test_counts_of_what_was_dropped_outlive_a_round_that_fails(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, *, late: bool
) -> None:
    monkeypatch.setattr(driver, "FACTS_MOST", 1)
    served = serve("offsets.topic.num.partitions=1")
    where = (queued_log, "encode_timed_batch") if late else (EventMaker, "records")
    with monkeypatch.context() as patch:
        patch.setattr(*where, boom)
        for number in range(5):  # facts are dropped by the gate, and the others with their rounds
            settle(served.client(), f"g{number}")
            served.advance(1)
    served.advance(60)
    settle(served.client(), "last")
    served.advance(3)
    told, counted = counts_of_dropped(served)
    assert told == counted > 20


@pytest.mark.parametrize("wait", [0.2, 0.5, 0.7])
def test_the_first_event_after_a_lost_lock_is_not_written(serve: Serve, wait: float) -> None:
    served = serve("offsets.topic.num.partitions=1")
    served.advance(wait)
    served.client().send(3, join_request("g", ""))  # facts without records
    served.advance(0.01)
    served.disk.remove("data/leases/0")
    served.advance(0.12)
    log = served.server.event_logs.log_of(0)
    assert log is None or log.next_offset == 0
    served.settled()


# -- failures --------------------------------------------------------------------------------------


def test_when_events_are_off_nothing_is_stored(serve: Serve) -> None:
    served = serve("group.events.enabled=false")
    settle(served.client())
    served.advance(1)
    assert stored(served) == []
    assert not any("__group_events" in name for name in served.disk.children("data"))


def test_what_was_stored_can_be_read_when_events_are_off(serve: Serve) -> None:
    served = serve()
    settle(served.client())
    before = types(served)
    served.stop()
    served.machine.settings = serve("group.events.enabled=false").machine.settings
    served.start()
    served.settled()
    settle(served.client(), group_instance_id="SAM")
    assert types(served) == [*before, "coordinator_closed"]


def test_a_damaged_event_log_costs_the_groups_nothing(serve: Serve, lines: Lines) -> None:
    served = serve()
    client = served.client()
    settle(client)
    types(served)
    index = served.driver("g").index
    served.stop()
    folder = f"data/__group_events-{index}"
    for name in served.disk.children(folder):
        served.disk.remove(f"{folder}/{name}")
    served.start()
    served.settled()
    client = served.client()
    settle(client, group_instance_id="SAM")
    assert client.commit(5, "g3") == 0
    served.advance(10)
    assert set(served.states()) == {"active"}
    [line] = [line for line in lines() if line["event"] == "events are not stored"]
    assert folder in line["error"] and line["level"] == "error"
    counts = served.server.metrics.counts
    assert counts["events_dropped", "rebalance_completed"] >= 1
    assert 2 <= counts["event_logs_closed", "Corrupt"] <= 6, "tried again, ever more rarely"


@pytest.mark.parametrize(
    ("where", "name"),
    [
        (EventLog, "_batch"),
        (EventLog, "_note"),
        (EventLog, "_tell"),
        (CommitSums, "add"),
        (CommitSums, "take"),
        (event_batch, "event_of"),
        (queued_log, "encode_timed_batch"),
    ],
)
def test_a_bug_in_the_event_log_costs_the_groups_nothing(
    served: Served, monkeypatch: pytest.MonkeyPatch, lines: Lines, where: object, name: str
) -> None:
    client = served.client()
    client.commit(1)
    served.fail("g")
    monkeypatch.setattr(where, name, boom)
    served.settled()
    settle(client)
    assert client.commit(1, "g2") == 0
    served.advance(COMMITS_S)
    assert set(served.states()) == {"active"}
    closed = {key for key in served.server.metrics.counts if key[0] == "partitions_closed"}
    assert closed == {("partitions_closed", "LockLost")}, "before the bug"
    told = "event not made" if name == "event_of" else "events are not stored"
    assert any(line["event"] == told for line in lines())
    served.restart_cleanly()
    client = served.client()
    assert client.fetched("g2") == {("orders", 0): 1}
    monkeypatch.undo()
    served.advance(3)
    settle(client, group_instance_id="SAM")
    assert types(served)[-1] == "rebalance_completed"


def test_an_event_that_cannot_be_made_costs_no_other(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    def boom(noted: NotedFact) -> Event | None:
        return 1 // 0 if isinstance(noted.fact, RebalanceJoined) else event_of(noted)

    served = serve("offsets.topic.num.partitions=1")
    monkeypatch.setattr(event_batch, "event_of", boom)
    settle(served.client())
    served.advance(3)
    started, completed = ROUND[0], ROUND[2]
    told = ["group_created", "member_joined", started, completed, "events_dropped"]
    assert sorted(types(served)) == sorted(told)
    [dropped] = of_type(served, "events_dropped")
    assert dropped.fields["types"] == {"rebalance_joined": 1}
    assert served.server.metrics.counts["events_dropped", "rebalance_joined"] == 1
    [line] = [line for line in lines() if line["event"] == "event not made"]
    assert "division" in line["error"] and line["level"] == "error"
    assert served.server.metrics.counts["event_logs_closed", "ZeroDivisionError"] == 0


def test_an_event_log_that_is_slow_to_open_does_not_keep_groups_waiting(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve("offsets.topic.num.partitions=1")
    settle(served.client())
    types(served)
    claim = EmbeddedLog.claim_beside

    async def slow(log: EmbeddedLog, owner: LogOwner, epoch: int) -> int:
        await asyncio.sleep(30)
        return await claim(log, owner, epoch)

    monkeypatch.setattr(EmbeddedLog, "claim_beside", slow)
    served.restart()
    served.advance(BEGIN_S + 0.5)
    assert set(served.states()) == {"active"}
    settle(served.client(), "g2")
    assert "rebalance_completed" not in types(served)
    served.advance(30)
    events = stored(served)
    assert events[5].type == "coordinator_loaded"
    told = [event.type for event in events if event.group == "g2"]
    assert told[:5] == ["group_created", "member_joined", *ROUND]


def test_a_log_of_an_earlier_claim_that_opens_late_is_not_used(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve("offsets.topic.num.partitions=1")
    settle(served.client())
    types(served)
    claim, claimed = EmbeddedLog.claim_beside, list[int]()

    async def slow(log: EmbeddedLog, owner: LogOwner, epoch: int) -> int:
        await asyncio.sleep(10 if not claimed else 0)
        claimed.append(epoch)
        return await claim(log, owner, epoch)

    monkeypatch.setattr(EmbeddedLog, "claim_beside", slow)
    served.restart()
    served.advance(BEGIN_S + 0.5)
    served.fail("g")
    served.settled()
    served.advance(20)
    assert claimed == [3], "and not that of the claim before"
    assert stored(served)[-1].epoch == 3


def test_a_log_that_fails_while_its_partition_loads_waits_for_the_claim(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve("offsets.topic.num.partitions=1")
    client = served.client()
    member_id, generation = settle(client, session_timeout_ms=300_000)
    assert client.beat(member_id, generation + 1) == ErrorCode.ILLEGAL_GENERATION
    claim, read, claimed = EmbeddedLog.claim_beside, EmbeddedLog.read, list[int]()

    async def noted(log: EmbeddedLog, owner: LogOwner, epoch: int) -> int:
        claimed.append(epoch)
        return await claim(log, owner, epoch)

    async def slow(log: EmbeddedLog, take: Callable[[bytes], None]) -> None:
        await asyncio.sleep(30)
        await read(log, take)

    monkeypatch.setattr(EmbeddedLog, "claim_beside", noted)
    monkeypatch.setattr(EmbeddedLog, "read", slow)
    with monkeypatch.context() as patch:
        patch.setattr(EventLog, "_tell_refusals", lambda *_: 1 // 0)
        served.fail("g")
        served.advance(20)
    assert served.server.metrics.counts["event_logs_closed", "ZeroDivisionError"] == 1
    assert claimed == []
    served.advance(30)
    assert claimed == [2]
    settle(client, "h")
    assert types(served)[-1] == "rebalance_completed"


def test_counts_of_a_partition_that_fails_are_told(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "FACTS_MOST", 1)
    served = serve("offsets.topic.num.partitions=1")
    client = served.client()
    settle(client, group_instance_id="SAM")
    served.advance(3)
    others = [served.client() for _ in range(5)]
    served.at_once({o: o.frame(4, join_request(f"g{n}", "")) for n, o in enumerate(others)})
    served.driver("g").lost(LockLost("a test"))
    served.settled()
    served.advance(3)
    settle(client, "last")
    told, counted = counts_of_dropped(served)
    assert told == counted > 0


# -- limits ----------------------------------------------------------------------------------------


def test_events_of_one_sender_are_limited_and_the_others_counted(served: Served) -> None:
    client, most = served.client(), event_limits.SENDER_EVENTS
    settle(client, group_instance_id="SAM")
    served.advance(1)
    for _ in range(most + 20):
        client.beat("nobody", 1, instance_id="SAM")
    served.advance(2)
    events = stored(served)
    kinds = [event.type for event in events]
    refused = kinds.count("member_fenced")
    [dropped] = [event for event in events if event.type == "events_dropped"]
    assert most <= refused < most + 20
    assert dropped.fields["count"] == most + 20 - refused
    assert dropped.fields["types"] == {"member_fenced": most + 20 - refused}
    assert dropped.fields["who"]["host"] == "127.0.0.1"
    assert dropped.group == "g"
    counted = served.server.metrics.counts["events_dropped", "member_fenced"]
    assert counted == most + 20 - refused


@pytest.mark.parametrize("kind", ["rebalance_started", "group_emptied", "group_deleted"])
def test_a_storm_of_one_host_does_not_hide_its_rebalances(kind: str) -> None:
    limit = event_limits.SenderLimit()
    fact = GroupCreated("g", 0, "Empty", 0, Who("m", None, "c", "/10.0.0.1"))

    def admits(type_: str) -> bool:
        return limit.admits_fact(type_, NotedFact(0, 0, 1_000, False, fact), fact.who)

    many = range(event_limits.SENDER_EVENTS + 200)
    assert [admits("rebalance_cause_added") for _ in many].count(True) == 100
    assert [admits("member_joined") for _ in many].count(True) == 100
    assert all(admits(kind) for _ in many)


def test_a_commit_that_resets_many_topics_is_told_whole(served: Served) -> None:
    client, most = served.client(), event_limits.SENDER_EVENTS
    names = [f"t{number}" for number in range(most + 50)]
    client.call(4, create_request(*names))
    client.call(8, commit_request({(name, 0): 5 for name in names}, "g"))
    assert types(served).count("offsets_reset") == most + 50


def test_what_waits_beyond_the_limit_is_counted_unless_it_has_records(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "FACTS_MOST", 1)
    served = serve("offsets.topic.num.partitions=1")
    client = served.client()
    settle(client)
    groups = [f"g{number}" for number in range(5)]
    for group in groups:
        client.commit(1, group)
    answer = client.call(2, DeleteGroupsRequest(groups_names=groups))
    assert not any(each.error_code for each in answer.results)
    served.advance(3)
    deleted = of_type(served, "group_deleted")
    assert [event.group for event in deleted] == groups
    assert {event.fields["who"]["client_id"] for event in deleted} == {"tester"}
    told, counted = counts_of_dropped(served)
    assert told == counted > 0
    assert "rebalance_completed" in types(served)


# -- personal data ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["keep", "hash", "omit"])
def test_addresses_and_reasons_are_stored_as_the_setting_says(serve: Serve, mode: str) -> None:
    served = serve(f"group.events.personal={mode}")
    client: Client = served.client()
    settle(client)
    [joined] = [event for event in stored(served) if event.type == "member_joined"]
    host = joined.fields["who"]["host"]
    if mode == "keep":
        assert host == "127.0.0.1"
    elif mode == "omit":
        assert host is None
    else:
        assert len(host) == 16 and host != "127.0.0.1"
        again = stored(served)[2].fields["cause"]["who"]["host"]
        assert again == host, "the same address has the same hash"
    text = json.dumps([dict(event.fields) for event in stored(served)])
    assert ("127.0.0.1" in text) == (mode == "keep")


def test_the_address_of_a_client_whose_place_was_taken_is_hidden() -> None:
    event = {"likely": "taken_over", "evidence": {"old_host": "10.0.0.7", "old_client": "billing"}}
    shown = event_limits.Personal("omit", "key").shown(event)
    assert shown["evidence"] == {"old_host": None, "old_client": "billing"}


@pytest.mark.parametrize("mode", ["hash", "omit"])
@pytest.mark.parametrize(
    "topic", ["host", "hosts", "current_host", "old_host", "reason", "principal"]
)
def test_topics_of_any_name_are_not_personal(serve: Serve, mode: str, topic: str) -> None:
    served = serve(f"group.events.personal={mode}")
    client = served.client()
    client.call(4, create_request(topic, partitions=2))
    client.call(8, commit_request({(topic, 0): 1, (topic, 1): 2}, "g"))
    served.advance(61)
    [commits] = of_type(served, "commits")
    assert commits.fields["partitions"] == {topic: [0, 1]}
    assert commits.fields["who"]["client_id"] == "tester"


def test_groups_of_other_partitions_are_elsewhere(serve: Serve) -> None:
    served = serve()
    one, other = groups_apart(len(served.server.group_partitions))
    settle(served.client(), one)
    types(served, one)
    names = [name for name in served.disk.children("data") if name.startswith("__group_events")]
    assert names == [f"__group_events-{served.driver(one).index}"]
    settle(served.client(), other)
    assert {event.group for event in stored(served, one)} == {one}
    assert {event.group for event in stored(served, other)} == {other}


def test_a_full_disk_for_events_costs_the_groups_nothing(serve: Serve) -> None:
    served = serve("offsets.topic.num.partitions=1", start=False)
    served.machine.make_files = RefusingDisk
    served.start()
    client = served.client()
    settle(client, "before")
    types(served, "before")
    files = served.machine.files
    assert isinstance(files, RefusingDisk)
    files.full = ("data/__group_events-0",)
    began = served.loop.time()
    for number in range(30):
        settle(client, f"g{number}")
        served.advance(0.05)
    assert served.loop.time() - began < 10, "no answer waits for the event log"
    assert set(served.states()) == {"active"}
    counts = served.server.metrics.counts
    assert counts["events_dropped", "rebalance_completed"] > 0
    assert counts["partitions_closed", "AppendFailed"] == 0
    files.full = ()
    served.advance(61)
    settle(client, "after")
    kinds = types(served)
    assert kinds[-1] == "rebalance_completed" and "events_dropped" in kinds
    told = [event.group for event in stored(served) if event.type == "rebalance_completed"]
    lost = counts["events_dropped", "rebalance_completed"]
    assert len(told) + lost == 32 and told[0] == "before"
