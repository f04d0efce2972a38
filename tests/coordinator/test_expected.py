"""Members that are expected: they start and end together (KIP-345, future works; docs/policies.md).
And who leads.
"""

from dataclasses import replace

import pytest

from groupkeeper.coordinator.facts import RebalanceDeferred, RebalanceStarted, RequestRefused
from groupkeeper.coordinator.policy import (
    EXPECTED_IDS,
    EXPECTED_WAIT,
    LEADER,
    UNEXPECTED,
    LeaderPreference,
    Policy,
    Unexpected,
)
from groupkeeper.coordinator.standby import EMPTY_ASSIGNMENT
from groupkeeper.protocol.embedded import CONSUMER
from groupkeeper.protocol.group_events import CauseCode
from tests.coordinator.test_seats import live, lose, plan, share
from tests.support.scene import Scene

FOUR = ("A", "B", "C", "D")
EXPECTING = Policy(expected=frozenset(FOUR))


def come(scene: Scene, name: str) -> None:
    """A static member is let in, and gets no partitions."""
    call = scene.join(name, instance=name)
    assert (call.outcome, call.response.leader, call.response.members) == ("NONE", "", [])
    assert scene.sync(name).response.assignment == EMPTY_ASSIGNMENT


def rebalance(scene: Scene, *names: str) -> list[str]:
    """All rejoin and sync; returns the ids that the leader saw."""
    calls = [scene.join(name) for name in names]
    assert {call.outcome for call in calls} == {"NONE"}
    [seen] = [call.response.members for call in calls if call.response.members]
    plan(scene, names, {name: share(number) for number, name in enumerate(names)})
    assert scene.state == "Stable"
    return [each.member_id for each in seen]


def rebalances(scene: Scene) -> int:
    return len(scene.noted(RebalanceStarted))


def settled(policy: Policy = EXPECTING) -> Scene:
    """The four are there, and have partitions."""
    scene = Scene(policy=policy)
    for name in FOUR:
        come(scene, name)
    scene.advance(0)
    rebalance(scene, *FOUR)
    return scene


def test_when_all_have_come_there_is_one_rebalance() -> None:
    scene = Scene(policy=EXPECTING)
    for number, name in enumerate(FOUR[:3]):
        come(scene, name)
        live(scene, 5_000, *FOUR[: number + 1])
        assert scene.state == "Stable"
    assert rebalances(scene) == 0
    come(scene, "D")
    scene.advance(0)
    assert (scene.state, scene.cause.code) == ("PreparingRebalance", CauseCode.EXPECTED_COMPLETE)
    assert scene.cause.evidence == {"newcomers": 4, "waited_ms": 15_000}
    assert len(rebalance(scene, *FOUR)) == 4
    assert rebalances(scene) == 1
    policies = {(each.policy, each.for_ms) for each in scene.noted(RebalanceDeferred)}
    assert (EXPECTED_IDS, 60_000) in policies


STREAMS = {"stream": b"\0\0\0\0\0\1\0\1t\0\0\0\2\1\1"}
"""Of Kafka Streams, which cannot read an assignment without its own data."""


def test_streams_do_not_wait_for_each_other() -> None:
    scene = Scene(policy=EXPECTING)
    assert scene.join("A", instance="A", protocols=STREAMS).parked
    assert scene.cause.code is CauseCode.STATIC_MEMBER_JOINED


@pytest.mark.parametrize("kind", ["connect", CONSUMER])
def test_only_plain_consumers_are_refused(kind: str) -> None:
    scene = Scene(policy=replace(EXPECTING, unexpected="refuse"))
    protocols = STREAMS if kind == CONSUMER else {"sessioned": b""}
    assert scene.join("X", protocols=protocols, type=kind).parked


def test_no_instance_of_streams_stands_by() -> None:
    """Not in the first rebalance either, in which no assignment was seen yet."""
    scene = Scene(policy=Policy(target_size=1))
    for name in ("lea", "fred"):
        scene.join(name, protocols=STREAMS)
    scene.advance(6_000)
    assert len(scene.join("lea").response.members) == 2


def test_one_does_not_come_and_is_named() -> None:
    scene = Scene(policy=EXPECTING)
    for name in FOUR[:3]:
        come(scene, name)
    live(scene, 59_000, *FOUR[:3])
    assert rebalances(scene) == 0
    live(scene, 1_000, *FOUR[:3])
    assert scene.cause.code is CauseCode.EXPECTED_MISSING
    assert scene.cause.evidence == {
        "newcomers": 3,
        "waited_ms": 60_000,
        "missing": ["D"],
        "count": 1,
    }
    rebalance(scene, *FOUR[:3])
    assert scene.join("D", instance="D").parked, "nobody else is missing"


def test_new_ids_wait_for_each_other_in_a_group_at_work() -> None:
    scene = settled()
    scene.configure({EXPECTED_IDS: "A,B,C,D,E,F"})
    call = scene.join("E", instance="E")
    assert call.outcome == "NONE"
    scene.sync("E")
    assert scene.state == "Stable"
    scene.join("F", instance="F")
    scene.sync("F")
    scene.advance(0)
    assert scene.cause.code is CauseCode.EXPECTED_COMPLETE
    assert len(rebalance(scene, *FOUR, "E", "F")) == 6
    assert rebalances(scene) == 2


