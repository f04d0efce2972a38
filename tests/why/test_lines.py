"""What happens outside of rounds is one line each."""

from typing import Any

from groupkeeper.history.rounds import Round
from groupkeeper.protocol.group_event_types import TYPES
from groupkeeper.protocol.group_events import Event
from groupkeeper.why.lines import line
from tests.support.told_events import Told, cause, who

IN_ROUNDS = {each for each in TYPES if each.startswith("rebalance_")} - {"rebalance_deferred"}
QUIET = {"commits", "member_rejoined", "group_created"}
ADMIN = who("", client_id="adminclient-1", host="/10.0.0.1")


def told_line(type_: str, **fields: Any) -> str:
    told = Told()
    told.tell(type_, **fields)
    [entry] = told.entries()
    assert isinstance(entry, Event)
    text = line(entry)
    assert text.startswith("2025-11-22 12:00:00.000Z  ")
    return text.partition("  ")[2]


LINES = {
    "member_fenced": (
        {
            "who": who("m1", instance="pod-3"),
            "api": "Heartbeat",
            "current_member": "m2",
            "current_host": "/10.0.0.8",
            "likely": "duel",
            "evidence": {"hosts": ["/10.0.0.7", "/10.0.0.8"]},
        },
        (
            "pod-3 (member m1, client billing, on 10.0.0.7) was fenced: its Heartbeat was "
            "refused, as m2 on 10.0.0.8 has its group.instance.id; two running clients on "
            "10.0.0.7 and 10.0.0.8 have one group.instance.id: give each client its own, 2 ids "
            "for 2 clients"
        ),
    ),
    "member_replaced": (
        {
            "who": who("m2", instance="pod-3"),
            "old_member": "m1",
            "quick": True,
            "away_ms": 4_000,
            "likely": "rolling_restart",
            "evidence": {},
        },
        (
            "pod-3 (member m2, client billing, on 10.0.0.7) restarted after 4.0 s and took "
            "the place of m1, without a rebalance; members are probably being restarted one "
            "after the other"
        ),
    ),
    "member_removed": (
        {"who": who("m1"), "cause": cause("member_removed_by_admin", ADMIN)},
        "adminclient-1 (on 10.0.0.1), which is another client, removed m1",
    ),
    "member_joined": (
        {"who": who("m1"), "kind": "dynamic"},
        "m1 (client billing, on 10.0.0.7) joined",
    ),
    "seat_reserved": (
        {
            "who": who("m1"),
            "cause": {**cause("session_expired", who("m1")), "evidence": {"silent_ms": 6_000}},
            "partitions": {"orders": [0, 1], "payments": [7]},
            "reserved_ms": 60_000,
        },
        (
            "m1 (client billing, on 10.0.0.7) was lost: its last heartbeat came 6.0 s before. Its "
            "3 partitions are reserved for 60 s, and nobody else stops "
            "(classic.scheduled.rebalance.max.delay.ms of the group)"
        ),
    ),
    "rebalance_deferred": (
        {
            "who": who("m1"),
            "cause": cause("member_joined", who("m1")),
            "policy": "classic.scale.up.window.ms",
            "for_ms": 5_000,
        },
        (
            "m1 (client billing, on 10.0.0.7) joined and gets no partitions for 5.0 s, or until "
            "more newcomers came: no rebalance so far (classic.scale.up.window.ms of the group)"
        ),
    ),
    "standby_activated": (
        {
            "who": who("m2"),
            "old_member": "m1",
            "silent_ms": 6_000,
            "partitions": {"orders": [0, 1]},
            "cause": cause("session_expired", who("m1")),
        },
        (
            "m2 (client billing, on 10.0.0.7), which stood by, got the 2 partitions of m1, which "
            "had stood still for 6.0 s: no rebalance, nobody else stopped"
        ),
    ),
    "assignment_changed": (
        {
            "assignment": [
                {"member": "m1", "instance": None, "partitions": {"orders": [0, 1]}},
                {"member": "m2", "instance": "pod-2", "partitions": {}},
            ]
        },
        (
            "the server moved partitions without a rebalance: m1 now has orders 0-1, pod-2 now has "
            "none"
        ),
    ),
    "policy_refused": (
        {"policies": ["classic.target.group.size"], "protocol": "stream"},
        (
            "classic.target.group.size of the group do nothing: the assignor of stream keeps data "
            "of its own in assignments, or the members are no consumers"
        ),
    ),
    "configs_changed": (
        {"who": ADMIN, "before": {"a": "1", "b": "2"}, "after": {"a": "3", "b": "2", "c": "4"}},
        ("adminclient-1 (on 10.0.0.1) changed configs of the group (a: 1 -> 3, c: not set -> 4)"),
    ),
    "requests_refused": (
        {
            "who": who("m1"),
            "api": "OffsetCommit",
            "error": "ILLEGAL_GENERATION",
            "count": 3,
            "first_ms": 1_000,
            "last_ms": 3_500,
        },
        (
            "3 requests (OffsetCommit) of m1 (client billing, on 10.0.0.7) refused with "
            "ILLEGAL_GENERATION within 2.5 s"
        ),
    ),
    "offsets_reset": (
        {"who": ADMIN, "topic": "orders", "partitions": [0, 1], "from": [7, None], "to": [0, 0]},
        (
            "adminclient-1 (on 10.0.0.1), which is not a member, set offsets of orders (0: 7 -> "
            "0, 1: none -> 0)"
        ),
    ),
    "offsets_expired": (
        {"count": 4, "partitions": {"orders": [0, 1, 2], "payments": [7]}},
        (
            "4 offsets expired (orders 0-2, payments 7): offsets.retention.minutes of the "
            "coordinator has passed"
        ),
    ),
    "offsets_deleted": (
        {"count": 1, "partitions": {"orders": [3]}, "why": "request", "who": ADMIN},
        "1 offset deleted by adminclient-1 (on 10.0.0.1) (orders 3)",
    ),
    "coordinator_loaded": (
        {"records": 9, "groups": 2, "members": 1, "duration_ms": 40},
        (
            "the coordinator loaded 2 groups with 1 member in 40 ms, after a start or a "
            "failure; sessions restarted"
        ),
    ),
    "coordinator_closed": ({"why": "stopped"}, "the coordinator closed: stopped"),
    "coordinator_stalled": (
        {"what": "log", "from_ms": 1, "duration_ms": 15_000, "jump_ms": None},
        "the coordinator had not answered for 15 s: its log could not be written",
    ),
    "not_back": (
        {"absent": [who("m1"), who("m2")]},
        (
            "m1 (client billing, on 10.0.0.7), m2 (client billing, on 10.0.0.7) have not "
            "been heard from since the coordinator was loaded"
        ),
    ),
    "group_emptied": (
        {"cause": cause("member_left", who("m1"))},
        "the group is empty. m1 (client billing, on 10.0.0.7) left",
    ),
    "group_deleted": (
        {"why": "request", "who": ADMIN},
        "the group was deleted by adminclient-1 (on 10.0.0.1)",
    ),
    "group_converted": (
        {"from_type": "classic", "to_type": "consumer"},
        "the group was converted from the classic to the consumer type; its offsets stayed",
    ),
    "events_dropped": (
        {"count": 5, "types": {"member_fenced": 5}, "who": who("m1")},
        "5 events about m1 left out because of a limit (5 of member_fenced)",
    ),
    "history_lost": (
        {"from_offset": 7, "to_offset": 90, "why": "records were deleted"},
        "history is lost between offsets 7 and 90 of the offsets log: records were deleted",
    ),
}


