"""Members that come and go without a rebalance: newcomers that wait, and standbys that take over
(docs/policies.md).
"""

from dataclasses import replace
from typing import Any

import pytest

from groupkeeper.coordinator.caller import Peer
from groupkeeper.coordinator.facts import (
    MemberRemoved,
    PolicyRefused,
    RebalanceDeferred,
    RebalanceStarted,
    StandbyActivated,
)
from groupkeeper.coordinator.policy import GRACE, MIN_INTERVAL, TARGET_SIZE, WINDOW, Policy
from groupkeeper.coordinator.standby import EMPTY_ASSIGNMENT
from groupkeeper.protocol.embedded import Assignment, TopicPartition
from groupkeeper.protocol.group_events import CauseCode
from tests.coordinator.test_seats import PLAN, live, lose, plan, share, shares
from tests.support.codecs import encode_assignment
from tests.support.scene import REBALANCE, Scene, topics

SPARES = Policy(target_size=2)
SCALE = Policy(window_ms=5_000)


def scene_of(policy: Policy, *names: str, **says: Any) -> Scene:
    """A Stable group of these, of which those that get partitions have those of `PLAN`."""
    scene = Scene(policy=policy)
    for name in names:
        static = {"instance": name} if name.isupper() else {}
        scene.join(name, **static | says)
    scene.advance(scene.config.initial_rebalance_delay_ms * 2)
    plan(scene, names, {name: PLAN.get(name, share(9)) for name in names})
    scene.advance(0)  # very many are answered in several steps
    return scene


def take(scene: Scene, name: str) -> bytes:
    """What a member that was asked gets: it rejoins after a heartbeat, and syncs."""
    assert scene.heartbeat(name).outcome == "REBALANCE_IN_PROGRESS"
    call = scene.join(name)
    assert call.outcome == "NONE"
    assert call.response.members == []
    got: bytes = scene.sync(name).response.assignment
    assert scene.heartbeat(name).outcome == "NONE"
    return got


def rebalances(scene: Scene) -> int:
    return len(scene.noted(RebalanceStarted))


# -- hot standby -----------------------------------------------------------------------------------


def test_a_member_beyond_the_target_size_stands_by_and_nobody_is_told() -> None:
    scene = scene_of(SPARES, "lea", "fred")
    generation = scene.group.generation
    call = scene.join("zoe")
    assert (call.outcome, call.response.generation_id) == ("NONE", generation)
    assert (call.response.leader, call.response.members) == ("lea-1", [])
    assert scene.sync("zoe").response.assignment == EMPTY_ASSIGNMENT
    assert scene.heartbeat("zoe").outcome == scene.heartbeat("lea").outcome == "NONE"
    [fact] = scene.noted(RebalanceDeferred)
    assert (fact.policy, fact.for_ms) == (TARGET_SIZE, None)
    assert rebalances(scene) == 1


@pytest.mark.parametrize("version", range(10))
def test_with_every_version_of_join_group(version: int) -> None:
    scene = scene_of(SPARES, "lea", "fred")
    assert scene.join("zoe", version=version).outcome == "NONE"
    assert scene.state == "Stable"


def test_the_leader_does_not_see_standbys_and_they_get_no_partitions() -> None:
    scene = scene_of(SPARES, "lea", "fred", "zoe")
    assert list(scene.group.standbys) == ["zoe-1"]
    told = scene.join("lea").response  # the leader starts a rebalance
    assert told is None
    scene.join("zoe")
    scene.join("fred")
    told = scene.join("lea").response
    assert [each.member_id for each in told.members] == ["lea-1", "fred-1"]
    scene.sync("zoe")
    scene.sync("lea", {"lea": share(0, 1, 2), "fred": share(3, 4, 5)})
    assert scene.sync("zoe").response.assignment == EMPTY_ASSIGNMENT


@pytest.mark.parametrize("how", ["left", "expired"])
def test_a_standby_takes_over_and_nobody_else_is_told(how: str) -> None:
    scene = scene_of(SPARES, "lea", "fred", "zoe")
    generation = scene.group.generation
    if how == "left":
        assert scene.leave("fred").outcome == "NONE"
    else:
        lose(scene, "fred", "lea", "zoe")
    assert (scene.state, scene.group.generation) == ("Stable", generation)
    assert take(scene, "zoe") == PLAN["fred"]
    assert scene.heartbeat("lea").outcome == "NONE"
    [fact] = scene.noted(StandbyActivated)
    assert (fact.who.client_id, fact.old_member) == ("zoe", "fred-1")
    assert len(scene.noted(MemberRemoved)) == 1
    assert rebalances(scene) == 1
    assert scene.heartbeat("fred").outcome == "UNKNOWN_MEMBER_ID"
    assert scene.commit("fred").outcome == "UNKNOWN_MEMBER_ID"


