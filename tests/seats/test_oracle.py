"""The oracle notices what it is there for; and what the simulated leaders assign."""

from types import SimpleNamespace

import pytest

from groupkeeper.coordinator.records import offset_key, offset_key_head, offset_value, seat_key
from groupkeeper.protocol.embedded import Subscription, TopicPartition
from groupkeeper.protocol.records.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    encode_group_value,
    encode_key,
    encode_member,
)
from tests.seats.oracle import Broken, Durable, Oracle
from tests.seats.planned_oracle import PlannedOracle
from tests.seats.plans import RANGE, STICKY, ClaimedTwice, Place, encoded, plan
from tests.support.codecs import encode_subscription


def group_record(**shares: set[Place]) -> tuple[bytes, bytes]:
    value = GroupMetadataValue(protocol_type="consumer", generation=1, protocol=RANGE, leader="a")
    members = [
        encode_member(MemberMetadata(member_id=each, subscription=b"", assignment=encoded(share)))
        for each, share in shares.items()
    ]
    return encode_key(GroupMetadataKey(group="g")), encode_group_value(value, members)


def offset_record(offset: int) -> tuple[bytes, bytes]:
    return offset_key(offset_key_head("g", "t"), 0), offset_value(offset, -1, "", 0, -1)


def subscribed(*owned: int, generation: int = 1) -> Subscription:
    told = Subscription(version=3, topics=["t"], generation_id=generation)
    told.owned_partitions = [TopicPartition(topic="t", partitions=list(owned))]
    return told


def test_a_partition_in_two_assignments() -> None:
    durable = Durable()
    durable.take([group_record(a={("t", 0)}, b={("t", 1)})])
    with pytest.raises(Broken, match="assigned to a and b"):
        durable.take([group_record(a={("t", 0)}, b={("t", 0)})])


def test_a_share_that_changes_without_a_rebalance() -> None:
    durable = Durable()
    durable.take([group_record(a={("t", 0)}, b={("t", 1)})])
    durable.take([group_record(b={("t", 1)}, c={("t", 0)})])
    with pytest.raises(Broken, match="without a rebalance"):
        durable.take([group_record(b={("t", 1)}, c={("t", 2)})])


def test_an_offset_that_goes_back() -> None:
    durable = Durable()
    durable.take([offset_record(7), offset_record(7)])
    with pytest.raises(Broken, match="from 7 to 6"):
        durable.take([offset_record(6)])


def test_a_seat_is_one_of_a_member_only() -> None:
    durable = Durable()
    durable.take(
        [group_record(a={("t", 0)}), (seat_key("g", "a"), b"\0\0"), (seat_key("g", "x"), b"")]
    )
    assert durable.lost == {"a"}
    durable.take([(seat_key("g", "a"), None)])
    assert durable.lost == set()


def test_an_assignment_that_is_not_durable() -> None:
    oracle = Oracle(60_000)
    oracle.written([group_record(a={("t", 0)})])
    request = SimpleNamespace(member_id="a", generation_id=1)
    oracle.answered("p1", request, {("t", 0)}, 1)
    with pytest.raises(Broken, match="durable"):
        oracle.answered("p1", request, {("t", 1)}, 2)


def test_a_commit_of_one_that_is_no_longer_the_owner() -> None:
    oracle = Oracle(60_000)
    oracle.written([group_record(a={("t", 0)})])
    oracle.answered("p1", SimpleNamespace(member_id="a", generation_id=1), {("t", 0)}, 1)
    oracle.committed("p1", [("t", 0)], 2)
    with pytest.raises(Broken, match="p2 commits"):
        oracle.committed("p2", [("t", 0)], 3)


def test_a_partition_that_changes_hands_before_it_is_released() -> None:
    oracle = PlannedOracle(0)
    oracle.written([group_record(a={("t", 0)}, b=set())])
    oracle.joined(SimpleNamespace(member_id="a", generation_id=1))
    oracle.answered("p1", SimpleNamespace(member_id="a", generation_id=1), {("t", 0)}, 1, 1)
    with pytest.raises(Broken, match="which a has not released"):
        oracle.written([group_record(a=set(), b={("t", 0)})])
    metadata = encode_subscription(Subscription(version=1, topics=["t"]))
    rejoins = SimpleNamespace(member_id="a", protocols=[SimpleNamespace(metadata=metadata)])
    oracle.written([group_record(a={("t", 0)}, b=set())])
    oracle.asked("JoinGroup", rejoins, 2)
    oracle.written([group_record(a=set(), b={("t", 0)})])


def test_a_range_for_each() -> None:
    shares = plan(RANGE, {"a": subscribed(), "b": subscribed()})
    assert shares == {"a": {("t", 0), ("t", 1), ("t", 2)}, "b": {("t", 3), ("t", 4)}}


def test_what_moves_is_left_out_until_it_is_given_up() -> None:
    told = {"a": subscribed(0, 1, 2, 3, 4), "b": subscribed()}
    first = plan(STICKY, told)
    assert (len(first["a"]), first["b"]) == (3, set())
    told["a"] = subscribed(*(number for _, number in first["a"]))
    assert {*map(len, plan(STICKY, told).values())} == {2, 3}


def test_two_that_hold_the_same_since_one_generation() -> None:
    with pytest.raises(ClaimedTwice):
        plan(STICKY, {"a": subscribed(0), "b": subscribed(0)})
    assert ("t", 0) in plan(STICKY, {"a": subscribed(0), "b": subscribed(0, generation=2)})["b"]
