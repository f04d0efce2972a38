"""Events become rounds."""

import json

import pytest

from groupkeeper.history.rounds import Folding, Outage, Round
from groupkeeper.protocol.group_events import Event
from tests.support.told_events import NOON, Told, cause, who


def test_the_events_of_a_round_become_one() -> None:
    told = Told()
    told.tell("member_removed", who=who("m2"), cause=cause("session_expired", who("m2")))
    told.started(cause("session_expired", who("m2"), silent_ms=10_000))
    told.at(100).added(cause("member_joined", who("m4")))
    told.during("member_joined", who=who("m4"), kind="dynamic")
    told.at(3_000).joined(("m1", 50), ("m3", 2_900))
    told.at(3_010).completed(duration_ms=3_010)
    [only] = told.rounds()
    assert (only.round, only.generation, only.outcome) == (1, 1, "completed")
    assert (only.started_at_ms, only.ended_at_ms) == (NOON, NOON + 3_010)
    assert only.cause and only.cause["code"] == "session_expired"
    assert [each["who"]["member"] for each in only.removed] == ["m2"]
    assert [each["who"]["member"] for each in only.added] == ["m4"]
    assert [each["code"] for each in only.more_causes] == ["member_joined"]
    assert only.last and only.last["after_ms"] == 2_900
    assert (only.join_ms, only.leader_ms, only.duration_ms) == (3_000, 10, 3_010)
    assert (only.partitions, only.moved, only.standstill_ms) == (4, 2, 3_010)


def test_a_superseded_round_makes_the_next_standstill_longer() -> None:
    told = Told()
    told.started(cause("member_joined", who()))
    told.at(2_000).abandoned("superseded")
    told.started(cause("member_left", who()))
    told.at(3_000).completed(duration_ms=1_000)
    first, second = told.rounds()
    assert (first.outcome, first.duration_ms) == ("superseded", 2_000)
    assert (second.duration_ms, second.standstill_ms) == (1_000, 3_000)


def test_the_standstill_is_that_of_the_partition_that_waited_longest() -> None:
    told = Told()
    told.started(cause("member_joined", who()))
    told.completed(duration_ms=3_000, unassigned_ms=40)
    assert told.rounds()[0].standstill_ms == 40


def test_an_emptied_group_is_the_end_of_its_round_and_no_entry_of_its_own() -> None:
    told = Told()
    told.started(cause("member_left", who()))
    told.abandoned("emptied")
    told.tell("group_emptied", round_=told.round, cause=cause("member_left", who()))
    [only] = told.entries()
    assert isinstance(only, Round)
    assert only.outcome == "emptied"


def test_a_round_that_a_coordinator_did_not_finish_is_lost() -> None:
    told = Told()
    told.started(cause("member_joined", who()))
    told.at(500).tell("coordinator_closed", why="stopped")
    told.epoch = 2
    told.tell("coordinator_loaded", records=1, groups=1, members=1, duration_ms=5)
    round_, closed, loaded = told.entries()
    assert isinstance(round_, Round)
    assert (round_.outcome, round_.duration_ms) == ("lost", 500)
    assert isinstance(closed, Event) and closed.type == "coordinator_closed"
    assert isinstance(loaded, Event) and loaded.type == "coordinator_loaded"


@pytest.mark.parametrize(("why", "is_exact"), [("stopped", True), (None, False)])
def test_a_load_has_the_time_before_it_without_events(why: str | None, is_exact: bool) -> None:
    told = Told()
    told.tell("commits", who=who(), requests=1, partitions={})
    if why is not None:
        told.tell("coordinator_closed", why=why)
    told.at(25_000).tell("coordinator_loaded", records=1, groups=1, members=1, duration_ms=5)
    gone = cause("session_expired", who(), session_timeout_ms=10_000, connection=None)
    told.at(35_000).tell("member_removed", who=who(), cause=gone)
    told.started(gone)
    told.completed()
    *_, loaded, round_ = told.entries()
    assert isinstance(loaded, Event) and isinstance(round_, Round)
    assert loaded.fields["outage"] == {"ms": 25_000, "is_exact": is_exact}
    assert round_.outage == Outage(25_000, is_exact)


def test_rounds_before_and_after_a_load_are_no_row() -> None:
    told = Told()
    for _ in range(2):
        told.tell("coordinator_loaded", records=1, groups=1, members=1, duration_ms=5)
        told.started(cause("member_joined", who()))
        told.completed()
    assert [each.repeats for each in told.rounds()] == [1, 1]


def test_without_events_before_a_load_its_outage_is_unknown() -> None:
    told = Told()
    told.tell("coordinator_loaded", records=1, groups=1, members=1, duration_ms=5)
    [loaded] = told.entries()
    assert isinstance(loaded, Event) and "outage" not in loaded.fields


def test_the_same_round_number_of_another_epoch_is_another_round() -> None:
    told = Told()
    told.started(cause("member_joined", who()))
    told.epoch, told.round = 2, 0
    told.started(cause("member_left", who()))
    told.completed()
    assert [each.outcome for each in told.rounds()] == ["lost", "completed"]


def test_a_group_that_is_made_anew_counts_its_rounds_from_one() -> None:
    told = Told()
    told.started(cause("member_left", who()))
    told.abandoned("emptied")
    told.tell("group_deleted", why="request", who=who(""))
    told.round = told.generation = 0
    told.started(cause("member_joined", who()))
    told.joined(("m1", 0))
    told.completed()
    assert [each.outcome for each in told.rounds()] == ["emptied", "completed"]


