"""Members from their join to their end."""

from typing import Any

import pytest

from tests.support.folded_events import folded, plan
from tests.support.told_events import NOON, Told, cause, who


def sessions(told: Told) -> list[dict[str, Any]]:
    rows = folded(told.events)["sessions"]
    for row in rows:
        for name in ("from", "until"):
            row[name] = None if row[name] is None else row[name] - NOON
    return rows


def of(told: Told, member: str) -> dict[str, Any]:
    [found] = [row for row in sessions(told) if row["member"] == member]
    return found


def began() -> Told:
    told = Told()
    told.tell("group_created", who=who(""))
    return told


def join(told: Told, member: str = "m1", **fields: Any) -> None:
    timeouts = {"session_timeout_ms": 45_000, "rebalance_timeout_ms": 300_000}
    told.tell("member_joined", who=who(member, **fields), kind="dynamic", **timeouts)


def stable(*members: str) -> Told:
    told = began()
    for member in members:
        join(told, member)
    told.started(cause("member_joined", who(members[0])), from_state="Empty")
    told.joined(*((member, 0) for member in members), duration_ms=0)
    told.completed(assignment=plan(**{member: [n] for n, member in enumerate(members)}))
    return told


def remove(told: Told, member: str, code: str = "member_left", **fields: Any) -> None:
    evidence = {"silent_ms": 2_000, "session_timeout_ms": 45_000, "connection": "closed"}
    why = cause(code, who(member), likely="shutdown", reason="closed", **evidence)
    told.tell("member_removed", who=who(member), cause=why, **fields)


def test_a_session_has_its_beginning_its_end_and_what_was_counted() -> None:
    told = stable("m1")
    told.at(60_000)
    remove(told, "m1", heartbeats=20, longest_gap_ms=4_500)
    row = of(told, "m1")
    assert (row["from"], row["until"], row["began_as"]) == (0, 60_000, "dynamic")
    assert (row["ended_by"], row["likely"], row["reason"]) == ("member_left", "shutdown", "closed")
    assert (row["heartbeats"], row["longest_gap_ms"], row["silent_ms"]) == (20, 4_500, 2_000)
    assert (row["session_timeout_ms"], row["rebalance_timeout_ms"]) == (45_000, 300_000)
    assert (row["client_id"], row["host"], row["away_ms"]) == ("billing", "10.0.0.7", None)
    assert row["connection"] == "closed"


def test_a_member_that_is_there_has_no_end() -> None:
    told = stable("m1")
    row = of(told, "m1")
    assert (row["until"], row["ended_by"], row["heartbeats"]) == (None, None, None)


def test_commits_tell_of_a_member_that_lives_for_weeks() -> None:
    told = stable("m1")
    for heartbeats, gap_ms in ((20, 3_100), (40, 9_000), (60, 3_000)):
        counted = {"heartbeats": heartbeats, "longest_gap_ms": gap_ms}
        told.tell("commits", who=who("m1"), requests=9, partitions={"orders": [0]}, **counted)
    row = of(told, "m1")
    assert (row["heartbeats"], row["longest_gap_ms"]) == (60, 9_000)


def test_heartbeats_of_several_coordinators_are_added() -> None:
    told = stable("m1")
    counted = {"heartbeats": 20, "longest_gap_ms": 3_100}
    told.tell("commits", who=who("m1"), requests=9, partitions={"orders": [0]}, **counted)
    told.loaded()
    remove(told, "m1", heartbeats=7, longest_gap_ms=3_000)
    row = of(told, "m1")
    assert (row["heartbeats"], row["longest_gap_ms"]) == (27, 3_100)


def test_a_static_member_that_comes_back_is_a_chain_of_sessions() -> None:
    told = stable("m1")
    for at, old, new in ((10_000, "m1", "m1b"), (20_000, "m1b", "m1c")):
        told.at(at).tell(
            "member_replaced",
            who=who(new, instance="pod-1"),
            old_member=old,
            quick=True,
            away_ms=4_000,
            likely="rolling_restart",
            evidence={"old_connection": "open"},
            heartbeats=3,
            longest_gap_ms=3_000,
        )
    first, second, third = sessions(told)
    assert [each["member"] for each in (first, second, third)] == ["m1", "m1b", "m1c"]
    assert [each["old_member"] for each in (first, second, third)] == [None, "m1", "m1b"]
    assert [each["ended_by"] for each in (first, second, third)] == ["replaced", "replaced", None]
    assert [each["away_ms"] for each in (first, second, third)] == [None, 4_000, 4_000]
    assert (second["from"], second["until"], second["silent_ms"]) == (10_000, 20_000, 4_000)
    assert (second["began_as"], second["likely"]) == ("replaced", "rolling_restart")
    assert (second["session_timeout_ms"], second["heartbeats"]) == (45_000, 3)
    assert [each["connection"] for each in (first, second, third)] == ["open", "open", None]


