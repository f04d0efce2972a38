"""Decoding is strict: whatever the bytes, a message or DecodeError, in bounded memory."""

import contextlib
import random
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupkeeper.protocol.compile_decode import least_size
from groupkeeper.protocol.compile_encode import Framing
from groupkeeper.protocol.compiler import decoder, encoder
from groupkeeper.protocol.errors import DecodeError, LeftOver
from groupkeeper.protocol.messages.api_versions import ApiVersionsResponse
from groupkeeper.protocol.messages.describe_groups import DescribeGroupsRequest
from groupkeeper.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
)
from groupkeeper.protocol.messages.heartbeat import HeartbeatRequest
from groupkeeper.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from groupkeeper.protocol.messages.metadata import MetadataRequest
from groupkeeper.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
)
from groupkeeper.protocol.types import StructOf
from tests.support.cases import each
from tests.support.messages import all_cases, random_message

CASES = list(all_cases())
every_case = each(CASES)


def body_of(cls: type, version: int, style: str = "plain", seed: int = 0) -> bytes:
    return encoder(cls, version, Framing.BARE)(random_message(cls, version, style, seed))


def decode(cls: type, version: int, body: bytes) -> object:
    return decoder(cls, version)(body, 0, len(body))


def refused(cls: type, version: int, body: bytes) -> str:
    with pytest.raises(DecodeError) as caught:
        decode(cls, version, body)
    return str(caught.value)


@every_case
def test_a_message_cut_off_anywhere_is_refused(cls: type, version: int) -> None:
    for style in ("plain", "nulls", "tagged"):
        body = body_of(cls, version, style)
        for cut in range(len(body)):
            refused(cls, version, body[:cut])


@every_case
def test_a_message_never_borrows_from_the_bytes_behind_it(cls: type, version: int) -> None:
    body = body_of(cls, version)
    stream = body + body
    for cut in range(len(body)):
        with pytest.raises(DecodeError):
            decoder(cls, version)(stream, 0, cut)


@every_case
def test_bytes_left_over_are_refused(cls: type, version: int) -> None:
    for style in ("plain", "nulls", "empty", "tagged"):
        body = body_of(cls, version, style)
        refused(cls, version, body + b"\0")
        refused(cls, version, body + b"\1")


def test_what_is_left_over_comes_with_the_message_before_it() -> None:
    message = random_message(HeartbeatRequest, 4, "plain")
    body = encoder(HeartbeatRequest, 4, Framing.BARE)(message)
    with pytest.raises(LeftOver, match="3 bytes") as caught:
        decoder(HeartbeatRequest, 4)(body + b"abc", 0, len(body) + 3)
    assert caught.value.message == message


@every_case
def test_a_message_may_stand_anywhere_in_a_buffer(cls: type, version: int) -> None:
    message = random_message(cls, version, "tagged")
    body = encoder(cls, version, Framing.BARE)(message)
    buffer = b"\xffbefore" + body + b"behind\xff"
    assert decoder(cls, version)(buffer, 7, 7 + len(body)) == message


@every_case
def test_damaged_messages_raise_nothing_but_decode_errors(cls: type, version: int) -> None:
    rng = random.Random(f"{cls.__name__} {version}")
    bodies = [body_of(cls, version, style) for style in ("plain", "nulls", "tagged")]
    for _ in range(60):
        body = bytearray(rng.choice(bodies))
        damage(body, rng)
        survives(cls, version, bytes(body))


def damage(body: bytearray, rng: random.Random) -> None:
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(body) + 1)
        match rng.randrange(3):
            case 0:
                body[at:at] = rng.randbytes(rng.randint(1, 5))
            case 1:
                del body[at : at + rng.randint(1, 5)]
            case _:
                edge = rng.choice([b"\0", b"\x7f", b"\x80", b"\xff", b"\xff\xff", b"\x80\x01"])
                body[at : at + len(edge)] = edge


def survives(cls: type, version: int, body: bytes) -> None:
    try:
        message = decode(cls, version, body)
    except DecodeError:
        return
    again = encoder(cls, version, Framing.BARE)(message)
    assert decode(cls, version, again) == message


@settings(max_examples=1500, deadline=None)
@given(case=st.sampled_from(CASES), body=st.binary(max_size=200))
def test_random_bytes_raise_nothing_but_decode_errors(case: tuple[type, int], body: bytes) -> None:
    survives(*case, body)


