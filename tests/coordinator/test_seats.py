"""Seats of lost members: reserved, taken, and given up (docs/policies.md)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from groupkeeper.coordinator.caller import Peer
from groupkeeper.coordinator.facts import (
    MemberJoined,
    MemberRemoved,
    MemberReplaced,
    RebalanceCompleted,
    RebalanceJoined,
    RebalanceStarted,
    SeatReserved,
)
from groupkeeper.coordinator.policy import ANY, BY_CLIENT, LEFT, LOST, OFF, Policy, SeatMatch
from groupkeeper.coordinator.policy import GRACE as GRACE_CONFIG
from groupkeeper.coordinator.seats import AFTER_LOAD_MS
from groupkeeper.protocol.embedded import (
    Assignment,
    Subscription,
    TopicPartition,
    decode_subscription,
    read_assigned,
)
from groupkeeper.protocol.group_events import CauseCode
from tests.support.codecs import encode_assignment, encode_subscription
from tests.support.scene import GROUP, REBALANCE, SESSION, Scene, topics

GRACE = 60_000
POLICY = Policy(GRACE)
PAIR = ("lea", "fred")


def share(*partitions: int) -> bytes:
    assigned = [TopicPartition(topic="t", partitions=list(partitions))]
    return encode_assignment(Assignment(version=1, assigned_partitions=assigned))


PLAN = {"lea": share(0, 1), "fred": share(2, 3), "zoe": share(4, 5)}


def owned(*partitions: int, version: int = 3, generation: int = -1) -> bytes:
    """The subscription of a cooperative consumer."""
    places = [TopicPartition(topic="t", partitions=list(partitions))] if partitions else []
    subscription = Subscription(version=version, topics=["t"], owned_partitions=places)
    subscription.generation_id = generation
    return encode_subscription(subscription)


def scene_of(
    *names: str, policy: Policy = POLICY, clients: Mapping[str, str] | None = None, **says: Any
) -> Scene:
    """A Stable group of these, each with the partitions of `PLAN`; names in capitals are static.
    `clients`: client ids of some that are not their names.
    """
    scene = Scene(policy=policy)
    for name, client_id in (clients or {}).items():
        scene.peers[name] = Peer(client_id=client_id, host=f"/{client_id}")
    for name in names:
        static = {"instance": name} if name.isupper() else {}
        scene.join(name, **static | says)
    scene.advance(scene.config.initial_rebalance_delay_ms * 2)
    plan(scene, names, {name: PLAN.get(name, share(9)) for name in names})
    return scene


def plan(scene: Scene, names: tuple[str, ...], shares: Mapping[str, bytes]) -> None:
    """All sync, the leader last."""
    leader = scene.group.leader_id
    for name in sorted(names, key=lambda each: scene.person(each).member_id == leader):
        leads = scene.person(name).member_id == leader
        scene.sync(name, shares if leads else None)


def lose(scene: Scene, lost: str, *others: str, after_ms: int = SESSION) -> None:
    """One sends nothing for a session, the others do."""
    for _ in range(after_ms // 1_000):
        scene.advance(1_000)
        for name in others:
            scene.heartbeat(name)


def live(scene: Scene, ms: int, *names: str) -> None:
    lose(scene, "", *names, after_ms=ms)


def shares(scene: Scene) -> dict[str, list[int]]:
    """What each member holds, by client id."""
    return {
        each.client_id: (read_assigned(each.assignment) or {}).get("t", [])
        for each in scene.group.members.values()
    }


# -- a lost member comes back ----------------------------------------------------------------------


def test_a_lost_member_that_comes_back_gets_its_partitions_and_nobody_else_is_told() -> None:
    scene = scene_of(*PAIR)
    generation = scene.group.generation
    lose(scene, "fred", "lea")
    assert [each.who.client_id for each in scene.noted(SeatReserved)] == ["fred"]
    assert (scene.state, scene.noted(MemberRemoved)) == ("Stable", [])
    live(scene, 5_000, "lea")
    call = scene.restart("fred")
    assert call.response.generation_id == generation
    assert (call.response.leader, call.response.members) == ("lea-1", [])
    assert scene.sync("fred").response.assignment == PLAN["fred"]
    assert scene.heartbeat("lea").outcome == scene.heartbeat("fred").outcome == "NONE"
    assert scene.commit("fred").outcome == "NONE"
    live(scene, 2 * GRACE, *PAIR)
    assert (scene.state, scene.group.generation) == ("Stable", generation)
    assert len(scene.noted(RebalanceStarted)) == 1
    [fact] = scene.noted(MemberReplaced)
    assert (fact.quick, fact.old_member, fact.who.client_id) == (True, "fred-1", "fred")
    assert fact.away_ms == 15_000
    assert fact.evidence["reserved_ms"] == 5_000
    assert fact.evidence["partitions"] == 2


@pytest.mark.parametrize("version", range(10))
def test_a_seat_is_taken_with_every_version_of_join_group(version: int) -> None:
    scene = scene_of(*PAIR)
    lose(scene, "fred", "lea")
    scene.hang_up("fred")
    call = scene.join("fred", version=version, as_id="")
    assert (call.outcome, scene.state) == ("NONE", "Stable")
    protocol = {"protocol_type": None, "protocol_name": None} if version < 5 else {}
    answer = scene.sync("fred", version=min(version, 5), **protocol)
    assert answer.response.assignment == PLAN["fred"]


@pytest.mark.parametrize("version", [5, 9])
def test_the_leader_that_comes_back_leads_but_assigns_nothing(version: int) -> None:
    scene = scene_of(*PAIR)
    lose(scene, "lea", "fred")
    scene.hang_up("lea")
    reply = scene.join("lea", version=version, as_id="").response
    if version == 9:
        assert reply.leader == reply.member_id
        assert reply.skip_assignment
    else:
        assert reply.leader not in ("", reply.member_id)
        assert reply.members == []
    assert scene.sync("lea").response.assignment == PLAN["lea"]
    assert scene.group.leader_id == reply.member_id


def test_the_leader_that_comes_back_is_told_what_everybody_holds() -> None:
    """franz-go's makes its own plan, and forces a rebalance if that differs from what it got."""
    scene = scene_of(*PAIR, protocols={"cooperative-sticky": owned()})
    lose(scene, "lea", "fred")
    scene.hang_up("lea")
    cooperative = {"cooperative-sticky": owned()}
    reply = scene.join("lea", version=9, as_id="", protocols=cooperative).response
    offered = [decode_subscription(each.metadata) for each in reply.members]
    held = {tuple(each.owned_partitions[0].partitions) for each in offered}
    assert held == {(0, 1), (2, 3)}
    assert {each.generation_id for each in offered} == {scene.group.generation}


