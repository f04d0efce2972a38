"""The join phase: how long it waits, for whom, and what comes of it."""

import pytest

from groupkeeper.coordinator.facts import MemberRemoved, RebalanceJoined, RebalanceStarted
from groupkeeper.protocol.group_events import CauseCode
from tests.support.scene import FOUR, Scene, in_state, topics

STRATEGIES = {name: topics("t") for name in ("range", "roundrobin", "sticky")}


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


# -- later rounds ----------------------------------------------------------------------------------


def test_at_the_timeout_dynamic_members_go_and_static_ones_stay() -> None:
    scene = Scene()
    scene.form("lea", "fred", "SAM", session=400_000)
    scene.join("lea")
    scene.advance(60_000)
    assert list(scene.group.members) == ["lea-1", "SAM-1"]
    assert scene.noted(MemberRemoved)[-1].cause.code == CauseCode.JOIN_TIMEOUT
    joined = scene.noted(RebalanceJoined)[-1]
    assert joined.ended_by == "timeout"
    assert joined.missing == [("fred-1", None, True), ("SAM-1", "SAM", False)]
    assert scene.heartbeat("fred").outcome == "UNKNOWN_MEMBER_ID"


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


# -- facts -----------------------------------------------------------------------------------------


def test_the_start_of_a_round_says_from_where_and_how_long() -> None:
    scene = in_state("Stable")
    scene.leave("fred")
    fact = scene.noted(RebalanceStarted)[-1]
    assert (fact.from_state, fact.members, fact.deadline_ms) == ("Stable", 3, 60_000)
