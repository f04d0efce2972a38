"""Heartbeats that repeat take a short cut, which only their duration shows."""

from types import SimpleNamespace
from typing import Any

import pytest

from groupkeeper.connections.steady import GuardedBeat, SteadyBeat
from groupkeeper.coordinator.deadlines import Timer, TimerKind
from groupkeeper.coordinator.group import Group
from groupkeeper.coordinator.heartbeat import Beat
from groupkeeper.coordinator.member import Member
from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.heartbeat import HeartbeatRequest
from tests.support.requests import commit_request, heartbeat, join_request, sync_request
from tests.support.served import Client, Served, settle
from tests.support.wire import frame

MEMBER = Member("m", None, "", "", 10_000, 10_000, [])


class Member:
    """One member alone in its group, and the connection its heartbeats come on."""

    def __init__(self, served: Served, **fields: Any) -> None:
        self.served = served
        self.client: Client = served.client()
        self.id, self.generation = settle(self.client, **fields)
        self.says = heartbeat(self.id, self.generation, instance_id=fields.get("group_instance_id"))

    def beat(self) -> int:
        return int(self.client.call(4, self.says).error_code)


@pytest.fixture
def member(served: Served) -> Member:
    """It has just sent two heartbeats, the second of which was short."""
    member = Member(served)
    assert [member.beat(), member.beat()] == [0, 0]
    return member


def test_only_the_first_of_equal_heartbeats_is_decoded(served: Served, decoded: list[int]) -> None:
    member = Member(served)
    decoded.clear()
    assert [member.beat() for _ in range(5)] == [0] * 5
    assert decoded == [ApiKey.HEARTBEAT]


def test_every_answer_carries_the_correlation_id_of_its_request(member: Member) -> None:
    frames = [member.client.frame(4, member.says) for _ in range(20)]
    member.client.deliver(*frames)
    for _ in frames:
        assert member.client.take().error_code == 0  # take() compares the ids


def test_a_member_that_only_beats_stays_for_as_long_as_it_does(
    member: Member, decoded: list[int]
) -> None:
    for _ in range(400):
        member.served.advance(9)
        assert member.beat() == 0
    assert decoded == []


def test_a_member_that_stops_is_removed_when_its_session_ends(member: Member) -> None:
    for _ in range(10):
        member.served.advance(9)
        member.beat()
    member.served.advance(9.99)
    assert member.served.members() == 1
    member.served.advance(0.02)
    assert member.served.members() == 0


def test_every_beat_is_counted(member: Member) -> None:
    counts = member.served.server.metrics.requests[ApiKey.HEARTBEAT]
    before = counts.count()
    member.client.deliver(*(member.client.frame(4, member.says) for _ in range(7)))
    assert counts.count() == before + 7


# -- whatever changes the group is heard of --------------------------------------------------------


def test_a_new_member_sends_all_back_to_join(member: Member) -> None:
    member.served.client().send(3, join_request())
    member.served.advance(0.1)
    assert member.beat() == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_new_generation_makes_the_old_one_illegal(member: Member) -> None:
    other = member.served.client()
    other.join(member_id=member.id)  # the leader again: a rebalance of its own
    assert member.beat() == ErrorCode.ILLEGAL_GENERATION


def test_who_has_left_is_unknown(member: Member) -> None:
    assert member.served.client().leave(member.id) == 0
    assert member.beat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_who_was_replaced_is_fenced(served: Served) -> None:
    member = Member(served, group_instance_id="one")
    assert [member.beat(), member.beat()] == [0, 0]
    served.client().join(group_instance_id="one")
    assert member.beat() == ErrorCode.FENCED_INSTANCE_ID


def test_a_new_session_timeout_counts_from_the_next_beat(served: Served) -> None:
    member = Member(served, group_instance_id="one")
    member.beat()
    renewed = served.client().join(group_instance_id="one", session_timeout_ms=2_000)
    member.says.member_id = renewed.member_id
    assert [member.beat(), member.beat()] == [0, 0]
    served.advance(1.9)
    assert member.beat() == 0
    served.advance(2.1)
    assert served.members() == 0


def test_a_waiting_sync_stops_the_short_cut(served: Served, decoded: list[int]) -> None:
    """The session stands still while a request waits: there is no deadline to move."""
    leader, follower = served.client(), served.client()
    first = leader.join()
    follower.send(3, join_request())
    leader.join(member_id=first.member_id)
    joined = follower.take()
    says = heartbeat(joined.member_id, joined.generation_id)
    assert [follower.call(4, says).error_code for _ in range(2)] == [0, 0]
    served.client().send(5, sync_request(joined.member_id, joined.generation_id))
    served.advance(0.1)
    decoded.clear()
    assert follower.call(4, says).error_code == 0
    assert decoded == [ApiKey.HEARTBEAT]


# -- durability ------------------------------------------------------------------------------------


