"""What a client can make a partition hold, and what it is told beyond that."""

import tracemalloc

import pytest

from groupkeeper.coordinator.caller import Caller
from groupkeeper.coordinator.config import MAX_PENDING_MEMBERS, MAX_PROTOCOLS
from groupkeeper.coordinator.facts import (
    GroupCreated,
    GroupDeleted,
    LimitReached,
    MemberJoined,
    MemberRemoved,
    PendingMemberDropped,
)
from groupkeeper.coordinator.groups import MAX_UNUSED_BYTES, UNUSED_GROUP_BYTES
from groupkeeper.coordinator.subscription import MAX_TOPICS_READ
from tests.support.requests import join_request
from tests.support.scene import Call, Scene, in_state, topics

MINUTE = 60_000
DAY = 24 * 60 * MINUTE


def limits(scene: Scene) -> list[str]:
    return [fact.limit for fact in scene.noted(LimitReached)]


# -- groups that nothing is stored of --------------------------------------------------------------


@pytest.mark.parametrize("end", ["expires", "leaves"])
def test_a_group_stays_empty_without_its_pending_id_until_the_next_check(end: str) -> None:
    scene = Scene()
    scene.knock("ann", session=10_000)
    assert scene.groups() == {"g": "Empty"}
    if end == "leaves":
        assert scene.leave("ann").outcome == "NONE"
    scene.advance(10_000)
    assert scene.groups() == {"g": "Empty"}
    scene.advance(9 * MINUTE)
    assert scene.groups() == {"g": "Empty"}
    scene.advance(MINUTE)
    assert scene.groups() == {}
    assert scene.log == []


def test_of_a_group_without_member_or_record_nothing_is_told() -> None:
    scene = Scene()
    scene.knock("ann", session=10_000)
    scene.knock("bea", protocols={}, group="h")
    scene.advance(DAY)
    assert scene.groups() == {}
    assert scene.noted(GroupCreated) == scene.noted(GroupDeleted) == []
    [dropped] = scene.noted(PendingMemberDropped)
    assert not dropped.of_used


def test_a_group_is_told_with_its_first_member_and_deleted_by_request_without() -> None:
    scene = Scene()
    scene.knock("ann")
    assert scene.noted(GroupCreated) == []
    scene.knock("ann")
    assert [type(noted.fact) for noted in scene.facts[-3:]][:2] == [GroupCreated, MemberJoined]
    scene.knock("bea", group="h")
    scene.delete("h")
    assert [(fact.group, fact.why) for fact in scene.noted(GroupDeleted)] == [("h", "request")]


def test_an_id_that_expires_in_a_group_with_records_is_told() -> None:
    scene = in_state("Empty")
    scene.knock("newcomer", session=1_000)
    scene.advance(2_000)
    [dropped] = scene.noted(PendingMemberDropped)
    assert dropped.of_used


def test_of_a_group_that_was_refused_no_record_is_left() -> None:
    scene = Scene()
    scene.knock("ann", protocols={})
    assert scene.groups() == {"g": "Empty"}
    scene.advance(DAY)
    assert (scene.groups(), scene.log) == ({}, [])


def test_a_group_that_something_is_stored_of_stays_until_it_expires() -> None:
    scene = in_state("Empty")
    scene.knock("newcomer", session=1_000)
    scene.advance(2_000)
    assert scene.state == "Empty"
    scene.advance(DAY)
    assert scene.noted(GroupDeleted) != []
    assert scene.log[-1][1] is None