def test_a_static_member_takes_the_seat_of_its_instance_id_from_anywhere() -> None:
    scene = scene_of("lea", "SAM")
    lose(scene, "SAM", "lea")
    scene.peers["SAM"] = scene.peer("elsewhere")
    assert scene.knock("SAM", as_id="").outcome == "NONE"
    assert scene.sync("SAM").response.assignment == share(9)
    [fact] = scene.noted(MemberReplaced)
    assert fact.evidence["lost_by"] == "session_expired"
    assert scene.state == "Stable"


def test_the_old_process_is_unknown_and_cannot_commit() -> None:
    scene = scene_of(*PAIR)
    scene.commit("fred", 7)
    lose(scene, "fred", "lea")
    woken = [scene.heartbeat("fred"), scene.sync("fred"), scene.commit("fred", 3)]
    woken.append(scene.knock("fred"))
    assert {call.outcome for call in woken} == {"UNKNOWN_MEMBER_ID"}
    assert scene.offset() == 7
    assert scene.join("fred", as_id="").outcome == "NONE"
    assert (scene.state, scene.sync("fred").response.assignment) == ("Stable", PLAN["fred"])


def test_the_old_process_of_a_seat_that_was_taken_is_unknown() -> None:
    scene = scene_of(*PAIR)
    lose(scene, "fred", "lea")
    scene.restart("fred")
    assert scene.heartbeat("fred", member_id="fred-1").outcome == "UNKNOWN_MEMBER_ID"
    assert scene.commit("fred", member_id="fred-1").outcome == "UNKNOWN_MEMBER_ID"


