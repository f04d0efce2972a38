"""Encoding: frames, what older versions leave out, and what cannot be written."""

import pytest

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.compile_encode import Framing
from groupkeeper.protocol.compiler import encoder
from groupkeeper.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from groupkeeper.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from groupkeeper.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from groupkeeper.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from groupkeeper.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from groupkeeper.protocol.registry import response_encoder


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


def test_null_where_there_is_none_is_named() -> None:
    request = HeartbeatRequest(member_id=None)  # type: ignore[arg-type]
    for version in (0, 4):
        with pytest.raises(TypeError, match=f"HeartbeatRequest v{version}: member_id .* null"):
            bare(request, version)


def test_null_is_refused_in_the_versions_before_it_was_allowed() -> None:
    response = JoinGroupResponse(protocol_name=None)
    assert bare(response, 7)
    with pytest.raises(TypeError, match="protocol_name must not be null"):
        bare(response, 6)


def test_a_fault_deep_inside_is_named_with_its_place() -> None:
    members = [MemberIdentity(), MemberIdentity(member_id=b"m")]  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"members\[1\]: member_id must be string, not"):
        bare(LeaveGroupRequest(members=members), 5)


def test_a_number_out_of_range_is_named() -> None:
    with pytest.raises(ValueError, match="error_code must be int16, not 40000"):
        response_encoder(ApiKey.HEARTBEAT, 4)(HeartbeatResponse(error_code=40_000), 1)


def test_a_string_too_long_for_its_length_is_named() -> None:
    with pytest.raises(ValueError, match="group_id has 32768 bytes"):
        bare(HeartbeatRequest(group_id="x" * 32_768), 0)


def test_lists_of_wrong_things_are_named() -> None:
    wrong = ApiVersionsResponse(api_keys=[HeartbeatResponse()])  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"api_keys\[0\] must be ApiVersion, not"):
        bare(wrong, 0)
    assert bare(ApiVersionsResponse(api_keys=[ApiVersion(api_key=3)]), 0)[6:8] == b"\0\3"
