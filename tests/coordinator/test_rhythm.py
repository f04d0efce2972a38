"""How many heartbeats of a member came, and the longest time between two: told with its commits and
at its end.
"""

from groupkeeper.coordinator.facts import (
    MemberJoined,
    MemberRejoined,
    MemberRemoved,
    MemberReplaced,
    OffsetsCommitted,
)
from tests.support.scene import Scene, topics


def beats(scene: Scene, name: str, *distances_ms: int) -> None:
    for distance_ms in distances_ms:
        scene.advance(distance_ms)
        assert scene.heartbeat(name).outcome == "NONE"


def formed(**says: object) -> Scene:
    scene = Scene()
    scene.form("fred", **says)
    return scene


def test_a_member_that_is_gone_has_all_its_heartbeats_and_the_longest_gap() -> None:
    scene = formed()
    beats(scene, "fred", 3_000, 3_000, 8_500, 3_000)
    scene.leave("fred")
    [removed] = scene.noted(MemberRemoved)
    assert removed.rhythm == (4, 8_500)


def test_steady_heartbeats_count_as_others_do() -> None:
    scene = formed()
    beats(scene, "fred", 3_000)
    beat = scene.steady_beat("fred")
    assert beat is not None
    for distance_ms in (3_000, 7_000, 3_000):
        scene.advance(distance_ms)
        assert scene.partition.beat(beat, scene.now)
    scene.leave("fred")
    [removed] = scene.noted(MemberRemoved)
    assert removed.rhythm == (4, 7_000)


def test_heartbeats_before_a_rebalance_count_and_the_time_of_waiting_is_no_gap() -> None:
    scene = formed()
    beats(scene, "fred", 3_000, 4_000)
    scene.join("lea")
    scene.advance(2_000)
    scene.join("fred")
    scene.sync_all("fred", "lea")
    beats(scene, "fred", 3_500)
    scene.leave("fred")
    removed = scene.noted(MemberRemoved)[-1]
    assert removed.rhythm == (3, 4_000)


def test_commits_tell_the_gap_since_the_last_one_and_all_heartbeats() -> None:
    scene = formed()
    beats(scene, "fred", 3_000, 6_000)
    scene.commit("fred")
    beats(scene, "fred", 5_000)
    scene.commit("fred")
    scene.commit("fred")
    assert [each.rhythm for each in scene.noted(OffsetsCommitted)] == [
        (2, 6_000),
        (3, 5_000),
        (3, 0),
    ]
    scene.leave("fred")
    assert scene.noted(MemberRemoved)[-1].rhythm == (3, 6_000)


def test_who_is_no_member_has_no_heartbeats() -> None:
    scene = Scene()
    scene.commit("somebody")
    assert [each.rhythm for each in scene.noted(OffsetsCommitted)] == [None]


def test_a_replaced_member_leaves_its_heartbeats_behind() -> None:
    scene = formed(instance="pod-1")
    beats(scene, "fred", 3_000, 4_000)
    scene.advance(1_000)
    scene.restart("fred", instance="pod-1")
    beats(scene, "fred", 2_000)
    scene.leave("fred")
    [replaced], [removed] = scene.noted(MemberReplaced), scene.noted(MemberRemoved)
    assert (replaced.rhythm, removed.rhythm) == ((2, 4_000), (1, 2_000))


def test_heartbeats_are_counted_anew_from_a_load_on() -> None:
    scene = formed()
    beats(scene, "fred", 3_000, 9_000)
    scene.crash()
    beats(scene, "fred", 4_000)
    scene.leave("fred")
    assert scene.noted(MemberRemoved)[-1].rhythm == (1, 4_000)


def test_heartbeats_that_were_made_up_for_skipped_time_are_regular() -> None:
    scene = formed()
    beats(scene, "fred", 3_000)
    scene.skip(60_000, {"fred": 3_000})
    beats(scene, "fred", 2_000)
    scene.leave("fred")
    assert scene.noted(MemberRemoved)[-1].rhythm == (22, 3_000)


def test_timeouts_are_told_when_a_member_joins_and_when_they_change() -> None:
    scene = formed(session=10_000, rebalance=60_000)
    scene.join("fred", session=20_000, rebalance=90_000, protocols={"range": topics("b")})
    [joined], [rejoined] = scene.noted(MemberJoined), scene.noted(MemberRejoined)
    assert joined.timeouts == (10_000, 60_000)
    assert rejoined.timeouts == (20_000, 90_000)
