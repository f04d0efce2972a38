"""Encoding: frames, what older versions leave out, and what cannot be written."""

import pytest

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.compile_encode import Framing
from groupkeeper.protocol.compiler import encoder
from groupkeeper.protocol.messages.api_versions import ApiVersionsResponse
from groupkeeper.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from groupkeeper.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from groupkeeper.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from groupkeeper.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from groupkeeper.protocol.registry import response_encoder
from tests.support.cases import each


def bare(message: object, version: int) -> bytes:
    cls: type = type(message)
    return encoder(cls, version, Framing.BARE)(message)


def test_a_response_of_fixed_fields_is_a_whole_frame() -> None:
    frame = response_encoder(ApiKey.HEARTBEAT, 4)(HeartbeatResponse(error_code=27), 9)
    assert frame.hex(" ") == "00 00 00 0c 00 00 00 09 00 00 00 00 00 00 1b 00"


def test_a_response_of_many_pieces_carries_its_size() -> None:
    frame = response_encoder(ApiKey.JOIN_GROUP, 9)(JoinGroupResponse(member_id="m" * 300), 9)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert frame[4:9] == b"\0\0\0\x09\0"


def test_a_response_with_records_carries_its_size() -> None:
    data = PartitionData(records=bytes(20_000))
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])
    frame = response_encoder(ApiKey.FETCH, 12)(response, 9)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4 > 20_000


def test_api_versions_keeps_the_old_response_header() -> None:
    frame = response_encoder(ApiKey.API_VERSIONS, 3)(ApiVersionsResponse(), 9)
    assert frame[4:] == b"\0\0\0\x09" + b"\0\0" + b"\1" + bytes(4) + b"\0"


def test_a_tagged_field_is_left_out_while_it_holds_its_default() -> None:
    assert bare(ApiVersionsResponse(), 3)[-1:] == b"\0"
    tagged = bare(ApiVersionsResponse(zk_migration_ready=True), 3)
    assert tagged[-4:] == b"\1\3\1\1"


def test_a_newer_field_is_left_out_of_an_older_version() -> None:
    request = JoinGroupRequest(group_instance_id="i", reason="because", rebalance_timeout_ms=7)
    assert bare(request, 0) == bare(JoinGroupRequest(), 0)


def test_records_may_be_any_buffer() -> None:
    for records in (b"abc", bytearray(b"abc"), memoryview(b"abc")):
        data = PartitionData(records=records)  # type: ignore[arg-type]
        response = FetchResponse(responses=[FetchableTopicResponse(partitions=[data])])
        assert b"abc" in bare(response, 12)


WRONG: list[tuple[object, int]] = [
    (HeartbeatRequest(member_id=None), 0),  # type: ignore[arg-type]
    (HeartbeatRequest(member_id=None), 4),  # type: ignore[arg-type]
    (JoinGroupResponse(protocol_name=None), 6),  # null since version 7
    (LeaveGroupRequest(members=[MemberIdentity(member_id=7)]), 5),  # type: ignore[arg-type]
    (HeartbeatResponse(error_code=40_000), 4),
    (HeartbeatRequest(group_id="x" * 32_768), 0),
    (HeartbeatRequest(group_id="\ud800"), 4),
    (ApiVersionsResponse(api_keys=[HeartbeatResponse()]), 0),  # type: ignore[list-item]
]


@each(WRONG)
def test_a_value_that_has_no_bytes_is_an_error_of_its_message(
    message: object, version: int
) -> None:
    with pytest.raises(TypeError, match=f"{type(message).__name__} v{version}: "):
        bare(message, version)