@pytest.mark.parametrize("lost", ["fred", "zoe"])
def test_nobody_waits_for_the_sync_of_a_member_that_was_lost_before(lost: str) -> None:
    """The last one that had not synced is gone without a rebalance: a standby, or its owner."""
    scene = Scene(policy=SPARES)
    names = ("lea", "fred", "zoe")
    for name in names:
        scene.join(name)
    scene.advance(scene.config.initial_rebalance_delay_ms * 2)
    others = tuple(name for name in names if name != lost)
    plan(scene, others, {"lea": PLAN["lea"], "fred": PLAN["fred"]})
    lose(scene, lost, *others)
    if lost == "fred":
        assert take(scene, "zoe") == PLAN["fred"]
    live(scene, 2 * scene.group.rebalance_timeout_ms, *others)
    assert (scene.state, rebalances(scene)) == ("Stable", 1)
    assert len(scene.noted(MemberRemoved)) == 1


def test_what_a_standby_took_over_survives_a_crash() -> None:
    scene = scene_of(SPARES, "lea", "fred", "zoe")
    scene.hold = True
    call = scene.leave("fred")
    beat = scene.heartbeat("zoe")
    assert call.parked and beat.parked, "no answer before the record is durable"
    scene.flush()
    scene.hold = False
    scene.crash()
    assert shares(scene) == {"lea": [0, 1], "zoe": [2, 3]}
    assert scene.sync("zoe").response.assignment == PLAN["fred"]


def test_a_standby_takes_over_from_the_leader_and_the_oldest_of_the_others_leads() -> None:
    scene = scene_of(SPARES, "lea", "fred", "zoe")
    scene.leave("lea")
    assert take(scene, "zoe") == PLAN["lea"]
    assert scene.group.leader_id == "fred-1"
    scene.crash()
    assert scene.group.leader_id == "fred-1"


def test_a_standby_takes_over_from_the_only_other_member() -> None:
    scene = scene_of(Policy(target_size=1), "lea", "zoe")
    scene.leave("lea")
    call = scene.heartbeat("zoe")
    assert call.outcome == "REBALANCE_IN_PROGRESS"
    reply = scene.join("zoe").response
    assert (reply.leader, reply.members) == ("", []), "it leads, and must not assign"
    assert scene.sync("zoe").response.assignment == PLAN["lea"]


def test_the_standby_that_waits_longest_takes_over_first() -> None:
    scene = scene_of(SPARES, "lea", "fred", "zoe")
    scene.join("ann")
    scene.sync("ann")
    scene.leave("lea")
    assert take(scene, "zoe") == PLAN["lea"]
    scene.leave("fred")
    assert take(scene, "ann") == PLAN["fred"]


def test_one_that_comes_back_stands_by() -> None:
    scene = scene_of(SPARES, "lea", "fred", "zoe")
    scene.leave("fred")
    take(scene, "zoe")
    assert scene.restart("fred").outcome == "NONE"
    assert scene.sync("fred").response.assignment == EMPTY_ASSIGNMENT
    assert rebalances(scene) == 1


@pytest.mark.parametrize("how", ["left", "expired"])
def test_a_standby_that_goes_is_no_rebalance(how: str) -> None:
    scene = scene_of(SPARES, "lea", "fred", "zoe")
    if how == "left":
        scene.leave("zoe")
    else:
        lose(scene, "zoe", "lea", "fred")
    assert (scene.state, len(scene.group.members)) == ("Stable", 2)
    assert rebalances(scene) == 1


def test_without_a_standby_a_lost_member_is_a_rebalance() -> None:
    scene = scene_of(SPARES, "lea", "fred")
    scene.leave("fred")
    assert scene.state == "PreparingRebalance"


def test_without_a_standby_the_place_is_kept() -> None:
    scene = scene_of(replace(SPARES, grace_ms=60_000), "lea", "fred")
    lose(scene, "fred", "lea")
    assert (scene.state, list(scene.group.seats)) == ("Stable", ["fred-1"])


