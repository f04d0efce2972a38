"""Static members: restarts, fencing, and what an offline one may expect (KIP-345)."""

from groupkeeper.coordinator.facts import MemberReplaced
from groupkeeper.protocol.group_events import CauseCode
from tests.support.scene import Scene, in_state, topics

# -- a restart in Stable ---------------------------------------------------------------------------


def test_a_restart_that_answers_at_once_is_written_first_and_survives_a_crash() -> None:
    scene = in_state("Stable")
    scene.hold = True
    call = scene.restart("SAM")
    assert call.parked
    scene.flush()
    assert call.outcome == "NONE"
    scene.crash()
    assert scene.heartbeat("SAM", member_id="SAM-2").outcome == "NONE"
    assert scene.heartbeat("SAM", member_id="SAM-1").outcome == "FENCED_INSTANCE_ID"


def test_the_old_id_is_fenced_while_the_restart_is_being_written() -> None:
    scene = in_state("Stable")
    scene.hold = True
    scene.restart("SAM")
    said = [
        scene.heartbeat("SAM", member_id="SAM-1"),
        scene.sync("SAM", as_id="SAM-1"),
        scene.commit("SAM", member_id="SAM-1"),
    ]
    scene.flush()
    assert {call.outcome for call in said} == {"FENCED_INSTANCE_ID"}


def test_a_rebalance_that_begins_while_a_restart_is_being_written() -> None:
    """It is answered with the old generation, and hears of the new one at once (KAFKA-10284)."""
    scene = in_state("Stable")
    scene.hold = True
    call = scene.restart("SAM")
    scene.leave("fred")
    scene.flush()
    assert (call.outcome, call.response.generation_id) == ("NONE", 2)
    scene.hold = False
    assert scene.heartbeat("SAM").outcome == "REBALANCE_IN_PROGRESS"


def test_another_elected_protocol_means_a_rebalance() -> None:
    scene = in_state("Stable")
    assert scene.restart("SAM", protocols={"roundrobin": topics("t")}).outcome == "parked"
    assert scene.state == "PreparingRebalance"
    (fact,) = scene.noted(MemberReplaced)
    assert fact.quick is False
    assert scene.cause.code == CauseCode.STATIC_MEMBER_RETURNED_CHANGED


# -- a restart while the group is not Stable -------------------------------------------------------


def test_a_restart_in_the_very_first_join_phase_waits_as_long_as_the_others() -> None:
    scene = Scene()
    scene.form("lea", session=1_000_000, rebalance=1_000_000)
    scene.join("GHOST", instance="GHOST", session=10, rebalance=10)
    call = scene.restart("GHOST")
    scene.advance(900_000)
    assert call.parked


def test_a_restart_outside_stable_is_a_cause_of_its_own() -> None:
    scene = in_state("CompletingRebalance")
    scene.restart("SAM", reason="deploy")
    cause = scene.cause
    assert (cause.code, cause.reason) == (CauseCode.STATIC_MEMBER_RETURNED_UNREADY, "deploy")


def test_a_member_replaced_before_it_synced_may_still_sync() -> None:
    """Kafka would remove the old id, a stranger by then, and rebalance."""
    scene = Scene()
    scene.join("lea")
    scene.join("SAM", instance="SAM")
    scene.advance(6_000)
    scene.sync("lea", {"SAM": b"share"})
    scene.restart("SAM")
    assert scene.group.pending_sync == {"SAM-2": None}
    assert scene.sync("SAM").response.assignment == b"share"
    assert scene.group.pending_sync == {}


# -- offline ---------------------------------------------------------------------------------------


def test_a_prolonged_join_phase_with_timeout_0_does_not_spin() -> None:
    scene = Scene()
    scene.join("SAM", instance="SAM", rebalance=0, session=400_000)
    scene.join("TIM", instance="TIM", rebalance=0, session=400_000)
    scene.advance(500_000)
    assert scene.state == "Empty"
