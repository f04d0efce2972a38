"""What the classes made by @message and @struct are like."""

import pytest

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import (
    fields_in,
    key_of,
    layout_of,
    message,
    since,
    struct,
    structs_in,
    tagged,
)
from groupkeeper.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from groupkeeper.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from groupkeeper.protocol.types import Array, Int32, String, UInt16


def test_every_field_has_a_default() -> None:
    request = JoinGroupRequest()
    assert (request.group_id, request.rebalance_timeout_ms) == ("", -1)
    assert request.group_instance_id is None


def test_each_message_has_lists_of_its_own() -> None:
    JoinGroupRequest().protocols.append(JoinGroupRequestProtocol())
    assert JoinGroupRequest().protocols == []


def test_fields_are_given_by_name_only() -> None:
    with pytest.raises(TypeError):
        JoinGroupRequest("group")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        JoinGroupRequest(group="group")  # type: ignore[call-arg]


def test_a_message_has_no_other_attributes() -> None:
    with pytest.raises(AttributeError):
        JoinGroupRequest().group = "g"  # type: ignore[attr-defined]


def test_messages_are_equal_field_by_field() -> None:
    one, other = MemberIdentity(member_id="m"), MemberIdentity(member_id="m")
    assert one == other
    other.reason = "tired"
    assert one != other
    of_another_class: object = LeaveGroupRequest(member_id="m")
    assert one != of_another_class


def test_a_mutable_message_has_no_hash() -> None:
    with pytest.raises(TypeError):
        hash(MemberIdentity())


def test_a_message_shows_its_fields() -> None:
    shown = repr(MemberIdentity(member_id="m"))
    assert shown == "MemberIdentity(member_id='m', group_instance_id=None, reason=None)"


def test_a_class_keeps_its_name_module_and_docstring() -> None:
    assert JoinGroupRequest.__module__ == "groupkeeper.protocol.messages.join_group"
    assert (JoinGroupRequest.__doc__ or "").startswith("Joins a group")


def test_a_layout_says_which_version_carries_a_field() -> None:
    plain, _ = fields_in(LeaveGroupRequest, 2)
    assert [field.name for field in plain] == ["group_id", "member_id"]
    plain, _ = fields_in(LeaveGroupRequest, 3)
    assert [field.name for field in plain] == ["group_id", "members"]


def test_only_requests_and_responses_have_an_api_key() -> None:
    assert key_of(LeaveGroupRequest) is key_of(LeaveGroupResponse) is ApiKey.LEAVE_GROUP
    with pytest.raises(TypeError, match="MemberIdentity is neither a request nor a response"):
        key_of(MemberIdentity)


def test_structs_come_before_the_message_around_them() -> None:
    assert list(structs_in(LeaveGroupRequest, 3)) == [MemberIdentity, LeaveGroupRequest]
    assert list(structs_in(LeaveGroupRequest, 2)) == [LeaveGroupRequest]


def test_a_message_can_be_declared_with_every_kind_of_lifetime() -> None:
    @struct
    class Part:
        number: UInt16 = 65_535

    @message(versions=(0, 2), flexible=2)
    class Whole:
        name: String = since(1, default="none", until=1)
        parts: Array[Part] = since(0)
        size: Int32 = tagged(0, since=2, default=5)

    assert repr(Whole(parts=[Part()])) == "Whole(name='none', parts=[Part(number=65535)], size=5)"
    assert layout_of(Whole).is_flexible(2)
    assert not layout_of(Whole).is_flexible(1)