@pytest.mark.parametrize("count", [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\xff\xff\x7f"])
def test_a_huge_count_anywhere_costs_no_memory(count: bytes) -> None:
    bodies = [(decoder(cls, version), body_of(cls, version)) for cls, version in CASES]
    tracemalloc.start()
    for decode_one, body in bodies:
        for at in range(min(len(body), 60)):
            damaged = body[:at] + count + body[at + len(count) :]
            with contextlib.suppress(DecodeError):
                decode_one(damaged, 0, len(damaged))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200_000


def test_a_count_is_held_against_the_message_not_the_buffer() -> None:
    topic = OffsetDeleteRequestTopic(name="t")
    body = encoder(OffsetDeleteRequest, 0, Framing.BARE)(OffsetDeleteRequest(topics=[topic]))
    buffer = body[:-4] + (200_000).to_bytes(4, "big") + bytes(1_000_000)
    decode_one = decoder(OffsetDeleteRequest, 0)
    tracemalloc.start()
    with pytest.raises(DecodeError, match="partitions: length 200000, 0 bytes left"):
        decode_one(buffer, 0, len(body))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50_000


def test_null_is_refused_where_the_definition_has_none() -> None:
    assert "HeartbeatRequest.group_id" in refused(HeartbeatRequest, 0, b"\xff\xff")
    assert "HeartbeatRequest.group_id" in refused(HeartbeatRequest, 4, b"\0")
    assert "MetadataRequest.topics" in refused(MetadataRequest, 0, b"\xff\xff\xff\xff")


def test_a_negative_length_other_than_null_is_refused() -> None:
    body = b"\0\1g" + bytes(4) + b"\0\1m" + b"\xff\xfe"
    assert "group_instance_id" in refused(HeartbeatRequest, 3, body)
    assert "MetadataRequest.topics" in refused(MetadataRequest, 1, b"\xff\xff\xff\xfe")


def test_text_that_is_not_utf_8_is_refused() -> None:
    assert "JoinGroupRequest v0" in refused(JoinGroupRequest, 0, b"\0\1\xff" + bytes(30))


@pytest.mark.parametrize("version", [3, 4])
def test_text_ends_where_an_int16_ends(version: int) -> None:
    for text in ("x" * 32_767, "é" * 16_383):
        body = encoder(HeartbeatRequest, version, Framing.BARE)(HeartbeatRequest(group_id=text))
        assert decode(HeartbeatRequest, version, body) == HeartbeatRequest(group_id=text)
    if version == 4:  # before, the length itself has no room for more
        for text in ("x" * 32_768, "é" * 16_384, "x" * 3_000_000):
            body = encoder(HeartbeatRequest, 4, Framing.BARE)(HeartbeatRequest(group_id=text))
            assert "HeartbeatRequest.group_id" in refused(HeartbeatRequest, 4, body)


def test_text_in_a_list_or_nullable_is_bounded_too_but_bytes_are_not() -> None:
    long = "x" * 32_768
    for request, version in (
        (HeartbeatRequest(group_instance_id=long), 4),
        (DescribeGroupsRequest(groups=["g", long]), 5),
    ):
        cls: type = type(request)
        body = encoder(cls, version, Framing.BARE)(request)
        assert "32768 bytes" in refused(cls, version, body)
    metadata = JoinGroupRequestProtocol(name="range", metadata=bytes(100_000))
    join = JoinGroupRequest(protocols=[metadata])
    body = encoder(JoinGroupRequest, 9, Framing.BARE)(join)
    assert decode(JoinGroupRequest, 9, body) == join


def test_a_varint_of_more_than_32_bits_is_refused() -> None:
    assert "varint" in refused(HeartbeatRequest, 4, b"\x80\x80\x80\x80\x80\x01" + bytes(20))
    assert "varint" in refused(HeartbeatRequest, 4, b"\x80\x80\x80\x80\x10" + bytes(20))


@pytest.mark.parametrize(
    "tags",
    [
        pytest.param(b"\2\5\0\4\0", id="descending"),
        pytest.param(b"\2\5\0\5\0", id="twice"),
        pytest.param(b"\1\5\7ab", id="size beyond the end"),
        pytest.param(b"\2\1\3" + bytes(8) + b"\3\1\1", id="value longer than its size"),
        pytest.param(b"\2\1\x09" + bytes(8) + b"\3\1\1", id="value shorter than its size"),
    ],
)
def test_a_malformed_tag_buffer_is_refused(tags: bytes) -> None:
    head = b"\0\0" + b"\1" + bytes(4)
    assert decode(ApiVersionsResponse, 3, head + b"\0") == ApiVersionsResponse()
    refused(ApiVersionsResponse, 3, head + tags)


def test_a_known_tag_is_read_between_unknown_ones() -> None:
    head = b"\0\0" + b"\1" + bytes(4)
    body = head + b"\2\1\x08" + (7).to_bytes(8, "big") + b"\x63\2ab"
    assert decode(ApiVersionsResponse, 3, body) == ApiVersionsResponse(finalized_features_epoch=7)


@pytest.mark.parametrize(
    ("mark", "cursor"),
    [
        (b"\xff", None),
        (b"\x80", None),
        (b"\x01\x02a\0\0\0\x05\0", Cursor(topic_name="a", partition_index=5)),
        (b"\0\x02a\0\0\0\x05\0", Cursor(topic_name="a", partition_index=5)),
    ],
)
def test_a_byte_says_whether_a_nullable_struct_is_there(mark: bytes, cursor: Cursor | None) -> None:
    body = b"\x01\0\0\0\x07" + mark + b"\0"
    assert decode(DescribeTopicPartitionsRequest, 0, body) == DescribeTopicPartitionsRequest(
        response_partition_limit=7, cursor=cursor
    )


def test_the_least_size_of_a_struct_counts_its_fields_and_tag_buffer() -> None:
    assert least_size(StructOf(HeartbeatRequest), 0, flexible=False) == 2 + 4 + 2
    assert least_size(StructOf(HeartbeatRequest), 4, flexible=True) == 1 + 4 + 1 + 1 + 1
    assert least_size(StructOf(HeartbeatRequest, nullable=True), 4, flexible=True) == 1