# -- a process that is back before its session ends ------------------------------------------------


def test_a_process_that_is_back_before_its_session_ends_goes_on_at_once() -> None:
    scene = scene_of(*PAIR)
    live(scene, 3_000, *PAIR)
    scene.advance(2_000)
    assert scene.restart("fred").outcome == "NONE"
    assert scene.sync("fred").response.assignment == PLAN["fred"]
    [fact] = scene.noted(MemberReplaced)
    assert (fact.away_ms, fact.evidence["reserved_ms"]) == (2_000, 0)
    live(scene, 30_000, *PAIR)
    assert len(scene.noted(RebalanceStarted)) == 1


def test_the_only_member_goes_on_at_once() -> None:
    scene = scene_of("lea")
    assert scene.restart("lea").outcome == "NONE"
    assert scene.sync("lea").response.assignment == PLAN["lea"]


def test_a_client_beside_one_whose_connection_is_open_is_a_new_member() -> None:
    scene = scene_of(*PAIR)
    stranger(scene, "fred", "/fred")
    assert scene.state == "PreparingRebalance"


@pytest.mark.parametrize(
    ("match", "host", "is_reserved"),
    [
        ("client.id,host", "/fred", False),
        ("client.id,host", "/another", True),
        ("client.id", "/another", False),
        ("any", "/fred", True),
    ],
)
def test_no_seat_is_reserved_for_a_client_that_is_back(
    match: SeatMatch, host: str, is_reserved: bool
) -> None:
    """Its machine was lost, so that its connection is open until the session ends."""
    scene = scene_of(*PAIR, policy=Policy(GRACE, seat_match=match))
    scene.peers["back"] = Peer(client_id="fred", host=host)
    live(scene, 4_000, "lea")
    scene.join("back")
    scene.join("lea")
    scene.advance(SESSION)
    assert len(scene.noted(SeatReserved)) == is_reserved
    plan(scene, ("lea", "back"), {"lea": share(0, 1), "back": share(2, 3)})
    assert len(scene.group.members) == 2 + is_reserved


def test_a_seat_is_reserved_beside_a_member_of_the_same_name_that_came_before() -> None:
    scene = scene_of(*PAIR, "zoe", clients={"zoe": "fred"})
    lose(scene, "fred", "lea", "zoe")
    assert len(scene.noted(SeatReserved)) == 1


def test_who_was_there_before_the_policy_is_not_back() -> None:
    scene = scene_of(*PAIR, "zoe", policy=OFF, clients={"zoe": "fred"})
    scene.configure({GRACE_CONFIG: str(GRACE)})
    lose(scene, "fred", "lea", "zoe")
    assert len(scene.noted(SeatReserved)) == 1


def test_of_two_members_with_one_name_none_is_taken_for_the_other() -> None:
    """One is between two connections, and the other one may start another process."""
    scene = scene_of("lea", "fred", "zoe", clients={"fred": "app", "zoe": "app"})
    scene.hang_up("fred")
    stranger(scene, "app", "/app")
    assert scene.state == "PreparingRebalance"
    assert len(scene.group.members) == 4


# -- who may take a seat ---------------------------------------------------------------------------


def stranger(scene: Scene, client_id: str, host: str) -> Any:
    scene.peers["new"] = Peer(client_id=client_id, host=host)
    return scene.join("new")


MATCHES: list[tuple[SeatMatch, str, str, bool]] = [
    ("client.id,host", "fred", "/fred", True),
    ("client.id,host", "fred", "/other", False),
    ("client.id,host", "other", "/fred", False),
    ("client.id", "fred", "/other", True),
    ("client.id", "other", "/fred", False),
    ("any", "other", "/other", True),
]


