"""JoinGroup: the order of checks, the matrix of states and senders, and what a reply holds."""

from typing import Any

import pytest

from groupkeeper.coordinator.facts import GroupCreated, MemberJoined, MemberRemoved
from groupkeeper.protocol.group_events import CauseCode
from tests.support.scene import FOUR, RANGE, RANGE_RR, Scene, in_state, topics

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


@pytest.mark.parametrize(("state", "who", "says", "expected"), CELLS)
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


def test_an_empty_group_id_is_refused_before_a_bad_session_timeout() -> None:
    call = Scene().knock("alice", group="", session=0)
    assert call.outcome == "INVALID_GROUP_ID"


@pytest.mark.parametrize(("session", "fits"), [(5, False), (6, True), (60, True), (61, False)])
def test_session_timeouts_have_inclusive_bounds(session: int, fits: bool) -> None:
    scene = Scene(min_session_timeout_ms=6, max_session_timeout_ms=60)
    outcome = scene.knock("alice", session=session).outcome
    assert outcome == ("MEMBER_ID_REQUIRED" if fits else "INVALID_SESSION_TIMEOUT")


def test_a_bad_session_timeout_creates_no_group() -> None:
    scene = Scene()
    scene.knock("alice", session=0)
    assert scene.state == "Dead"


@pytest.mark.parametrize("rebalance", [-5, 0, 2_000_000_000])
def test_rebalance_timeouts_have_no_bounds(rebalance: int) -> None:
    assert Scene().join("alice", rebalance=rebalance).outcome == "parked"


def test_a_member_id_never_creates_a_group() -> None:
    scene = Scene()
    call = scene.knock("alice", as_id="x", protocols={})
    assert (call.outcome, call.response.member_id) == ("UNKNOWN_MEMBER_ID", "x")
    assert scene.state == "Dead"


def test_without_a_member_id_even_a_refused_join_creates_the_group() -> None:
    scene = Scene()
    assert scene.knock("alice", protocols={}).outcome == MIXED
    assert scene.state == "Empty"
    assert scene.noted(GroupCreated) == [], "nothing to tell of before its first member"


def test_protocols_are_checked_before_the_member_id() -> None:
    scene = in_state("Stable")
    assert scene.knock("x", as_id="x", type="connect").outcome == MIXED


def test_a_sole_member_cannot_change_to_a_list_without_its_old_protocols() -> None:
    scene = Scene()
    scene.form("alice")
    assert scene.join("alice", protocols={"other": b""}).outcome == MIXED


def test_an_empty_group_takes_the_type_of_its_next_life() -> None:
    scene = in_state("Empty")
    assert scene.join("worker", type="connect", protocols={"default": b""}).outcome == "parked"
    assert scene.group.protocol_type == "connect"


def test_a_group_that_everybody_left_in_the_initial_delay_keeps_its_type() -> None:
    scene = Scene()
    scene.join("alice")
    scene.leave("alice")
    assert scene.state == "PreparingRebalance"
    assert scene.knock("worker", type="connect").outcome == MIXED
    assert scene.join("bob").outcome == "parked"


def test_a_protocol_name_given_twice_counts_once() -> None:
    scene = Scene()
    scene.form("alice", protocols=[("range", topics("t")), ("range", topics("u"))])
    assert scene.describe().members[0].member_metadata == topics("t")


# -- the two-step join (KIP-394) -------------------------------------------------------------------


def test_a_pending_id_is_no_member() -> None:
    scene = Scene()
    reply = scene.knock("alice").response
    assert reply.member_id == "alice-1"
    assert scene.state == "Empty"
    assert scene.describe().members == []


@pytest.mark.parametrize(("ms", "outcome"), [(9_999, "parked"), (10_000, IDS)])
def test_a_pending_id_lives_for_the_session_timeout_of_its_request(ms: int, outcome: str) -> None:
    scene = Scene()
    scene.knock("alice", session=10_000)
    scene.advance(ms)
    assert scene.knock("alice").outcome == outcome


def test_a_pending_id_does_not_survive_a_crash() -> None:
    scene = in_state("Stable")
    scene.knock("new", protocols=RANGE_RR)
    scene.crash()
    assert scene.knock("new").outcome == IDS


def test_an_id_without_a_client_id_starts_with_a_dash() -> None:
    assert Scene().knock("").response.member_id == "-1"


# -- the reply -------------------------------------------------------------------------------------


def test_the_leader_learns_everybodys_metadata_for_the_elected_protocol() -> None:
    scene = Scene()
    calls = [scene.join("lea", version=5), scene.join("SAM", instance="SAM", version=5)]
    scene.advance(6_000)
    leader, follower = (call.response for call in calls)
    assert [(m.member_id, m.group_instance_id) for m in leader.members] == [
        ("lea-1", None),
        ("SAM-1", "SAM"),
    ]
    assert {m.metadata for m in leader.members} == {RANGE["range"]}
    assert follower.members == []
    assert leader.leader == follower.leader == "lea-1"


