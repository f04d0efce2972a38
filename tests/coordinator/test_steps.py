"""Assignments by the server, a few partitions at a time (docs/policies.md)."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupkeeper.coordinator.facts import AssignmentChanged, MemberRemoved, RebalanceStarted
from groupkeeper.coordinator.policy import (
    GRACE,
    REMOTE_ASSIGNOR,
    STEP_INTERVAL,
    STEP_PARTITIONS,
    WATCH,
)
from groupkeeper.coordinator.uniform import Place, uniform
from groupkeeper.protocol.embedded import Subscription, TopicPartition, assignment_of, read_assigned
from groupkeeper.protocol.group_events import CauseCode
from tests.coordinator.test_seats import owned, plan, share
from tests.support.codecs import encode_subscription
from tests.support.scene import REBALANCE, SESSION, Scene

KINDS = ["eager", "cooperative"]
SERVER = {REMOTE_ASSIGNOR: "uniform", STEP_INTERVAL: "1000"}


@dataclass(eq=False)
class Consumer:
    """What a client library does: it revokes all before it rejoins, or what it has to."""

    scene: Scene
    name: str
    kind: str
    holds: set[int] = field(default_factory=set)

    @property
    def metadata(self) -> bytes:
        subscription = Subscription(version=1, topics=["t"])
        if self.kind == "cooperative" and self.holds:
            owned = TopicPartition(topic="t", partitions=sorted(self.holds))
            subscription.owned_partitions = [owned]
        return encode_subscription(subscription)

    def join(self) -> None:
        if self.kind == "eager":
            self.holds = set()
        call = self.scene.join(self.name, protocols={"range": self.metadata})
        if call.outcome == "NONE":
            self.sync()

    def sync(self, plan: dict[str, bytes] | None = None) -> None:
        call = self.scene.sync(self.name, plan)
        if call.outcome != "NONE":
            return
        told = set((read_assigned(call.response.assignment) or {}).get("t", []))
        revoked = self.holds - told
        self.holds = told
        if revoked and self.kind == "cooperative":
            self.join()

    def beat(self) -> None:
        outcome = self.scene.heartbeat(self.name).outcome
        if outcome == "REBALANCE_IN_PROGRESS":
            self.join()
        elif outcome == "UNKNOWN_MEMBER_ID":
            self.holds = set()
            self.scene.person(self.name).member_id = ""
            self.join()


@dataclass(eq=False)
class Stage:
    """A group of such clients, of which no two ever hold one partition."""

    kind: str
    count: int = 12
    configs: dict[str, str] = field(default_factory=dict)
    clients: dict[str, Consumer] = field(default_factory=dict)
    most_idle: int = 0
    """The most partitions that nobody has held since the group was settled."""

    def __post_init__(self) -> None:
        self.scene = Scene()
        self.scene.partition_counts["t"] = self.count
        self.scene.configure(SERVER | self.configs)

    def form(self, *names: str) -> None:
        """All join, and the first one takes everything, as a leader with another idea."""
        for name in names:
            self.clients[name] = Consumer(self.scene, name, self.kind)
            instance = name if name.isupper() else None
            metadata = self.clients[name].metadata
            self.scene.join(name, protocols={"range": metadata}, instance=instance)
        self.scene.advance(6_000)
        everything = assignment_of([("t", number) for number in range(self.count)])
        for name in reversed(names):
            plan = {names[0]: everything} if name == names[0] else None
            self.clients[name].sync(plan)
        for name in names:
            self.clients[name].sync()
        self.live(30_000)
        self.most_idle = 0

    def add(self, name: str) -> Consumer:
        client = self.clients[name] = Consumer(self.scene, name, self.kind)
        client.join()
        return client

    def live(self, ms: int) -> None:
        """Everybody sends heartbeats, and does what it is told."""
        for _ in range(ms // 500):
            self.scene.advance(500)
            for client in list(self.clients.values()):
                client.beat()
                self.check()

    def check(self) -> None:
        held = Counter(each for client in self.clients.values() for each in client.holds)
        twice = [each for each, times in held.items() if times > 1]
        assert not twice, f"held by two: {twice}"
        self.most_idle = max(self.most_idle, self.count - len(held))

    @property
    def sizes(self) -> list[int]:
        return sorted(len(client.holds) for client in self.clients.values())

    @property
    def rebalances(self) -> int:
        return len(self.scene.noted(RebalanceStarted))


@pytest.mark.parametrize("kind", KINDS)
def test_the_plan_of_a_leader_is_made_even_without_a_rebalance(kind: str) -> None:
    stage = Stage(kind)
    stage.form("lea", "fred", "zoe")
    assert stage.sizes == [4, 4, 4]
    assert stage.rebalances == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_newcomer_gets_its_share_without_a_rebalance(kind: str) -> None:
    stage = Stage(kind)
    stage.form("lea", "fred")
    generation = stage.scene.group.generation
    stage.add("zoe")
    stage.live(10_000)
    assert stage.sizes == [4, 4, 4]
    assert (stage.rebalances, stage.scene.group.generation) == (1, generation)
    kept = [len(client.holds) for name, client in stage.clients.items() if name != "zoe"]
    assert kept == [4, 4]


def test_so_many_partitions_stand_still_at_a_time() -> None:
    stage = Stage("cooperative", count=30, configs={STEP_PARTITIONS: "2"})
    stage.form("lea", "fred")
    stage.add("zoe")
    stage.live(40_000)
    assert stage.sizes == [10, 10, 10]
    assert stage.most_idle == 2
    steps = [each for each in stage.scene.noted(AssignmentChanged) if len(each.assignments) > 1]
    assert len(steps) >= 5


def test_steps_keep_their_distance() -> None:
    configs = {STEP_PARTITIONS: "1", STEP_INTERVAL: "5000"}
    stage = Stage("cooperative", count=6, configs=configs)
    stage.form("lea")
    stage.live(60_000)
    stage.add("zoe")
    stage.live(9_000)
    assert 1 <= len(stage.clients["zoe"].holds) <= 2
    stage.live(9_000)
    assert stage.sizes == [3, 3]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["left", "expired"])
def test_the_partitions_of_one_that_goes_are_shared_out_without_a_rebalance(
    kind: str, how: str
) -> None:
    stage = Stage(kind)
    stage.form("lea", "fred", "zoe")
    gone = stage.clients.pop("lea")
    gone.holds = set()
    if how == "left":
        stage.scene.leave("lea")
    stage.live(SESSION + 3_000)
    assert stage.sizes == [6, 6]
    assert stage.rebalances == 1
    assert [each.who.client_id for each in stage.scene.noted(MemberRemoved)] == ["lea"]


def test_the_last_member_goes() -> None:
    stage = Stage("eager")
    stage.form("lea")
    stage.scene.leave("lea")
    assert stage.scene.state == "Empty"


@pytest.mark.parametrize("kind", KINDS)
def test_new_partitions_are_given_away(kind: str) -> None:
    stage = Stage(kind)
    stage.form("lea", "fred")
    stage.count = stage.scene.partition_counts["t"] = 20
    stage.live(5_000)
    assert stage.sizes == [10, 10]
    assert stage.rebalances == 1


def test_partitions_of_a_topic_that_is_gone_are_taken_away() -> None:
    stage = Stage("cooperative")
    stage.form("lea", "fred")
    stage.count = stage.scene.partition_counts["t"] = 4
    stage.live(10_000)
    assert stage.sizes == [2, 2]


@pytest.mark.parametrize("kind", KINDS)
def test_a_leader_that_rejoins_gets_what_it_had(kind: str) -> None:
    stage = Stage(kind)
    stage.form("lea", "fred")
    before = set(stage.clients["lea"].holds)
    stage.clients["lea"].join()
    assert stage.clients["lea"].holds == before
    assert stage.rebalances == 1


def test_one_that_does_not_release_is_removed_and_the_others_go_on() -> None:
    stage = Stage("cooperative")
    stage.form("lea", "fred")
    stage.add("zoe")
    stage.scene.advance(1_000)
    hung = stage.clients.pop("fred")
    for _ in range((REBALANCE + 10_000) // 1_000):
        stage.scene.advance(1_000)
        stage.scene.heartbeat("fred")  # its application does not poll
        if stage.scene.noted(MemberRemoved):
            hung.holds = set()
        stage.live(500)
    [removed] = stage.scene.noted(MemberRemoved)
    assert (removed.who.client_id, removed.cause.code) == ("fred", CauseCode.JOIN_TIMEOUT)
    assert stage.sizes == [6, 6]
    assert stage.rebalances == 1


def test_one_that_dies_while_it_is_asked_leaves_everything() -> None:
    stage = Stage("cooperative")
    stage.form("lea", "fred")
    stage.add("zoe")
    stage.scene.advance(1_000)
    stage.scene.heartbeat("fred")
    dead = stage.clients.pop("fred")
    dead.holds = set()
    stage.live(SESSION + 5_000)
    assert stage.sizes == [6, 6]
    assert stage.rebalances == 1


def test_the_place_of_a_lost_member_is_kept_first_and_shared_out_then() -> None:
    stage = Stage("eager", configs={GRACE: "20000"})
    stage.form("lea", "fred", "zoe")
    lost = stage.clients.pop("fred")
    lost.holds = set()
    stage.live(SESSION + 15_000)
    assert stage.sizes == [4, 4]
    stage.live(10_000)
    assert stage.sizes == [6, 6]
    assert stage.rebalances == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("crash_after", range(9))
def test_after_a_crash_at_any_time_nothing_is_held_twice(kind: str, crash_after: int) -> None:
    stage = Stage(kind, configs={STEP_PARTITIONS: "3"})
    stage.form("lea", "fred")
    stage.add("zoe")
    stage.live(500 * crash_after)
    stage.scene.crash()
    stage.live(30_000)
    assert stage.sizes == [4, 4, 4]


@pytest.mark.parametrize("kind", KINDS)
def test_nobody_gets_a_partition_before_the_record_is_durable(kind: str) -> None:
    stage = Stage(kind)
    stage.form("lea", "fred")
    zoe = stage.add("zoe")
    scene = stage.scene
    scene.hold = True
    scene.advance(1_000)
    before = len(scene.log)
    for name in ("lea", "fred"):
        call = scene.heartbeat(name)
        scene.flush()
        assert call.outcome == "REBALANCE_IN_PROGRESS"
        metadata = encode_subscription(Subscription(version=1, topics=["t"]))
        joined = scene.join(name, protocols={"range": metadata})
        assert joined.parked
        asked = scene.heartbeat("zoe")
        assert asked.parked
        scene.flush()
        assert asked.outcome == "REBALANCE_IN_PROGRESS"
    assert len(scene.log) > before
    assert zoe.holds == set()


def test_off_again_leaders_assign() -> None:
    stage = Stage("eager")
    stage.form("lea", "fred")
    stage.scene.configure({})
    stage.add("zoe")
    assert stage.scene.state == "PreparingRebalance"


# -- the target ------------------------------------------------------------------------------------


MEMBERS = st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=7, unique=True)


@given(MEMBERS, st.integers(0, 40), st.data())
def test_a_target_is_even_whole_and_moves_little(
    members: list[str], count: int, data: st.DataObject
) -> None:
    places: list[Place] = [("t", number) for number in range(count)]
    owners: list[Any] = data.draw(
        st.lists(st.sampled_from([*members, None]), min_size=count, max_size=count)
    )
    held: dict[str, list[Place]] = {member: [] for member in members}
    for place, owner in zip(places, owners, strict=True):
        if owner is not None:
            held[owner].append(place)
    held[members[0]].append(("gone", 0))
    target = uniform(held, places)
    sizes = sorted(map(len, target.values()))
    assert sizes[-1] - sizes[0] <= 1
    assert sorted(place for some in target.values() for place in some) == places
    moved = sum(
        len(set(held[each]) & set(places)) - len(set(held[each]) & set(target[each]))
        for each in members
    )
    least = sum(max(0, len(set(held[each]) & set(places)) - sizes[-1]) for each in members)
    assert moved <= least + len(members)


# -- topics that are watched -----------------------------------------------------------------------


HALVES = {"lea": share(0, 1, 2), "fred": share(3, 4, 5)}


def watched() -> Scene:
    scene = Scene()
    scene.partition_counts["t"] = 6
    scene.configure({WATCH: "true"})
    for name in ("lea", "fred"):
        scene.join(name, protocols={"range": owned()})
    scene.advance(6_000)
    plan(scene, ("lea", "fred"), HALVES)
    return scene


def test_more_partitions_are_a_rebalance_at_once() -> None:
    scene = watched()
    scene.advance(4_000)
    for name in ("lea", "fred"):
        scene.heartbeat(name)
    scene.partition_counts["t"] = 12
    scene.advance(2_000)
    assert scene.state == "PreparingRebalance"
    cause = scene.cause
    assert (cause.code, cause.evidence) == (
        CauseCode.TOPICS_CHANGED,
        {"topic": "t", "partitions_before": 6, "partitions_now": 12},
    )


def test_a_leader_that_rejoins_without_any_change_is_answered_like_a_follower() -> None:
    scene = watched()
    call = scene.join("lea")
    assert (call.outcome, call.response.leader, call.response.members) == ("NONE", "", [])
    assert scene.sync("lea").response.assignment == share(0, 1, 2)
    assert scene.state == "Stable"
    scene.partition_counts["t"] = 12
    assert scene.join("lea").parked


def test_what_a_leader_holds_is_no_change() -> None:
    """Consumers say it since version 1 of their subscriptions, and since when from version 2 on."""
    scene = watched()
    says = {"range": owned(0, 1, 2, generation=1)}
    call = scene.join("lea", protocols=says)
    assert (call.outcome, call.response.leader, call.response.members) == ("NONE", "", [])
    assert scene.sync("lea").response.assignment == share(0, 1, 2)


def test_a_leader_that_rejoins_leads_if_partitions_have_no_owner() -> None:
    """It did not know of them in the rebalance that the server started, and now it does."""
    scene = watched()
    scene.partition_counts["t"] = 12
    scene.advance(2_000)
    scene.join("lea")
    scene.join("fred")
    assert scene.cause.code is CauseCode.TOPICS_CHANGED
    plan(scene, ("lea", "fred"), HALVES)
    assert scene.state == "Stable"
    assert scene.join("lea").parked
    assert scene.cause.code is CauseCode.LEADER_REJOINED


def test_topics_are_watched_after_a_crash() -> None:
    scene = watched()
    scene.crash()
    scene.partition_counts["t"] = 12
    scene.advance(2_000)
    assert scene.cause.code is CauseCode.TOPICS_CHANGED


# -- restarts meanwhile ----------------------------------------------------------------------------


def test_a_static_member_that_restarts_while_it_is_asked_is_asked_again() -> None:
    stage = Stage("cooperative")
    stage.form("lea", "FRED")
    stage.add("zoe")
    stage.scene.advance(1_000)
    assert stage.scene.heartbeat("FRED").outcome == "REBALANCE_IN_PROGRESS"
    fred = stage.clients["FRED"]
    fred.holds = set()
    call = stage.scene.restart("FRED", protocols={"range": fred.metadata})
    assert call.outcome == "NONE"
    fred.sync()
    stage.live(10_000)
    assert stage.sizes == [4, 4, 4]
    assert stage.rebalances == 1


@pytest.mark.parametrize("version", [5, 9])
def test_a_leader_whose_plan_was_changed_leads_no_more_when_it_returns(version: int) -> None:
    stage = Stage("eager")
    stage.form("LEA", "fred")
    stage.scene.hang_up("LEA")
    reply = stage.scene.join("LEA", version=version, as_id="").response
    assert (reply.leader, reply.members) == ("", [])
    assert not reply.skip_assignment
