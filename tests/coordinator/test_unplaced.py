"""Partitions that a cooperative plan took from a member and gave to nobody yet: the member asks for
the next rebalance, in which they find an owner. A member that is lost, or replaced, before it has
asked cannot.
"""

from collections.abc import Mapping

import pytest

from groupkeeper.coordinator.group_configs import GRACE
from groupkeeper.coordinator.policy import Policy
from groupkeeper.protocol.group_events import CauseCode
from tests.coordinator.test_seats import PAIR, POLICY, live, lose, owned, scene_of, share, shares
from tests.support.scene import SESSION, Scene

STICKY = "cooperative-sticky"


def between_two_rounds(*names: str, policy: Policy = POLICY, newcomer: str = "zoe") -> Scene:
    """The second one has lost partition 3 to a newcomer, and has not given it up yet."""
    scene = scene_of(*names, policy=policy, protocols={STICKY: owned()})
    scene.join(newcomer, protocols={STICKY: owned()})
    scene.join(names[1], protocols={STICKY: owned(2, 3, generation=1)})
    scene.join(names[0], protocols={STICKY: owned(0, 1, generation=1)})
    assert scene.state == "CompletingRebalance"
    for name in (names[1], newcomer):
        scene.sync(name)
    shares = {names[0]: share(0, 1), names[1]: share(2), newcomer: share()}
    scene.sync(names[0], shares)
    return scene


def second_round(scene: Scene, plan: Mapping[str, bytes], **says: bytes) -> None:
    """All that live rejoin, and the leader gives partition 3 to somebody."""
    for name, metadata in says.items():
        scene.join(name, protocols={STICKY: metadata})
    assert scene.state == "CompletingRebalance"
    for name in sorted(
        says, key=lambda each: scene.person(each).member_id == scene.group.leader_id
    ):
        scene.sync(name, plan)
    assert scene.state == "Stable"


def test_what_was_taken_from_a_member_that_is_lost_finds_an_owner() -> None:
    scene = between_two_rounds(*PAIR)
    lose(scene, "fred", "lea", "zoe", after_ms=SESSION)
    assert list(scene.group.seats) == ["fred-1"]
    assert (scene.state, scene.cause.code) == ("PreparingRebalance", CauseCode.SEAT_REVOKED)
    assert scene.cause.evidence == {"revoked": 1}
    plan = {"lea": share(0, 1), "fred": share(2), "zoe": share(3)}
    second_round(scene, plan, lea=owned(0, 1, generation=2), zoe=owned())
    assert shares(scene) == {"lea": [0, 1], "fred": [2], "zoe": [3]}
    assert list(scene.group.seats) == ["fred-1"]
    live(scene, 5_000, "lea", "zoe")
    assert scene.state == "Stable"


def test_a_member_that_has_given_up_nothing_is_lost_without_a_rebalance() -> None:
    scene = between_two_rounds(*PAIR)
    scene.join("fred", protocols={STICKY: owned(2, generation=2)})
    plan = {"lea": share(0, 1), "fred": share(2), "zoe": share(3)}
    second_round(scene, plan, lea=owned(0, 1, generation=2), zoe=owned())
    scene.sync("fred")
    lose(scene, "fred", "lea", "zoe")
    assert (list(scene.group.seats), scene.state) == (["fred-1"], "Stable")


def test_what_was_taken_from_a_member_that_is_back_at_once_finds_an_owner() -> None:
    scene = between_two_rounds(*PAIR)
    call = scene.restart("fred", protocols={STICKY: owned()})
    assert call.parked
    assert (scene.state, scene.cause.code) == ("PreparingRebalance", CauseCode.SEAT_REVOKED)
    assert scene.cause.evidence["revoked"] == 1


@pytest.mark.parametrize("is_on", [True, False])
def test_what_was_taken_from_a_static_member_that_is_back_finds_an_owner(is_on: bool) -> None:
    """Apache Kafka leaves it to nobody until another rebalance."""
    scene = between_two_rounds("lea", "SAM", policy=POLICY if is_on else Policy())
    scene.restart("SAM", protocols={STICKY: owned()}, instance="SAM")
    assert scene.state == ("PreparingRebalance" if is_on else "Stable")
    if is_on:
        assert scene.cause.code is CauseCode.SEAT_REVOKED


def test_what_was_taken_from_a_seat_finds_an_owner_though_the_coordinator_crashed() -> None:
    scene = scene_of(*PAIR, protocols={STICKY: owned()})
    lose(scene, "fred", "lea")
    scene.join("zoe", protocols={STICKY: owned()})
    scene.join("lea", protocols={STICKY: owned(0, 1, generation=1)})
    scene.sync("zoe")
    scene.sync("lea", {"lea": share(0, 1), "fred": share(2), "zoe": share()})
    assert scene.state == "PreparingRebalance"
    scene.crash()
    assert list(scene.group.seats) == ["fred-1"]
    assert (scene.state, scene.cause.code) == ("PreparingRebalance", CauseCode.SEAT_REVOKED)
    plan = {"lea": share(0, 1), "fred": share(2), "zoe": share(3)}
    second_round(scene, plan, zoe=owned(), lea=owned(0, 1, generation=2))
    scene.crash()
    assert scene.state == "Stable"


def test_a_seat_of_which_nothing_was_taken_needs_no_rebalance_after_a_crash() -> None:
    scene = scene_of(*PAIR, protocols={STICKY: owned()})
    lose(scene, "fred", "lea")
    scene.crash()
    assert (scene.state, list(scene.group.seats)) == ("Stable", ["fred-1"])
    scene.configure({GRACE: "0"})
    scene.advance(10_000)
    assert scene.state != "Stable"
