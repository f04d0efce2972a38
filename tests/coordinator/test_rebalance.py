"""The join phase: how long it waits, for whom, and what comes of it."""

import pytest

from groupkeeper.coordinator.facts import (
    GroupEmptied,
    MemberRemoved,
    RebalanceCauseAdded,
    RebalanceJoined,
    RebalanceStarted,
)
from groupkeeper.protocol.group_events import CauseCode
from tests.support.scene import FOUR, RANGE_RR, Scene, in_state, topics

STRATEGIES = {name: topics("t") for name in ("range", "roundrobin", "sticky")}


def until_joined(scene: Scene, limit_ms: int = 60_000) -> int:
    """Milliseconds until the join phase is over."""
    began = scene.now
    while scene.state == "PreparingRebalance":
        due = scene.partition.next_deadline()
        assert due is not None
        assert due <= began + limit_ms
        scene.advance(due - scene.now)
    return scene.now - began


# -- the initial delay (KIP-134) -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rebalance", "total"),
    [(0, 3_000), (1_000, 3_000), (2_000, 3_000), (6_000, 6_000), (7_500, 7_500), (20_000, 20_000)],
)
def test_newcomers_prolong_the_delay_up_to_the_first_members_patience(
    rebalance: int, total: int
) -> None:
    scene = Scene()
    scene.join("first", rebalance=rebalance)
    for second in range(1, 30):
        if scene.state == "PreparingRebalance":
            scene.advance(1_000)
            scene.join(f"n{second}")
    (fact,) = scene.noted(RebalanceJoined)[:1]
    assert fact.duration_ms == total


def test_without_newcomers_the_delay_is_waited_once() -> None:
    scene = Scene()
    scene.join("alice")
    assert until_joined(scene) == 3_000


def test_who_leaves_in_the_delay_does_not_shorten_it() -> None:
    scene = Scene()
    scene.join("alice")
    scene.join("bob")
    scene.leave("bob")
    assert until_joined(scene) == 6_000


def test_pending_ids_are_not_waited_for_in_the_delay() -> None:
    scene = Scene()
    scene.knock("late")
    scene.join("alice")
    assert until_joined(scene) == 3_000


def test_a_pending_id_that_runs_out_ends_the_delay_early_as_in_kafka_4() -> None:
    scene = Scene()
    scene.knock("late", session=1_000)
    scene.join("alice")
    assert until_joined(scene) == 1_000


def test_the_delay_applies_whenever_a_group_leaves_empty() -> None:
    scene = in_state("Empty")
    scene.join("alice")
    assert until_joined(scene) == 3_000


def test_static_members_wait_as_well() -> None:
    scene = Scene()
    scene.join("SAM", instance="SAM")
    assert until_joined(scene) == 3_000


@pytest.mark.parametrize("pending", [False, True])
def test_without_delay_the_first_member_is_answered_at_once(pending: bool) -> None:
    scene = Scene(initial_rebalance_delay_ms=0)
    if pending:
        scene.knock("late")
    assert scene.join("alice").outcome == "NONE"
    scene.join("bob")
    assert scene.state == "PreparingRebalance"


# -- later rounds ----------------------------------------------------------------------------------


def test_the_phase_ends_when_the_last_member_has_joined() -> None:
    scene = in_state("PreparingRebalance")
    calls = [scene.join(name) for name in FOUR[:3]]
    assert {call.outcome for call in calls} == {"parked"}
    calls.append(scene.join(FOUR[3]))
    assert {call.response.generation_id for call in calls} == {scene.group.generation}


def test_the_phase_ends_after_the_longest_rebalance_timeout() -> None:
    scene = Scene()
    scene.form("lea", session=400_000, rebalance=20_000)
    scene.join("slow", session=400_000, rebalance=50_000)
    scene.join("lea")
    scene.sync_all("lea", "slow")
    scene.join("lea")
    assert until_joined(scene) == 50_000


