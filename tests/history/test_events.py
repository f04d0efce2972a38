"""The fold of a partition: rows of events, refusals, rebalances, epochs and coverage."""

import json
from typing import Any

import pytest

from groupkeeper.analytics.pipeline.output import table_of
from groupkeeper.history import partition as module
from groupkeeper.history.partition import PartitionHistory
from groupkeeper.history.rows import Told as Said
from groupkeeper.protocol.group_events import Event
from tests.support.folded_events import PARTITION, folded, folding, plan, whole
from tests.support.told_events import NOON, Told, cause, who

JAVA = {"name": "apache-kafka-java", "version": "4.1.0"}


def completed() -> Told:
    told = Told()
    lost = cause("session_expired", who("m2"), likely="crash_or_network", silent_ms=10_000)
    told.tell("member_removed", who=who("m2"), cause=lost)
    told.started(lost)
    told.at(100).added(cause("member_joined", who("m4")))
    told.added(cause("member_joined", who("m5")))
    told.during("member_joined", who=who("m4", software=JAVA), kind="dynamic")
    told.at(3_000).joined(("m1", 50), ("m3", 1_000), ("m4", 2_900))
    told.at(3_010).completed(duration_ms=3_010)
    return told


def test_a_rebalance_is_a_row() -> None:
    [row] = folded(completed().events)["rounds"]
    expected = {
        "group": "g",
        "partition": PARTITION,
        "offset": 6,
        "epoch": 1,
        "round": 1,
        "generation": 1,
        "started": NOON,
        "ended": NOON + 3_010,
        "outcome": "completed",
        "cause": "session_expired",
        "likely": "crash_or_network",
        "reason": None,
        "more_causes": ["member_joined"],
        "by_member": "m2",
        "by_instance": None,
        "by_client_id": "billing",
        "by_host": "10.0.0.7",
        "by_software": None,
        "from_state": "Stable",
        "protocol": "range",
        "is_cooperative": False,
        "members": 3,
        "joined": 1,
        "removed": 1,
        "replaced": 0,
        "missing": [],
        "ended_by": "all_joined",
        "join_ms": 3_000,
        "leader_ms": 10,
        "duration_ms": 3_010,
        "last_member": "m4",
        "last_instance": None,
        "last_client_id": "billing",
        "last_host": "10.0.0.7",
        "held_ms": 1_900,
        "partitions": 4,
        "moved": 2,
        "unowned_ms": None,
        "away_ms": 10_100,
        "source": "events",
        "confidence": 1.0,
    }
    assert row == expected


@pytest.mark.parametrize("restored_at", [None, 4, 9])
def test_what_an_observer_stored_stays_inferred(restored_at: int | None) -> None:
    told = completed()
    told.at(4_000).tell("member_removed", who=who("m4"), cause=cause("member_left", who("m4")))
    fold = PartitionHistory(PARTITION)
    for offset, event in enumerate(told.events):
        if offset == restored_at:
            fold = PartitionHistory.restore(json.loads(json.dumps(fold.state())))
        fold.add(Said(offset, event, "log", 0.9))
    rows = whole(fold.take(), fold.open())
    for name in "rounds", "sessions", "ownership":
        assert {row["source"] for row in rows[name]} == {"log"}, name
        assert all(row["confidence"] < 1 for row in rows[name]), name


def test_a_rebalance_under_way_is_open_until_it_is_over() -> None:
    events = completed().events
    fold = folding(events[:3])
    assert not fold.take()["rounds"]
    [row] = fold.open()["rounds"]
    assert (row["outcome"], row["ended"], row["offset"]) == ("under_way", None, 2)
    for offset, event in enumerate(events[3:], start=3):
        fold.add(Said(offset, event))
    assert not fold.open()["rounds"]
    assert [each["outcome"] for each in fold.take()["rounds"]] == ["completed"]
    assert not fold.take()["rounds"], "it is taken once"


def test_members_that_did_not_come_in_time_are_missing() -> None:
    told = Told()
    told.started(cause("member_joined", who("m1")))
    told.joined(("m1", 5), missing=[{"member": "m2", "instance": None, "removed": True}])
    told.completed()
    [row] = folded(told.events)["rounds"]
    assert (row["missing"], row["ended_by"], row["held_ms"]) == (["m2"], "timeout", None)


def test_a_rebalance_without_a_beginning_has_no_cause() -> None:
    [row] = folded(completed().events[-1:])["rounds"]
    assert (row["cause"], row["started"], row["members"]) == ("unknown", None, None)
    assert (row["duration_ms"], row["is_cooperative"]) == (3_010, None)


def test_a_member_that_gave_partitions_back_tells_that_the_protocol_is_cooperative() -> None:
    told = Told()
    told.started(cause("member_rejoined", who("m1"), revoked=2))
    told.joined(("m1", 5), protocol="own-assignor")
    told.completed()
    [row] = folded(told.events)["rounds"]
    assert row["is_cooperative"] is True


