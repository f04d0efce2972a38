"""How each API says that there is no coordinator, in every version."""

from typing import Any

import pytest

from groupkeeper.coordinator.apis import refuse, spoil
from groupkeeper.coordinator.caller import Caller
from groupkeeper.coordinator.timers import HANDLERS
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.message import layout_of
from groupkeeper.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from groupkeeper.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from groupkeeper.protocol.registry import APIS, response_encoder

ERRORS = [
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
]
EVERY = [
    (request, version)
    for request in HANDLERS
    for version in range(layout_of(request).versions[0], layout_of(request).versions[1] + 1)
]


@pytest.mark.parametrize(("request_type", "version"), EVERY)
def test_every_request_can_be_refused_in_every_version(request_type: Any, version: int) -> None:
    key = layout_of(request_type).key
    assert key is not None
    for error in ERRORS:
        response = refuse(request_type(), Caller(version), error)
        assert type(response) is APIS[key].response_type
        response_encoder(key, version)(response, 1)
        response_encoder(key, version)(spoil(response, error), 1)


@pytest.mark.parametrize(
    ("error", "echoed"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ""),
        (ErrorCode.NOT_COORDINATOR, ""),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, "me"),
        (ErrorCode.INVALID_GROUP_ID, "me"),
    ],
)
def test_the_member_id_is_echoed_as_kafka_4_does(error: ErrorCode, echoed: str) -> None:
    assert refuse(JoinGroupRequest(member_id="me"), Caller(9), error).member_id == echoed


def test_a_fetch_is_refused_per_group() -> None:
    asked = [OffsetFetchRequestGroup(group_id=g) for g in "ab"]
    reply = refuse(OffsetFetchRequest(groups=asked), Caller(8), ErrorCode.NOT_COORDINATOR)
    assert [(g.group_id, g.error_code) for g in reply.groups] == [("a", 16), ("b", 16)]


@pytest.mark.parametrize("nonsense", [object(), JoinGroupResponse()])
def test_what_is_no_group_request_is_a_bug(nonsense: object) -> None:
    with pytest.raises(TypeError):
        refuse(nonsense, Caller(0), ErrorCode.NOT_COORDINATOR)


def test_what_is_no_group_response_is_a_bug() -> None:
    with pytest.raises(TypeError):
        spoil(JoinGroupRequest(), ErrorCode.NOT_COORDINATOR)