@pytest.mark.parametrize(("match", "client_id", "host", "takes"), MATCHES)
def test_who_may_take_a_seat(match: SeatMatch, client_id: str, host: str, takes: bool) -> None:
    scene = scene_of(*PAIR, policy=replace(POLICY, seat_match=match))
    lose(scene, "fred", "lea")
    stranger(scene, client_id, host)
    assert scene.state == ("Stable" if takes else "PreparingRebalance")
    if takes:
        assert scene.sync("new").response.assignment == PLAN["fred"]
        described = {each.client_id: each.client_host for each in scene.describe().members}
        assert described == {"lea": "/lea", client_id: host}
        scene.crash()
        described = {each.client_id: each.client_host for each in scene.describe().members}
        assert described == {"lea": "/lea", client_id: host}


def test_any_client_takes_the_seat_of_its_name_or_the_oldest() -> None:
    scene = scene_of("lea", "fred", "zoe", policy=replace(POLICY, seat_match=ANY))
    lose(scene, "fred", "lea", "zoe")
    lose(scene, "zoe", "lea")
    scene.restart("zoe")
    assert scene.sync("zoe").response.assignment == PLAN["zoe"]
    stranger(scene, "x", "/x")
    assert scene.sync("new").response.assignment == PLAN["fred"]


def test_with_any_only_the_seats_of_lost_members_are_taken() -> None:
    scene = scene_of(*PAIR, policy=replace(POLICY, seat_match=ANY))
    scene.restart("fred")
    assert scene.state == "PreparingRebalance"


def test_a_static_newcomer_takes_no_seat_of_a_dynamic_member() -> None:
    scene = scene_of(*PAIR, policy=replace(POLICY, seat_match=BY_CLIENT))
    lose(scene, "fred", "lea")
    scene.join("fred", as_id="", instance="F")
    assert scene.state == "PreparingRebalance"


def test_lost_members_with_one_name_come_back_in_the_order_in_which_they_were_lost() -> None:
    """They cannot be told apart, and nobody loses anything by the order."""
    scene = scene_of("lea", "fred", "zoe", clients={"fred": "app", "zoe": "app"})
    lose(scene, "fred", "lea", "zoe")
    lose(scene, "zoe", "lea")
    stranger(scene, "app", "/app")
    assert scene.sync("new").response.assignment == PLAN["fred"]


def test_other_topics_need_a_rebalance_that_leaves_no_seat_behind() -> None:
    scene = scene_of(*PAIR)
    lose(scene, "fred", "lea")
    scene.restart("fred", protocols={"range": topics("t", "u")})
    assert scene.state == "PreparingRebalance"
    assert scene.cause.code is CauseCode.SUBSCRIPTION_CHANGED
    assert [each.client_id for each in scene.describe().members] == ["lea", "fred"]
    assert not scene.group.seats


def test_a_worker_of_connect_that_led_is_a_rebalance() -> None:
    """The others know their leader by its member id."""
    says = {"type": "connect", "protocols": {"sessioned": b"\0\2"}}
    scene = scene_of("lea", "fred", **says)
    lose(scene, "fred", "lea")
    scene.restart("fred")
    assert scene.state == "Stable"
    scene.sync("fred")
    lose(scene, "lea", "fred")
    scene.restart("lea")
    assert scene.state == "PreparingRebalance"
    assert scene.cause.code is CauseCode.MEMBER_JOINED


# -- nobody comes back -----------------------------------------------------------------------------


def test_nobody_comes_back() -> None:
    scene = scene_of(*PAIR)
    lose(scene, "fred", "lea")
    live(scene, GRACE - 1_000, "lea")
    assert scene.state == "Stable"
    live(scene, 1_000, "lea")
    assert (scene.state, scene.cause.code) == ("PreparingRebalance", CauseCode.SEAT_EXPIRED)
    assert scene.cause.evidence == {
        "silent_ms": SESSION + GRACE,
        "session_timeout_ms": SESSION,
        "reserved_ms": GRACE,
        "lost_by": "session_expired",
        "partitions": 2,
    }
    [fact] = scene.noted(MemberRemoved)
    assert fact.who.client_id == "fred"
    scene.restart("fred")
    assert len(scene.noted(MemberJoined)) == 3