def test_ids_that_are_not_expected_any_more_are_one_rebalance_when_all_have_gone() -> None:
    scene = settled()
    scene.configure({EXPECTED_IDS: "A,B"})
    lose(scene, "C", "A", "B", "D")
    assert scene.state == "Stable"
    live(scene, 5_000, "A", "B", "D")
    scene.leave("D")
    assert scene.state == "PreparingRebalance"
    scene.advance(0)
    assert len(scene.group.members) == 2
    rebalance(scene, "A", "B")
    assert rebalances(scene) == 2


def test_one_that_stays_is_not_waited_for_longer_than_that() -> None:
    scene = settled()
    scene.configure({EXPECTED_IDS: "A,B", EXPECTED_WAIT: "20000"})
    scene.leave("C")
    live(scene, 20_000, "A", "B", "D")
    assert scene.cause.code is CauseCode.SEAT_EXPIRED


UNEXPECTED_MEMBERS: list[tuple[Unexpected, str]] = [
    ("allow", "parked"),
    ("standby", "NONE"),
    ("refuse", "GROUP_MAX_SIZE_REACHED"),
]


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize(("unexpected", "outcome"), UNEXPECTED_MEMBERS)
def test_members_that_are_not_expected(unexpected: Unexpected, outcome: str, static: bool) -> None:
    scene = settled(Policy(expected=frozenset(FOUR), unexpected=unexpected))
    call = scene.join("zoe", instance="zoe" if static else None)
    assert call.outcome == outcome
    refusals = scene.noted(RequestRefused)
    assert [(each.api, each.error) for each in refusals] == (
        [("JoinGroup", "GROUP_MAX_SIZE_REACHED")] if unexpected == "refuse" else []
    )
    if unexpected != "allow":
        assert scene.restart("A").outcome == "NONE", "one that is expected"


def test_a_member_that_came_first_is_not_refused_later() -> None:
    scene = Scene()
    scene.form("zoe")
    scene.configure({EXPECTED_IDS: "A", UNEXPECTED: "refuse"})
    scene.force_rebalance()
    assert scene.join("zoe").outcome == "NONE"


def test_what_nobody_has_a_share_of_is_forgotten_in_a_crash() -> None:
    scene = Scene(policy=EXPECTING)
    come(scene, "A")
    scene.crash()
    assert scene.heartbeat("A").outcome == "UNKNOWN_MEMBER_ID"
    scene.person("A").member_id = ""
    come(scene, "A")


def test_the_last_one_of_those_that_wait_goes() -> None:
    scene = Scene(policy=EXPECTING)
    come(scene, "A")
    scene.leave("A")
    assert scene.state == "Empty"


def test_a_wait_that_is_switched_off_is_over() -> None:
    scene = Scene()
    scene.configure({EXPECTED_IDS: "A,B"})
    come(scene, "A")
    scene.configure({EXPECTED_IDS: "A"})
    scene.advance(0)
    assert scene.cause.code is CauseCode.EXPECTED_COMPLETE


# -- who leads -------------------------------------------------------------------------------------


LEADERS: list[tuple[LeaderPreference, str]] = [
    ("first", "lea-1"),
    ("longest", "fred-1"),
    ("static", "SAM-1"),
]


@pytest.mark.parametrize(("preference", "leader"), LEADERS)
def test_who_leads(preference: LeaderPreference, leader: str) -> None:
    """lea leads and was restarted early; fred is there for longest; SAM is static."""
    scene = Scene(policy=Policy(leader=preference, grace_ms=60_000))
    for name in ("lea", "fred"):
        scene.join(name)
    scene.join("SAM", instance="SAM")
    scene.advance(6_000)
    names = ("lea", "fred", "SAM")
    plan(scene, names, {name: share(0) for name in names})
    if preference == "static":
        assert scene.group.leader_id == leader
        return
    scene.restart("lea")
    scene.sync("lea")
    scene.force_rebalance()
    for name in names:
        scene.join(name)
    wanted = "lea-2" if preference == "first" else leader
    assert scene.group.leader_id == wanted


def test_the_leader_sees_members_in_an_order_that_outlives_restarts() -> None:
    scene = Scene()
    scene.configure({LEADER: "longest"})
    for name in ("zoe", "ann"):
        scene.join(name)
    scene.join("SAM", instance="SAM")
    scene.advance(6_000)
    told = scene.join("zoe").response
    seen = [each.member_id for each in told.members]
    assert seen == ["ann-1", "zoe-1", "SAM-1"]


def test_a_member_that_is_not_expected_stands_by_in_every_rebalance() -> None:
    scene = settled(Policy(expected=frozenset(FOUR), unexpected="standby"))
    scene.join("zoe")
    scene.sync("zoe")
    scene.force_rebalance()
    assert len(rebalance(scene, *FOUR, "zoe")) == 4
    assert list(scene.group.standbys) == ["zoe-1"]


def test_a_member_that_is_not_expected_works_while_no_other_one_is_there() -> None:
    scene = Scene()
    scene.form("zoe")
    scene.configure({EXPECTED_IDS: "A", UNEXPECTED: "standby"})
    scene.force_rebalance()
    assert rebalance(scene, "zoe") == ["zoe-1"]
