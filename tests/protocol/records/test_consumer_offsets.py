"""Keys and values of the offsets log, against bytes that Kafka's own classes made."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.records.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    UnknownKey,
    decode_group_value,
    decode_key,
    decode_offset_value,
    encode_key,
    encode_value,
)

TIME = 1_700_000_000_000
OFFSET = OffsetCommitValue(offset=100, metadata="md", commit_timestamp=TIME)
OFFSET_WITH_EPOCH = OffsetCommitValue(
    offset=100, leader_epoch=7, metadata="md", commit_timestamp=TIME
)
OFFSET_WITH_EXPIRY = OffsetCommitValue(
    offset=100, metadata="md", commit_timestamp=TIME, expire_timestamp=TIME + 60_000
)
OFFSET_BYTES = {
    "0000000000000000006400026d640000018bcfe56800": OFFSET,
    "0001000000000000006400026d640000018bcfe568000000018bcfe65260": OFFSET_WITH_EXPIRY,
    "0002000000000000006400026d640000018bcfe56800": OFFSET,
    "000300000000000000640000000700026d640000018bcfe56800": OFFSET_WITH_EPOCH,
    "0004000000000000006400000007036d640000018bcfe5680000": OFFSET_WITH_EPOCH,
    # From a Kafka 4.1.0 broker.
    "0004000000000021d4a8ffffffff010000019964f2d83600": OffsetCommitValue(
        offset=2_217_128, commit_timestamp=1_758_335_260_726
    ),
}

MEMBER = MemberMetadata(
    member_id="m-1",
    group_instance_id="i-1",
    client_id="c",
    client_host="/127.0.0.1",
    rebalance_timeout=300_000,
    session_timeout=45_000,
    subscription=b"\1\2\3",
    assignment=b"\x09",
)
OTHER_MEMBER = MemberMetadata(
    member_id="m-2",
    client_id="c",
    client_host="/127.0.0.1",
    rebalance_timeout=300_000,
    session_timeout=45_000,
)
GROUP = GroupMetadataValue(
    protocol_type="consumer",
    generation=5,
    protocol="range",
    leader="m-1",
    current_state_timestamp=TIME,
    members=[MEMBER, OTHER_MEMBER],
)
FRESH_GROUP = GroupMetadataValue(protocol=None, leader=None, current_state_timestamp=TIME)
EMPTY_GROUP = GroupMetadataValue(
    protocol_type="consumer", generation=6, protocol=None, leader=None, current_state_timestamp=TIME
)
GROUP_BYTES = {
    "0003000000000000ffffffff0000018bcfe5680000000000": FRESH_GROUP,
    "00030008636f6e73756d657200000006ffffffff0000018bcfe5680000000000": EMPTY_GROUP,
    "00030008636f6e73756d657200000005000572616e676500036d2d310000018bcfe568000000000200036d2d31"
    "0003692d31000163000a2f3132372e302e302e31000493e00000afc800000003010203000000010900036d2d32"
    "ffff000163000a2f3132372e302e302e31000493e00000afc80000000000000000": GROUP,
    "000409636f6e73756d6572000000050672616e6765046d2d310000018bcfe5680003046d2d3104692d3102630b"
    "2f3132372e302e302e31000493e00000afc804010203020900046d2d320002630b2f3132372e302e302e310004"
    "93e00000afc801010000": GROUP,
}


@pytest.mark.parametrize(
    ("data", "key"),
    [
        ("00010002673100017400000003", OffsetCommitKey(group="g1", topic="t", partition=3)),
        ("000200026731", GroupMetadataKey(group="g1")),
    ],
)
def test_keys_are_kafkas(data: str, key: OffsetCommitKey | GroupMetadataKey) -> None:
    assert decode_key(bytes.fromhex(data)) == key
    assert encode_key(key).hex() == data


@pytest.mark.parametrize("data", OFFSET_BYTES)
def test_offset_values_are_kafkas(data: str) -> None:
    raw, value = bytes.fromhex(data), OFFSET_BYTES[data]
    assert decode_offset_value(raw) == value
    assert encode_value(value, raw[1]) == raw


@pytest.mark.parametrize("data", GROUP_BYTES)
def test_group_values_are_kafkas(data: str) -> None:
    raw, value = bytes.fromhex(data), GROUP_BYTES[data]
    assert decode_group_value(raw) == value
    assert encode_value(value, raw[1]) == raw


def test_the_oldest_key_of_an_offset_is_read() -> None:
    key = decode_key(bytes.fromhex("00000002673100017400000003"))
    assert key == OffsetCommitKey(group="g1", topic="t", partition=3)


@pytest.mark.parametrize("key_type", [3, 8, 24, 25, 300, -1])
def test_keys_of_other_records_are_recognised_unread(key_type: int) -> None:
    data = key_type.to_bytes(2, "big", signed=True) + b"whatever"
    assert decode_key(data) == UnknownKey(key_type)


@pytest.mark.parametrize("version", range(5))
def test_a_group_comes_back_in_every_version(version: int) -> None:
    decoded = decode_group_value(encode_value(GROUP, version))
    assert [member.member_id for member in decoded.members] == ["m-1", "m-2"]
    assert decoded.members[0].group_instance_id == ("i-1" if version >= 3 else None)
    assert decoded.current_state_timestamp == (TIME if version >= 2 else -1)


def test_the_session_timeout_stands_for_a_missing_rebalance_timeout() -> None:
    assert decode_group_value(encode_value(GROUP, 0)).members[0].rebalance_timeout == 45_000
    assert decode_group_value(encode_value(GROUP, 1)).members[0].rebalance_timeout == 300_000


def test_a_topic_id_is_a_tag_of_version_4() -> None:
    value = OffsetCommitValue(offset=1, topic_id=bytes(range(16)))
    data = encode_value(value, 4)
    assert data.endswith(b"\1\0\x10" + bytes(range(16)))
    assert decode_offset_value(data) == value


def test_a_newer_version_is_read_as_version_4() -> None:
    data = encode_value(OFFSET_WITH_EPOCH, 4)
    newer = b"\0\5" + data[2:-1] + b"\1\x63\2ab"
    assert decode_offset_value(newer) == OFFSET_WITH_EPOCH
    assert decode_group_value(b"\0\7" + encode_value(GROUP, 4)[2:]) == GROUP


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\1", b"\0\2\0\5ab", b"\0\2\0\1gg"])
def test_broken_keys_are_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_key(data)


@pytest.mark.parametrize("decode", [decode_offset_value, decode_group_value])
def test_broken_values_are_refused(decode: object) -> None:
    for data in (b"", b"\0", b"\0\3", b"\xff\xff" + bytes(40)):
        with pytest.raises(DecodeError):
            decode(data)  # type: ignore[operator]


@given(st.binary(max_size=80))
def test_random_bytes_raise_nothing_but_decode_errors(data: bytes) -> None:
    for decode in (decode_key, decode_offset_value, decode_group_value):
        with contextlib.suppress(DecodeError):
            decode(data)
