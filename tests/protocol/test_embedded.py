"""The consumer protocol inside JoinGroup and SyncGroup."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from groupkeeper.protocol.embedded import (
    Assignment,
    Subscription,
    TopicPartition,
    decode_assignment,
    decode_subscription,
    read_assigned,
    subscribed_topics,
)
from groupkeeper.protocol.errors import DecodeError
from tests.support.codecs import encode_assignment, encode_subscription

OWNED = [TopicPartition(topic="t", partitions=[0, 7])]


def subscription(version: int) -> Subscription:
    value = Subscription(version=version, topics=["t", "größe"], user_data=b"u")
    if version >= 1:
        value.owned_partitions = OWNED
    if version >= 2:
        value.generation_id = 5
    if version >= 3:
        value.rack_id = "r"
    return value


@pytest.mark.parametrize("version", range(4))
def test_a_subscription_comes_back(version: int) -> None:
    assert decode_subscription(encode_subscription(subscription(version))) == subscription(version)


@pytest.mark.parametrize("version", range(4))
def test_the_bytes_are_those_of_kafka_python(version: int) -> None:
    value = subscription(version)
    parts = [
        ConsumerProtocolSubscription.TopicPartition(
            version=version, topic=part.topic, partitions=part.partitions
        )
        for part in value.owned_partitions
    ]
    theirs = ConsumerProtocolSubscription(
        version=version,
        topics=value.topics,
        user_data=value.user_data,
        owned_partitions=parts,
        generation_id=value.generation_id,
        rack_id=value.rack_id,
    )
    assert encode_subscription(value) == theirs.encode(version=version)


@pytest.mark.parametrize("version", range(4))
def test_an_assignment_comes_back(version: int) -> None:
    value = Assignment(version=version, assigned_partitions=OWNED, user_data=None)
    data = encode_assignment(value)
    assert decode_assignment(data) == value
    assert read_assigned(data) == {
        each.topic: each.partitions for each in value.assigned_partitions
    }


def test_a_newer_version_is_read_as_the_newest_known() -> None:
    data = b"\0\x09" + encode_subscription(subscription(3))[2:] + b"something new"
    decoded = decode_subscription(data)
    assert (decoded.version, decoded.topics, decoded.rack_id) == (9, ["t", "größe"], "r")
    assert subscribed_topics(data) == ("t", "größe")


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff" + bytes(20), b"\0\0\0\0\0\1\0\5ab"])
def test_what_is_no_subscription_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_subscription(data)
    with pytest.raises(DecodeError):
        decode_assignment(data)
    assert read_assigned(data) is None
    assert subscribed_topics(data) is None


def test_topics_are_read_without_the_rest() -> None:
    data = encode_subscription(subscription(0))
    assert subscribed_topics(data) == ("t", "größe")
    assert subscribed_topics(data[:18]) == ("t", "größe")
    assert subscribed_topics(b"\0\0\0\0\0\0") == ()


@given(st.binary(max_size=60))
def test_reading_topics_never_raises(data: bytes) -> None:
    topics = subscribed_topics(data)
    assert topics is None or all(isinstance(topic, str) for topic in topics)


@given(st.binary(max_size=60))
def test_decoding_raises_nothing_but_decode_errors(data: bytes) -> None:
    for decode in (decode_subscription, decode_assignment):
        with contextlib.suppress(DecodeError):
            decode(data)
