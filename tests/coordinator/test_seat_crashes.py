"""Seats over crashes and stalls of the coordinator, in the middle of rebalances."""

from groupkeeper.coordinator.facts import SeatReserved
from groupkeeper.coordinator.records import seat_key
from groupkeeper.coordinator.seats import AFTER_LOAD_MS
from groupkeeper.protocol.group_events import CauseCode
from tests.coordinator.test_seats import GRACE, PAIR, PLAN, live, lose, plan, scene_of
from tests.support.scene import GROUP, SESSION, Scene

FREDS = seat_key(GROUP, "fred-1")


def records_of_freds_seat(scene: Scene) -> list[bool]:
    """Whether each says that it is reserved, or that it no longer is."""
    return [value is not None for key, value in scene.log if key == FREDS]


def test_the_record_of_a_seat_goes_with_the_record_of_the_one_that_takes_it() -> None:
    scene = scene_of(*PAIR)
    lose(scene, "fred", "lea")
    scene.restart("fred")
    assert records_of_freds_seat(scene) == [True, False]
    assert scene.log[-1] == (FREDS, None)


def test_a_seat_that_was_taken_in_a_rebalance_is_back_after_a_crash_before_the_plan() -> None:
    """Nobody has a plan with the new id, and the old one must not be a living member again."""
    scene = scene_of(*PAIR)
    lose(scene, "fred", "lea")
    scene.join("zoe")
    scene.restart("fred")
    assert records_of_freds_seat(scene) == [True]
    scene.crash()
    assert list(scene.group.seats) == ["fred-1"]
    assert scene.heartbeat("fred", member_id="fred-1").outcome == "UNKNOWN_MEMBER_ID"
    assert scene.restart("fred").outcome == "NONE"
    assert scene.sync("fred").response.assignment == PLAN["fred"]


def test_the_record_of_a_seat_that_was_taken_in_a_rebalance_goes_with_the_plan() -> None:
    scene = scene_of(*PAIR)
    lose(scene, "fred", "lea")
    scene.join("zoe")
    scene.restart("fred")
    scene.join("lea")
    plan(scene, (*PAIR, "zoe"), PLAN)
    assert records_of_freds_seat(scene) == [True, False]
    scene.crash()
    assert not scene.group.seats


def test_seats_that_ended_are_back_after_a_crash_before_the_plan_and_end_again() -> None:
    scene = scene_of("lea", "fred", "zoe")
    lose(scene, "fred", "lea", "zoe")
    live(scene, GRACE, "lea", "zoe")
    assert scene.state == "PreparingRebalance"
    scene.crash()
    assert (scene.state, list(scene.group.seats)) == ("Stable", ["fred-1"])
    live(scene, AFTER_LOAD_MS, "lea", "zoe")
    assert (scene.state, scene.cause.code) == ("PreparingRebalance", CauseCode.SEAT_EXPIRED)


def test_the_records_of_seats_go_when_the_group_is_empty() -> None:
    scene = scene_of(*PAIR)
    lose(scene, "fred", "lea")
    scene.leave("lea")
    assert scene.state == "Empty"
    assert records_of_freds_seat(scene) == [True, False]


def test_a_record_of_a_seat_that_a_crash_has_left_goes_with_the_next_record() -> None:
    scene = scene_of(*PAIR)
    lose(scene, "fred", "lea")
    scene.restart("fred")
    del scene.log[-1]
    scene.crash()
    assert not scene.group.seats
    scene.leave(*PAIR)
    assert records_of_freds_seat(scene) == [True, False]


def test_another_config_does_not_end_seats_that_wait_for_clients_after_a_load() -> None:
    scene = scene_of("lea", "fred", "zoe")
    lose(scene, "fred", "lea", "zoe")
    live(scene, GRACE - 1_000, "lea", "zoe")
    scene.crash()
    scene.configure({"consumer.session.timeout.ms": "50000"})
    live(scene, AFTER_LOAD_MS - 1_000, "lea", "zoe")
    assert (scene.state, list(scene.group.seats)) == ("Stable", ["fred-1"])


def alone() -> Scene:
    """The only stored member is lost while others join, and the coordinator crashes."""
    scene = scene_of("fred")
    scene.advance(SESSION - 1_000)
    scene.join("zoe")
    scene.advance(1_000)
    assert list(scene.group.seats) == ["fred-1"]
    scene.crash()
    assert (list(scene.group.members), list(scene.group.seats)) == (["fred-1"], ["fred-1"])
    return scene


def test_a_seat_that_is_alone_after_a_load_waits_for_those_that_were_joining() -> None:
    scene = alone()
    assert scene.join("zoe", as_id="").outcome == "NONE"
    plan(scene, ("zoe",), PLAN)
    live(scene, 2 * AFTER_LOAD_MS, "zoe")
    assert (scene.state, list(scene.group.seats)) == ("Stable", ["fred-1"])


def test_a_seat_that_is_alone_after_a_load_is_taken() -> None:
    scene = alone()
    assert scene.restart("fred").outcome == "NONE"
    assert scene.sync("fred").response.assignment == PLAN["fred"]
    live(scene, 2 * AFTER_LOAD_MS, "fred")
    assert scene.state == "Stable"


def test_a_seat_that_is_alone_after_a_load_ends_if_nobody_comes() -> None:
    scene = alone()
    scene.advance(AFTER_LOAD_MS - 1)
    assert list(scene.group.seats) == ["fred-1"]
    scene.advance(1)
    assert scene.state == "Empty"
    assert not scene.group.seats


def test_an_operator_forces_a_rebalance_of_a_seat_that_is_alone_after_a_load() -> None:
    scene = alone()
    scene.force_rebalance()
    assert scene.state == "Empty"


def test_a_client_that_joins_otherwise_after_a_load_gives_no_seat_a_session() -> None:
    """It might have given its membership up, as the coordinator did not answer."""
    scene = scene_of(*PAIR)
    lose(scene, "fred", "lea")
    scene.crash()
    scene.join("fred", as_id="", instance="F")
    scene.join("lea")
    plan(scene, ("lea", "fred"), PLAN)
    live(scene, 2 * SESSION, "lea", "fred")
    assert list(scene.group.seats) == ["fred-1"]
    assert len(scene.noted(SeatReserved)) == 1
