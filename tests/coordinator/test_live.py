"""What a group is doing right now."""

from typing import Any

import pytest

from groupkeeper.coordinator.live import IDS_SHOWN, MEMBERS_IN_A_SLICE, live_view, longest_silence
from groupkeeper.coordinator.policy import Policy
from groupkeeper.coordinator.standby import EMPTY_ASSIGNMENT
from tests.support.scene import GROUP, RANGE_RR, SESSION, Scene, topics
from tests.support.slices import counted, whole


@pytest.fixture
def scene() -> Scene:
    return Scene()


def view(scene: Scene) -> dict[str, Any]:
    slices = looking(scene)
    while True:
        try:
            next(slices)
        except StopIteration as end:
            found: dict[str, Any] = end.value
            return found


def looking(scene: Scene) -> Any:
    return live_view(scene.group, scene.partition.deadlines, scene.now, scene.wall)


def member(found: dict[str, Any], name: str) -> dict[str, Any]:
    [row] = [each for each in found["members"] if each["client_id"] == name]
    return row


def test_a_stable_group(scene: Scene) -> None:
    scene.form("lea", "SAM")
    scene.advance(2_000)
    scene.heartbeat("lea")
    scene.advance(1_000)
    found = view(scene)
    assert (found["group"], found["state"], found["generation"]) == (GROUP, "Stable", 1)
    assert (found["protocol"], found["leader"]) == ("range", "lea-1")
    assert found["rebalance"] is None and found["waiting_for"] == [] and found["pending"] == []
    lea, sam = member(found, "lea"), member(found, "SAM")
    assert (lea["heard_ms_ago"], sam["heard_ms_ago"]) == (1_000, 3_000)
    assert (lea["instance"], sam["instance"]) == (None, "SAM")
    assert found["next_timer"] == {"name": "session", "member": "SAM-1", "in_ms": 7_000}


def test_a_join_phase_names_who_is_missing_and_when_it_ends(scene: Scene) -> None:
    scene.form("lea", "fred")
    scene.advance(1_000)
    scene.knock("zoe")  # is told an id, and does not come back
    scene.knock("lea", protocols={"range": topics("t", "more")})
    scene.advance(2_000)
    found = view(scene)
    assert found["state"] == "PreparingRebalance"
    assert found["waiting_for"] == ["fred-1", "zoe-1"]
    assert (member(found, "lea")["joined"], member(found, "fred")["joined"]) == (True, False)
    assert found["pending"] == [{"member": "zoe-1", "expires_in_ms": 8_000}]
    rebalance = found["rebalance"]
    assert (rebalance["phase"], rebalance["since_ms"]) == ("join", 2_000)
    assert rebalance["initial_delay"] is False
    assert rebalance["cause"]["code"] == "subscription_changed"
    assert rebalance["cause"]["who"]["client_id"] == "lea"
    assert found["next_timer"] == {"name": "session", "member": "fred-1", "in_ms": 7_000}
    assert found["phase_timer"] == {"name": "join", "member": None, "in_ms": 58_000}


def test_the_session_of_a_member_that_waits_does_not_end(scene: Scene) -> None:
    scene.form("lea", "fred")
    scene.knock("lea", protocols={"range": b"more"})
    for _ in range(3):
        scene.advance(5_000)
        scene.heartbeat("fred")
    found = view(scene)
    assert found["next_timer"]["member"] == "fred-1"


def test_the_initial_delay_of_an_empty_group() -> None:
    scene = Scene(initial_rebalance_delay_ms=3_000)
    scene.join("lea")
    scene.advance(1_000)
    found = view(scene)
    assert found["rebalance"]["initial_delay"] is True
    assert found["next_timer"] == {"name": "initial_delay", "member": None, "in_ms": 2_000}


def test_a_sync_phase_waits_for_the_leader(scene: Scene) -> None:
    scene.join("lea")
    scene.join("fred")
    scene.advance(6_000)
    scene.sync("fred")
    found = view(scene)
    assert (found["state"], found["rebalance"]["phase"]) == ("CompletingRebalance", "sync")
    assert found["waiting_for"] == ["lea-1"]
    assert (member(found, "lea")["synced"], member(found, "fred")["synced"]) == (False, True)
    assert found["next_timer"]["name"] == "session"


def test_many_members_are_looked_at_in_slices(scene: Scene) -> None:
    scene.form("lea")
    for number in range(2 * MEMBERS_IN_A_SLICE):
        scene.knock(f"m{number}", version=3)
    slices = looking(scene)
    assert len([*slices]) == 2