def test_each_type_has_its_line_and_does_without_its_fields() -> None:
    assert LINES.keys() == TYPES.keys() - IN_ROUNDS - QUIET
    for type_, (fields, text) in LINES.items():
        assert told_line(type_, **fields) == text
        assert "None" not in told_line(type_)


def test_a_round_does_without_the_fields_of_its_events() -> None:
    for type_ in IN_ROUNDS:
        told = Told()
        told.round = 1
        told.during(type_)
        [entry] = told.entries()
        assert isinstance(entry, Round), type_


def test_a_client_that_takes_the_place_of_a_running_one_is_probably_another() -> None:
    fields: dict[str, Any] = {"old_member": "m1", "quick": True, "away_ms": 254}
    evidence = {"old_connection": "open", "old_host": "/10.0.0.8", "old_client": "billing"}
    text = told_line(
        "member_replaced",
        who=who("m2", instance="pod-3"),
        likely="taken_over",
        evidence=evidence,
        **fields,
    )
    assert text == (
        "pod-3 (member m2, client billing, on 10.0.0.7) took the place of m1 on 10.0.0.8, whose "
        "connection was still open and which had been heard from 254 ms before, without a "
        "rebalance: probably another client, not a restart"
    )


def test_a_clock_that_was_moved_is_told_with_its_direction() -> None:
    for jump_ms, way in ((-60_000, "back by 60 s"), (60_000, "forward by 60 s")):
        text = told_line("coordinator_stalled", what="clock", duration_ms=5, jump_ms=jump_ms)
        assert f"the wall clock of the coordinator was moved {way}" in text


def test_a_newcomer_whom_the_server_gives_partitions() -> None:
    text = told_line(
        "rebalance_deferred",
        who=who("m1"),
        cause=cause("member_joined", who("m1")),
        policy="classic.remote.assignor",
        for_ms=None,
    )
    assert text.endswith(
        "joined, and the server gives it partitions: no rebalance (classic.remote.assignor)"
    )
