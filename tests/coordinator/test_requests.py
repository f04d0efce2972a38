"""Flaws of a request by itself."""

from typing import Any

import pytest

from groupkeeper.coordinator.config import GroupConfig
from groupkeeper.coordinator.requests import flaw_of
from groupkeeper.coordinator.timers import HANDLERS
from groupkeeper.protocol.messages.heartbeat import HeartbeatRequest
from groupkeeper.protocol.messages.join_group import JoinGroupRequest
from groupkeeper.protocol.messages.leave_group import LeaveGroupRequest
from groupkeeper.protocol.messages.offset_delete import OffsetDeleteRequest
from groupkeeper.protocol.messages.sync_group import SyncGroupRequest

PICKY = (
    JoinGroupRequest,
    SyncGroupRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    OffsetDeleteRequest,
)


@pytest.mark.parametrize("request_type", HANDLERS)
def test_an_empty_group_id_is_a_flaw_of_some_requests_only(request_type: Any) -> None:
    flaw = flaw_of(request_type(), 0, GroupConfig())
    assert flaw.name == ("INVALID_GROUP_ID" if request_type in PICKY else "NONE")


@pytest.mark.parametrize(
    ("version", "kind", "name", "flaw"),
    [(4, None, None, 0), (5, None, "range", 23), (5, "consumer", None, 23), (5, "c", "r", 0)],
)
def test_a_sync_names_its_protocol_from_version_5(
    version: int, kind: str | None, name: str | None, flaw: int
) -> None:
    request = SyncGroupRequest(group_id="g", protocol_type=kind, protocol_name=name)
    assert flaw_of(request, version, GroupConfig()) == flaw