@pytest.mark.parametrize("lost_by", ["member_left", None])
def test_a_place_that_was_reserved_was_lost_by_something(lost_by: str | None) -> None:
    told = stable("m1")
    evidence = {} if lost_by is None else {"lost_by": lost_by}
    about = {"old_member": "m1", "quick": True, "away_ms": 4_000, "evidence": evidence}
    told.at(10_000).tell("member_replaced", who=who("m2"), **about)
    assert [each["lost_by"] for each in sessions(told)] == [lost_by, None]


def test_a_client_that_comes_back_has_been_away_since_its_last_request() -> None:
    told = stable("m1")
    told.at(60_000)
    remove(told, "m1", "session_expired")
    told.at(90_000)
    join(told, "m2")
    assert of(told, "m2")["away_ms"] == 32_000
    told.at(95_000)
    join(told, "m3")
    assert of(told, "m3")["away_ms"] is None, "only one was gone"


def test_a_client_that_is_back_before_its_session_ends_was_away_until_then() -> None:
    told = stable("m1")
    told.at(59_500)
    join(told, "m2")
    told.at(60_000)
    remove(told, "m1", "session_expired")  # its last request was at 58,000
    told.at(70_000)
    join(told, "m3")
    assert of(told, "m2")["away_ms"] == 1_500
    assert of(told, "m3")["away_ms"] is None, "it was back already"


def test_an_id_that_was_never_used_is_no_session() -> None:
    told = stable("m1")
    remove(told, "m9", "pending_member_expired")
    assert [row["member"] for row in sessions(told)] == ["m1"]


def test_of_a_member_from_before_the_log_the_beginning_is_unknown() -> None:
    told = Told()
    remove(told, "m1", heartbeats=20, longest_gap_ms=4_500)
    row = of(told, "m1")
    assert (row["from"], row["until"], row["began_as"]) == (None, 0, "unknown")
    assert (row["heartbeats"], row["longest_gap_ms"]) == (None, None)


def test_until_the_members_are_known_one_that_commits_is_a_member() -> None:
    told = Told()
    told.tell("commits", who=who("m1"), requests=1, partitions={})
    told.tell("commits", who=who(""), requests=1, partitions={})
    row = of(told, "m1")
    assert (row["from"], row["until"], row["began_as"]) == (None, None, "unknown")
    assert len(sessions(told)) == 1


def test_commits_that_are_told_after_the_end_are_no_new_session() -> None:
    told = Told()
    told.at(5_000)
    remove(told, "m1")
    told.at(4_000).tell("commits", who=who("m1"), requests=1, partitions={})
    assert len(sessions(told)) == 1


def test_commits_of_who_is_no_member_are_no_session() -> None:
    told = stable("m1")
    told.tell("commits", who=who("m7"), requests=1, partitions={})
    assert [row["member"] for row in sessions(told)] == ["m1"]


def test_a_join_that_was_left_out_is_that_of_the_join_phase() -> None:
    told = stable("m1")
    told.at(10_000).started(cause("member_joined", who("m2")))
    told.at(12_000).joined(("m2", 300), ("m1", 1_900), duration_ms=2_000)
    row = of(told, "m2")
    assert (row["from"], row["began_as"], row["client_id"]) == (10_300, "dynamic", None)


def test_a_replacement_that_was_left_out_is_seen_by_the_instance_id() -> None:
    told = began()
    join(told, "m1", instance="pod-1")
    told.started(cause("static_member_returned_unready", who("m2", instance="pod-1")))
    told.at(1_000).joined(("m2", 400), duration_ms=1_000)
    listed = told.events[-1]
    named = [{"member": "m2", "instance": "pod-1", "after_ms": 400}]
    told.events[-1] = listed._replace(fields={**listed.fields, "joined": named})
    first, second = sessions(told)
    assert (first["ended_by"], first["until"]) == ("replaced", 400)
    assert (second["began_as"], second["old_member"], second["from"]) == ("replaced", "m1", 400)