def test_all_seats_end_together() -> None:
    scene = scene_of("lea", "fred", "zoe")
    lose(scene, "fred", "lea", "zoe")
    live(scene, 20_000, "lea", "zoe")
    lose(scene, "zoe", "lea")
    [_, late] = scene.noted(SeatReserved)
    assert late.until_ms == GRACE - 20_000 - SESSION
    live(scene, late.until_ms, "lea")
    assert [each.who.client_id for each in scene.noted(MemberRemoved)] == ["fred", "zoe"]
    assert len(scene.noted(RebalanceStarted)) == 2


def test_the_time_of_the_others_counts_when_the_first_one_is_back() -> None:
    scene = scene_of("lea", "fred", "zoe")
    lose(scene, "fred", "lea", "zoe")
    lose(scene, "zoe", "lea")
    scene.restart("fred")
    scene.sync("fred")
    live(scene, GRACE - 1_000, "lea", "fred")
    assert scene.state == "Stable"
    live(scene, 1_000, "lea", "fred")
    assert scene.cause.code is CauseCode.SEAT_EXPIRED


def test_the_seats_end_with_the_last_member() -> None:
    scene = scene_of("lea", "fred")
    lose(scene, "fred", "lea")
    scene.leave("lea")
    assert scene.state == "Empty"
    assert not scene.group.seats
    scene.advance(2 * GRACE)
    assert scene.state == "Empty"
    scene.crash()
    assert scene.state == "Empty"


def test_the_seats_end_with_the_last_session() -> None:
    scene = scene_of("lea", "fred", "zoe")
    scene.advance(2 * SESSION)
    assert scene.state == "Empty"
    causes = [each.cause.code for each in scene.noted(MemberRemoved)]
    assert causes.count(CauseCode.SESSION_EXPIRED) == 1
    assert causes.count(CauseCode.SEAT_EXPIRED) == 2


def test_an_operator_gives_up_a_seat() -> None:
    scene = scene_of(*PAIR)
    lose(scene, "fred", "lea")
    assert scene.leave_as("admin", ("fred-1", None)).outcome == "NONE"
    assert (scene.state, scene.cause.code) == (
        "PreparingRebalance",
        CauseCode.MEMBER_REMOVED_BY_ADMIN,
    )


# -- members that leave ----------------------------------------------------------------------------


def test_a_member_that_leaves_is_not_kept_by_default() -> None:
    scene = scene_of(*PAIR)
    scene.leave("fred")
    assert scene.state == "PreparingRebalance"


def test_a_member_that_leaves_may_be_kept() -> None:
    scene = scene_of(*PAIR, policy=replace(POLICY, reserve_on=frozenset({LEFT})))
    assert scene.leave("fred").outcome == "NONE"
    assert scene.state == "Stable"
    assert scene.restart("fred").outcome == "NONE"
    assert scene.sync("fred").response.assignment == PLAN["fred"]
    lose(scene, "fred", "lea")
    assert scene.state == "PreparingRebalance", "only those that leave are kept"


def test_one_of_two_that_left_is_back() -> None:
    scene = scene_of("lea", "fred", "zoe", policy=replace(POLICY, reserve_on={LEFT, LOST}))
    scene.leave("fred")
    scene.leave("zoe")
    scene.restart("zoe")
    scene.sync("zoe")
    live(scene, GRACE, "lea", "zoe")
    assert [each.who.client_id for each in scene.noted(MemberRemoved)] == ["fred"]
    assert len(scene.noted(RebalanceStarted)) == 2


def test_a_member_that_an_operator_removes_is_gone() -> None:
    scene = scene_of(*PAIR, policy=replace(POLICY, reserve_on={LEFT, LOST}))
    scene.leave_as("admin", ("fred-1", None))
    assert scene.state == "PreparingRebalance"
    assert not scene.group.seats


