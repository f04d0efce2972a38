"""Nodes that coordinate groups, asked like a `Client`, under virtual time."""

import asyncio
from typing import Any

from groupkeeper.client import CallFailed
from groupkeeper.coordinator.group import Group, GroupState
from groupkeeper.coordinator.member import Member
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.message import Message
from groupkeeper.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from groupkeeper.protocol.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from groupkeeper.watch.views import WatchedGroup, WatchedGroups
from tests.simulation.cluster import VirtualClock

CALL_S = 0.02
"""How long a call takes; the answer is as of the half of it."""


class Coordinators:
    """The coordinators of the groups of `leaders`, which is by partition."""

    timeout_s = 5.0

    def __init__(self, leaders: dict[int, int], clock: VirtualClock) -> None:
        self.leaders = leaders
        self.views = WatchedGroups(len(leaders), clock)
        self.groups: dict[str, tuple[str, tuple[str, ...]]] = {}
        """Group -> state and member ids."""
        self.calls: list[tuple[float, int, Message]] = []
        self.in_slices = set[type]()
        """Requests whose responses are decoded in slices."""
        self.down: set[int] = set()
        self.silent: set[int] = set()
        """Nodes that answer nothing until the timeout."""
        self.denied: set[str] = set()
        self.errors: dict[str, ErrorCode] = {}
        """Errors of DescribeGroups by group."""
        self.newer: set[str] = set()
        """Groups of another protocol."""
        self.is_old = False
        """Whether ListGroups has no filter."""
        self.listed_by: int | None = None
        """The only node that lists groups: those of all nodes. None: each lists its own."""
        for each in self.views.partitions:
            each.is_ready = True

    def put(self, name: str, *members: str, state: str = "Stable", recorded: bool = True) -> None:
        """Let a group be in a state; `recorded`: with a record that has these members."""
        self.groups[name] = state, members
        if recorded:
            group = Group(name, 0, GroupState.STABLE if members else GroupState.EMPTY)
            for each in members:
                group.add(Member(each, None, each, "/host", 6_000, 6_000, []))
            self.views.of(name).set(name, WatchedGroup(group, None))

    def of_node(self, node: int) -> list[str]:
        return [each for each in self.groups if self.node_of(each) == node]

    def node_of(self, name: str) -> int | None:
        return self.leaders.get(self.views.of(name).index)

    def sent(self, kind: type) -> list[tuple[float, int, Any]]:
        return [each for each in self.calls if isinstance(each[2], kind)]

    async def call_in_slices(self, request: Message, *, node: int | None = None) -> Any:
        self.in_slices.add(type(request))
        return await self.call(request, node=node)

    async def call(self, request: Message, *, node: int | None = None) -> Any:
        assert node is not None
        loop, api = asyncio.get_running_loop(), type(request).__name__.removesuffix("Request")
        self.calls.append((loop.time(), node, request))
        if node in self.silent:
            await asyncio.sleep(self.timeout_s)
            raise CallFailed(api, node, ErrorCode.REQUEST_TIMED_OUT)
        await asyncio.sleep(CALL_S / 2)
        if node in self.down:
            raise CallFailed(api, node, ErrorCode.BROKER_NOT_AVAILABLE)
        answer = self._answer(request, node)
        await asyncio.sleep(CALL_S / 2)
        return answer

    def _answer(self, request: Message, node: int) -> ListGroupsResponse | DescribeGroupsResponse:
        if isinstance(request, ListGroupsRequest):
            return ListGroupsResponse(groups=self.list(request, node))
        assert isinstance(request, DescribeGroupsRequest)
        return DescribeGroupsResponse(groups=[self.row(each, node) for each in request.groups])

    def list(self, request: Any, node: int) -> list[ListedGroup]:
        if self.is_old:
            raise CallFailed("ListGroups", node, ErrorCode.UNSUPPORTED_VERSION)
        listed = self.of_node(node)
        if self.listed_by is not None:
            listed = [*self.groups] if self.listed_by == node else []
        return [
            ListedGroup(group_id=each, group_state=self.groups[each][0])
            for each in listed
            if self.groups[each][0] in request.states_filter and each not in self.denied
        ]

    def row(self, name: str, node: int) -> DescribedGroup:
        if name in self.denied:
            error = ErrorCode.GROUP_AUTHORIZATION_FAILED
            return DescribedGroup(group_id=name, error_code=error)
        if name in self.newer:
            return DescribedGroup(group_id=name, error_code=ErrorCode.GROUP_ID_NOT_FOUND)
        if name in self.errors:
            return DescribedGroup(group_id=name, error_code=self.errors[name])
        if name not in self.groups or self.node_of(name) != node:
            return DescribedGroup(group_id=name, error_code=ErrorCode.NOT_COORDINATOR)
        state, members = self.groups[name]
        rows = [DescribedGroupMember(member_id=each) for each in members]
        return DescribedGroup(group_id=name, group_state=state, members=rows)
