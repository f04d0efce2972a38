"""Static members: restarts, fencing, and what an offline one may expect (KIP-345)."""

import pytest

from groupkeeper.coordinator.facts import MemberFenced, MemberReplaced
from groupkeeper.protocol.group_events import CauseCode
from tests.support.scene import RANGE_RR, Scene, in_state, topics


def test_a_static_member_never_has_to_ask_for_an_id() -> None:
    scene = Scene()
    assert scene.knock("SAM", instance="SAM").outcome == "parked"
    assert list(scene.group.members) == ["SAM-1"]


def test_an_empty_instance_id_is_an_instance_id() -> None:
    scene = Scene()
    assert scene.knock("alice", instance="").outcome == "parked"
    assert scene.group.instances == {"": "-1"}


# -- a restart in Stable ---------------------------------------------------------------------------


def test_a_restart_costs_no_rebalance_and_gives_the_old_assignment_back() -> None:
    scene = in_state("Stable")
    reply = scene.restart("SAM").response
    assert (reply.member_id, reply.generation_id) == ("SAM-2", 2)
    assert scene.sync("SAM").response.assignment == b"for SAM"
    assert scene.state == "Stable"


def test_a_restart_fences_the_old_incarnation_at_once() -> None:
    scene = in_state("Stable")
    scene.restart("SAM")
    assert scene.heartbeat("SAM", member_id="SAM-1").outcome == "FENCED_INSTANCE_ID"
    assert scene.sync("SAM", as_id="SAM-1").outcome == "FENCED_INSTANCE_ID"
    assert scene.knock("SAM", as_id="SAM-1").outcome == "FENCED_INSTANCE_ID"
    assert scene.commit("SAM", member_id="SAM-1").outcome == "FENCED_INSTANCE_ID"
    assert scene.leave_as("SAM", ("SAM-1", "SAM")).outcome == "FENCED_INSTANCE_ID"
    assert scene.fetch("t").error_code == 0


def test_the_old_id_without_instance_is_merely_unknown() -> None:
    scene = in_state("Stable")
    scene.restart("SAM")
    call = scene.heartbeat("SAM", member_id="SAM-1", group_instance_id=None)
    assert call.outcome == "UNKNOWN_MEMBER_ID"


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


def test_an_id_given_out_in_an_unfinished_restart_is_fenced_after_a_crash() -> None:
    scene = in_state("Stable")
    scene.hold = True
    scene.restart("SAM")
    scene.crash()
    scene.hold = False
    assert scene.heartbeat("SAM", member_id="SAM-2").outcome == "FENCED_INSTANCE_ID"
    assert scene.heartbeat("SAM", member_id="SAM-1").outcome == "NONE"


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


def test_a_changed_subscription_is_stored_but_not_planned_for() -> None:
    scene = in_state("Stable")
    new = {"range": topics("u"), "roundrobin": topics("u")}
    assert scene.restart("SAM", protocols=new).outcome == "NONE"
    described = {m.member_id: m for m in scene.describe().members}
    assert described["SAM-2"].member_metadata == topics("u")
    assert scene.state == "Stable"


def test_another_elected_protocol_means_a_rebalance() -> None:
    scene = in_state("Stable")
    assert scene.restart("SAM", protocols={"roundrobin": topics("t")}).outcome == "parked"
    assert scene.state == "PreparingRebalance"
    (fact,) = scene.noted(MemberReplaced)
    assert fact.quick is False
    assert scene.cause.code == CauseCode.STATIC_MEMBER_RETURNED_CHANGED


def test_a_refused_restart_leaves_the_old_incarnation_alone() -> None:
    scene = in_state("Stable")
    call = scene.knock("SAM", as_id="", protocols={"sticky": b""})
    assert call.outcome == "INCONSISTENT_GROUP_PROTOCOL"
    assert scene.heartbeat("SAM").outcome == "NONE"


def test_a_restarted_member_keeps_its_first_client_and_host() -> None:
    scene = in_state("Stable")
    scene.knock("other", instance="SAM", protocols=RANGE_RR)
    described = {m.group_instance_id: m for m in scene.describe().members}
    assert (described["SAM"].member_id, described["SAM"].client_id) == ("SAM-2", "SAM")
    assert described["SAM"].client_host == "/SAM"


