"""Faults that lives with all policies found (`tests.seats`), each in its shortest form."""

from groupkeeper.coordinator.facts import MemberRemoved
from groupkeeper.coordinator.policy import (
    EXPECTED_IDS,
    EXPECTED_WAIT,
    GRACE,
    REMOTE_ASSIGNOR,
    STEP_INTERVAL,
    TARGET_SIZE,
    UNEXPECTED,
    WATCH,
    Policy,
)
from groupkeeper.protocol.embedded import Subscription, TopicPartition
from groupkeeper.protocol.group_events import CauseCode
from tests.coordinator.test_scaling import PLAN, SPARES, live, plan, rebalances, scene_of, take
from tests.coordinator.test_seats import lose, share, shares
from tests.coordinator.test_steps import Stage
from tests.support.codecs import encode_subscription
from tests.support.scene import REBALANCE, SESSION, Scene, topics

SERVER = {REMOTE_ASSIGNOR: "uniform", STEP_INTERVAL: "0"}


def owning(*numbers: int) -> dict[str, bytes]:
    """What a cooperative consumer says that owns these."""
    told = Subscription(version=1, topics=["t"])
    told.owned_partitions = [TopicPartition(topic="t", partitions=list(numbers))]
    return {"range": encode_subscription(told)}


def planned(configs: dict[str, str]) -> Scene:
    """A Stable group of two that share four partitions, with these configs."""
    scene = Scene()
    scene.partition_counts["t"] = 4
    scene.configure(configs)
    scene.join("lea")
    scene.join("fred")
    scene.advance(6_000)
    plan(scene, ("lea", "fred"), PLAN)
    return scene


# -- releases --------------------------------------------------------------------------------------


def test_what_a_plan_takes_from_a_cooperative_member_is_given_away_when_it_has_rejoined() -> None:
    scene = Scene()
    scene.partition_counts["t"] = 4
    for name, owned in (("lea", (0, 1)), ("fred", (2, 3))):
        scene.join(name, protocols=owning(*owned))
    scene.configure(SERVER)
    scene.advance(6_000)
    scene.sync("fred")
    scene.sync("lea", {"lea": share(0, 1), "fred": share(2)})
    live(scene, 1_000, "lea")
    assert shares(scene) == {"lea": [0, 1], "fred": [2]}, "fred has 3 until it rejoins"
    assert scene.join("fred", protocols=owning(2)).outcome == "NONE"
    scene.sync("fred")
    live(scene, 3_000, "lea", "fred")
    assert sorted([*shares(scene)["lea"], *shares(scene)["fred"]]) == [0, 1, 2, 3]
    assert rebalances(scene) == 1


def test_what_a_member_has_that_is_to_stand_by_is_given_away_when_it_has_rejoined() -> None:
    scene = scene_of(Policy(target_size=2), "lea", "fred")
    scene.configure({TARGET_SIZE: "1"})
    scene.join("fred", protocols=owning(2, 3))
    scene.join("lea", protocols=owning(0, 1))
    scene.sync("fred")
    scene.sync("lea", {"lea": share(0, 1, 2, 3)})
    assert shares(scene) == {"lea": [0, 1], "fred": []}
    assert scene.join("fred", protocols=owning()).parked, "it starts the next rebalance"
    scene.join("lea", protocols=owning(0, 1))
    scene.sync("lea", {"lea": share(0, 1, 2, 3)})
    assert shares(scene) == {"lea": [0, 1, 2, 3], "fred": []}


def test_what_a_standby_has_not_released_when_it_is_lost_finds_an_owner() -> None:
    scene = scene_of(Policy(target_size=2), "lea", "fred")
    scene.configure({TARGET_SIZE: "1"})
    scene.join("fred", protocols=owning(2, 3))
    scene.join("lea", protocols=owning(0, 1))
    scene.sync("fred")
    scene.sync("lea", {"lea": share(0, 1, 2, 3)})
    lose(scene, "fred", "lea")
    assert scene.state == "PreparingRebalance"


