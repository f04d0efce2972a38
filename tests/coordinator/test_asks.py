"""Members that are asked to rejoin, between two requests of theirs (docs/policies.md)."""

import pytest

from groupkeeper.coordinator.policy import STATIC, Policy
from tests.coordinator.test_scaling import scene_of
from tests.coordinator.test_seats import shares
from tests.coordinator.test_steps import KINDS, Stage


def stage_of(kind: str) -> Stage:
    """`lea` has four partitions, and is asked for two of them, for `zoe`."""
    stage = Stage(kind, count=4)
    stage.form("lea")
    stage.add("zoe")
    stage.scene.advance(1_000)
    assert list(stage.scene.group.asked) == ["lea-1"]
    return stage


@pytest.mark.parametrize("kind", KINDS)
def test_one_that_is_asked_has_its_partitions_until_it_has_released_them(kind: str) -> None:
    stage = stage_of(kind)
    stage.scene.crash()
    assert shares(stage.scene)["lea"] == [0, 1, 2, 3]


def test_one_that_has_yet_to_release_may_send_heartbeats() -> None:
    stage = stage_of("cooperative")
    scene, lea = stage.scene, stage.clients["lea"]
    assert scene.heartbeat("lea").outcome == "REBALANCE_IN_PROGRESS"
    assert scene.join("lea", protocols={"range": lea.metadata}).outcome == "NONE"
    assert scene.sync("lea").outcome == "NONE"
    assert scene.heartbeat("lea").outcome == "NONE"
    lea.holds = {0, 1}
    assert scene.join("lea", protocols={"range": lea.metadata}).outcome == "NONE"
    assert shares(scene) == {"lea": [0, 1], "zoe": [2, 3]}


def test_a_standby_is_not_preferred_as_leader() -> None:
    scene = scene_of(Policy(target_size=1, leader=STATIC), "lea", "FRED")
    assert (list(scene.group.standbys), scene.group.leader_id) == (["FRED-1"], "lea-1")