def test_an_old_protocol_version_may_not_restart_anybody() -> None:
    scene = in_state("Stable")
    assert scene.knock("SAM", as_id="", version=4).outcome == "MEMBER_ID_REQUIRED"


# -- the leader comes back (KIP-814) ---------------------------------------------------------------


def led_by_sam() -> Scene:
    scene = Scene()
    scene.form("SAM", "fred")
    return scene


@pytest.mark.parametrize("version", [5, 6, 7, 8])
def test_before_version_9_a_returning_leader_is_shown_its_old_id(version: int) -> None:
    reply = led_by_sam().restart("SAM", version=version).response
    assert (reply.leader, reply.member_id, reply.members) == ("SAM-1", "SAM-2", [])


def test_from_version_9_a_returning_leader_is_told_to_skip_the_assignment() -> None:
    reply = led_by_sam().restart("SAM", version=9).response
    assert (reply.leader, reply.skip_assignment) == ("SAM-2", True)
    assert [m.member_id for m in reply.members] == ["fred-1", "SAM-2"]


@pytest.mark.parametrize("version", [5, 8, 9])
def test_a_returning_follower_sees_the_leader_and_no_members(version: int) -> None:
    reply = in_state("Stable").restart("SAM", version=version).response
    assert (reply.leader, reply.members, reply.skip_assignment) == ("lea-1", [], False)


def test_a_live_leader_that_rejoins_rebalances_where_a_restart_would_not() -> None:
    scene = led_by_sam()
    assert scene.join("SAM").outcome == "parked"
    assert scene.state == "PreparingRebalance"


# -- a restart while the group is not Stable -------------------------------------------------------


def test_in_the_join_phase_the_old_parked_join_is_fenced_with_its_own_id() -> None:
    scene = in_state("PreparingRebalance")
    old = scene.join("SAM")
    new = scene.restart("SAM")
    assert (old.outcome, old.response.member_id) == ("FENCED_INSTANCE_ID", "SAM-1")
    assert new.parked


def test_a_restart_in_the_very_first_join_phase_waits_as_long_as_the_others() -> None:
    scene = Scene()
    scene.form("lea", session=1_000_000, rebalance=1_000_000)
    scene.join("GHOST", instance="GHOST", session=10, rebalance=10)
    call = scene.restart("GHOST")
    scene.advance(900_000)
    assert call.parked


def test_a_restart_may_be_the_join_that_everybody_waited_for() -> None:
    scene = in_state("PreparingRebalance")
    for name in ("lea", "fred", "TIM"):
        scene.join(name)
    assert scene.restart("SAM").outcome == "NONE"
    assert scene.state == "CompletingRebalance"


def test_in_the_sync_phase_a_restart_always_rebalances() -> None:
    scene = in_state("CompletingRebalance")
    own, other = scene.sync("SAM"), scene.sync("fred")
    assert scene.restart("SAM").outcome == "parked"
    assert (own.outcome, other.outcome) == ("FENCED_INSTANCE_ID", "REBALANCE_IN_PROGRESS")
    assert scene.state == "PreparingRebalance"


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


# -- sessions --------------------------------------------------------------------------------------


def test_the_session_started_by_a_restart_has_the_old_length() -> None:
    scene = in_state("Stable")
    scene.restart("SAM", session=60_000)
    scene.advance(9_999)
    assert "SAM-2" in scene.group.members
    scene.advance(1)
    assert "SAM-2" not in scene.group.members


def test_the_new_session_length_rules_from_the_first_heartbeat() -> None:
    scene = in_state("Stable")
    scene.restart("SAM", session=60_000)
    scene.heartbeat("SAM")
    scene.advance(59_999)
    assert "SAM-2" in scene.group.members


# -- offline ---------------------------------------------------------------------------------------


def test_an_offline_static_member_stays_when_the_join_phase_times_out() -> None:
    scene = in_state("PreparingRebalance")
    for name in ("lea", "fred", "TIM"):
        scene.join(name, session=300_000)
    keep_alive(scene, "SAM", 60_000)
    assert scene.state == "CompletingRebalance"
    assert "SAM-1" in scene.group.members