def test_a_beat_waits_behind_a_commit_that_is_not_written(member: Member) -> None:
    """What it says may rest on what a crash could still undo."""
    client, committer = member.client, member.served.client()
    committer.deliver(committer.frame(8, commit_of(member, 7)))
    client.deliver(client.frame(4, member.says))
    assert member.served.driver("g")._partition.gate.parked == 2
    assert client.take().error_code == 0
    assert committer.take().topics[0].partitions[0].error_code == 0


def commit_of(member: Member, offset: int) -> Any:
    return commit_request(
        {("orders", 0): offset}, member_id=member.id, generation=member.generation
    )


def test_a_reload_of_the_partition_ends_the_short_cut(member: Member, decoded: list[int]) -> None:
    member.served.fail()
    assert member.beat() == 0  # loading: heartbeats are believed
    member.served.settled()
    assert [member.beat(), member.beat()] == [0, 0]
    assert decoded == [ApiKey.HEARTBEAT, ApiKey.HEARTBEAT]


# -- bytes -----------------------------------------------------------------------------------------


class Counting:
    """Stands in for a partition; every beat counts."""

    def __init__(self, good: bool = True) -> None:
        self.good = good
        self.times: list[int] = []

    def steady_beat(self, request: HeartbeatRequest) -> Beat:
        timer = Timer(TimerKind.SESSION, "g", "m")
        return Beat(Group("g", 0), MEMBER, 0, timer, 10_000)

    def beat(self, beat: Beat, now: int) -> bool:
        self.times.append(now)
        return self.good


def steady(partition: Any, request: bytes) -> SteadyBeat:
    asked, answer = HeartbeatRequest(), b"size" + b"\0\0\0\1" + b"rest"
    return SteadyBeat(partition, asked, request, answer)


def frame_of(correlation_id: int = 1, **fields: Any) -> bytes:
    wanted: dict[str, Any] = {"group_id": "g", "member_id": "m", "generation_id": 1} | fields
    return frame(4, HeartbeatRequest(**wanted), correlation_id)


def test_the_same_bytes_match_whatever_their_correlation_id() -> None:
    driver = Counting()
    beat, data = steady(driver, frame_of()), b"before" + frame_of(0x01020304) + b"after"
    assert beat.matches(data, 6, len(data) - 5, 1.5)
    assert driver.times == [1501]
    assert beat.answer(data, 6) == b"size\x01\x02\x03\x04rest"


@pytest.mark.parametrize(
    "fields",
    [
        {"group_id": "h"},
        {"member_id": "n"},
        {"generation_id": 2},
        {"group_instance_id": "i"},
        {"group_id": "gg"},
    ],
)
def test_any_other_byte_is_another_heartbeat(fields: dict[str, Any]) -> None:
    driver = Counting()
    data = frame_of(**fields)
    assert not steady(driver, frame_of()).matches(data, 0, len(data), 1.0)
    assert driver.times == []


def test_a_beat_is_answered_until_the_login_ends() -> None:
    driver, data = Counting(), frame_of()
    beat = GuardedBeat(steady(driver, data), None, until=2.0)
    assert beat.matches(data, 0, len(data), 2.0)
    assert not beat.matches(data, 0, len(data), 2.001)
    assert beat.is_same(data) and driver.times == [2001]
    assert beat.answer(data, 0) == steady(driver, data).answer(data, 0)


def test_a_beat_is_answered_until_the_authorizer_changes_or_the_login_ends() -> None:
    driver, data, authorizer = Counting(), frame_of(), SimpleNamespace(number=7)
    beats = [GuardedBeat(steady(driver, data), authorizer, until=2.0) for _ in range(2)]
    assert beats[0].matches(data, 0, len(data), 1.0)
    assert not beats[0].matches(data, 0, len(data), 2.5)
    authorizer.number = 8
    assert not beats[1].matches(data, 0, len(data), 1.0)
    assert driver.times == [1001]


def test_the_same_body_in_another_version_is_another_heartbeat() -> None:
    """Version 1 has one more field in its answer."""
    request = HeartbeatRequest(group_id="g", member_id="m")
    old, new = (frame(version, request) for version in (0, 1))
    assert not steady(Counting(), old).matches(new, 0, len(new), 1.0)


def test_a_beat_that_does_not_count_does_not_match() -> None:
    data = frame_of()
    assert not steady(Counting(good=False), data).matches(data, 0, len(data), 1.0)


def test_two_members_on_one_connection_are_not_mixed_up(served: Served) -> None:
    one, two = Member(served), Member(served, group_id="h")
    two.says.group_id = "h"
    for _ in range(3):
        assert one.client.call(4, one.says).error_code == 0
        assert one.client.call(4, two.says).error_code == 0
        served.advance(8)
    assert (served.members("g"), served.members("h")) == (1, 1)