# -- rebalances meanwhile --------------------------------------------------------------------------


def test_a_rebalance_does_not_wait_for_a_seat_and_the_leader_assigns_to_it() -> None:
    scene = scene_of(*PAIR)
    lose(scene, "fred", "lea")
    new = scene.join("zoe")
    told = scene.join("lea")
    assert new.outcome == told.outcome == "NONE"
    assert [each.member_id for each in told.response.members] == ["lea-1", "fred-1", "zoe-1"]
    joined = scene.noted(RebalanceJoined)[-1]
    assert (joined.ended_by, joined.missing, joined.duration_ms) == ("all_joined", [], 0)
    started = scene.noted(RebalanceStarted)[-1]
    assert started.expected == ["lea-1"]
    scene.sync("zoe")
    scene.sync("lea", PLAN)
    assert scene.state == "Stable"
    assert scene.restart("fred").outcome == "NONE"
    assert scene.sync("fred").response.assignment == PLAN["fred"]
    assert scene.state == "Stable"


def test_a_seat_is_never_asked_to_lead() -> None:
    scene = scene_of("lea", "fred", "zoe")
    lose(scene, "lea", "fred", "zoe")
    scene.join("ann")
    for name in ("fred", "zoe"):
        call = scene.join(name)
    assert call.outcome == "NONE"
    assert scene.group.leader_id == "fred-1"


def test_a_seat_is_taken_during_a_join_phase_and_is_not_added_beside() -> None:
    scene = scene_of("lea", "fred", "zoe")
    lose(scene, "fred", "lea", "zoe")
    scene.join("ann")
    back = scene.restart("fred")
    assert back.parked
    for name in ("lea", "zoe"):
        scene.join(name)
    assert back.outcome == "NONE"
    assert [each.client_id for each in scene.describe().members] == ["lea", "zoe", "ann", "fred"]


def test_a_seat_is_taken_while_the_leader_assigns() -> None:
    scene = scene_of("lea", "fred")
    lose(scene, "fred", "lea")
    scene.join("zoe")
    scene.join("lea")
    assert scene.state == "CompletingRebalance"
    scene.restart("fred")
    assert scene.state == "PreparingRebalance"
    for name in ("lea", "zoe"):
        scene.join(name)
    assert scene.state == "CompletingRebalance"
    assert len(scene.group.members) == 3


def test_a_member_lost_in_a_join_phase_keeps_its_place_and_ends_the_wait() -> None:
    scene = scene_of("lea", "fred", rebalance=REBALANCE)
    scene.advance(SESSION - 1_000)
    scene.heartbeat("lea")
    scene.join("zoe")
    call = scene.join("lea")
    assert call.parked
    scene.advance(1_000)
    assert call.outcome == "NONE"
    assert [each.member_id for each in call.response.members] == ["lea-1", "fred-1", "zoe-1"]


def test_a_member_lost_while_the_leader_assigns_is_removed() -> None:
    scene = scene_of("lea", "fred", "zoe")
    scene.force_rebalance()
    for name in ("lea", "fred", "zoe"):
        scene.join(name)
    scene.advance(SESSION)
    assert not scene.group.seats
    assert scene.noted(MemberRemoved)


def test_a_seat_is_not_removed_with_members_that_do_not_rejoin() -> None:
    scene = scene_of("lea", "fred", "zoe", policy=replace(POLICY, grace_ms=10 * GRACE))
    lose(scene, "fred", "lea", "zoe")
    scene.join("ann")
    call = scene.join("lea")
    live(scene, REBALANCE, "zoe")
    assert call.outcome == "NONE"
    assert [each.member_id for each in call.response.members] == ["lea-1", "fred-1", "ann-1"]
    assert list(scene.group.seats) == ["fred-1"]


