"""Heartbeat: its checks, the session it keeps alive, and the short cut for a steady one."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.cases import each
from tests.support.scene import Scene, in_state

STATES = ("Dead", "Empty", "PreparingRebalance", "CompletingRebalance", "Stable")
IDS, GEN, FENCED = "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "FENCED_INSTANCE_ID"
AGAIN, NO_GROUP = "REBALANCE_IN_PROGRESS", "INVALID_GROUP_ID"
TABLE: list[tuple[str, dict[str, Any], str]] = [
    ("fred", {}, f"{IDS} {IDS} {AGAIN} NONE NONE"),
    ("SAM", {}, f"{IDS} {IDS} {AGAIN} NONE NONE"),
    ("SAM", {"version": 2}, f"{IDS} {IDS} {AGAIN} NONE NONE"),
    ("fred", {"group_id": ""}, f"{NO_GROUP} {NO_GROUP} {NO_GROUP} {NO_GROUP} {NO_GROUP}"),
    ("fred", {"generation_id": 0}, f"{IDS} {IDS} {GEN} {GEN} {GEN}"),
    ("fred", {"member_id": "x"}, f"{IDS} {IDS} {IDS} {IDS} {IDS}"),
    ("fred", {"group_instance_id": "N"}, f"{IDS} {IDS} {IDS} {IDS} {IDS}"),
    ("SAM", {"member_id": "x", "generation_id": 0}, f"{IDS} {IDS} {FENCED} {FENCED} {FENCED}"),
    ("SAM", {"member_id": ""}, f"{IDS} {IDS} {FENCED} {FENCED} {FENCED}"),
    ("SAM", {"group_instance_id": "TIM"}, f"{IDS} {IDS} {FENCED} {FENCED} {FENCED}"),
]


@each(
    (state, who, other, outcome)
    for who, other, row in TABLE
    for state, outcome in zip(STATES, row.split(), strict=True)
)
def test_order_of_checks(state: str, who: str, other: dict[str, Any], expected: str) -> None:
    scene = in_state(state)
    current = {"generation_id": scene.group.generation} if state != "Dead" else {}
    assert scene.heartbeat(who, **current | other).outcome == expected


@pytest.mark.parametrize("state", ["CompletingRebalance", "Stable"])
def test_a_heartbeat_a_moment_before_the_end_saves_the_member(state: str) -> None:
    scene = in_state(state)
    scene.advance(9_999)
    scene.heartbeat("fred")
    scene.advance(9_999)
    assert list(scene.group.members) == ["fred-1"]
    scene.advance(1)
    assert scene.state == "Empty"


def test_a_heartbeat_waits_behind_what_is_not_durable() -> None:
    scene = in_state("Stable")
    scene.hold = True
    scene.commit("fred")
    beat = scene.heartbeat("lea")
    assert beat.parked
    scene.flush()
    assert beat.outcome == "NONE"


# -- the short cut ---------------------------------------------------------------------------------


def test_a_steady_beat_moves_the_deadline() -> None:
    scene = Scene()
    scene.form("fred")
    scene.heartbeat("fred")
    beat = scene.steady_beat("fred")
    assert beat is not None
    for _ in range(10):
        scene.advance(9_999)
        assert scene.partition.beat(beat, scene.now)
    scene.advance(10_000)
    assert scene.state == "Empty"


@pytest.mark.parametrize("state", ["Empty", "PreparingRebalance"])
def test_there_is_no_short_cut_to_another_answer_than_none(state: str) -> None:
    scene = in_state(state)
    scene.person("fred").generation = scene.group.generation
    assert scene.steady_beat("fred") is None


def test_there_is_no_short_cut_for_strangers() -> None:
    scene = in_state("Stable")
    assert scene.steady_beat("nobody") is None
    assert Scene().steady_beat("nobody") is None


def test_there_is_no_short_cut_while_a_sync_is_parked() -> None:
    """The session stands still then, and its timer may be gone."""
    scene = in_state("CompletingRebalance")
    beat = scene.steady_beat("fred")
    scene.sync("fred")
    assert beat is not None
    assert scene.partition.beat(beat, scene.now) is False
    assert scene.steady_beat("fred") is None


CHANGES: dict[str, Callable[[Scene], object]] = {
    "a rebalance": lambda scene: scene.leave("TIM"),
    "a pending id that leaves": lambda scene: (scene.knock("new"), scene.leave("new")),
    "a restart": lambda scene: scene.restart("SAM"),
    "an expired session": lambda scene: scene.advance(10_000),
    "the removal of the member": lambda scene: scene.leave("fred"),
    "a closed partition": lambda scene: scene.fail(),
    "a new session timeout": lambda scene: scene.join("lea", session=5_000),
    "the end of the group": lambda scene: (
        scene.leave("lea", "fred", "SAM", "TIM"),
        scene.delete(),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_beat_is_good_until(change: str) -> None:
    scene = in_state("Stable")
    beat = scene.steady_beat("fred")
    assert beat is not None
    partition = scene.partition
    assert partition.beat(beat, scene.now)
    CHANGES[change](scene)
    assert not partition.beat(beat, scene.now)


def test_a_beat_takes_the_long_way_while_something_is_being_written() -> None:
    scene = in_state("Stable")
    beat = scene.steady_beat("fred")
    assert beat is not None
    scene.hold = True
    scene.commit("fred")
    assert not scene.partition.beat(beat, scene.now)
    scene.flush()
    assert scene.partition.beat(beat, scene.now)
