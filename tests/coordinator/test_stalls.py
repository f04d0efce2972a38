"""The coordinator does not count against its members the time in which it could not answer them."""

from functools import partial

import pytest

from groupkeeper.coordinator.facts import CoordinatorStalled, MemberRemoved
from groupkeeper.coordinator.likely import COORDINATOR_STALLED
from groupkeeper.coordinator.stalls import RECONNECT_MS, STALL_MS
from groupkeeper.coordinator.step import Step
from groupkeeper.protocol.group_events import CauseCode
from tests.support.scene import REBALANCE, SESSION, Scene, topics

OTHER_REBALANCE = 20_000


def held(*names: str) -> Scene:
    """A Stable group, a commit that does not become durable, and heartbeats that wait for it."""
    scene = Scene()
    scene.form(*names)
    scene.hold = True
    scene.commit(names[0], 1)
    return scene


def removed(scene: Scene) -> list[str]:
    return [fact.who.client_id for fact in scene.noted(MemberRemoved)]


def test_members_keep_their_places_while_the_log_cannot_be_written() -> None:
    scene = held("lea", "fred")
    scene.advance(1_000)
    beats = [scene.heartbeat(name) for name in ("lea", "fred")]
    scene.advance(SESSION * 3)
    scene.flush()
    assert [beat.outcome for beat in beats] == ["NONE", "NONE"]
    scene.hold = False
    scene.advance(SESSION - 1)
    assert removed(scene) == []