def test_an_assignment_that_is_asked_for_late_is_no_rejoin() -> None:
    stage = Stage("eager", count=4)
    stage.form("lea")
    scene = stage.scene
    lea = stage.clients["lea"]
    lea.holds = set()
    assert scene.join("lea", protocols={"range": lea.metadata}).outcome == "NONE"
    stage.add("zoe")
    scene.advance(3_000)
    assert list(scene.group.asked) == ["lea-1"]
    lea.sync()
    assert lea.holds == {0, 1}
    stage.live(8_000)
    assert stage.sizes == [2, 2]
    assert not scene.noted(MemberRemoved)


def test_a_cooperative_member_that_says_it_would_release_and_does_not_is_removed() -> None:
    """It has rejoined and has its new assignment, and never says that it gave the rest up."""
    stage = Stage("cooperative", count=4)
    stage.form("lea")
    stage.add("zoe")
    stage.scene.advance(1_000)
    lea = stage.clients.pop("lea")
    scene = stage.scene
    assert scene.heartbeat("lea").outcome == "REBALANCE_IN_PROGRESS"
    assert scene.join("lea", protocols={"range": lea.metadata}).outcome == "NONE"
    assert scene.sync("lea").outcome == "NONE"
    for _ in range(REBALANCE // 1_000 + 2):
        scene.advance(1_000)
        scene.heartbeat("lea")
        stage.clients["zoe"].beat()
    [fact] = scene.noted(MemberRemoved)
    assert (fact.who.client_id, fact.cause.code) == ("lea", CauseCode.JOIN_TIMEOUT)
    stage.live(10_000)
    assert stage.sizes == [4]


# -- what is lost ----------------------------------------------------------------------------------


def test_a_member_that_is_asked_and_lost_is_asked_for_nothing() -> None:
    scene = scene_of(Policy(target_size=2, grace_ms=60_000), "lea", "fred", "zoe")
    scene.leave("fred")
    assert list(scene.group.asked) == ["zoe-1"]
    scene.advance(SESSION // 2)
    lose(scene, "zoe", "lea")
    assert (list(scene.group.seats), scene.group.asked) == (["zoe-1"], {})
    live(scene, 50_000, "lea")
    assert list(scene.group.seats) == ["zoe-1"]


def test_a_member_that_never_asked_for_its_assignment_goes_quietly() -> None:
    """The time for its SyncGroup goes with it."""
    scene = scene_of(SPARES, "lea", "fred", "zoe")
    scene.force_rebalance()
    for name in ("lea", "fred", "zoe"):
        scene.join(name)
    scene.sync("fred")
    scene.sync("lea", PLAN)
    assert list(scene.group.pending_sync) == ["zoe-1"]
    scene.leave("zoe")
    live(scene, 120_000, "lea", "fred")
    assert scene.state == "Stable"


# -- who gets partitions ---------------------------------------------------------------------------


def test_the_server_does_not_assign_to_members_of_different_topics() -> None:
    scene = Scene()
    scene.partition_counts |= {"t": 2, "u": 2}
    scene.configure(SERVER)
    scene.join("lea", protocols={"range": topics("t", "u")})
    scene.join("fred")
    scene.advance(6_000)
    scene.sync("fred")
    scene.sync("lea", {"lea": share(0, 1)})
    live(scene, 5_000, "lea", "fred")
    assert scene.group.members["fred-1"].assignment == b""
    assert scene.join("zoe", protocols={"range": topics("t", "u")}).parked, "as in Kafka"


def test_a_size_that_is_lowered_while_the_leader_assigns() -> None:
    scene = Scene()
    scene.join("lea")
    scene.join("fred")
    scene.advance(6_000)
    assert scene.state == "CompletingRebalance"
    scene.configure({TARGET_SIZE: "1"})
    scene.sync("fred")
    scene.sync("lea", PLAN)
    assert (scene.state, scene.cause.code) == ("PreparingRebalance", CauseCode.POLICY_CHANGED)


def test_a_size_that_is_lowered_and_a_crash_before_the_rebalance_ends() -> None:
    scene = Scene()
    scene.join("lea")
    scene.join("fred")
    scene.advance(6_000)
    plan(scene, ("lea", "fred"), PLAN)
    scene.configure({TARGET_SIZE: "1"})
    scene.crash()
    assert (scene.state, scene.cause.code) == ("PreparingRebalance", CauseCode.POLICY_CHANGED)


def test_one_that_is_to_stand_by_in_a_plan_that_is_abandoned() -> None:
    """It holds partitions and stands by, and is one member all the same."""
    scene = scene_of(Policy(target_size=2), "lea", "fred")
    scene.configure({TARGET_SIZE: "1"})
    scene.join("fred")
    scene.join("lea")
    assert list(scene.group.standbys) == ["fred-1"]
    scene.force_rebalance()
    scene.join("zoe")
    scene.leave("lea")
    assert scene.join("fred").outcome == "NONE"
    assert scene.group.leader_id == "fred-1"
    assert list(scene.group.standbys) == ["zoe-1"]


def test_a_static_member_that_is_offline_does_not_keep_the_only_place() -> None:
    scene = scene_of(Policy(target_size=1), "LEA", "fred")
    scene.force_rebalance()
    assert scene.join("fred").parked
    live(scene, 60_000, "LEA")
    assert (scene.state, scene.group.leader_id) == ("CompletingRebalance", "fred-1")
    assert list(scene.group.standbys) == ["LEA-1"]


def test_a_newcomer_beside_a_seat_too_many_stands_by() -> None:
    scene = scene_of(Policy(target_size=1, grace_ms=60_000), "lea", "fred")
    scene.join("fred")
    scene.force_rebalance()
    scene.join("fred")
    lose(scene, "lea", "fred")
    scene.sync("fred", {"fred": share(2, 3), "lea": share(0, 1)})
    assert scene.join("zoe").outcome == "NONE"
    assert list(scene.group.standbys) == ["zoe-1"]
    assert shares(scene) == {"lea": [0, 1], "fred": [2, 3], "zoe": []}


def test_the_last_member_with_partitions_goes_and_only_standbys_are_left() -> None:
    """The server gives these nothing, and nobody would have its partitions."""
    scene = Scene()
    scene.partition_counts["t"] = 2
    scene.configure(SERVER | {EXPECTED_IDS: "LEA", UNEXPECTED: "standby", EXPECTED_WAIT: "0"})
    scene.join("LEA", instance="LEA")
    scene.advance(6_000)
    scene.join("LEA")
    scene.sync("LEA", {"LEA": share(0, 1)})
    assert scene.join("zoe").outcome == "NONE"
    assert list(scene.group.standbys) == ["zoe-1"]
    scene.leave("LEA")
    assert scene.state == "PreparingRebalance"


def test_one_that_waits_for_the_server_when_it_does_not_assign_any_more() -> None:
    scene = Scene()
    scene.partition_counts["t"] = 4
    scene.configure(SERVER)
    scene.join("lea")
    scene.advance(6_000)
    scene.sync("lea", {"lea": share(0, 1, 2, 3)})
    assert scene.join("zoe").outcome == "NONE"
    scene.configure({TARGET_SIZE: "5"})
    assert (scene.state, scene.cause.code) == ("PreparingRebalance", CauseCode.POLICY_CHANGED)


def test_standbys_get_the_place_of_a_seat_that_ends() -> None:
    scene = Scene()
    scene.partition_counts["t"] = 4
    scene.configure(SERVER | {TARGET_SIZE: "2", GRACE: "5000"})
    for name in ("lea", "fred", "zoe"):
        scene.join(name)
    scene.advance(6_000)
    plan(scene, ("lea", "fred", "zoe"), PLAN)
    scene.force_rebalance()
    scene.join("lea")
    scene.join("zoe")
    lose(scene, "fred", "lea", "zoe")
    scene.sync("lea", PLAN)
    assert (list(scene.group.seats), list(scene.group.standbys)) == (["fred-1"], ["zoe-1"])
    live(scene, 6_000, "lea", "zoe")
    assert scene.state == "PreparingRebalance"
    scene.join("lea")
    scene.join("zoe")
    assert not scene.group.standbys


def test_topics_of_members_that_have_gone_are_none_of_the_server() -> None:
    scene = Scene()
    scene.partition_counts |= {"t": 2, "u": 2}
    for name, read in (("lea", "t"), ("fred", "u")):
        scene.join(name, protocols={"range": topics(read)})
    scene.configure({TARGET_SIZE: "1"})
    scene.advance(6_000)
    plan(scene, ("lea", "fred"), {"lea": share(0, 1)})
    scene.leave("fred")
    assert scene.state == "Stable"
    scene.configure(SERVER)
    live(scene, 5_000, "lea")
    assert scene.group.members["lea-1"].assignment == share(0, 1)


def test_a_seat_that_is_taken_beside_the_one_that_leads_is_one_too_many() -> None:
    scene = scene_of(Policy(target_size=1, grace_ms=60_000), "lea", "fred")
    scene.join("fred")
    scene.force_rebalance()
    scene.join("fred")
    lose(scene, "lea", "fred")
    scene.sync("fred", {"fred": share(2, 3), "lea": share(0, 1)})
    assert shares(scene) == {"lea": [0, 1], "fred": [2, 3]}
    assert scene.restart("lea").parked
    assert (scene.state, scene.cause.code) == ("PreparingRebalance", CauseCode.POLICY_CHANGED)
    scene.join("fred")
    assert len(scene.group.standbys) == 1


# -- loads -----------------------------------------------------------------------------------------


def test_after_a_crash_members_are_told_what_they_have() -> None:
    scene = scene_of(SPARES, "lea", "fred", "zoe")
    scene.leave("fred")
    scene.crash()
    assert take(scene, "zoe") == PLAN["fred"]
    assert take(scene, "lea") == PLAN["lea"]
    assert rebalances(scene) == 1
    scene.configure({GRACE: "1000"})
    scene.crash()
    assert scene.heartbeat("zoe").outcome == "REBALANCE_IN_PROGRESS"


def test_a_leader_that_is_asked_and_wants_a_rebalance() -> None:
    """Its JoinGroup is the same, whether it was asked or has seen that a topic has grown."""
    scene = planned({TARGET_SIZE: "2"})
    scene.crash()
    scene.partition_counts["t"] = 5
    assert scene.join("lea").parked
    assert scene.cause.code is CauseCode.LEADER_REJOINED


def test_a_standby_does_not_lead_after_a_crash() -> None:
    scene = scene_of(Policy(grace_ms=1_000), "lea", "fred")
    scene.force_rebalance()
    for name in ("lea", "fred"):
        scene.join(name)
    plan(scene, ("lea", "fred"), {"lea": share(), "fred": share(0)})
    scene.configure({TARGET_SIZE: "1"})
    scene.crash()
    assert (list(scene.group.standbys), scene.group.leader_id) == (["lea-1"], "fred-1")


def test_partitions_that_come_while_nobody_watches() -> None:
    scene = planned({WATCH: "true"})
    scene.partition_counts["t"] = 6
    scene.crash()
    scene.advance(0)
    assert (scene.state, scene.cause.code) == ("PreparingRebalance", CauseCode.TOPICS_CHANGED)
    assert scene.cause.evidence == {"topic": "t", "partitions_before": 4, "partitions_now": 6}


def test_nothing_changes_while_nobody_watches() -> None:
    scene = planned({WATCH: "true"})
    scene.crash()
    live(scene, 5_000, "lea", "fred")
    assert (scene.state, rebalances(scene)) == ("Stable", 1)


def test_a_lost_member_without_partitions_is_no_standby_after_a_crash() -> None:
    scene = scene_of(Policy(grace_ms=60_000), "lea", "fred", "zoe")
    scene.force_rebalance()
    for name in ("lea", "fred", "zoe"):
        scene.join(name)
    plan(scene, ("lea", "fred", "zoe"), PLAN | {"zoe": share()})
    lose(scene, "zoe", "lea", "fred")
    scene.configure({GRACE: "60000", TARGET_SIZE: "2"})
    scene.crash()
    assert (list(scene.group.seats), list(scene.group.standbys)) == (["zoe-1"], [])
