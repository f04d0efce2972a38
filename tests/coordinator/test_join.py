"""JoinGroup: the order of checks, the matrix of states and senders, and what a reply holds."""

from typing import Any

import pytest

from groupkeeper.coordinator.facts import GroupCreated, MemberJoined, MemberRemoved, RequestRefused
from groupkeeper.protocol.group_events import CauseCode
from tests.support.cases import each
from tests.support.scene import RANGE_RR, Scene, in_state, topics

CHANGED = {"range": topics("u"), "roundrobin": topics("u")}
REORDERED = dict(reversed(RANGE_RR.items()))
STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable")

# Sender, and the outcome in each state; `>` means that a rebalance is under way afterwards.
# `?` in front of a sender: it first takes a pending id.
ASK, IDS, WAIT = "MEMBER_ID_REQUIRED", "UNKNOWN_MEMBER_ID", "parked>"
FENCED, MIXED, BUG = "FENCED_INSTANCE_ID", "INCONSISTENT_GROUP_PROTOCOL", "UNKNOWN_SERVER_ERROR"
MATRIX: list[tuple[str, dict[str, Any], str]] = [
    ("new", {"version": 0}, f"{WAIT} {WAIT} {WAIT} {WAIT}"),
    ("new", {"version": 3}, f"{WAIT} {WAIT} {WAIT} {WAIT}"),
    ("new", {"version": 4}, f"{ASK} {ASK} {ASK} {ASK}"),
    ("new", {"version": 9}, f"{ASK} {ASK} {ASK} {ASK}"),
    ("new", {"instance": "NEW"}, f"{WAIT} {WAIT} {WAIT} {WAIT}"),
    ("SAM", {"as_id": ""}, f"{WAIT} {WAIT} {WAIT} NONE"),
    ("SAM", {"as_id": "", "protocols": CHANGED}, f"{WAIT} {WAIT} {WAIT} NONE"),
    (
        "SAM",
        {"as_id": "", "protocols": {"roundrobin": topics("t")}},
        f"{WAIT} {WAIT} {WAIT} {WAIT}",
    ),
    ("fred", {}, f"{IDS} {WAIT} NONE NONE"),
    ("fred", {"protocols": CHANGED}, f"{IDS} {WAIT} {WAIT} {WAIT}"),
    ("fred", {"protocols": REORDERED}, f"{IDS} {WAIT} {WAIT} {WAIT}"),
    ("lea", {}, f"{IDS} {WAIT} NONE {WAIT}"),
    ("lea", {"protocols": CHANGED}, f"{IDS} {WAIT} {WAIT} {WAIT}"),
    ("SAM", {}, f"{IDS} {WAIT} NONE NONE"),
    ("SAM", {"protocols": CHANGED}, f"{IDS} {WAIT} {WAIT} {WAIT}"),
    ("SAM", {"instance": None}, f"{IDS} {WAIT} NONE NONE"),
    ("SAM", {"instance": None, "protocols": CHANGED}, f"{IDS} {WAIT} {WAIT} {WAIT}"),
    ("fred", {"instance": "SAM"}, f"{IDS} {FENCED} {FENCED} {FENCED}"),
    ("SAM", {"as_id": "x"}, f"{IDS} {FENCED} {FENCED} {FENCED}"),
    ("SAM", {"instance": "TIM"}, f"{IDS} {FENCED} {FENCED} {FENCED}"),
    ("fred", {"instance": "N"}, f"{IDS} {IDS} {IDS} {IDS}"),
    ("SAM", {"instance": "N"}, f"{IDS} {IDS} {IDS} {IDS}"),
    ("new", {"instance": "N", "as_id": "x"}, f"{IDS} {IDS} {IDS} {IDS}"),
    ("new", {"as_id": "x"}, f"{IDS} {IDS} {IDS} {IDS}"),
    ("?new", {}, f"{WAIT} {WAIT} {WAIT} {WAIT}"),
    ("?new", {"instance": "N"}, f"{BUG} {BUG} {BUG} {BUG}"),
    ("new", {"type": "connect"}, f"{ASK} {MIXED} {MIXED} {MIXED}"),
    ("fred", {"type": "connect"}, f"{IDS} {MIXED} {MIXED} {MIXED}"),
    ("fred", {"protocols": {"sticky": b""}}, f"{IDS} {MIXED} {MIXED} {MIXED}"),
    ("SAM", {"as_id": "", "protocols": {"sticky": b""}}, f"{WAIT} {MIXED} {MIXED} {MIXED}"),
    ("SAM", {"as_id": "x", "type": "connect"}, f"{IDS} {MIXED} {MIXED} {MIXED}"),
    ("new", {"protocols": {}}, f"{MIXED} {MIXED} {MIXED} {MIXED}"),
    ("fred", {"type": ""}, f"{MIXED} {MIXED} {MIXED} {MIXED}"),
]
CELLS = [
    (state, who, says, expected)
    for who, says, row in MATRIX
    for state, expected in zip(STATES, row.split(), strict=True)
]