@pytest.mark.parametrize("version", range(10))
def test_a_success_says_generation_protocol_and_leader(version: int) -> None:
    scene = Scene()
    call = scene.join("alice", version=version)
    scene.advance(6_000)
    reply = call.response
    assert (reply.generation_id, reply.protocol_name, reply.leader) == (1, "range", "alice-1")
    assert reply.protocol_type == ("consumer" if version >= 7 else None)
    assert reply.skip_assignment is False


@pytest.mark.parametrize("version", range(10))
def test_an_error_says_nothing_else(version: int) -> None:
    reply = Scene().knock("alice", version=version, as_id="x").response
    assert (reply.generation_id, reply.leader, reply.members) == (-1, "", [])
    assert reply.protocol_type is None
    assert reply.protocol_name == (None if version >= 7 else "")


@pytest.mark.parametrize(
    ("who", "says", "echoed"),
    [
        ("fred", {"group": ""}, "fred-1"),
        ("fred", {"session": 0}, "fred-1"),
        ("fred", {"type": "connect"}, "fred-1"),
        ("x", {"as_id": "x"}, "x"),
        ("SAM", {"as_id": "x"}, "x"),
        ("?new", {"instance": "N"}, ""),
    ],
)
def test_an_error_echoes_the_member_id_except_where_kafka_does_not(
    who: str, says: dict[str, Any], echoed: str
) -> None:
    scene = in_state("Stable")
    if who.startswith("?"):
        scene.knock(who[1:], protocols=RANGE_RR)
    call = scene.knock(who.removeprefix("?"), **{"protocols": RANGE_RR} | says)
    assert call.response.member_id == echoed


def test_a_lost_answer_is_given_again_to_the_leader_with_the_members() -> None:
    scene = in_state("CompletingRebalance")
    reply = scene.join("lea").response
    assert len(reply.members) == 4
    assert scene.join("fred").response.members == []


def test_a_quick_answer_changes_no_timeouts_and_rearms_no_session() -> None:
    scene = in_state("Stable")
    scene.advance(9_999)
    assert scene.join("fred", session=60_000).outcome == "NONE"
    scene.advance(1)
    assert "fred-1" not in scene.group.members


def test_a_parked_rejoin_takes_over_timeouts_but_not_the_client() -> None:
    scene = in_state("Stable")
    scene.join("lea", session=30_000, rebalance=90_000)
    member = scene.group.members["lea-1"]
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (30_000, 90_000)
    assert (member.client_id, member.client_host) == ("lea", "/lea")


def test_version_0_has_one_timeout_for_both() -> None:
    scene = Scene()
    scene.join("old", version=0, session=8_000)
    assert scene.group.members["old-1"].rebalance_timeout_ms == 8_000


def test_a_newer_join_of_the_same_member_replaces_the_parked_one() -> None:
    scene = in_state("PreparingRebalance")
    first = scene.join("fred")
    second = scene.join("fred")
    assert (first.outcome, second.outcome) == ("REBALANCE_IN_PROGRESS", "parked")


# -- the size of a group (KIP-389) -----------------------------------------------------------------


def test_a_full_group_takes_nobody_else() -> None:
    scene = in_state("Stable", max_size=5)
    assert scene.join("five", protocols=RANGE_RR).outcome == "parked"
    assert scene.knock("six", protocols=RANGE_RR).outcome == "MEMBER_ID_REQUIRED"
    for name in FOUR:
        scene.join(name)
    call = scene.knock("six", protocols=RANGE_RR)
    assert (call.outcome, call.response.member_id) == ("GROUP_MAX_SIZE_REACHED", "")


def test_members_of_a_full_group_may_rejoin_but_a_static_restart_may_not() -> None:
    scene = in_state("Stable", max_size=5)
    scene.join("five", protocols=RANGE_RR)
    for name in FOUR:
        scene.join(name)
    scene.sync_all(*FOUR, "five")
    assert scene.join("fred").outcome == "NONE"
    assert scene.restart("SAM").outcome == "GROUP_MAX_SIZE_REACHED"
    assert scene.heartbeat("SAM").outcome == "NONE"


def test_pending_ids_may_exceed_the_size_of_an_empty_group() -> None:
    scene = Scene(max_size=1)
    assert [scene.knock(name).outcome for name in "abc"] == [ASK] * 3
    assert scene.knock("a").outcome == "parked"
    assert scene.knock("b").outcome == "GROUP_MAX_SIZE_REACHED"


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