@pytest.mark.parametrize(("size", "most"), [(20, 100_000), (30_000, MAX_UNUSED_BYTES)])
def test_unused_groups_take_so_many_bytes_and_the_oldest_is_dead(
    size: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groupkeeper.coordinator.groups.MAX_UNUSED_BYTES", most)
    scene = Scene()
    scene.commit("admin", group_id="kept")
    scene.join("lea", version=3, group="used")
    room = most // (size + UNUSED_GROUP_BYTES)
    ids = [f"{number}".ljust(size, "x") for number in range(room + 10)]
    for group in ids:
        scene.knock("ann", as_id="", group=group)
    assert list(scene.groups()) == ["kept", "used", *ids[10:]]
    assert limits(scene) == ["max_unused_bytes"] * 10
    assert scene.noted(PendingMemberDropped) == []
    scene.advance(DAY)
    for group in ids[:room]:
        scene.knock("ann", as_id="", group=group)
    assert set(ids[:room]) <= scene.groups().keys(), "what is gone takes no room"


def test_unused_groups_leave_no_memory_behind() -> None:
    """At the size of an attack: 4,000 groups with ids of 30,000 characters."""
    scene = Scene()
    scene.knock("ann", as_id="", group="first")
    scene.advance(DAY)
    caller, at = Caller(9, scene.peer("ann")), (scene.now, scene.wall)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(4_000):
            request = join_request(f"{number:05}".ljust(30_000, "x"), session_timeout_ms=1_000_000)
            scene.partition.handle(request, caller, Call("ann", "JoinGroup", 11, 9), at)
        facts = scene.partition.gate.take_facts()
        _, peak = tracemalloc.get_traced_memory()
        del facts, request
        scene.advance(DAY)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert scene.groups() == {}
    assert peak - before < 3 * MAX_UNUSED_BYTES
    assert after - before < MAX_UNUSED_BYTES / 10


def test_beyond_so_many_groups_a_new_one_is_refused_and_the_others_go_on() -> None:
    scene = Scene(max_groups=2)
    scene.commit("admin", group_id="a")
    scene.commit("admin", group_id="b")
    assert scene.commit("admin", group_id="c").outcome == "COORDINATOR_NOT_AVAILABLE"
    assert scene.knock("ann", group="d").outcome == "COORDINATOR_NOT_AVAILABLE"
    assert scene.commit("admin", group_id="a").outcome == "NONE"
    assert scene.knock("ann", group="a").outcome == "MEMBER_ID_REQUIRED"
    assert limits(scene) == ["max_groups"] * 2


# -- pending ids -----------------------------------------------------------------------------------


def test_the_oldest_of_too_many_pending_ids_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groupkeeper.coordinator.join.MAX_PENDING_MEMBERS", 3)
    scene = Scene()
    names = ["ann", "bea", "cid", "dot"]
    for name in names:
        scene.knock(name, as_id="", group=f"group of {name}")
    assert [name for name in names if scene.partition.groups[f"group of {name}"].pending] == [
        "bea",
        "cid",
        "dot",
    ]
    assert scene.knock("ann").outcome == "UNKNOWN_MEMBER_ID"
    assert scene.knock("bea").parked
    [dropped] = scene.noted(PendingMemberDropped)
    assert not dropped.expired
    assert limits(scene) == ["max_pending_members"]
    assert MAX_PENDING_MEMBERS >= 10_000, "as many as may join at once"


def test_ids_that_came_back_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groupkeeper.coordinator.join.MAX_PENDING_MEMBERS", 1)
    scene = Scene()
    scene.form("ann", "bea", "cid")
    assert scene.noted(PendingMemberDropped) == []


def test_an_id_that_expires_was_never_a_member() -> None:
    scene = Scene()
    scene.knock("ann", session=10_000)
    scene.advance(10_000)
    [dropped] = scene.noted(PendingMemberDropped)
    assert dropped.expired
    assert scene.noted(MemberRemoved) == []


# -- metadata --------------------------------------------------------------------------------------


def test_more_metadata_than_a_group_may_hold_is_refused_before_anything_changes() -> None:
    scene = Scene(message_max_bytes=1_000)
    scene.join("ann", version=3, protocols={"range": b"x" * 3_000})
    before = list(scene.group.members)
    refused = scene.join("bea", version=3, protocols={"range": b"x" * 1_001})
    assert refused.outcome == "UNKNOWN_SERVER_ERROR"
    assert list(scene.group.members) == before
    assert limits(scene) == ["max_metadata_bytes"]
    assert scene.join("bea", version=3, protocols={"range": b"x" * 1_000}).parked


def test_what_a_member_said_before_does_not_count_twice() -> None:
    scene = Scene(message_max_bytes=1_000)
    scene.form("ANN", protocols={"range": b"x" * 400})
    for _ in range(20):
        assert scene.restart("ANN", protocols={"range": b"x" * 300}).outcome == "NONE"
    assert scene.group.metadata_bytes == 300
    scene.leave("ANN")
    assert scene.group.metadata_bytes == 0


def test_members_of_all_groups_together_take_so_much_memory() -> None:
    scene, other = Scene(), Scene()
    other.member_bytes = scene.member_bytes
    other.load()
    scene.form("ann", protocols={"range": b"x" * 10_000})
    scene.member_bytes.most = scene.member_bytes.used + 10_000
    assert (
        other.join("bea", protocols={"range": b"x" * 10_000}).outcome == "COORDINATOR_NOT_AVAILABLE"
    )
    assert limits(other) == ["max_member_bytes"]
    assert other.join("bea", protocols={"range": b"x" * 5_000}).parked
    refused = scene.join("ann", protocols={"range": b"x" * 20_000})
    assert refused.outcome == "COORDINATOR_NOT_AVAILABLE"
    assert scene.state == "Stable"
    assert scene.join("ann", protocols={"range": b"y" * 9_000}).outcome == "NONE"
    scene.leave("ann")
    assert other.join("bea", protocols={"range": b"x" * 10_000}).parked


def test_who_could_join_gets_an_assignment_unless_plans_take_too_much() -> None:
    scene = Scene()
    scene.member_bytes.most = 3_000
    scene.form("ann")
    total = scene.member_bytes
    scene.join("ann")
    total.most_planned = total.used + 5_000
    assert scene.sync("ann", {"ann": b"x" * 4_000}).outcome == "COORDINATOR_NOT_AVAILABLE"
    assert limits(scene) == ["max_planned_bytes"]
    scene.join("ann")
    assert scene.sync("ann", {"ann": b"x" * 2_000}).outcome == "NONE"
    assert total.used > total.most


def test_members_of_a_partition_that_closed_take_no_memory() -> None:
    scene = Scene()
    scene.form("ann", "BEA")
    used = scene.member_bytes.used
    assert used > 0
    scene.partition.close()
    assert scene.member_bytes.used == 0
    scene.crash()
    assert scene.member_bytes.used == used


def test_so_many_protocols_are_nobodys() -> None:
    scene = Scene()
    names = [f"p{n}" for n in range(MAX_PROTOCOLS + 1)]
    outcome = scene.knock("ann", protocols=dict.fromkeys(names, b"")).outcome
    assert outcome == "INCONSISTENT_GROUP_PROTOCOL"
    assert limits(scene) == ["max_protocols"]
    del names[0]
    assert scene.knock("ann", protocols=dict.fromkeys(names, b"")).outcome == "MEMBER_ID_REQUIRED"


@pytest.mark.parametrize(
    ("count", "known"), [(MAX_TOPICS_READ, True), (MAX_TOPICS_READ + 1, False)]
)
def test_of_very_many_topics_every_one_counts_as_subscribed(count: int, known: bool) -> None:
    scene = Scene(message_max_bytes=10_000_000)
    scene.form("ann", protocols={"range": topics(*(f"t{n}" for n in range(count)))})
    assert (scene.group.subscription is not None) == known
    assert scene.group.subscribes("t1")
    assert scene.group.subscribes("other") != known


def test_the_same_topics_of_many_members_are_read_once() -> None:
    scene = Scene(message_max_bytes=10_000_000)
    names = [f"t{n}" for n in range(1_000)]
    people = [f"m{n}" for n in range(30)]
    for number, name in enumerate(people):
        scene.join(name, protocols={"range": topics(*names, owned=number + 1)})
    scene.advance(6_000)
    assert scene.group.subscription == frozenset(names)