def test_the_leader_is_told_what_a_seat_holds_now() -> None:
    """Its metadata is from before the last plan."""
    scene = scene_of(*PAIR, protocols={"cooperative-sticky": owned()})
    lose(scene, "fred", "lea")
    scene.join("zoe", protocols={"cooperative-sticky": owned()})
    own = owned(0, 1, generation=1)
    told = scene.join("lea", protocols={"cooperative-sticky": own}).response.members
    offered = {each.member_id: decode_subscription(each.metadata) for each in told}
    lost = offered["fred-1"]
    assert [each.partitions for each in lost.owned_partitions] == [[2, 3]]
    assert (lost.generation_id, lost.topics, lost.version) == (1, ["t"], 3)
    assert offered["lea-1"] == decode_subscription(own)


def test_metadata_without_owned_partitions_stays_as_it_is() -> None:
    scene = scene_of(*PAIR)
    metadata = scene._member("fred").protocols[0].metadata
    lose(scene, "fred", "lea")
    scene.join("zoe")
    told = scene.join("lea").response.members
    held = {each.member_id: each.metadata for each in told}["fred-1"]
    assert decode_subscription(metadata).owned_partitions == []
    assert decode_subscription(held).topics == ["t"]


def test_partitions_that_a_cooperative_plan_takes_from_a_seat_find_an_owner() -> None:
    scene = scene_of(*PAIR, protocols={"cooperative-sticky": owned()})
    lose(scene, "fred", "lea")
    scene.join("zoe", protocols={"cooperative-sticky": owned()})
    scene.join("lea")
    scene.sync("zoe")
    scene.sync("lea", {"lea": share(0, 1), "fred": share(2), "zoe": share()})
    assert scene.state == "PreparingRebalance"
    assert (scene.cause.code, scene.cause.evidence) == (CauseCode.SEAT_REVOKED, {"revoked": 1})
    scene.join("lea")
    told = scene.join("zoe")
    assert told.outcome == "NONE"
    scene.sync("zoe")
    scene.sync("lea", {"lea": share(0, 1), "fred": share(2), "zoe": share(3)})
    assert scene.state == "Stable"
    assert shares(scene) == {"lea": [0, 1], "fred": [2], "zoe": [3]}


def test_partitions_that_move_from_a_seat_at_once_need_no_further_rebalance() -> None:
    scene = scene_of(*PAIR)
    lose(scene, "fred", "lea")
    scene.join("zoe")
    scene.join("lea")
    scene.sync("zoe")
    scene.sync("lea", {"lea": share(0, 1), "fred": share(2), "zoe": share(3)})
    assert scene.state == "Stable"


def test_offsets_of_the_topics_of_a_seat_are_kept() -> None:
    scene = Scene(policy=POLICY)
    scene.join("lea")
    scene.join("fred", protocols={"range": topics("u")})
    scene.advance(6_000)
    plan(scene, PAIR, PLAN)
    lose(scene, "fred", "lea")
    scene.join("zoe")
    scene.join("lea")
    assert scene.group.subscribes("u")


# -- limits ----------------------------------------------------------------------------------------


def test_a_full_group_has_room_for_a_member_that_comes_back() -> None:
    scene = Scene(policy=POLICY, max_size=2)
    for name in PAIR:
        scene.join(name)
    scene.advance(6_000)
    plan(scene, PAIR, PLAN)
    lose(scene, "fred", "lea")
    assert scene.join("zoe").outcome == "GROUP_MAX_SIZE_REACHED"
    assert scene.restart("fred").outcome == "NONE"


# -- off, on, and changed --------------------------------------------------------------------------


def test_off_by_default() -> None:
    scene = scene_of(*PAIR, policy=Policy())
    lose(scene, "fred", "lea")
    assert scene.state == "PreparingRebalance"
    assert scene.group.policy is None


# -- crashes ---------------------------------------------------------------------------------------