def test_an_event_is_a_row_with_its_fields_as_they_were_stored() -> None:
    told = Told()
    told.tell("member_joined", who=who("m1", software=JAVA), kind="dynamic", weather="fine")
    told.tell("quota_reached", most=3, who=who("m1"))
    first, second = folded(told.events)["events"]
    assert (first["time"], first["seq"], first["offset"]) == (NOON, 0, 0)
    assert (first["member"], first["software"]) == ("m1", "apache-kafka-java 4.1.0")
    assert json.loads(first["fields"])["weather"] == "fine"
    assert (second["type"], second["member"]) == ("quota_reached", None)
    assert json.loads(second["fields"])["most"] == 3


def test_events_may_be_left_out() -> None:
    told = completed()
    some, most = folding(told.events).take(), folding(told.events, {"events"}).take()
    assert some.pop("events") and not most.pop("events")
    assert some == most


def test_the_member_of_an_event_is_who_it_is_about_else_who_caused_it() -> None:
    told = Told()
    told.tell("member_removed", who=who("m2"), cause=cause("member_removed_by_admin", who("admin")))
    told.started(cause("member_left", who("m3"), likely="shutdown"))
    first, second = folded(told.events)["events"]
    assert (first["member"], first["cause"]) == ("m2", "member_removed_by_admin")
    assert (second["member"], second["cause"], second["likely"]) == (
        "m3",
        "member_left",
        "shutdown",
    )


def test_refused_requests_are_rows() -> None:
    told = Told()
    times = {"first_ms": NOON - 50, "last_ms": NOON - 10}
    told.tell(
        "requests_refused",
        round_=4,
        who=who("m1"),
        api="Heartbeat",
        error="ILLEGAL_GENERATION",
        count=3,
        **times,
    )
    told.tell(
        "member_fenced",
        who=who("m2", instance="pod-2"),
        api="OffsetCommit",
        current_member="m3",
        current_host="/10.0.0.9",
        likely="duel",
        evidence={},
    )
    first, second = folded(told.events)["refusals"]
    assert (first["first"], first["time"], first["count"]) == (NOON - 50, NOON - 10, 3)
    assert (first["api"], first["error"], first["round"]) == ("Heartbeat", "ILLEGAL_GENERATION", 4)
    assert (second["error"], second["count"]) == ("FENCED_INSTANCE_ID", 1)
    assert (second["current_member"], second["current_host"]) == ("m3", "10.0.0.9")
    assert (second["instance"], second["likely"], second["time"]) == ("pod-2", "duel", NOON)


# -- the log ---------------------------------------------------------------------------------------


def test_each_writer_of_the_log_is_an_epoch() -> None:
    told = Told()
    told.tell("coordinator_loaded", records=9, groups=2, members=3, duration_ms=40)
    told.tell("not_back", absent=[who("m1"), who("m2")])
    told.at(5_000).tell("coordinator_closed", why="stopped")
    told.epoch = 3
    told.at(9_000).tell("coordinator_loaded", records=9, groups=2, members=1, duration_ms=30)
    first, second = folded(told.events)["epochs"]
    assert (first["epoch"], first["first_offset"], first["last_offset"]) == (1, 0, 2)
    assert (first["loaded"], first["load_ms"], first["groups"]) == (NOON, 40, 2)
    assert (first["closed"], first["why_closed"]) == (NOON + 5_000, "stopped")
    assert (first["not_back"], second["not_back"]) == (2, None)
    assert (second["epoch"], second["closed"], second["first_offset"]) == (3, None, 3)


def test_a_close_that_the_next_claim_stored_is_that_of_the_writer_before() -> None:
    told = Told()
    told.tell("coordinator_loaded", records=9, groups=2, members=3, duration_ms=40)
    told.epoch = 2
    told.tell("coordinator_closed", why="the lock was removed")
    told.tell("coordinator_loaded", records=9, groups=2, members=3, duration_ms=40)
    first, second = folded(told.events)["epochs"]
    assert (first["why_closed"], second["why_closed"]) == ("the lock was removed", None)
    assert second["loaded"] == NOON


def numbered(*places: tuple[int, int, str]) -> list[Event]:
    """Events with these epochs, numbers and types."""
    event = Event(0, 1, 0, NOON, 0, "g", "commits", fields={"who": who("m1")})
    return [event._replace(epoch=epoch, seq=seq, type=kind) for epoch, seq, kind in places]


@pytest.mark.parametrize(
    ("events", "known"),
    [
        (numbered((1, 7, "commits"), (1, 8, "commits"), (1, 9, "commits")), 0),
        (numbered((1, 7, "commits"), (1, 9, "commits"), (1, 10, "commits")), 1),
        (numbered((1, 7, "commits"), (2, 0, "commits"), (2, 1, "commits")), 0),
        (numbered((1, 7, "commits"), (2, 1, "commits"), (2, 2, "commits")), 1),
        (numbered((1, 7, "commits"), (1, 8, "events_dropped"), (1, 9, "commits")), 2),
    ],
)
def test_a_partition_is_known_from_what_is_missing_last(events: list[Event], known: int) -> None:
    [row] = folded(events)["coverage"]
    assert (row["first_offset"], row["last_offset"], row["records"]) == (0, 2, 3)
    assert row["known_from_offset"] == known


