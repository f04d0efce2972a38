"""What an operator reads about groups."""

from collections.abc import Callable
from typing import Any

import pytest

from groupkeeper.coordinator.causes import Cause, CauseCode, Who
from groupkeeper.coordinator.facts import (
    Fact,
    GroupCreated,
    GroupDeleted,
    GroupDropped,
    GroupEmptied,
    GroupsLoaded,
    LimitReached,
    MemberFenced,
    MemberJoined,
    MemberRemoved,
    MemberReplaced,
    NotedFact,
    OffsetsCommitted,
    OffsetsRemoved,
    PendingMemberDropped,
    RebalanceCauseAdded,
    RebalanceCompleted,
    RebalanceJoined,
    RebalanceStarted,
)
from groupkeeper.observe.fact_lines import write_line
from groupkeeper.observe.fact_readers import Origin
from tests.support.served import Served, settle

Lines = Callable[[], list[dict[str, Any]]]
WHO = Who("m", "i", "billing", "/10.0.0.7", 9)
CAUSE = Cause(CauseCode.SESSION_EXPIRED, WHO, "going home")
TOLD = {
    "cause": "session_expired",
    "member": "m",
    "instance": "i",
    "client_id": "billing",
    "host": "/10.0.0.7",
    "reason": "going home",
}


def line_of(fact: Fact, lines: Lines) -> dict[str, Any]:
    """The one line, without what every line has."""
    write_line(Origin(7, 1), NotedFact(0, 1_000, 1_700_000_000_000, False, fact))
    [line] = lines()
    del line["timestamp"]
    assert line.pop("logger") == "groups"
    return line


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        (
            RebalanceStarted("g", 3, "PreparingRebalance", CAUSE, "Stable", 2, 60_000),
            {"event": "rebalance started", "generation": 3, "members": 2} | TOLD,
        ),
        (
            RebalanceCompleted("g", 4, "Stable", 2, 17),
            {"event": "rebalance completed", "generation": 4, "members": 2, "took_ms": 17},
        ),
        (GroupEmptied("g", 5, "Empty", CAUSE), {"event": "group empty", "generation": 5} | TOLD),
        (GroupDeleted("g", 5, "Dead", True), {"event": "group deleted", "expired": True}),
        (
            MemberFenced("g", 3, "Stable", WHO, "Heartbeat", "n"),
            {
                "level": "warning",
                "event": "member fenced",
                "api": "Heartbeat",
                "instance": "i",
                "refused": "m",
                "refused_host": "/10.0.0.7",
                "holder": "n",
            },
        ),
    ],
)
def test_a_line_says_what_happened_and_why(
    fact: Fact, expected: dict[str, Any], lines: Lines
) -> None:
    assert line_of(fact, lines) == {"level": "info", "group": "g"} | expected


def test_a_cause_leaves_out_what_is_not_known(lines: Lines) -> None:
    started = RebalanceStarted("g", 1, "P", Cause(CauseCode.GROUP_SHRUNK), "Stable", 2, 0)
    assert line_of(started, lines).keys() == {
        "level",
        "event",
        "group",
        "generation",
        "members",
        "cause",
    }


@pytest.mark.parametrize(
    "fact",
    [
        GroupCreated("g", 0, "Empty"),
        GroupDropped("g", 0, "Dead"),
        PendingMemberDropped("g", 0, "Empty", "m", True),
        MemberJoined("g", 1, "Stable", WHO, CAUSE),
        MemberReplaced("g", 1, "Stable", WHO, "old", True),
        MemberRemoved("g", 1, "Stable", WHO, CAUSE),
        OffsetsCommitted("g", 1, "Stable", 20),
        OffsetsRemoved("g", 1, "Stable", 20, False),
        RebalanceCauseAdded("g", 1, "PreparingRebalance", CAUSE),
        RebalanceJoined("g", 1, "CompletingRebalance", "m", "range", 2, 0, 5),
        GroupsLoaded("", 0, "", 1, 2, 3, 4),
    ],
)
def test_what_happens_all_the_time_is_no_line(fact: Fact, lines: Lines) -> None:
    write_line(Origin(7, 1), NotedFact(0, 1_000, 1_700_000_000_000, False, fact))
    assert lines() == []


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


def test_a_limit_is_named_with_who_met_it(lines: Lines) -> None:
    found = line_of(LimitReached("g", 0, "Dead", "max_groups", 9, WHO), lines)
    assert (found["limit"], found["most"], found["client_id"]) == ("max_groups", 9, WHO.client_id)
