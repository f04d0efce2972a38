"""What neither a request nor a timer asks for: time that is skipped, an ended session, a forced
rebalance.
"""

import pytest

from groupkeeper.coordinator.causes import Cause
from groupkeeper.coordinator.facts import MemberRemoved, RebalanceStarted
from groupkeeper.protocol.group_events import CauseCode
from tests.support.scene import RANGE_RR, Scene

HOUR = 3_600_000


def beating(scene: Scene, *names: str, every_ms: int = 1_000, times: int = 5) -> None:
    for _ in range(times):
        scene.advance(every_ms)
        for name in names:
            scene.heartbeat(name)


def last_removal(scene: Scene) -> Cause:
    return scene.noted(MemberRemoved)[-1].cause


def test_who_goes_on_with_heartbeats_is_there_after_any_time() -> None:
    scene = Scene()
    scene.form("lea", "fred")
    beating(scene, "lea", "fred")
    scene.skip(HOUR, {"lea": 1_000, "fred": 1_000})
    scene.advance(9_999)
    assert len(scene.group.members) == 2
    scene.advance(1)
    assert scene.state == "Empty"


def test_number_and_interval_of_heartbeats_are_those_of_the_whole_time() -> None:
    scene = Scene()
    scene.form("lea")
    beating(scene, "lea", every_ms=1_000, times=5)
    scene.skip(HOUR + 700, {"lea": 1_000})
    scene.advance(20_000)
    evidence = last_removal(scene).evidence
    assert evidence["heartbeats"] == 5 + HOUR // 1_000
    assert evidence["heartbeat_interval_ms"] == 1_000
    assert evidence["silent_ms"] == 10_000


def test_a_session_begins_with_the_last_heartbeat_not_with_the_time_that_was_skipped_to() -> None:
    scene = Scene()
    scene.form("lea")
    scene.skip(HOUR + 700, {"lea": 1_000})
    scene.advance(9_299)
    assert scene.state == "Stable"
    scene.advance(1)
    assert scene.state == "Empty"


def test_a_time_that_is_shorter_than_an_interval_changes_nothing() -> None:
    scene = Scene()
    scene.form("lea")
    beating(scene, "lea", times=1)
    scene.skip(999, {"lea": 1_000})
    scene.advance(9_000)
    assert scene.state == "Stable"
    scene.advance(1)
    assert last_removal(scene).evidence["heartbeats"] == 1


def test_a_session_that_the_coordinator_restarted_is_not_cut() -> None:
    scene = Scene()
    scene.form("lea", "SAM", rebalance=10_000)
    scene.join("lea", protocols=RANGE_RR)
    scene.advance(6_300)
    scene.heartbeat("SAM")
    scene.advance(3_700)
    assert scene.state == "CompletingRebalance"
    scene.skip(0, {"SAM": 2_000})
    scene.advance(9_999)
    assert len(scene.group.members) == 2


def test_a_member_whose_request_waits_has_no_session() -> None:
    scene = Scene()
    scene.join("lea")
    scene.skip(20_000, {"lea": 1_000})
    scene.advance(0)
    scene.sync_all("lea")
    assert scene.state == "Stable"
    scene.advance(10_000)
    assert "heartbeat_interval_ms" not in last_removal(scene).evidence


def test_heartbeats_while_time_stands_still_do_not_count() -> None:
    scene = Scene()
    scene.form("lea")
    for _ in range(50):
        scene.heartbeat("lea")
    beating(scene, "lea", every_ms=2_000, times=3)
    for _ in range(50):
        scene.heartbeat("lea")
    scene.advance(10_000)
    evidence = last_removal(scene).evidence
    assert (evidence["heartbeats"], evidence["heartbeat_interval_ms"]) == (3, 2_000)


# -- sessions that are ended -----------------------------------------------------------------------


def test_an_ended_session_looks_like_one_that_expired() -> None:
    real, ended = Scene(), Scene()
    for scene in (real, ended):
        scene.form("lea", "fred", session=30_000)
        beating(scene, "lea", "fred", every_ms=3_000, times=4)
    beating(real, "lea", every_ms=3_000, times=10)
    ended.end_session("fred")
    assert real.cause == ended.cause == last_removal(ended)
    assert ended.cause.code is CauseCode.SESSION_EXPIRED
    assert ended.cause.evidence == {
        "silent_ms": 30_000,
        "session_timeout_ms": 30_000,
        "heartbeats": 4,
        "connection": "open",
        "heartbeat_interval_ms": 3_000,
    }


def test_an_ended_session_is_that_of_one_member() -> None:
    scene = Scene()
    scene.form("lea", "fred")
    scene.end_session("fred")
    assert scene.heartbeat("fred").outcome == "UNKNOWN_MEMBER_ID"
    assert scene.heartbeat("lea").outcome == "REBALANCE_IN_PROGRESS"


def test_the_last_session_that_is_ended_leaves_an_empty_group() -> None:
    scene = Scene()
    scene.form("lea")
    scene.end_session("lea")
    assert scene.state == "Empty"
    scene.advance(HOUR)


def test_a_session_cannot_end_while_a_request_waits() -> None:
    scene = Scene()
    scene.join("lea")
    with pytest.raises(AssertionError):
        scene.end_session("lea")


# -- forced rebalances -----------------------------------------------------------------------------


def test_a_forced_rebalance_says_so() -> None:
    scene = Scene()
    scene.form("lea", "fred")
    scene.force_rebalance("deploy")
    [*_, started] = scene.noted(RebalanceStarted)
    assert started.cause == Cause(CauseCode.OPERATOR, reason="deploy")
    scene.join("lea")
    scene.join("fred")
    scene.sync_all("lea", "fred")
    assert (scene.state, scene.group.generation) == ("Stable", 2)
