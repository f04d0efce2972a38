"""LeaveGroup: one or many, by their own wish or an operator's, and what follows."""

import pytest

from groupkeeper.coordinator.facts import GroupEmptied, MemberRemoved, RebalanceStarted
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.group_events import CauseCode
from tests.support.scene import FOUR, Scene, in_state

IDS, FENCED = "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"
S1, T1, F, L = "SAM-1", "TIM-1", "fred-1", "lea-1"

Entry = tuple[str, str | None]
COMBINATIONS: list[tuple[list[Entry], str]] = [
    ([("", "SAM")], "NONE"),
    ([(S1, "SAM")], "NONE"),
    ([(S1, None)], "NONE"),
    ([(F, None)], "NONE"),
    ([("x", "SAM")], FENCED),
    ([(T1, "SAM")], FENCED),
    ([(F, "SAM")], FENCED),
    ([(S1, "N")], IDS),
    ([("", "N")], IDS),
    ([("x", "N")], IDS),
    ([("x", None)], IDS),
    ([("", None)], IDS),
    ([("", "SAM"), ("", "TIM")], "NONE NONE"),
    ([("", "SAM"), ("", "N")], f"NONE {IDS}"),
    ([("x", "SAM"), (T1, "TIM")], f"{FENCED} NONE"),
    ([("", "SAM"), (S1, "SAM")], f"NONE {IDS}"),
    ([(F, None), (F, None)], f"NONE {IDS}"),
    ([(L, None), (F, None), (S1, None), ("", "TIM")], "NONE NONE NONE NONE"),
    ([], ""),
]


def results(scene: Scene, *entries: Entry) -> str:
    call = scene.leave_as("operator", *entries)
    assert call.response.error_code == 0
    echoed = [(m.member_id, m.group_instance_id) for m in call.response.members]
    assert echoed == list(entries)
    return " ".join(ErrorCode(m.error_code).name for m in call.response.members)


@pytest.mark.parametrize(("entries", "expected"), COMBINATIONS)
def test_combinations_in_a_stable_group(entries: list[Entry], expected: str) -> None:
    scene = in_state("Stable")
    rounds = len(scene.noted(RebalanceStarted))
    assert results(scene, *entries) == expected
    left = expected.split().count("NONE")
    assert scene.state == {0: "Stable", 4: "Empty"}.get(left, "PreparingRebalance")
    assert len(scene.noted(RebalanceStarted)) == rounds + bool(left)


@pytest.mark.parametrize("state", ["Dead", "Empty"])
def test_in_a_group_without_members_everybody_is_unknown(state: str) -> None:
    scene = in_state(state)
    assert results(scene, (S1, "SAM"), ("", None)) == f"{IDS} {IDS}"
    assert scene.state == state


@pytest.mark.parametrize("version", [0, 1, 2])
def test_before_version_3_the_result_is_on_top(version: int) -> None:
    assert Scene().leave_as("x", ("x", None), version=version).response.error_code == 25
    scene = in_state("Stable")
    assert scene.leave_as("x", ("x", None), version=version).response.error_code == 25
    assert scene.leave("fred", version=version).response.error_code == 0
    assert "fred-1" not in scene.group.members


@pytest.mark.parametrize("version", [0, 3, 5])
def test_an_empty_group_id_is_refused_on_top(version: int) -> None:
    call = Scene().leave_as("x", ("x", None), group="", version=version)
    assert call.outcome == "INVALID_GROUP_ID"
    assert call.response.members == []


def test_leaving_the_join_phase_may_complete_it() -> None:
    scene = in_state("PreparingRebalance")
    calls = [scene.join(name) for name in ("lea", "SAM", "TIM")]
    scene.leave("fred")
    assert {call.outcome for call in calls} == {"NONE"}


def test_a_parked_join_of_the_leaving_member_is_answered() -> None:
    scene = in_state("PreparingRebalance")
    parked = scene.join("fred")
    scene.leave("fred")
    assert (parked.outcome, parked.response.member_id) == (IDS, "")


def test_the_initial_delay_is_waited_out_though_everybody_left() -> None:
    scene = Scene()
    scene.join("alice")
    scene.leave("alice")
    assert scene.state == "PreparingRebalance"
    scene.advance(3_000)
    assert (scene.state, scene.group.generation) == ("Empty", 1)


def test_the_last_one_to_leave_writes_the_empty_group_and_waits_for_it() -> None:
    scene = Scene()
    scene.form("alice")
    scene.hold = True
    call = scene.leave("alice")
    assert call.parked
    scene.flush()
    assert (scene.state, scene.group.generation, call.outcome) == ("Empty", 2, "NONE")
    scene.crash()
    assert (scene.state, scene.group.generation) == ("Empty", 2)


@pytest.mark.parametrize("state", ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable"])
def test_a_pending_id_may_leave_and_rebalances_as_in_kafka_4(state: str) -> None:
    scene = in_state(state)
    scene.knock("new")
    assert results(scene, ("new-1", None)) == "NONE"
    assert scene.state == ("Empty" if state == "Empty" else "PreparingRebalance")
    assert scene.knock("new").outcome == IDS


@pytest.mark.parametrize("instance", ["new", "sam"])
def test_a_pending_id_leaves_whatever_instance_is_said_with_it(instance: str) -> None:
    scene = in_state("Stable")
    scene.knock("new")
    assert results(scene, ("new-1", instance)) == "NONE"
    assert scene.knock("new").outcome == IDS


def test_a_pending_id_that_leaves_may_complete_the_join_phase() -> None:
    scene = in_state("PreparingRebalance")
    scene.knock("new")
    calls = [scene.join(name) for name in FOUR]
    assert {call.outcome for call in calls} == {"parked"}
    scene.leave("new")
    assert {call.outcome for call in calls} == {"NONE"}


def test_a_dead_clients_leave_is_not_needed_twice() -> None:
    scene = in_state("Stable")
    scene.leave("fred")
    assert scene.leave("fred").outcome == IDS


@pytest.mark.parametrize(
    ("sender", "entries", "code"),
    [
        ("fred", [(F, None)], CauseCode.MEMBER_LEFT),
        ("SAM", [(S1, "SAM")], CauseCode.MEMBER_LEFT),
        ("operator", [(F, None)], CauseCode.MEMBER_REMOVED_BY_ADMIN),
        ("SAM", [("", "SAM")], CauseCode.MEMBER_REMOVED_BY_ADMIN),
        ("fred", [(F, None), (S1, None)], CauseCode.MEMBER_REMOVED_BY_ADMIN),
    ],
)
def test_leaving_and_being_removed_are_told_apart(
    sender: str, entries: list[Entry], code: CauseCode
) -> None:
    scene = in_state("Stable")
    scene.leave_as(sender, *entries, reason="scale in")
    cause = scene.noted(MemberRemoved)[-1].cause
    assert (cause.code, cause.reason) == (code, "scale in")
    assert scene.noted(RebalanceStarted)[-1].cause.code == code


def test_who_emptied_the_group_is_noted() -> None:
    scene = Scene()
    scene.form("alice")
    scene.leave("alice", reason="bye")
    (fact,) = scene.noted(GroupEmptied)
    assert (fact.cause.code, fact.cause.reason) == (CauseCode.MEMBER_LEFT, "bye")