@each(CELLS)
def test_matrix_of_senders_and_states(
    state: str, who: str, says: dict[str, Any], expected: str
) -> None:
    scene = in_state(state)
    if who.startswith("?"):
        scene.knock(who[1:], protocols=RANGE_RR)
    says = {"protocols": RANGE_RR} | says
    call = scene.knock(who.removeprefix("?"), **says)
    assert call.outcome == expected.removesuffix(">")
    assert scene.state == ("PreparingRebalance" if expected.endswith(">") else state)


# -- the order of checks -------------------------------------------------------------------------


@pytest.mark.parametrize(("session", "fits"), [(5, False), (6, True), (60, True), (61, False)])
def test_session_timeouts_have_inclusive_bounds(session: int, fits: bool) -> None:
    scene = Scene(min_session_timeout_ms=6, max_session_timeout_ms=60)
    outcome = scene.knock("alice", session=session).outcome
    assert outcome == ("MEMBER_ID_REQUIRED" if fits else "INVALID_SESSION_TIMEOUT")


def test_without_a_member_id_even_a_refused_join_creates_the_group() -> None:
    scene = Scene()
    assert scene.knock("alice", protocols={}).outcome == MIXED
    assert scene.state == "Empty"
    assert scene.noted(GroupCreated) == [], "nothing to tell of before its first member"


def test_a_group_that_everybody_left_in_the_initial_delay_keeps_its_type() -> None:
    scene = Scene()
    scene.join("alice")
    scene.leave("alice")
    assert scene.state == "PreparingRebalance"
    assert scene.knock("worker", type="connect").outcome == MIXED
    assert scene.join("bob").outcome == "parked"


# -- the size of a group (KIP-389) -----------------------------------------------------------------


def test_a_newcomer_to_a_full_group_is_told_of() -> None:
    scene = Scene(max_size=1)
    scene.form("a")
    assert scene.join("b").outcome == "GROUP_MAX_SIZE_REACHED"
    [fact] = scene.noted(RequestRefused)
    assert (fact.who.client_id, fact.api, fact.error) == (
        *("b", "JoinGroup"),
        "GROUP_MAX_SIZE_REACHED",
    )


def test_a_refused_pending_id_is_not_waited_for() -> None:
    scene = Scene(max_size=1)
    scene.form("a", session=60_000)
    scene.leave("a")
    scene.knock("a", as_id="")
    scene.knock("b")
    scene.knock("a")
    scene.knock("b")
    assert scene.group.pending == {}


def test_who_rejoins_too_late_in_a_full_round_loses_its_place() -> None:
    scene = Scene(max_size=2)
    scene.form("a", "b")
    scene.leave("b")
    scene.join("c")
    scene.restart("d", version=3)
    assert scene.join("a").outcome == "GROUP_MAX_SIZE_REACHED"
    assert list(scene.group.members) == ["c-1", "d-1"]
    assert scene.noted(MemberRemoved)[-1].cause.code == CauseCode.GROUP_SHRUNK
    assert scene.noted(RequestRefused) == []  # the removal tells it
    assert scene.state == "CompletingRebalance"


# -- causes ----------------------------------------------------------------------------------------


def test_a_join_is_noted_with_who_and_the_clients_own_words() -> None:
    scene = Scene()
    scene.join("alice", reason="rolling bounce")
    (fact,) = scene.noted(MemberJoined)
    assert (fact.cause.code, fact.cause.reason) == (CauseCode.MEMBER_JOINED, "rolling bounce")
    assert (fact.who.member, fact.who.client_id, fact.who.host) == ("alice-1", "alice", "/alice")


@pytest.mark.parametrize(
    ("who", "says", "code"),
    [
        ("new", {"instance": "NEW"}, CauseCode.STATIC_MEMBER_JOINED),
        ("lea", {}, CauseCode.LEADER_REJOINED),
        ("fred", {"protocols": CHANGED}, CauseCode.SUBSCRIPTION_CHANGED),
        ("fred", {"protocols": REORDERED}, CauseCode.SUBSCRIPTION_CHANGED),
        (
            "fred",
            {"protocols": {n: topics("t", owned=3) for n in RANGE_RR}},
            CauseCode.MEMBER_REJOINED,
        ),
        (
            "lea",
            {"protocols": {n: topics("t", owned=3) for n in RANGE_RR}},
            CauseCode.LEADER_REJOINED,
        ),
    ],
)
def test_a_round_starts_with_the_cause_of_the_join(
    who: str, says: dict[str, Any], code: CauseCode
) -> None:
    scene = in_state("Stable")
    scene.join(who, **{"protocols": RANGE_RR} | says)
    assert scene.group.rebalance is not None
    assert scene.group.rebalance.cause.code == code