def test_a_newcomer_takes_over_from_a_lost_member_whose_place_is_kept() -> None:
    scene = scene_of(replace(SPARES, grace_ms=60_000), "lea", "fred")
    lose(scene, "fred", "lea")
    assert scene.join("zoe").outcome == "NONE"
    assert scene.sync("zoe").response.assignment == PLAN["fred"]
    assert scene.heartbeat("zoe").outcome == "NONE"
    assert (list(scene.group.seats), list(scene.group.standbys)) == ([], [])
    scene.crash()
    assert shares(scene) == {"lea": [0, 1], "zoe": [2, 3]}
    assert [take(scene, name) for name in ("lea", "zoe")] == [PLAN["lea"], PLAN["fred"]]
    live(scene, 2 * 60_000, "lea", "zoe")
    assert (scene.state, rebalances(scene)) == ("Stable", 1)


def test_a_standby_of_other_topics_cannot_take_over() -> None:
    scene = Scene(policy=SPARES)
    scene.join("lea")
    scene.join("fred", protocols={"range": topics("u")})
    scene.join("zoe")
    scene.advance(6_000)
    plan(scene, ("lea", "fred", "zoe"), PLAN)
    scene.leave("fred")
    assert scene.state == "PreparingRebalance"


def test_clients_that_repeat_join_group_get_the_same_answer() -> None:
    scene = scene_of(SPARES, "lea", "fred", "zoe")
    scene.leave("fred")
    scene.heartbeat("zoe")
    scene.heartbeat("zoe")
    for _ in range(3):
        assert scene.join("zoe", protocols={"range": topics("t", owned=1)}).outcome == "NONE"
    assert scene.sync("zoe").response.assignment == PLAN["fred"]
    assert scene.join("zoe", protocols={"range": topics("t", owned=2)}).outcome == "NONE"
    assert scene.sync("zoe").response.assignment == PLAN["fred"]
    assert scene.heartbeat("zoe").outcome == "NONE"
    assert rebalances(scene) == 1


def test_an_asked_member_that_subscribes_to_other_topics_is_a_rebalance() -> None:
    scene = scene_of(SPARES, "lea", "fred", "zoe")
    scene.leave("fred")
    scene.heartbeat("zoe")
    scene.join("zoe", protocols={"range": topics("t", "u")})
    assert (scene.state, scene.cause.code) == ("PreparingRebalance", CauseCode.SUBSCRIPTION_CHANGED)