def test_a_round_whose_start_was_not_read_has_no_cause() -> None:
    told = Told()
    told.round = 7
    told.joined(("m1", 10))
    told.completed()
    [only] = told.rounds()
    assert only.cause is None and only.started_at_ms is None
    assert (only.round, only.outcome, only.duration_ms) == (7, "completed", 3_000)


def test_a_round_that_is_not_over_is_under_way() -> None:
    told = Told()
    told.started(cause("member_joined", who()))
    assert [each.outcome for each in told.rounds()] == ["under_way"]


def test_what_belongs_to_no_round_keeps_its_place() -> None:
    told = Told()
    told.tell("group_created", who=who())
    told.tell("commits", who=who(), requests=3, partitions={"orders": [0]})
    told.tell("member_removed", who=who("m9"), cause=cause("member_left", who("m9")))
    told.at(10).tell("offsets_expired", count=1, partitions={"orders": [0]})
    told.started(cause("member_joined", who()))
    told.completed()
    told.tell("group_deleted", why="request", who=who(""))
    types = [each.type if isinstance(each, Event) else "round" for each in told.entries()]
    assert types == ["member_removed", "offsets_expired", "round", "group_deleted"]


@pytest.mark.parametrize("static", [True, False])
def test_a_member_that_comes_back_is_seen_from_both_rounds(static: bool) -> None:
    names = {"instance": "pod-3"} if static else {}
    told = Told()
    lost = cause("session_expired", who("m2", **names), silent_ms=10_000)
    told.tell("member_removed", who=who("m2", **names), cause=lost)
    told.started(lost)
    told.completed()
    told.at(4_000).tell("member_joined", who=who("m5", **names), kind="dynamic")
    told.started(cause("member_joined", who("m5", **names)))
    told.completed()
    first, second = told.rounds()
    assert first.returned_ms == second.away_ms == 14_000
    assert first.away_ms is None and second.returned_ms is None


def test_a_member_that_came_back_on_its_connection_was_not_lost() -> None:
    told = Told()
    left = cause("member_left", who("m2"))
    told.tell("member_removed", who=who("m2"), cause=left)
    told.started(left)
    told.completed()
    told.at(4_000).tell("member_joined", who=who("m5"), kind="dynamic")
    told.started(cause("member_joined", who("m5"), same_connection=True, away_ms=4_000))
    told.completed()
    assert [(each.returned_ms, each.away_ms) for each in told.rounds()] == [(None, None)] * 2


def test_another_client_is_not_taken_for_one_that_was_lost() -> None:
    told = Told()
    told.tell("member_removed", who=who("m2"), cause=cause("member_left", who("m2")))
    told.started(cause("member_left", who("m2")))
    told.completed()
    told.at(4_000).tell("member_joined", who=who("m5", host="/10.0.0.8"), kind="dynamic")
    told.started(cause("member_joined", who("m5")))
    assert [each.away_ms for each in told.rounds()] == [None, None]


def test_rounds_in_a_row_with_one_cause_are_counted() -> None:
    told = Told()
    for at in (0, 5_000, 9_000):
        told.at(at).started(cause("member_joined", who()))
        told.completed()
    told.started(cause("member_left", who()))
    assert [each.repeats for each in told.rounds()] == [1, 2, 3, 1]
    assert [each.repeats_since_ms for each in told.rounds()] == [None, 5_000, 9_000, None]


def test_what_a_newer_server_writes_is_skipped_and_counted() -> None:
    told = Told()
    told.tell("quota_reached", most=3)
    told.started(cause("member_joined", who()) | {"weather": "fine"})
    told.completed(shards=7)
    folding = Folding()
    [only] = [entry for event in told.events for entry in folding.add(event)]
    assert isinstance(only, Round) and only.outcome == "completed"
    assert folding.unknown == {
        "quota_reached": 1,
        "rebalance_started.weather": 1,
        "rebalance_completed.shards": 1,
    }


def test_fields_of_another_form_are_skipped() -> None:
    told = Told()
    told.started(cause("member_joined", who()))
    told.completed(moved=3)
    broken = {"cause": "why not", "members": "3", "from_state": None, "expected": 7}
    events = [told.events[0]._replace(fields=broken), told.events[1]]
    folding = Folding()
    [only] = [entry for event in events for entry in folding.add(event)]
    assert isinstance(only, Round)
    assert (only.cause, only.members, only.moved) == (None, None, 3)
    assert sum(folding.unknown.values()) == 4


def test_a_round_is_a_json_object_with_stable_names() -> None:
    told = Told()
    told.started(cause("member_joined", who()))
    told.joined(("m1", 5))
    told.completed()
    [only] = told.rounds()
    names = """group epoch round generation outcome group_type started_at_ms ended_at_ms cause
        more_causes from_state members expected deadline_ms joined missing ended_by last leader
        protocol_type protocol join_ms leader_ms duration_ms standstill_ms assignment partitions
        moved unassigned_ms kept unread_ms added removed replaced rejoined repeats repeats_since_ms
        repeats_from returned_ms away_ms away_connection session_timeout_ms outage"""
    assert [*json.loads(json.dumps(only.as_json()))] == names.split()