def test_what_begins_between_two_slices_is_not_half_shown(scene: Scene) -> None:
    names = [f"m{number}" for number in range(MEMBERS_IN_A_SLICE)]
    scene.form(*names)
    slices = looking(scene)
    next(slices)
    scene.now += 5
    scene.join(names[0], protocols=RANGE_RR)
    with pytest.raises(StopIteration) as end:
        next(slices)
    found = end.value.value
    assert (found["state"], found["rebalance"], found["phase_timer"]) == ("Stable", None, None)
    assert found["waiting_for"] == []


def test_who_came_between_two_slices_is_not_waited_for(scene: Scene) -> None:
    names = [f"m{number}" for number in range(MEMBERS_IN_A_SLICE)]
    scene.form(*names)
    scene.join(names[0], protocols=RANGE_RR)
    slices = looking(scene)
    next(slices)
    for name in names[1:]:
        scene.join(name)
    with pytest.raises(StopIteration) as end:
        next(slices)
    last = f"{names[-1]}-1"
    assert last not in end.value.value["waiting_for"]


def test_many_pending_ids_are_looked_at_in_slices_and_the_first_are_shown(scene: Scene) -> None:
    scene.form("lea", session=60_000)
    scene.knock("early", session=8_000)
    scene.advance(1_000)
    scene.join("lea", protocols=RANGE_RR)
    many = 2 * IDS_SHOWN
    for number in range(many - 1):
        scene.knock(f"p{number}", session=5_000 if number == many - 2 else 30_000)
    assert len([*looking(scene)]) == many // MEMBERS_IN_A_SLICE
    found = view(scene)
    assert (found["pending_count"], found["waiting_for_count"]) == (many, many)
    assert len(found["pending"]) == len(found["waiting_for"]) == IDS_SHOWN
    assert found["pending"][0] == {"member": "early-1", "expires_in_ms": 7_000}
    last = f"p{many - 2}-1"
    assert found["next_timer"] == {"name": "pending_member", "member": last, "in_ms": 5_000}


def test_looking_changes_nothing(scene: Scene) -> None:
    scene.form("lea", "fred")
    scene.knock("zoe")
    before = dict(scene.partition.deadlines.due), scene.group.changes
    view(scene)
    assert (dict(scene.partition.deadlines.due), scene.group.changes) == before


def silence(scene: Scene) -> int | None:
    return whole(longest_silence(scene.group, scene.partition.deadlines, scene.now))


def test_the_longest_silence_is_that_of_the_quietest_static_member(scene: Scene) -> None:
    scene.form("lea", "SAM", "TOM")
    scene.advance(1_000)
    scene.heartbeat("SAM")
    scene.advance(500)
    scene.heartbeat("TOM")
    scene.advance(200)
    assert silence(scene) == 700


def test_without_static_members_there_is_no_silence(scene: Scene) -> None:
    scene.form("lea", "fred")
    scene.advance(1_000)
    assert silence(scene) is None


def test_a_static_member_whose_request_waits_is_not_silent(scene: Scene) -> None:
    scene.form("lea", "SAM")
    scene.advance(1_000)
    scene.join("TOM")
    scene.join("SAM")
    scene.advance(2_000)
    assert silence(scene) == 0


def test_the_silence_of_many_is_looked_at_in_slices(scene: Scene) -> None:
    scene.form(*[f"SAM{number}" for number in range(2 * MEMBERS_IN_A_SLICE)])
    slices = longest_silence(scene.group, scene.partition.deadlines, scene.now)
    assert counted(slices)[1] > 2


def test_a_lost_member_is_shown_and_not_waited_for() -> None:
    scene = Scene(policy=Policy(60_000))
    scene.form("lea", "fred")
    scene.advance(SESSION - 1_000)
    scene.heartbeat("lea")
    scene.advance(3_000)
    scene.join("zoe")
    found = view(scene)
    assert found["waiting_for"] == ["lea-1"]
    assert member(found, "fred")["reserved_ms"] == 2_000
    assert member(found, "fred")["heard_ms_ago"] == SESSION + 2_000
    assert member(found, "lea")["reserved_ms"] is None
    assert found["seats_end_in_ms"] == 58_000


def test_a_standby_is_shown() -> None:
    scene = Scene(policy=Policy(target_size=1))
    scene.join("lea")
    scene.advance(6_000)
    scene.sync("lea", {"lea": EMPTY_ASSIGNMENT})
    scene.join("zoe")
    found = view(scene)
    assert [member(found, name)["standby"] for name in ("lea", "zoe")] == [False, True]