def keep_alive(scene: Scene, name: str, ms: int) -> None:
    """Heartbeats every five seconds."""
    for _ in range(ms // 5_000):
        scene.heartbeat(name)
        scene.advance(5_000)


def test_leadership_moves_to_somebody_who_rejoined() -> None:
    scene = led_by_sam()
    scene.heartbeat("fred")
    scene.join("fred", protocols={"range": topics("u")})
    keep_alive(scene, "SAM", 60_000)
    assert scene.state == "CompletingRebalance"
    assert scene.group.leader_id == "fred-1"
    assert "SAM-1" in scene.group.members


def test_when_only_static_members_are_left_the_join_phase_is_prolonged() -> None:
    scene = Scene()
    scene.form("SAM", "fred", session=400_000)
    scene.leave("fred")
    scene.advance(60_000)
    assert scene.state == "PreparingRebalance"
    scene.advance(60_000)
    assert scene.state == "PreparingRebalance"
    assert scene.join("SAM").outcome == "NONE"


def test_a_prolonged_join_phase_with_timeout_0_does_not_spin() -> None:
    scene = Scene()
    scene.join("SAM", instance="SAM", rebalance=0, session=400_000)
    scene.join("TIM", instance="TIM", rebalance=0, session=400_000)
    scene.advance(500_000)
    assert scene.state == "Empty"


def test_an_offline_static_member_that_does_not_sync_is_removed() -> None:
    """So it survives a rebalance by one rebalance timeout at most (KAFKA-12890)."""
    scene = Scene()
    scene.form("fred", "SAM", session=400_000)
    scene.join("fred", protocols={"range": topics("u")})
    scene.advance(60_000)
    scene.sync("fred", {})
    scene.advance(60_000)
    assert list(scene.group.members) == ["fred-1"]
    assert scene.state == "PreparingRebalance"


# -- dynamic and static ----------------------------------------------------------------------------


def test_a_dynamic_member_cannot_turn_static_with_its_id() -> None:
    scene = in_state("Stable")
    assert scene.join("fred", instance="FRED").outcome == "UNKNOWN_MEMBER_ID"
    assert scene.heartbeat("fred", group_instance_id=None).outcome == "NONE"


def test_a_dynamic_member_that_restarts_static_is_a_second_member() -> None:
    scene = in_state("Stable")
    scene.restart("fred", instance="FRED")
    assert {"fred-1", "FRED-1"} <= scene.group.members.keys()
    assert scene.state == "PreparingRebalance"


def test_a_static_member_speaks_without_its_instance_too() -> None:
    scene = in_state("Stable")
    assert scene.heartbeat("SAM", group_instance_id=None).outcome == "NONE"
    assert scene.sync("SAM", group_instance_id=None).outcome == "NONE"
    assert scene.commit("SAM", group_instance_id=None).outcome == "NONE"


def test_who_was_fenced_and_by_whom_is_noted() -> None:
    scene = in_state("Stable")
    scene.restart("SAM")
    scene.heartbeat("SAM", member_id="SAM-1")
    (fact,) = scene.noted(MemberFenced)
    assert (fact.who.member, fact.who.instance) == ("SAM-1", "SAM")
    assert (fact.current_member, fact.api) == ("SAM-2", "Heartbeat")


def test_rolling_restart_of_a_static_group_never_rebalances() -> None:
    scene = Scene()
    scene.form("ANN", "BEA", "CAT")
    for name in ("ANN", "BEA", "CAT"):
        scene.restart(name)
        assert scene.sync(name).response.assignment == b"for " + name.encode()
    assert (scene.state, scene.group.generation) == ("Stable", 1)


def test_a_record_too_large_to_write_changes_nothing() -> None:
    scene = in_state("Stable", message_max_bytes=2_000)
    call = scene.restart("SAM", protocols={"range": bytes(5_000), "roundrobin": b""})
    reply = call.response
    assert call.outcome == "UNKNOWN_SERVER_ERROR"
    assert (reply.generation_id, reply.protocol_name, reply.leader) == (2, "range", "lea-1")
    assert reply.member_id == ""
    assert scene.heartbeat("SAM", member_id="SAM-1").outcome == "NONE"


def test_restarts_follow_each_other_as_fast_as_they_come() -> None:
    scene = Scene()
    scene.form("ANN", "BEA")
    calls = [scene.restart("ANN"), scene.restart("BEA"), scene.restart("ANN")]
    assert [call.response.member_id for call in calls] == ["ANN-2", "BEA-2", "ANN-3"]