def test_at_the_timeout_dynamic_members_go_and_static_ones_stay() -> None:
    scene = Scene()
    scene.form("lea", "fred", "SAM", session=400_000)
    scene.join("lea")
    scene.advance(60_000)
    assert list(scene.group.members) == ["lea-1", "SAM-1"]
    assert scene.noted(MemberRemoved)[-1].cause.code == CauseCode.JOIN_TIMEOUT
    joined = scene.noted(RebalanceJoined)[-1]
    assert joined.missing == [("fred-1", None, True), ("SAM-1", "SAM", False)]
    assert scene.heartbeat("fred").outcome == "UNKNOWN_MEMBER_ID"


def test_a_pending_id_holds_the_phase_back_and_stays_pending_at_the_timeout() -> None:
    scene = Scene()
    scene.form("lea")
    scene.knock("late", session=400_000)
    call = scene.join("lea")
    assert call.parked
    scene.advance(60_000)
    assert call.outcome == "NONE"
    assert scene.join("late").outcome == "parked"


def test_a_pending_id_that_expires_ends_the_phase() -> None:
    scene = Scene()
    scene.form("lea")
    scene.knock("late", session=2_000)
    scene.join("lea")
    assert until_joined(scene) == 2_000


def test_when_nobody_rejoined_the_group_is_empty() -> None:
    scene = Scene()
    scene.form("lea", "fred", session=400_000)
    scene.leave("fred")
    scene.advance(60_000)
    assert (scene.state, scene.group.generation) == ("Empty", 2)
    assert len(scene.noted(GroupEmptied)) == 1


def test_a_member_whose_client_is_gone_counts_as_rejoined_until_its_session_ends() -> None:
    scene = in_state("PreparingRebalance")
    for name in FOUR:
        scene.join(name)
    assert scene.state == "CompletingRebalance"
    scene.advance(10_000)
    assert scene.state == "Empty"


def test_a_rebalance_timeout_of_0_waits_for_nobody() -> None:
    scene = Scene()
    call = scene.join("alice", rebalance=0)
    scene.advance(3_000)
    assert call.outcome == "NONE"
    assert scene.heartbeat("alice").outcome == "UNKNOWN_MEMBER_ID"
    assert scene.state == "Empty"


def test_a_session_that_runs_out_while_the_join_is_parked_is_ignored() -> None:
    scene = Scene()
    scene.form("lea", "fred", session=1_000)
    call = scene.join("lea", protocols={"range": topics("u")})
    scene.heartbeat("fred", generation_id=1)
    for _ in range(30):
        scene.advance(900)
        scene.heartbeat("fred")
    assert call.parked
    assert "lea-1" in scene.group.members


def test_completion_rearms_every_session_also_of_the_absent() -> None:
    scene = Scene()
    scene.form("lea", "SAM", session=90_000)
    scene.heartbeat("SAM")
    scene.heartbeat("lea")
    scene.join("lea")
    scene.advance(60_000)
    scene.sync("lea", {})
    scene.heartbeat("lea")
    scene.advance(59_999)
    assert "SAM-1" in scene.group.members


# -- new members (KAFKA-7610) ----------------------------------------------------------------------


def test_a_new_members_join_may_wait_for_five_minutes_whatever_its_session() -> None:
    scene = Scene()
    scene.form("lea", session=1_000_000, rebalance=1_000_000)
    call = scene.join("ghost", session=10, rebalance=10)
    scene.advance(299_999)
    assert call.parked
    scene.advance(1)
    assert (call.outcome, call.response.member_id) == ("UNKNOWN_MEMBER_ID", "")


def test_a_new_static_member_has_five_minutes_too_and_leaves_its_instance_free() -> None:
    scene = Scene()
    scene.form("lea", session=1_000_000, rebalance=1_000_000)
    call = scene.join("GHOST", instance="GHOST", session=10, rebalance=10)
    scene.advance(300_000)
    assert (call.outcome, call.response.member_id) == ("UNKNOWN_MEMBER_ID", "")
    assert scene.heartbeat("GHOST", member_id="GHOST-1").outcome == "UNKNOWN_MEMBER_ID"
    assert scene.restart("GHOST").outcome == "parked"


def test_the_five_minutes_end_with_the_first_round() -> None:
    scene = Scene()
    scene.form("alice", session=1_000_000)
    scene.advance(300_000)
    assert scene.state == "Stable"


