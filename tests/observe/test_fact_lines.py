"""What an operator reads about groups."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from groupkeeper.coordinator.caller import Caller
from groupkeeper.coordinator.causes import Cause, Who
from groupkeeper.coordinator.facts import (
    Fact,
    GroupCreated,
    GroupDeleted,
    GroupEmptied,
    GroupsLoaded,
    LimitReached,
    MemberFenced,
    MemberJoined,
    MemberRejoined,
    MemberRemoved,
    MemberReplaced,
    MembersNotBack,
    NotedFact,
    OffsetsCommitted,
    OffsetsRemoved,
    OffsetsReset,
    PendingMemberDropped,
    RebalanceAbandoned,
    RebalanceCauseAdded,
    RebalanceCompleted,
    RebalanceJoined,
    RebalanceStarted,
    RequestRefused,
)
from groupkeeper.observe.fact_lines import IDS_SHOWN, short_id, write_line
from groupkeeper.observe.fact_readers import Origin
from groupkeeper.protocol.group_events import CauseCode
from tests.support.served import Served, settle

Lines = Callable[[], list[dict[str, Any]]]
WHO = Who("m", "i", "billing", "/10.0.0.7", 9, "librdkafka", "2.3.0")
ADMIN = Who("", None, "admin", "/10.0.0.9", 5)
LONG_ID = "consumer-1-433ad937-7a31-4ef4-bd23-156bd0e5fd80"
CAUSE = Cause(CauseCode.SESSION_EXPIRED, WHO, "going home")
SENDER = {
    "member": "m",
    "instance": "i",
    "client_id": "billing",
    "host": "/10.0.0.7",
    "software": "librdkafka 2.3.0",
}
AT = "g", 1, "Stable", 0
TOLD = {"cause": "session_expired", "reason": "going home"} | SENDER


def line_of(fact: Fact, lines: Lines) -> dict[str, Any]:
    """The one line, without what every line has."""
    write_line(Origin(7, 1), NotedFact(0, 1_000, 1_700_000_000_000, False, fact))
    [line] = lines()
    del line["timestamp"]
    assert line.pop("logger") == "groups"
    return line


@pytest.mark.parametrize(
    ("fact", "event", "fields"),
    [
        (
            RebalanceStarted("g", 3, "PreparingRebalance", 9, CAUSE, "Stable", 2, ["n"], 60_000),
            "rebalance started",
            {"generation": 3, "round": 9, "members": 2} | TOLD,
        ),
        (
            RebalanceCauseAdded("g", 1, "PreparingRebalance", 9, CAUSE),
            "rebalance cause added",
            {"round": 9} | TOLD,
        ),
        (
            RebalanceCompleted("g", 4, "Stable", 9, 2, 17, 5, "consumer", "range", [], {}, {}),
            "rebalance completed",
            {"generation": 4, "round": 9, "members": 2, "took_ms": 17, "leader_ms": 5},
        ),
        (
            RebalanceAbandoned("g", 4, "CompletingRebalance", 9, "superseded"),
            "rebalance abandoned",
            {"round": 9, "why": "superseded"},
        ),
        (MemberRemoved(*AT, WHO, CAUSE), "member removed", TOLD),
        (
            MemberReplaced(*AT, WHO, "old", True, 1500),
            "member replaced",
            {"old_member": "old", "rebalance": False, "away_ms": 1500} | SENDER,
        ),
        (PendingMemberDropped(*AT, WHO, CAUSE, True), "member id was not used", TOLD),
        (
            MembersNotBack(*AT, [WHO]),
            "members did not come back after the load",
            {"count": 1, "missing": "m"},
        ),
        (
            GroupEmptied("g", 5, "Empty", 9, CAUSE),
            "group empty",
            {"generation": 5, "round": 9} | TOLD,
        ),
        (GroupDeleted(*AT, "expired", None), "group deleted", {"why": "expired"}),
        (GroupDeleted(*AT, "request", WHO), "group deleted", {"why": "request"} | SENDER),
        (
            OffsetsRemoved(*AT, 3, "request", {"t": [1, 2, 3]}, WHO),
            "offsets deleted",
            {"offsets": 3} | SENDER,
        ),
        (
            LimitReached(*AT, "max_groups", 9, WHO),
            "limit reached",
            {"level": "warning", "limit": "max_groups", "most": 9} | SENDER,
        ),
        (
            MemberFenced(*AT, WHO, "Heartbeat", "n", "/10.0.0.8"),
            "member fenced",
            {"level": "warning", "api": "Heartbeat", "instance": "i", "refused": "m"}
            | {"refused_host": "/10.0.0.7", "holder": "n", "holder_host": "/10.0.0.8"},
        ),
    ],
)
def test_a_line_says_what_happened_and_why(
    fact: Fact, event: str, fields: dict[str, Any], lines: Lines
) -> None:
    assert line_of(fact, lines) == {"level": "info", "group": "g", "event": event} | fields


def test_a_cause_leaves_out_what_is_not_known(lines: Lines) -> None:
    started = RebalanceStarted("g", 1, "P", 9, Cause(CauseCode.GROUP_SHRUNK), "Stable", 2, [], 0)
    assert line_of(started, lines).keys() == {
        "level",
        "event",
        "group",
        "generation",
        "round",
        "members",
        "cause",
    }


def test_an_expiry_says_how_long_nothing_came_and_what_the_timeout_is(lines: Lines) -> None:
    evidence = {"silent_ms": 12_000, "session_timeout_ms": 10_000, "connection": None}
    cause = Cause(CauseCode.SESSION_EXPIRED, WHO, None, "crash_or_network", evidence)
    found = line_of(MemberRemoved("g", 1, "Stable", 0, WHO, cause), lines)
    assert (found["silent_ms"], found["session_timeout_ms"]) == (12_000, 10_000)
    assert found["likely"] == "crash_or_network"
    assert "connection" not in found, "not known"


def test_a_removal_says_who_was_removed_and_by_whom(lines: Lines) -> None:
    cause = Cause(CauseCode.MEMBER_REMOVED_BY_ADMIN, ADMIN, "scaling in")
    found = line_of(MemberRemoved("g", 1, "Stable", 0, WHO, cause), lines)
    assert (found["member"], found["host"]) == ("m", "/10.0.0.7")
    assert (found["by_client_id"], found["by_host"]) == ("admin", "/10.0.0.9")
    assert found["reason"] == "scaling in"
    assert "by_principal" not in found, "nobody has logged in"


def test_a_removal_names_the_principal_of_the_remover(lines: Lines) -> None:
    cause = Cause(CauseCode.MEMBER_REMOVED_BY_ADMIN, replace(ADMIN, principal="User:ops"))
    found = line_of(MemberRemoved("g", 1, "Stable", 0, WHO, cause), lines)
    assert (found["by_principal"], "principal" in found) == ("User:ops", False)


def test_who_has_logged_in_is_named(lines: Lines) -> None:
    who = replace(ADMIN, principal="User:ops")
    found = line_of(GroupDeleted("g", 0, "Dead", 0, "request", who), lines)
    assert (found["client_id"], found["principal"]) == ("admin", "User:ops")


def test_who_was_waited_for_is_named_up_to_a_few(lines: Lines) -> None:
    missing = [(f"m{n}", None, True) for n in range(IDS_SHOWN + 1)]
    joined = RebalanceJoined(
        "g", 2, "C", 9, "m", "consumer", "range", 1, 60_000, [], missing, "timeout"
    )
    found = line_of(joined, lines)
    assert (found["event"], found["waited_ms"]) == ("members did not rejoin", 60_000)
    assert (found["count"], found["missing"]) == (6, "m0, m1, m2, m3, m4, ...")


def test_ids_are_short(lines: Lines) -> None:
    removed = MemberRemoved("g", 1, "Stable", 0, Who(LONG_ID), CAUSE)
    assert line_of(removed, lines)["member"] == "consumer-1-433ad937"
    assert short_id("my-own-id") == "my-own-id"


def test_two_clients_in_a_duel_are_named(lines: Lines) -> None:
    evidence = {"replacements": 2, "hosts": ["/10.0.0.7", "/10.0.0.8"]}
    fenced = MemberFenced("g", 3, "Stable", 0, WHO, "Heartbeat", "n", "/h", "duel", evidence)
    found = line_of(fenced, lines)
    assert (found["likely"], found["hosts"]) == ("duel", "/10.0.0.7, /10.0.0.8")


def test_what_happens_all_the_time_is_no_line(lines: Lines) -> None:
    for fact in (
        GroupCreated(*AT, WHO),
        MemberJoined(*AT, WHO, CAUSE),
        MemberRejoined(*AT, WHO, ()),
        RequestRefused(*AT, WHO, "Heartbeat", "ILLEGAL_GENERATION"),
        OffsetsCommitted(*AT, 20, "m", None, [], Caller(9)),
        OffsetsRemoved(*AT, 20, "expired", {"t": [0]}, None),
        OffsetsReset(*AT, ADMIN, "t", [(0, None, b"")], 1),
        RebalanceJoined("g", 1, "C", 9, "m", "consumer", "range", 2, 5, [], [], "all_joined"),
        GroupsLoaded("", 0, "", 0, 1, 2, 3, 4),
    ):
        write_line(Origin(7, 1), NotedFact(0, 1_000, 1_700_000_000_000, False, fact))
        assert lines() == [], fact


def test_a_rebalance_is_read_from_its_start_to_its_end(served: Served, lines: Lines) -> None:
    client = served.client()
    member_id, _ = settle(client)
    client.join(member_id=member_id, reason="config changed")
    words = [(line["event"], line.get("cause")) for line in lines()]
    assert words == [
        ("rebalance started", "member_joined"),
        ("rebalance completed", None),
        ("rebalance started", "leader_rejoined"),
    ]


def test_of_a_group_that_is_left_two_lines_tell(served: Served, lines: Lines) -> None:
    client = served.client()
    member_id, _ = settle(client)
    lines()
    client.leave(member_id)
    assert [line["event"] for line in lines()][-2:] == ["member removed", "group empty"]
    assert "rebalance abandoned" not in {line["event"] for line in lines()}
    counts = served.server.metrics.counts
    assert counts["rebalances", "member_left"] == 1, "it was in PreparingRebalance"
    assert counts["rebalances_completed",] == 1, "as Kafka counts: with the leader's assignment"
