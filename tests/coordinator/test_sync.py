"""SyncGroup: who waits for whom, what the plan may say, and who is too late."""

from typing import Any

import pytest

from groupkeeper.coordinator.facts import MemberRemoved, RebalanceCompleted
from groupkeeper.protocol.group_events import CauseCode
from tests.support.scene import FOUR, Scene, in_state

STATES = ("Dead", "Empty", "PreparingRebalance", "CompletingRebalance", "Stable")
IDS, GEN, FENCED = "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "FENCED_INSTANCE_ID"
MIXED, AGAIN, NO_GROUP = "INCONSISTENT_GROUP_PROTOCOL", "REBALANCE_IN_PROGRESS", "INVALID_GROUP_ID"
TABLE: list[tuple[dict[str, Any], str]] = [
    ({}, f"{IDS} {IDS} {AGAIN} parked NONE"),
    ({"protocol_type": None}, f"{MIXED} {MIXED} {MIXED} {MIXED} {MIXED}"),
    ({"protocol_name": None}, f"{MIXED} {MIXED} {MIXED} {MIXED} {MIXED}"),
    ({"protocol_name": None, "version": 4}, f"{IDS} {IDS} {AGAIN} parked NONE"),
    ({"group_id": ""}, f"{NO_GROUP} {NO_GROUP} {NO_GROUP} {NO_GROUP} {NO_GROUP}"),
    ({"member_id": "x", "generation_id": 99}, f"{IDS} {IDS} {IDS} {IDS} {IDS}"),
    ({"group_instance_id": "SAM", "generation_id": 99}, f"{IDS} {IDS} {FENCED} {FENCED} {FENCED}"),
    ({"generation_id": 99, "protocol_name": "other"}, f"{IDS} {IDS} {GEN} {GEN} {GEN}"),
    ({"protocol_name": "other"}, f"{IDS} {IDS} {MIXED} {MIXED} {MIXED}"),
    ({"protocol_type": "other"}, f"{IDS} {IDS} {MIXED} {MIXED} {MIXED}"),
]


def current(scene: Scene, name: str = "fred") -> int:
    """Make the person speak of the group's generation, whatever it heard."""
    generation = scene.group.generation if scene.state != "Dead" else 1
    scene.person(name).generation = generation
    return generation


@pytest.mark.parametrize(
    ("state", "other", "expected"),
    [
        (state, other, outcome)
        for other, row in TABLE
        for state, outcome in zip(STATES, row.split(), strict=True)
    ],
)
def test_order_of_checks(state: str, other: dict[str, Any], expected: str) -> None:
    scene = in_state(state)
    current(scene)
    assert scene.sync("fred", **other).outcome == expected


def test_a_pending_id_cannot_sync() -> None:
    scene = in_state("CompletingRebalance")
    scene.knock("new")
    current(scene, "new")
    assert scene.sync("new", protocol_name="range").outcome == IDS


@pytest.mark.parametrize(("said", "expected"), [({}, AGAIN), ({"protocol_type": "other"}, MIXED)])
def test_before_the_first_election_no_protocol_is_wrong(said: Any, expected: str) -> None:
    scene = Scene()
    assert scene.join("lea").parked
    current(scene, "lea")
    assert scene.sync("lea", **{"protocol_name": "other"} | said).outcome == expected


def test_followers_wait_for_the_leader_and_late_ones_do_not() -> None:
    scene = in_state("CompletingRebalance")
    early = scene.sync("fred")
    assert early.parked
    scene.sync("lea", {"fred": b"1", "SAM": b"2"})
    assert early.response.assignment == b"1"
    assert scene.sync("SAM").response.assignment == b"2"


@pytest.mark.parametrize("version", range(6))
def test_a_success_names_the_protocol_from_version_5(version: int) -> None:
    scene = in_state("Stable")
    reply = scene.sync("fred", version=version).response
    expected = ("consumer", "range") if version >= 5 else (None, None)
    assert (reply.protocol_type, reply.protocol_name) == expected
    assert reply.assignment == b"for fred"


def test_an_error_names_no_protocol_and_no_assignment() -> None:
    reply = in_state("PreparingRebalance").sync("fred").response
    assert (reply.protocol_type, reply.protocol_name, reply.assignment) == (None, None, b"")


def test_whom_the_leader_forgets_gets_an_empty_assignment() -> None:
    scene = in_state("CompletingRebalance")
    scene.sync("lea", {"SAM": b"2"})
    assert scene.sync("fred").response.assignment == b""


def test_strangers_in_the_plan_are_dropped() -> None:
    scene = in_state("CompletingRebalance")
    scene.sync("lea", {"stranger": b"x"})
    scene.crash()
    assert {m.member_assignment for m in scene.describe().members} == {b""}


def test_an_empty_plan_is_a_plan() -> None:
    scene = in_state("CompletingRebalance")
    assert scene.sync("lea", {}).outcome == "NONE"
    assert scene.state == "Stable"