def test_an_end_that_was_left_out_is_unknown() -> None:
    told = stable("m1", "m2")
    told.at(10_000).started(cause("leader_rejoined", who("m1")))
    told.joined(("m1", 0), duration_ms=0)
    row = of(told, "m2")
    assert (row["until"], row["ended_by"], row["likely"]) == (10_000, "unknown", None)


def test_a_static_member_that_did_not_rejoin_is_a_member_still() -> None:
    told = stable("m1", "m2")
    told.started(cause("leader_rejoined", who("m1")))
    told.joined(("m1", 0), missing=[{"member": "m2", "instance": "pod-2", "removed": False}])
    assert of(told, "m2")["until"] is None


def test_a_list_that_was_cut_ends_nothing() -> None:
    told = stable("m1", "m2")
    told.started(cause("leader_rejoined", who("m1")))
    told.joined(("m1", 0))
    cut = told.events[-1]
    told.events[-1] = cut._replace(fields={**cut.fields, "shortened": {"joined": 2}})
    rows = folded(told.events)
    assert [row["until"] for row in rows["sessions"]] == [None, None]
    assert (rows["rounds"][-1]["members"], rows["rounds"][-1]["held_ms"]) == (2, None)


@pytest.mark.parametrize(("connection", "host"), [(None, "10.0.0.9"), ("closed", "10.0.0.7")])
def test_the_address_of_requests_counts_for_a_member_that_is_not_heard_of_after_a_load(
    connection: str | None, host: str
) -> None:
    """The record that is loaded has the address of the member that it replaced."""
    told = stable("m1")
    there = who("m1b", instance="pod-1", host="/10.0.0.9")
    told.tell("member_replaced", who=there, old_member="m1", quick=True, away_ms=4_000)
    told.at(9_000)
    told.loaded()
    told.at(60_000)
    stored = who("m1b", instance="pod-1", host="/10.0.0.7")
    evidence = {"silent_ms": 45_000, "session_timeout_ms": 45_000, "connection": connection}
    why = cause("session_expired", stored, **evidence)
    told.tell("member_removed", who=stored, cause=why)
    told.started(why, from_state="Stable")
    assert of(told, "m1b")["host"] == host
    assert folded(told.events)["rounds"][-1]["by_host"] == host


def test_members_that_were_not_stored_are_lost_with_the_coordinator() -> None:
    told = stable("m1")
    told.at(5_000)
    join(told, "m2")
    told.started(cause("member_joined", who("m2")))
    told.at(9_000)
    told.loaded()
    assert (of(told, "m2")["ended_by"], of(told, "m2")["until"]) == ("lost", 9_000)
    assert of(told, "m1")["until"] is None


def test_an_end_that_was_not_stored_is_undone_by_a_load() -> None:
    told = stable("m1", "m2")
    told.at(5_000)
    remove(told, "m2")
    told.started(cause("member_left", who("m2")))
    told.at(9_000)
    told.loaded()
    first, second = (row for row in sessions(told) if row["member"] == "m2")
    assert (first["until"], first["ended_by"]) == (5_000, "member_left")
    assert (second["from"], second["began_as"], second["until"]) == (9_000, "loaded", None)
    assert second["session_timeout_ms"] == 45_000


@pytest.mark.parametrize("type_", ["group_emptied", "group_deleted", "group_created"])
def test_with_its_group_every_member_ends(type_: str) -> None:
    told = stable("m1")
    told.at(7_000)
    fields: dict[str, Any] = {"who": who("")}
    if type_ == "group_emptied":
        fields = {"cause": cause("member_left", who("m1"))}
    told.tell(type_, **fields)
    assert (of(told, "m1")["ended_by"], of(told, "m1")["until"]) == ("unknown", 7_000)


def test_changed_timeouts_are_those_of_the_session() -> None:
    told = stable("m1")
    more = {"session_timeout_ms": 20_000, "rebalance_timeout_ms": 90_000}
    told.tell("member_rejoined", who=who("m1", host="/10.0.0.9"), changed=["timeouts"], **more)
    row = of(told, "m1")
    assert (row["session_timeout_ms"], row["rebalance_timeout_ms"]) == (20_000, 90_000)
    assert row["host"] == "10.0.0.9"
