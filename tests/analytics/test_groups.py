import pytest

from groupkeeper.analytics.reading.groups import decode_members
from groupkeeper.protocol.embedded import Assignment, Subscription, TopicPartition
from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.records.consumer_offsets import (
    GroupMetadataValue,
    MemberMetadata,
    encode_value,
)
from tests.analytics.logs import group
from tests.support.codecs import encode_assignment, encode_subscription


def value_of(version=3, **member):
    made = MemberMetadata(member_id="m", client_id="c", client_host="/h", **member)
    group = GroupMetadataValue(
        protocol_type="consumer", generation=5, protocol="range", leader="m", members=[made]
    )
    return encode_value(group, version)


def test_every_version_is_decoded():
    for version in range(5):
        [row] = decode_members(group("g", 5, "m", version=version)[1])
        assert row["member_id"] == "m"


def test_a_static_member_has_its_instance_id():
    (member,) = decode_members(value_of(group_instance_id="i"))
    assert member["group_instance_id"] == "i"


def test_consumers_say_what_they_want_and_have():
    wanted = encode_subscription(Subscription(topics=["a", "b"]))
    assigned = Assignment(assigned_partitions=[TopicPartition(topic="a", partitions=[1, 2])])
    value = value_of(subscription=wanted, assignment=encode_assignment(assigned))
    (member,) = decode_members(value)
    assert list(member["subscribed_topics"]) == ["a", "b"]
    assert member["assignment"] == [{"topic": "a", "partitions": [1, 2]}]


def test_bytes_of_another_protocol_are_not_guessed_at():
    (member,) = decode_members(value_of(subscription=b"\xff", assignment=b"\xff"))
    assert (member["subscribed_topics"], member["assignment"]) == (None, None)


def test_a_forgotten_member_has_nothing():
    (member,) = decode_members(value_of())
    assert member["assignment"] == []


def test_an_unreadable_value_is_refused():
    with pytest.raises(DecodeError):
        decode_members(b"\0\3\0\x08")
