"""One row per group API: refusals in every version, errors of a request by itself, a new row."""

from dataclasses import dataclass
from typing import Any

import pytest

from groupkeeper.coordinator.apis import GROUP_APIS, GroupApi, refuse, spoil
from groupkeeper.coordinator.caller import Caller, ReplyTo
from groupkeeper.coordinator.config import GroupConfig
from groupkeeper.coordinator.groups import Groups
from groupkeeper.coordinator.step import Step
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.message import layout_of
from groupkeeper.protocol.messages.heartbeat import HeartbeatRequest
from groupkeeper.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from groupkeeper.protocol.messages.leave_group import LeaveGroupRequest
from groupkeeper.protocol.messages.offset_delete import OffsetDeleteRequest
from groupkeeper.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from groupkeeper.protocol.messages.sync_group import SyncGroupRequest
from groupkeeper.protocol.registry import APIS, response_encoder
from tests.support.group_requests import CLIENT_REQUESTS
from tests.support.scene import Call, Scene

ERRORS = [
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
]
EVERY = [
    (request, version)
    for request in CLIENT_REQUESTS
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
    reply = refuse(JoinGroupRequest(member_id="me"), Caller(9), error)
    assert isinstance(reply, JoinGroupResponse)
    assert reply.member_id == echoed


def test_a_fetch_is_refused_per_group() -> None:
    asked = [OffsetFetchRequestGroup(group_id=g) for g in "ab"]
    reply = refuse(OffsetFetchRequest(groups=asked), Caller(8), ErrorCode.NOT_COORDINATOR)
    assert isinstance(reply, OffsetFetchResponse)
    assert [(g.group_id, g.error_code) for g in reply.groups] == [("a", 16), ("b", 16)]


@pytest.mark.parametrize("nonsense", [object(), JoinGroupResponse()])
def test_what_is_no_group_request_is_a_bug(nonsense: Any) -> None:
    with pytest.raises(KeyError):
        refuse(nonsense, Caller(0), ErrorCode.NOT_COORDINATOR)


def test_what_is_no_group_response_is_a_bug() -> None:
    request: Any = JoinGroupRequest()
    with pytest.raises(KeyError):
        spoil(request, ErrorCode.NOT_COORDINATOR)


# -- errors of a request by itself -----------------------------------------------------------------

NEED_A_GROUP_ID = (
    JoinGroupRequest,
    SyncGroupRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    OffsetDeleteRequest,
)


def error_in(request: Any, version: int) -> ErrorCode:
    return GROUP_APIS[type(request)].error_in(request, version, GroupConfig())


@pytest.mark.parametrize("request_type", CLIENT_REQUESTS)
def test_an_empty_group_id_is_an_error_of_some_requests_only(request_type: Any) -> None:
    error = error_in(request_type(), 0)
    assert error.name == ("INVALID_GROUP_ID" if request_type in NEED_A_GROUP_ID else "NONE")


@pytest.mark.parametrize(
    ("version", "kind", "name", "error"),
    [(4, None, None, 0), (5, None, "range", 23), (5, "consumer", None, 23), (5, "c", "r", 0)],
)
def test_a_sync_names_its_protocol_from_version_5(
    version: int, kind: str | None, name: str | None, error: int
) -> None:
    request = SyncGroupRequest(group_id="g", protocol_type=kind, protocol_name=name)
    assert error_in(request, version) == error


# -- a new row -------------------------------------------------------------------------------------


@dataclass
class CountGroupsRequest:
    """An imaginary API."""


@dataclass
class CountGroupsResponse:
    error_code: int = 0
    count: int = 0


def count_groups(
    groups: Groups, request: CountGroupsRequest, caller: Caller, reply_to: ReplyTo, step: Step
) -> None:
    response: Any = CountGroupsResponse(count=len(groups))
    step.reply(reply_to, response)


def test_a_group_api_is_a_message_a_handler_and_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    row = GroupApi(CountGroupsRequest, CountGroupsResponse, count_groups, for_one_group=False)
    monkeypatch.setitem(GROUP_APIS, CountGroupsRequest, row)
    scene = Scene()
    scene.form("lea")
    request = CountGroupsRequest()
    reply_to = Call("anyone", "CountGroups", 0, 0)
    handle: Any = scene.partition.handle
    assert handle(request, Caller(0), reply_to, (0, 0)).replies == [
        (reply_to, CountGroupsResponse(count=1))
    ]
    scene.partition.close()
    [(_, refused)] = handle(request, Caller(0), reply_to, (0, 0)).replies
    assert refused == CountGroupsResponse(error_code=ErrorCode.NOT_COORDINATOR)