def test_a_seat_survives_a_crash_with_what_is_left_of_its_time() -> None:
    scene = scene_of("lea", "fred", "zoe")
    lose(scene, "fred", "lea", "zoe")
    live(scene, 20_000, "lea", "zoe")
    scene.crash()
    assert list(scene.group.seats) == ["fred-1"]
    assert scene.heartbeat("fred").outcome == "UNKNOWN_MEMBER_ID"
    live(scene, GRACE - 21_000, "lea", "zoe")
    assert scene.state == "Stable"
    live(scene, 1_000, "lea", "zoe")
    assert scene.cause.code is CauseCode.SEAT_EXPIRED
    assert scene.cause.evidence["reserved_ms"] == GRACE


def test_a_seat_lasts_for_a_while_after_a_crash() -> None:
    scene = scene_of("lea", "fred", "zoe")
    lose(scene, "fred", "lea", "zoe")
    live(scene, GRACE - 1_000, "lea", "zoe")
    scene.crash()
    live(scene, AFTER_LOAD_MS - 1_000, "lea", "zoe")
    assert scene.state == "Stable"
    scene.restart("fred")
    assert scene.sync("fred").response.assignment == PLAN["fred"]


def test_a_seat_that_was_taken_is_none_after_a_crash() -> None:
    scene = scene_of(*PAIR)
    lose(scene, "fred", "lea")
    scene.restart("fred")
    scene.crash()
    assert not scene.group.seats
    assert scene.heartbeat("fred").outcome == "NONE"
    assert scene.state == "Stable"


def test_a_seat_is_told_when_its_record_is_durable_and_taken_when_the_new_one_is() -> None:
    scene = scene_of(*PAIR)
    lose(scene, "fred", "lea", after_ms=SESSION - 1_000)
    scene.heartbeat("lea")
    scene.hold = True
    scene.advance(1_000)
    assert scene.noted(SeatReserved) == []
    scene.flush()
    assert scene.noted(SeatReserved)
    call = scene.restart("fred")
    assert call.parked
    scene.crash()
    assert list(scene.group.seats) == ["fred-1"]


@pytest.mark.parametrize("written", range(4))
def test_after_a_crash_at_any_record_of_a_hand_over_one_member_holds_the_partitions(
    written: int,
) -> None:
    scene = scene_of(*PAIR)
    lose(scene, "fred", "lea", after_ms=SESSION - 1_000)
    before = len(scene.log)
    live(scene, 1_000, "lea")
    scene.restart("fred")
    scene.hold = True
    del scene.log[before + written :]
    scene.crash()
    scene.hold = False
    assert shares(scene) == {"lea": [0, 1], "fred": [2, 3]}
    assert len(scene.group.members) == 2


def test_a_seat_of_a_member_that_is_not_stored_is_none() -> None:
    scene = scene_of(*PAIR)
    lose(scene, "fred", "lea")
    record = scene.log[-1]
    scene.restart("fred")
    scene.log.append(record)
    scene.crash()
    assert not scene.group.seats


# -- stalls and sizes ------------------------------------------------------------------------------


def test_seats_do_not_end_while_nobody_is_answered() -> None:
    scene = scene_of(*PAIR)
    lose(scene, "fred", "lea")
    live(scene, 50_000, "lea")
    scene.stop(20_000)
    scene.heartbeat("lea")
    scene.advance(0)
    assert scene.state == "Stable"
    scene.restart("fred")
    assert scene.state == "Stable"


def test_very_many_members_are_lost_and_their_seats_end_in_pieces() -> None:
    names = [f"m{number}" for number in range(130)]
    scene = scene_of("lea", *names)
    for _ in range(SESSION // 1_000):
        scene.advance(1_000)
        scene.heartbeat("lea")
    assert len(scene.group.seats) == len(names)
    for _ in range(GRACE // 1_000):
        scene.advance(1_000)
        scene.heartbeat("lea")
    assert (scene.state, len(scene.group.members)) == ("PreparingRebalance", 1)
    assert len(scene.noted(RebalanceStarted)) == 2
    scene.join("lea")
    scene.sync("lea", {"lea": share(0)})
    completed = scene.noted(RebalanceCompleted)[-1]
    assert completed.members == 1
    scene.crash()
    assert [each.client_id for each in scene.describe(GROUP).members] == ["lea"]