def test_a_member_that_stays_silent_is_removed_a_session_after_the_stall() -> None:
    scene = held("lea", "fred")
    scene.advance(SESSION * 2)
    scene.hold = False
    scene.flush()
    ended = scene.now
    for _ in range(2):
        scene.advance(SESSION // 2 - 1)
        assert scene.heartbeat("lea").outcome == "NONE"
    assert removed(scene) == []
    scene.advance(ended + SESSION - scene.now)
    assert removed(scene) == ["fred"]
    [fact] = scene.noted(MemberRemoved)
    evidence = fact.cause.evidence
    assert evidence["silent_ms"] == 3 * SESSION  # since its last request, not since the stall
    assert (evidence["stalled"], evidence["stalled_ms"]) == ("log", 2 * SESSION)
    assert evidence["stall_ended_ms"] == SESSION
    assert fact.cause.likely == COORDINATOR_STALLED  # its client must have given up


def test_a_stall_that_is_shorter_than_a_session_is_evidence_and_no_guess() -> None:
    scene = held("lea", "fred")
    scene.advance(SESSION // 2)
    scene.hold = False
    scene.flush()
    scene.heartbeat("lea")
    scene.advance(SESSION)
    [fact] = [each for each in scene.noted(MemberRemoved) if each.who.client_id == "fred"]
    assert fact.cause.likely == "crash_or_network"
    assert fact.cause.evidence["stalled_ms"] == SESSION // 2


def test_records_that_become_durable_one_after_the_other_are_no_stall() -> None:
    scene = held("lea", "fred")
    for offset in range(2, 2 + 2 * SESSION // 900):  # never clear, and never stuck
        scene.advance(900)
        scene.flush_one(partial(scene.commit, "lea", offset))
    assert removed(scene) == ["fred"]
    assert scene.noted(CoordinatorStalled) == []


def test_a_stall_of_the_log_is_noted_with_its_length_when_it_is_over() -> None:
    scene = held("lea")
    scene.advance(STALL_MS)
    assert scene.noted(CoordinatorStalled) == []
    scene.flush()
    [fact] = scene.noted(CoordinatorStalled)
    assert (fact.group, fact.what, fact.duration_ms, fact.jump_ms) == ("", "log", STALL_MS, None)


def test_a_wait_that_no_client_notices_is_not_noted() -> None:
    scene = held("lea")
    scene.advance(STALL_MS - 1)
    scene.flush()
    assert scene.noted(CoordinatorStalled) == []


def test_a_stall_is_not_noted_where_nobody_is() -> None:
    scene = Scene(hold=True)
    scene.commit("admin", 1)
    scene.advance(STALL_MS)
    scene.flush()
    scene.stop(SESSION)
    assert scene.noted(CoordinatorStalled) == []


def test_an_id_that_was_handed_out_waits_for_its_client_after_the_stall() -> None:
    scene = held("lea")
    knock = scene.knock("fred", session=SESSION)
    assert knock.parked
    scene.advance(2 * SESSION)
    scene.hold = False
    scene.flush()
    assert knock.outcome == "MEMBER_ID_REQUIRED"
    scene.heartbeat("lea")
    scene.advance(SESSION - 1)
    assert scene.join("fred").outcome in ("parked", "NONE")


def test_time_for_joining_goes_on_with_what_was_left_of_it() -> None:
    scene = Scene()
    scene.form("lea", "fred", rebalance=OTHER_REBALANCE, session=5 * REBALANCE)
    scene.join("lea")  # the leader starts a rebalance; fred is to join
    scene.advance(OTHER_REBALANCE - 4_000)
    scene.stop(REBALANCE)
    scene.advance(4_000 - 1)
    assert scene.state == "PreparingRebalance"
    scene.advance(1)
    assert removed(scene) == ["fred"]
    assert scene.noted(MemberRemoved)[0].cause.evidence["stalled"] == "process"


def test_time_for_joining_does_not_run_out_while_the_log_cannot_be_written() -> None:
    scene = Scene()
    scene.form("lea", "fred", rebalance=OTHER_REBALANCE, session=5 * REBALANCE)
    scene.hold = True
    scene.commit("fred", 1)
    scene.join("lea")
    scene.advance(2 * OTHER_REBALANCE)
    assert scene.state == "PreparingRebalance"
    scene.hold = False
    scene.flush()
    scene.advance(OTHER_REBALANCE - 1)
    assert scene.state == "PreparingRebalance"
    scene.advance(1)
    assert removed(scene) == ["fred"]


def test_time_for_assignments_goes_on_after_a_stop_of_the_process() -> None:
    scene = Scene()
    scene.form("lea", "fred", rebalance=OTHER_REBALANCE, session=5 * REBALANCE)
    scene.join("lea")
    scene.join("fred")
    assert scene.state == "CompletingRebalance"
    scene.advance(OTHER_REBALANCE - 1_000)
    scene.stop(REBALANCE)
    scene.advance(999)
    assert removed(scene) == []
    scene.advance(1)
    assert sorted(removed(scene)) == ["fred", "lea"]


def test_sessions_begin_anew_after_a_stop_of_the_process() -> None:
    scene = Scene()
    scene.form("lea", "fred")
    scene.advance(1_000)
    scene.stop(SESSION * 2)
    scene.advance(SESSION - 1)
    assert removed(scene) == []
    scene.heartbeat("lea")
    scene.advance(1)
    assert removed(scene) == ["fred"]


def test_a_clock_that_is_moved_is_noted_and_ends_nothing() -> None:
    scene = Scene()
    scene.form("lea", "fred")
    scene.move_clock(3_600_000)
    [fact] = scene.noted(CoordinatorStalled)
    assert (fact.what, fact.jump_ms) == ("clock", 3_600_000)
    scene.advance(SESSION)
    assert sorted(removed(scene)) == ["fred", "lea"]  # in their time
    assert "stalled" not in scene.noted(MemberRemoved)[0].cause.evidence


@pytest.mark.parametrize("kind", ["log", "process"])
def test_a_client_that_gave_up_is_told_from_a_new_member(kind: str) -> None:
    scene = held("lea", "fred") if kind == "log" else Scene()
    if kind == "log":
        scene.advance(2 * SESSION)
        scene.hold = False
        scene.flush()
    else:
        scene.form("lea", "fred")
        scene.stop(2 * SESSION)
    scene.heartbeat("lea")
    scene.join("fred", as_id="", version=3)  # on its connection, without its id, as librdkafka does
    assert scene.cause.code is CauseCode.MEMBER_JOINED
    assert scene.cause.likely == COORDINATOR_STALLED
    assert scene.cause.evidence["stalled_ms"] == 2 * SESSION
    scene.advance(0)  # its old membership ends at once, as it would have without the stall
    [fact] = scene.noted(MemberRemoved)
    assert (fact.cause.code, fact.cause.likely) == (CauseCode.SESSION_EXPIRED, COORDINATOR_STALLED)


def test_a_client_that_gave_up_behind_a_heartbeat_on_its_way_is_found_too() -> None:
    scene = Scene()
    scene.form("lea", "fred")
    scene.stop(2 * SESSION)
    scene.heartbeat("fred")  # sent during the stop, and read after it
    scene.join("fred", as_id="", version=3)
    assert scene.cause.likely == COORDINATOR_STALLED


def test_a_client_that_connects_anew_is_found_by_its_name() -> None:
    scene = Scene()
    scene.form("lea", "fred")
    scene.stop(2 * SESSION)
    scene.restart("fred", version=3)
    assert scene.cause.likely == COORDINATOR_STALLED


def test_a_new_client_after_a_stall_is_a_new_member() -> None:
    scene = Scene()
    scene.form("lea", "fred")
    scene.stop(2 * SESSION)
    scene.join("zoe", version=3)
    assert scene.cause.likely is None


def test_a_client_that_is_restarted_long_after_a_stall_was_not_driven_out_by_it() -> None:
    scene = Scene()
    scene.form("lea", "fred")
    scene.stop(2 * SESSION)
    scene.advance(STALL_MS)
    for name in ("lea", "fred"):
        scene.heartbeat(name)
    scene.restart("fred", version=3)
    assert scene.cause.likely is None


def test_a_member_whose_connection_was_closed_is_waited_for_a_moment() -> None:
    scene = Scene()
    scene.form("lea", "fred")
    scene.stop(2 * SESSION)
    scene.heartbeat("lea")
    scene.hang_up("fred")
    scene.advance(RECONNECT_MS - 1)
    assert removed(scene) == []
    scene.advance(1)
    assert removed(scene) == ["fred"]


def test_a_static_client_that_gave_up_says_why_it_came_back() -> None:
    scene = Scene()
    scene.join("SAM", instance="SAM")
    scene.advance(3_000)
    scene.sync("SAM", {"SAM": b"1"})
    scene.stop(2 * SESSION)
    scene.join("SAM", as_id="")
    fact = scene.facts[-1].fact
    assert fact.likely == COORDINATOR_STALLED  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("reason", "likely"),
    [
        (None, COORDINATOR_STALLED),
        ("rejoining after we previously errored and backed off", COORDINATOR_STALLED),
        ("cached metadata has changed", "partitions_changed"),
    ],
)
def test_a_member_that_rejoins_under_its_id_after_a_stall(reason: str | None, likely: str) -> None:
    scene = Scene()
    scene.form("lea", "fred")
    scene.stop(2 * SESSION)
    scene.heartbeat("fred")
    scene.join("fred", protocols={"range": topics("t", owned=1)}, reason=reason)
    assert scene.cause.code is CauseCode.MEMBER_REJOINED
    assert scene.cause.likely == likely, "the words of the client come first"


def test_a_leader_that_rejoins_long_after_a_stall_has_another_reason() -> None:
    scene = Scene()
    scene.form("lea", "fred")
    scene.stop(2 * SESSION)
    for _ in range(3):
        scene.advance(SESSION // 2)
        for name in ("lea", "fred"):
            scene.heartbeat(name)
    scene.join("lea")
    assert scene.cause.likely is None


def test_a_client_that_gave_up_while_the_coordinator_was_away_is_told_from_a_new_member() -> None:
    scene = Scene()
    scene.form("lea", "fred")
    scene.crash()
    scene.heartbeat("lea")
    scene.restart("fred", version=3)
    assert scene.cause.likely == COORDINATOR_STALLED
    assert scene.cause.evidence == {"stalled": "load", "stall_ended_ms": 0}
    scene.advance(SESSION)
    [fact] = [each for each in scene.noted(MemberRemoved) if each.who.client_id == "fred"]
    assert fact.cause.likely == COORDINATOR_STALLED


def test_nothing_is_guessed_of_a_member_that_is_not_heard_of_after_a_load() -> None:
    scene = Scene()
    scene.form("lea", "fred")
    scene.crash()
    scene.heartbeat("lea")
    scene.advance(SESSION - 1)
    scene.heartbeat("lea")
    scene.advance(1)
    [fact] = scene.noted(MemberRemoved)
    assert (fact.cause.code, fact.cause.likely) == (CauseCode.SESSION_EXPIRED, None)


def test_timers_are_looked_at_ever_more_seldom_while_a_stall_lasts() -> None:
    scene = held("lea", "fred")
    looks = 0
    advance = scene.partition.advance

    def counted(now: int, wall: int) -> Step:
        nonlocal looks
        looks += 1
        return advance(now, wall)

    scene.partition.advance = counted  # type: ignore[method-assign]
    scene.advance(24 * 3_600_000)
    assert looks < 500
    assert removed(scene) == []
