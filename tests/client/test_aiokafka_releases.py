"""The client on connections of aiokafka before 0.13, and on those of 0.10, whose headers have no
tags. The releases themselves are run by the suite `ranges`.
"""

import re
import tomllib
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.conn import AIOKafkaConnection

from groupkeeper.client import CallFailed, Client, client
from groupkeeper.client.structs import RequestFrame
from groupkeeper.protocol.errors import DecodeError, ErrorCode
from groupkeeper.protocol.message import Message
from groupkeeper.protocol.messages.api_versions import ApiVersionsRequest
from groupkeeper.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from groupkeeper.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tests.client.stub import StubNode, cluster

DECLARED = tomllib.loads(Path(__file__).parents[2].joinpath("pyproject.toml").read_text())


class Prepared:
    """A frame that was prepared before it is sent."""

    def __init__(self, frame: RequestFrame) -> None:
        self.frame = frame

    def prepare(self, _: object) -> RequestFrame:
        return self.frame


@pytest.fixture
def older(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections send what they are given, and keep the versions of their peer for others."""
    sends = AIOKafkaConnection.send

    def send(self: Any, request: Any, expect_response: bool = True) -> Any:
        is_frame = isinstance(request, RequestFrame)
        return sends(self, Prepared(request) if is_frame else request, expect_response)

    versions = property(lambda self: SimpleNamespace(_versions=self._versions))
    monkeypatch.setattr(AIOKafkaConnection, "_version_info", versions, raising=False)
    monkeypatch.setattr(AIOKafkaConnection, "send", send)
    monkeypatch.setattr(client, "_CONNECTIONS_PREPARE", False)


@pytest.mark.usefixtures("older")
async def test_the_version_is_chosen_before_a_connection_is_given_the_request() -> None:
    node = StubNode(1, {"ListGroups": (0, 3)})
    node.answers["ListGroups"] = lambda _: ListGroupsResponse()
    async with cluster(node) as bootstrap, Client(bootstrap) as asking:
        await asking.call(ListGroupsRequest(), node=1)
        with pytest.raises(CallFailed) as raised:
            await asking.call(ListGroupsRequest(states_filter=["Stable"]), node=1)
    assert ("ListGroups", 3) in node.asked
    assert raised.value.error is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.usefixtures("older")
async def test_a_node_that_cannot_be_connected_is_not_available() -> None:
    node = StubNode(1)
    async with cluster(node) as bootstrap, Client(bootstrap) as asking:
        with pytest.raises(CallFailed) as raised:
            await asking.call(ListGroupsRequest(), node=7)
    assert raised.value.error is ErrorCode.BROKER_NOT_AVAILABLE


@pytest.mark.parametrize(("version", "tags"), [(3, b""), (4, b"\0"), (4, b"\1\5\2ab")])
def test_tags_of_a_header_are_read_with_the_body(version: int, tags: bytes) -> None:
    frame = RequestFrame(HeartbeatRequest(group_id="g"), version)
    body = tags + bytes(4) + b"\0\x1b" + (b"\0" if tags else b"")
    expected = HeartbeatResponse(error_code=27)
    assert frame.RESPONSE_TYPE.decode(body) == expected  # 0.10 gives bytes
    assert frame.RESPONSE_TYPE.decode(BytesIO(body)) == expected


def test_a_response_that_ends_in_its_header_is_damaged() -> None:
    with pytest.raises(DecodeError):
        RequestFrame(HeartbeatRequest(), 4).RESPONSE_TYPE.decode(b"")


@pytest.mark.parametrize(
    ("request_", "version", "header"),
    [
        (HeartbeatRequest(), 3, b"\0\x0c\0\3\0\0\0\7\0\2me"),
        (ApiVersionsRequest(), 3, b"\0\x12\0\3\0\0\0\7\0\2me"),
    ],
)
def test_the_header_has_the_form_of_all_versions(
    request_: Message, version: int, header: bytes
) -> None:
    assert RequestFrame(request_, version).build_request_header(7, "me").encode() == header


def test_no_library_has_an_upper_bound() -> None:
    """The consumer under test may want any release: decision 004."""
    dependencies = DECLARED["project"]["dependencies"]
    assert [each for each in dependencies if not re.fullmatch(r"[\w-]+>=[\d.]+", each)] == []
    assert {"aiokafka>=0.10", "h11>=0.14"} <= {*dependencies}
