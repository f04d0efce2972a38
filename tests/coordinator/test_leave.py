"""LeaveGroup: one or many, by their own wish or an operator's, and what follows."""

import pytest

from groupkeeper.coordinator.facts import GroupEmptied, MemberRemoved, RebalanceStarted
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.group_events import CauseCode
from tests.support.cases import each
from tests.support.scene import Scene, in_state

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


@each(COMBINATIONS)
def test_combinations_in_a_stable_group(entries: list[Entry], expected: str) -> None:
    scene = in_state("Stable")
    rounds = len(scene.noted(RebalanceStarted))
    assert results(scene, *entries) == expected
    left = expected.split().count("NONE")
    assert scene.state == {0: "Stable", 4: "Empty"}.get(left, "PreparingRebalance")
    assert len(scene.noted(RebalanceStarted)) == rounds + bool(left)


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