def test_a_gap_in_the_offsets_and_records_that_are_no_events_are_told() -> None:
    fold = PartitionHistory(PARTITION)
    [event] = numbered((1, 7, "commits"))
    fold.add(Said(5, event))
    fold.skip(6, NOON + 1)
    fold.skip(9, NOON + 2)
    [row] = fold.open()["coverage"]
    assert (row["known_from_offset"], row["known_from"], row["records"]) == (9, NOON + 2, 3)
    assert (row["from"], row["until"], row["log"]) == (NOON, NOON + 2, "__group_events")


def test_a_partition_of_which_nothing_was_read_has_no_rows() -> None:
    fold = PartitionHistory(PARTITION)
    assert not any(fold.open().values())
    assert not any(fold.take().values())


def test_an_offset_that_does_not_rise_is_refused() -> None:
    fold = PartitionHistory(PARTITION)
    [event] = numbered((1, 7, "commits"))
    fold.add(Said(5, event))
    with pytest.raises(ValueError, match="offset 5 of partition 7 comes after 5"):
        fold.add(Said(5, event))


# -- other writers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changed",
    [{"at_ms": -1}, {"at_ms": 10**15}, {"generation": 1 << 31}, {"seq": 1 << 63}, {"epoch": -2}],
)
def test_an_envelope_that_no_server_writes_is_counted_and_not_followed(changed: Any) -> None:
    [event] = numbered((1, 7, "commits"))
    fold = folding([event._replace(**changed)])
    assert fold.take()["events"] == []
    [row] = fold.open()["coverage"]
    assert (row["records"], row["from"]) == (1, None if "at_ms" in changed else NOON)


def test_numbers_and_texts_that_fit_nowhere_do_not_stop_an_analysis() -> None:
    told = Told()
    told.started(cause("member_joined", who("\udfff")) | {"code": "\ud800"})
    told.joined(("m1", 5), ("m2", 10**30), duration_ms=10**30)
    told.completed(moved=10**40, leader_ms=-(10**40), duration_ms=10**30)
    events = [each._replace(group="\ud800") for each in told.events]
    rows = folded(events)
    [row] = table_of("rounds", rows["rounds"]).to_pylist()
    assert (row["group"], len(rows["events"])) == ("\\ud800", 3)
    assert (row["moved"], row["join_ms"], row["cause"]) == (None, None, "\\ud800")


def test_what_tells_of_no_members_is_no_group() -> None:
    told = Told()
    told.tell("offsets_expired", count=1, partitions={"orders": [0]})
    told.tell("commits", who=who(""), requests=1, partitions={})
    told.tell("group_deleted", why="expired", who=None)
    fold = folding(told.events)
    assert not any(fold.open()[name] for name in ("rounds", "ownership", "sessions"))
    assert not fold.state()["lately"]


def test_a_deleted_group_is_forgotten_with_the_rebalance_under_way() -> None:
    told = completed()
    told.started(cause("member_left", who("m1")))
    told.at(9_000).tell("group_deleted", why="request", who=who(""))
    fold = folding(told.events)
    assert not fold.state()["lately"]
    assert [row["outcome"] for row in fold.take()["rounds"]] == ["completed", "lost"]


def test_groups_beyond_the_limit_are_finished_as_they_are(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "GROUPS_MOST", 2)
    events = []
    for group in ("a", "b", "a", "c"):
        told = Told(group)
        told.tell("member_joined", who=who(f"{group}-1"), kind="dynamic")
        events += told.events
    fold = folding(events)
    assert [*fold.state()["lately"]] == ["a", "c"]
    last = [row for row in fold.take()["sessions"] if row["group"] == "b"]
    assert [row["until"] for row in last] == [None]


def test_groups_of_a_partition_do_not_mix() -> None:
    one, other = completed(), completed()
    events = [
        each._replace(group=group)
        for pair in zip(one.events, other.events, strict=True)
        for group, each in zip("ab", pair, strict=True)
    ]
    rows = folded(events)["rounds"]
    assert [row["group"] for row in rows] == ["a", "b"]
    assert [{**row, "group": "", "offset": 0} for row in rows[:1]] == [
        {**row, "group": "", "offset": 0} for row in rows[1:]
    ]


def test_plans_name_who_owns() -> None:
    told = completed()
    told.started(cause("leader_rejoined", who("m1")))
    told.joined(("m1", 0), ("m4", 0), duration_ms=0)
    told.completed(assignment=plan(m4=[0]), duration_ms=0)
    [row] = [row for row in folded(told.events)["ownership"] if row["member"] == "m4"]
    assert (row["software"], row["until"]) == ("apache-kafka-java 4.1.0", None)