# -- what comes of it ------------------------------------------------------------------------------


def test_generations_rise_by_one_and_survive_emptiness() -> None:
    scene = Scene()
    scene.form("alice")
    assert scene.group.generation == 1
    scene.leave("alice")
    assert scene.group.generation == 2
    scene.join("alice", as_id="")
    scene.advance(3_000)
    assert scene.group.generation == 3


def test_a_deleted_group_starts_from_0() -> None:
    scene = in_state("Empty")
    scene.delete()
    call = scene.restart("alice")
    scene.advance(3_000)
    assert call.response.generation_id == 1


def test_an_empty_group_keeps_its_type_and_forgets_the_rest() -> None:
    scene = in_state("Empty")
    group = scene.group
    assert (group.protocol_type, group.protocol_name, group.leader_id) == ("consumer", None, None)
    described = scene.describe()
    assert (described.group_state, described.protocol_type) == ("Empty", "consumer")


def test_the_first_member_leads_and_keeps_leading() -> None:
    scene = in_state("Stable")
    assert scene.group.leader_id == "lea-1"


def test_when_the_leader_leaves_another_leads() -> None:
    scene = in_state("Stable")
    scene.leave("lea")
    calls = [scene.join(name) for name in FOUR[1:]]
    leaders = {call.response.leader for call in calls}
    assert leaders == {scene.group.leader_id}
    assert leaders <= set(scene.group.members)


def test_nothing_is_written_when_a_join_phase_completes() -> None:
    scene = in_state("PreparingRebalance")
    written = len(scene.log)
    for name in FOUR:
        scene.join(name)
    assert (scene.state, len(scene.log)) == ("CompletingRebalance", written)


@pytest.mark.parametrize(
    ("lists", "elected"),
    [
        (("range roundrobin", "range roundrobin"), "range"),
        (("range roundrobin", "roundrobin"), "roundrobin"),
        (("range roundrobin", "roundrobin range", "roundrobin range"), "roundrobin"),
        (("roundrobin range", "range roundrobin"), "roundrobin"),
        (("range roundrobin", "roundrobin range"), "range"),
        (("sticky range", "sticky range roundrobin", "range sticky"), "sticky"),
    ],
)
def test_the_protocol_with_most_first_choices_is_elected(
    lists: tuple[str, ...], elected: str
) -> None:
    scene = Scene()
    for number, names in enumerate(lists):
        scene.join(f"m{number}", protocols={n: STRATEGIES[n] for n in names.split()})
    scene.advance(6_000)
    assert scene.group.protocol_name == elected


def test_an_offline_static_member_still_votes() -> None:
    scene = Scene()
    scene.form("SAM", session=400_000, protocols={"range": b""})
    scene.join("lea", protocols={"roundrobin": b"", "range": b""}, session=400_000)
    scene.advance(60_000)
    assert scene.group.protocol_name == "range"


def test_a_restart_that_changes_the_votes_but_not_the_result_is_quick() -> None:
    scene = Scene()
    scene.form("ANN", "BEA", "CAT", protocols=RANGE_RR)
    assert scene.restart("CAT", protocols=dict(reversed(RANGE_RR.items()))).outcome == "NONE"
    assert scene.restart("BEA", protocols=dict(reversed(RANGE_RR.items()))).outcome == "parked"


# -- facts -----------------------------------------------------------------------------------------


def test_a_second_trigger_is_noted_as_added() -> None:
    scene = in_state("Stable")
    scene.leave("fred")
    scene.join("new", version=3, protocols=RANGE_RR)
    codes = [fact.cause.code for fact in scene.noted(RebalanceCauseAdded)]
    assert codes[-1] == CauseCode.MEMBER_JOINED
    assert scene.cause.code == CauseCode.MEMBER_LEFT


def test_the_start_of_a_round_says_from_where_and_how_long() -> None:
    scene = in_state("Stable")
    scene.leave("fred")
    fact = scene.noted(RebalanceStarted)[-1]
    assert (fact.from_state, fact.members, fact.deadline_ms) == ("Stable", 3, 60_000)