def test_a_standby_that_does_not_take_over_in_time_is_removed() -> None:
    scene = scene_of(SPARES, "lea", "fred", "zoe", rebalance=REBALANCE)
    scene.join("ann")
    scene.sync("ann")
    scene.leave("fred")
    for _ in range(REBALANCE // 1_000):
        scene.advance(1_000)
        for name in ("lea", "zoe", "ann"):
            scene.heartbeat(name)
    [_, removed] = scene.noted(MemberRemoved)
    assert (removed.who.client_id, removed.cause.code) == ("zoe", CauseCode.JOIN_TIMEOUT)
    assert take(scene, "ann") == PLAN["fred"]


def test_a_steady_heartbeat_of_an_asked_member_is_not_repeated() -> None:
    scene = scene_of(SPARES, "lea", "fred", "zoe")
    scene.heartbeat("zoe")
    beat = scene.steady_beat("zoe")
    assert beat is not None
    scene.leave("fred")
    assert not scene.partition.beat(beat, scene.now)
    assert scene.heartbeat("zoe").outcome == "REBALANCE_IN_PROGRESS"
    assert scene.steady_beat("zoe") is None


def test_a_static_standby_restarts_as_a_standby() -> None:
    scene = scene_of(SPARES, "lea", "fred", "ZOE")
    assert scene.restart("ZOE").outcome == "NONE"
    assert list(scene.group.standbys) == ["ZOE-2"]
    scene.leave("fred")
    assert take(scene, "ZOE") == PLAN["fred"]


def test_a_rebalance_ends_what_was_asked() -> None:
    scene = scene_of(SPARES, "lea", "fred", "zoe")
    scene.leave("fred")
    scene.join("lea", protocols={"range": topics("t", "u")})
    assert scene.heartbeat("zoe").outcome == "REBALANCE_IN_PROGRESS"
    told = scene.join("zoe")
    assert told.outcome == "NONE"
    scene.sync("zoe")
    scene.sync("lea", PLAN)
    assert scene.heartbeat("zoe").outcome == "NONE"


def test_standbys_are_found_again_after_a_crash() -> None:
    scene = scene_of(SPARES, "lea", "fred", "zoe")
    scene.crash()
    assert list(scene.group.standbys) == ["zoe-1"]
    scene.leave("fred")
    assert take(scene, "zoe") == PLAN["fred"]


def test_a_standby_that_came_after_the_last_plan_joins_again_after_a_crash() -> None:
    scene = scene_of(SPARES, "lea", "fred")
    scene.join("zoe")
    scene.sync("zoe")
    scene.crash()
    assert scene.heartbeat("zoe").outcome == "UNKNOWN_MEMBER_ID"
    assert scene.join("zoe", as_id="").outcome == "NONE"
    assert scene.state == "Stable"


def test_the_target_size_is_raised_and_lowered() -> None:
    scene = Scene()
    for name in ("lea", "fred", "zoe"):
        scene.join(name)
    scene.advance(6_000)
    plan(scene, ("lea", "fred", "zoe"), PLAN)
    for size, active in (("2", 2), ("3", 3)):
        scene.configure({TARGET_SIZE: size})
        assert (scene.state, scene.cause.code) == ("PreparingRebalance", CauseCode.POLICY_CHANGED)
        for name in ("lea", "fred", "zoe"):
            call = scene.join(name)
        plan(scene, ("lea", "fred", "zoe"), PLAN)
        assert len(scene.group.members) - len(scene.group.standbys) == active
        assert call.outcome == "NONE"
    scene.configure({TARGET_SIZE: "5"})
    assert scene.state == "Stable"


# -- scale windows ---------------------------------------------------------------------------------


def test_newcomers_of_a_window_are_one_rebalance() -> None:
    scene = scene_of(SCALE, "lea")
    names = [f"m{number}" for number in range(4)]
    for name in names:
        assert scene.join(name).outcome == "NONE"
        assert scene.sync(name).response.assignment == EMPTY_ASSIGNMENT
        live(scene, 2_000, "lea", *names[: names.index(name) + 1])
    assert rebalances(scene) == 1
    live(scene, 5_000, "lea", *names)
    assert (scene.state, scene.cause.code) == ("PreparingRebalance", CauseCode.WINDOW_OVER)
    assert scene.cause.evidence == {"newcomers": 4, "waited_ms": 11_000}
    for name in ("lea", *names):
        told = scene.join(name)
    assert told.outcome == "NONE"
    assert rebalances(scene) == 2
    assert not scene.group.standbys


def test_a_window_lasts_three_times_its_length_at_most() -> None:
    scene = scene_of(SCALE, "lea")
    for number in range(20):
        scene.join(f"m{number}")
        live(scene, 1_000, "lea", *(f"m{each}" for each in range(number)))
        if scene.state != "Stable":
            break
    assert scene.cause.evidence["waited_ms"] == 15_000


def test_another_rebalance_takes_the_newcomers_in() -> None:
    scene = scene_of(SCALE, "lea", "fred")
    scene.join("zoe")
    scene.leave("fred")
    assert scene.state == "PreparingRebalance"
    scene.join("zoe")
    scene.join("lea")
    told = scene.sync("lea", {"lea": share(0), "zoe": share(1)})
    assert told.response.assignment == share(0)
    live(scene, 20_000, "lea", "zoe")
    assert (scene.state, rebalances(scene)) == ("Stable", 2)


def test_a_newcomer_that_goes_within_the_window_is_no_rebalance_of_its_own() -> None:
    scene = scene_of(SCALE, "lea")
    scene.join("zoe")
    scene.leave("zoe")
    assert scene.state == "Stable"


def test_a_newcomer_of_other_topics_does_not_wait() -> None:
    scene = scene_of(SCALE, "lea")
    assert scene.join("zoe", protocols={"range": topics("t", "u")}).parked


def test_a_window_that_is_switched_off_is_over() -> None:
    scene = Scene()
    scene.configure({WINDOW: "60000"})
    scene.join("lea")
    scene.advance(6_000)
    scene.sync("lea", PLAN)
    scene.join("zoe")
    scene.configure({})
    scene.advance(0)
    assert scene.cause.code is CauseCode.WINDOW_OVER


def test_rebalances_keep_their_distance() -> None:
    """A crash loop costs one rebalance in each interval."""
    scene = scene_of(Policy(min_interval_ms=30_000), "lea", "fred")
    began = scene.group.rebalance and scene.group.rebalance.started_ms
    assert began is not None
    lose(scene, "fred", "lea")
    assert scene.state == "Stable"
    scene.restart("fred")
    assert scene.sync("fred").response.assignment == PLAN["fred"]
    scene.join("zoe")
    [fact] = scene.noted(RebalanceDeferred)
    assert (fact.policy, fact.for_ms) == (MIN_INTERVAL, began + 30_000 - scene.now)
    live(scene, began + 29_000 - scene.now, "lea", "fred", "zoe")
    assert scene.state == "Stable"
    live(scene, 1_000, "lea", "fred", "zoe")
    assert scene.cause.code is CauseCode.WINDOW_OVER


def test_seats_of_an_interval_end_with_it() -> None:
    scene = scene_of(Policy(min_interval_ms=30_000), "lea", "fred")
    began = scene.group.rebalance and scene.group.rebalance.started_ms
    assert began is not None
    lose(scene, "fred", "lea")
    live(scene, began + 30_000 - scene.now, "lea")
    assert scene.cause.code is CauseCode.SEAT_EXPIRED
    assert rebalances(scene) == 2


# -- groups whose assignors keep data of their own -------------------------------------------------


def test_assignors_with_user_data_and_other_types_are_left_alone() -> None:
    said = Assignment(
        assigned_partitions=[TopicPartition(topic="t", partitions=[0])], user_data=b"tasks"
    )
    for says in ({}, {"type": "connect"}):
        scene = Scene(policy=Policy(window_ms=5_000, target_size=1))
        scene.join("lea", **says)
        scene.advance(6_000)
        scene.sync("lea", {"lea": encode_assignment(said)})
        assert scene.join("zoe", **says).parked
        [fact] = scene.noted(PolicyRefused)
        assert fact.policies == [WINDOW, TARGET_SIZE]


def test_off_by_default_and_with_grace_alone() -> None:
    for policy in (Policy(), Policy(grace_ms=60_000)):
        scene = scene_of(policy, "lea")
        assert scene.join("zoe").parked


def test_a_process_that_is_back_early_takes_no_place_without_a_grace() -> None:
    scene = scene_of(SPARES, "lea", "fred")
    scene.hang_up("fred")
    scene.peers["new"] = Peer(client_id="fred", host="/fred")
    assert scene.join("new").outcome == "NONE"
    assert list(scene.group.standbys) == ["new-1"] or len(scene.group.members) == 3


def test_configs_are_read() -> None:
    scene = Scene()
    scene.configure({TARGET_SIZE: "1", GRACE: "5000"})
    scene.join("lea")
    scene.join("zoe")
    scene.advance(6_000)
    plan(scene, ("lea", "zoe"), PLAN)
    assert scene.group.policy == Policy(grace_ms=5_000, target_size=1)
    assert list(scene.group.standbys) == ["zoe-1"]


def test_very_many_stand_by_and_take_over() -> None:
    names = [f"m{number}" for number in range(120)]
    scene = scene_of(Policy(target_size=20), *names)
    assert len(scene.group.standbys) == 100
    for name in names[:20]:
        scene.leave(name)
    assert scene.state == "Stable"
    assert len(scene.group.asked) == 20
    for name in names[20:40]:
        assert take(scene, name) == share(9)
    assert rebalances(scene) == 1


def test_a_lost_member_never_stands_by_and_a_living_one_leads() -> None:
    scene = scene_of(Policy(target_size=1, grace_ms=60_000), "lea", "fred")
    assert list(scene.group.standbys) == ["fred-1"]
    scene.configure({TARGET_SIZE: "2", GRACE: "60000"})
    for name in ("lea", "fred"):
        scene.join(name)
    plan(scene, ("lea", "fred"), PLAN)
    lose(scene, "fred", "lea")
    scene.configure({TARGET_SIZE: "1", GRACE: "60000"})
    assert scene.join("lea").outcome == "NONE"
    assert (list(scene.group.seats), list(scene.group.standbys)) == (["fred-1"], [])
    assert scene.group.leader_id == "lea-1"


def test_an_assignor_that_sends_back_the_user_data_of_subscriptions_keeps_none_of_its_own() -> None:
    """As librdkafka does."""
    said = Assignment(
        assigned_partitions=[TopicPartition(topic="t", partitions=[0])], user_data=b"\1"
    )
    scene = Scene(policy=Policy(window_ms=5_000))
    scene.join("lea", protocols={"cooperative-sticky": topics("t", owned=1)})
    scene.advance(6_000)
    scene.sync("lea", {"lea": encode_assignment(said)})
    assert scene.noted(PolicyRefused) == []
    newcomer = {"cooperative-sticky": topics("t", owned=2)}
    assert scene.join("zoe", protocols=newcomer).outcome == "NONE"


def test_a_member_to_which_the_leader_gave_nothing_holds_nothing() -> None:
    """Its assignment has a version of its own, and no partitions."""
    scene = Scene()
    for name in ("lea", "fred", "zoe"):
        scene.join(name)
    scene.advance(6_000)
    plan(scene, ("lea", "fred", "zoe"), PLAN | {"fred": share()})
    scene.configure({TARGET_SIZE: "2"})
    for name in ("lea", "fred", "zoe"):
        scene.join(name)
    assert list(scene.group.standbys) == ["fred-1"]