def test_a_followers_plan_is_ignored() -> None:
    scene = in_state("CompletingRebalance")
    assert scene.sync("fred", {"fred": b"all"}).parked
    scene.sync("lea", {})
    assert scene.sync("fred").response.assignment == b""


def test_in_stable_even_the_leaders_plan_is_ignored() -> None:
    scene = in_state("Stable")
    assert scene.sync("lea", {"lea": b"all"}).response.assignment == b"for lea"


def test_a_newer_sync_of_the_same_member_replaces_the_parked_one() -> None:
    scene = in_state("CompletingRebalance")
    first, second = scene.sync("fred"), scene.sync("fred")
    assert (first.outcome, second.outcome) == (AGAIN, "parked")


def test_a_member_removed_while_its_sync_is_parked_is_told() -> None:
    scene = in_state("CompletingRebalance")
    own, other = scene.sync("fred"), scene.sync("SAM")
    scene.leave("fred")
    assert (own.outcome, other.outcome) == (IDS, AGAIN)


def test_the_session_stands_still_while_the_sync_is_parked_and_starts_anew_after() -> None:
    scene = in_state("CompletingRebalance")
    scene.sync("fred")
    for _ in range(5):
        scene.advance(5_000)
        scene.heartbeat("lea")
        scene.heartbeat("SAM")
        scene.heartbeat("TIM")
    scene.sync("lea", {})
    scene.advance(9_999)
    assert "fred-1" in scene.group.members
    scene.advance(1)
    assert "fred-1" not in scene.group.members


def test_a_sync_in_stable_is_no_heartbeat() -> None:
    scene = in_state("Stable")
    scene.advance(9_999)
    scene.sync("fred")
    scene.advance(1)
    assert "fred-1" not in scene.group.members


def test_when_the_leader_dies_the_parked_are_told_to_join_again() -> None:
    scene = in_state("CompletingRebalance")
    calls = [scene.sync(name) for name in ("fred", "SAM", "TIM")]
    scene.advance(10_000)
    assert {call.outcome for call in calls} == {AGAIN}
    assert scene.cause.code == CauseCode.SESSION_EXPIRED


def silent(scene: Scene, *names: str, ms: int) -> None:
    """Let time go by while everybody else sends heartbeats."""
    for _ in range(ms // 5_000):
        for name in FOUR:
            if name not in names:
                scene.heartbeat(name)
        scene.advance(5_000)


def test_who_only_heartbeats_and_never_syncs_is_removed() -> None:
    """Static or not, Stable or not (KAFKA-12890)."""
    scene = in_state("CompletingRebalance")
    scene.sync("fred")
    scene.sync("lea", {})
    silent(scene, ms=60_000)
    assert list(scene.group.members) == ["lea-1", "fred-1"]
    causes = [fact.cause.code for fact in scene.noted(MemberRemoved)[-2:]]
    assert causes == [CauseCode.SYNC_TIMEOUT] * 2
    assert scene.state == "PreparingRebalance"


def test_when_all_have_synced_nobody_is_removed() -> None:
    scene = in_state("CompletingRebalance")
    scene.sync_all(*FOUR)
    silent(scene, ms=120_000)
    assert scene.state == "Stable"


def test_a_new_rebalance_stops_the_sync_timer() -> None:
    scene = in_state("CompletingRebalance")
    scene.leave("SAM")
    assert scene.group.pending_sync == {}


def test_nobody_is_shown_an_assignment_before_it_is_durable() -> None:
    scene = in_state("CompletingRebalance")
    early = scene.sync("fred")
    scene.hold = True
    late = [scene.sync("lea", {}), scene.sync("SAM"), early]
    assert all(call.parked for call in late)
    scene.flush()
    assert {call.outcome for call in late} == {"NONE"}


def test_a_rebalance_that_begins_while_the_plan_is_being_written_changes_no_answer() -> None:
    """Kafka would say 27 here; so does our next heartbeat."""
    scene = in_state("CompletingRebalance")
    waiting = scene.sync("fred")
    scene.hold = True
    scene.sync("lea", {"fred": b"share"})
    scene.leave("TIM")
    scene.flush()
    assert waiting.response.assignment == b"share"
    assert scene.heartbeat("fred").outcome == AGAIN


def test_a_plan_too_large_to_write_is_refused_to_all_and_the_round_starts_again() -> None:
    scene = in_state("CompletingRebalance", message_max_bytes=2_000)
    waiting = scene.sync("fred")
    leader = scene.sync("lea", {"fred": bytes(5_000)})
    assert leader.outcome == waiting.outcome == "UNKNOWN_SERVER_ERROR"
    assert leader.response.protocol_name is None
    assert scene.state == "PreparingRebalance"
    assert scene.cause.code == CauseCode.ASSIGNMENT_LOST


def test_the_end_of_the_round_is_noted_with_its_duration() -> None:
    scene = Scene()
    scene.join("lea")
    scene.advance(3_500)
    scene.sync("lea", {})
    (fact,) = scene.noted(RebalanceCompleted)
    assert (fact.members, fact.duration_ms, fact.state) == (1, 3_500, "Stable")
