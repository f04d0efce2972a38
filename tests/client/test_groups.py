"""Many groups in few requests, on nodes that are older, move groups, or refuse."""

from collections.abc import Callable
from typing import Any

import pytest

from groupkeeper.client import CallFailed, Client
from groupkeeper.client.consumer_group_describe import (
    AssignedTopic,
    ConsumerAssignment,
    ConsumerGroupDescribeResponse,
    ConsumerGroupMember,
    DescribedConsumerGroup,
)
from groupkeeper.client.coordinators import GROUPS_PER_REQUEST
from groupkeeper.client.groups import (
    GROUPS_PER_ANSWER,
    Committed,
    DescribedMember,
    GroupDescription,
    committed_offsets,
    delete_groups,
    describe_groups,
    list_groups,
    remove_members,
)
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from groupkeeper.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)
from groupkeeper.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from groupkeeper.protocol.messages.leave_group import LeaveGroupResponse, MemberResponse
from groupkeeper.protocol.messages.list_groups import ListedGroup, ListGroupsResponse
from groupkeeper.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from groupkeeper.protocol.placement import STATUS_HINT
from tests.client.stub import StubNode, cluster

NOT_COORDINATOR = ErrorCode.NOT_COORDINATOR


def coordinated_by(*nodes: int) -> Callable[[Any], FindCoordinatorResponse]:
    """Groups are dealt out to these nodes by the length of their names."""
    return lambda asked: FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, node_id=nodes[len(key) % len(nodes)])
            for key in asked.coordinator_keys
        ]
    )


def as_stable(asked: Any) -> DescribeGroupsResponse:
    groups = [DescribedGroup(group_id=each, group_state="Stable") for each in asked.groups]
    return DescribeGroupsResponse(groups=groups)


def count(node: StubNode, api: str) -> int:
    return [name for name, _ in node.asked].count(api)


async def test_each_coordinator_is_asked_about_its_groups() -> None:
    one, two = StubNode(1), StubNode(2)
    for node in (one, two):
        node.answers["FindCoordinator"] = coordinated_by(1, 2)
        node.answers["DescribeGroups"] = as_stable
    async with cluster(one, two) as bootstrap, Client(bootstrap) as client:
        found = await describe_groups(client, ["a", "bb", "c", "a"])
    assert {name: group.coordinator for name, group in found.items()} == {"a": 2, "bb": 1, "c": 2}
    assert (count(one, "DescribeGroups"), count(two, "DescribeGroups")) == (1, 1)


async def test_the_number_of_requests_grows_with_the_hundreds_of_groups() -> None:
    node = StubNode(1)
    node.answers["DescribeGroups"] = as_stable
    names = [f"g{number}" for number in range(GROUPS_PER_REQUEST + 1)]
    async with cluster(node) as bootstrap, Client(bootstrap) as client:
        assert [*await describe_groups(client, names)] == names
    assert count(node, "FindCoordinator") == 2
    assert count(node, "DescribeGroups") == GROUPS_PER_REQUEST // GROUPS_PER_ANSWER + 1


async def test_only_a_group_that_moves_is_asked_for_again() -> None:
    node = StubNode(1)
    asked: list[list[str]] = []

    def answer(request: Any) -> DescribeGroupsResponse:
        asked.append(request.groups)
        found = as_stable(request)
        if len(asked) == 1:
            found.groups[1].error_code = NOT_COORDINATOR
        return found

    node.answers["DescribeGroups"] = answer
    async with cluster(node) as bootstrap, Client(bootstrap) as client:
        assert [*await describe_groups(client, ["a", "b", "c"])] == ["a", "b", "c"]
    assert asked == [["a", "b", "c"], ["b"]]


async def test_groups_that_stay_without_a_coordinator_are_an_error_after_the_timeout() -> None:
    node = StubNode(1)
    node.answers["FindCoordinator"] = lambda asked: FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
            for key in asked.coordinator_keys
        ]
    )
    told = r"^FindCoordinator: COORDINATOR_NOT_AVAILABLE \(group 'a' and 1 more\)$"
    async with cluster(node) as bootstrap, Client(bootstrap, request_timeout_ms=1000) as client:
        with pytest.raises(CallFailed, match=told):
            await describe_groups(client, ["a", "b"])


async def test_a_group_that_its_server_cannot_serve_is_refused_at_once() -> None:
    node = StubNode(1)
    why = f"partition 7 of __consumer_offsets is not served: {STATUS_HINT}"
    node.answers["FindCoordinator"] = lambda asked: FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, error_message=why)
            for key in asked.coordinator_keys
        ]
    )
    async with cluster(node) as bootstrap, Client(bootstrap) as client:
        with pytest.raises(CallFailed, match=r"group 'a': partition 7 .* `groupkeeper status`"):
            await describe_groups(client, ["a"])
    assert count(node, "FindCoordinator") == 1


async def test_a_node_that_loads_is_asked_again_for_its_groups() -> None:
    node = StubNode(1)
    answers = iter([ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE])
    node.answers["ListGroups"] = lambda _: ListGroupsResponse(error_code=next(answers))
    async with cluster(node) as bootstrap, Client(bootstrap) as client:
        assert await list_groups(client) == []


async def test_a_group_that_may_not_be_described_is_named() -> None:
    node = StubNode(1)
    node.answers["DescribeGroups"] = lambda asked: DescribeGroupsResponse(
        groups=[
            DescribedGroup(group_id=each, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
            for each in asked.groups
        ]
    )
    async with cluster(node) as bootstrap, Client(bootstrap) as client:
        with pytest.raises(CallFailed, match=r"GROUP_AUTHORIZATION_FAILED \(group 'a'\)"):
            await describe_groups(client, ["a"])


@pytest.mark.parametrize(
    ("error", "state"), [(ErrorCode.GROUP_ID_NOT_FOUND, ""), (ErrorCode.NONE, "Dead")]
)
async def test_a_group_that_is_not_there_is_dead(error: ErrorCode, state: str) -> None:
    node = StubNode(1, {"ConsumerGroupDescribe": None})
    node.answers["DescribeGroups"] = lambda _: DescribeGroupsResponse(
        groups=[DescribedGroup(group_id="a", error_code=error, group_state=state)]
    )
    async with cluster(node) as bootstrap, Client(bootstrap) as client:
        assert (await describe_groups(client, ["a"]))["a"].state == "Dead"


@pytest.mark.parametrize("serves_them", [True, False])
async def test_a_group_of_the_new_protocol_is_asked_for_by_it(serves_them: bool) -> None:
    node = StubNode(1, {} if serves_them else {"ConsumerGroupDescribe": None})
    node.answers["DescribeGroups"] = lambda asked: DescribeGroupsResponse(
        groups=[
            DescribedGroup(group_id=each, error_code=ErrorCode.GROUP_ID_NOT_FOUND)
            for each in asked.groups
        ]
    )
    has = ConsumerAssignment(topic_partitions=[AssignedTopic(topic_name="t", partitions=[1, 0])])
    member = ConsumerGroupMember(
        member_id="m", member_epoch=6, assignment=has, target_assignment=ConsumerAssignment()
    )
    modern = DescribedConsumerGroup(
        group_id="a",
        group_state="Reconciling",
        group_epoch=8,
        assignment_epoch=7,
        assignor_name="uniform",
        members=[member],
    )
    missing = DescribedConsumerGroup(group_id="b", error_code=ErrorCode.GROUP_ID_NOT_FOUND)
    node.answers["ConsumerGroupDescribe"] = lambda _: ConsumerGroupDescribeResponse(
        groups=[modern, missing]
    )
    async with cluster(node) as bootstrap, Client(bootstrap) as client:
        found = await describe_groups(client, ["a", "b"])
    assert found["b"].state == "Dead"
    if serves_them:
        expected = DescribedMember("m", None, "", "", {"t": [0, 1]}, 6, {})
        assert found["a"] == GroupDescription(
            "a", 1, "Reconciling", "consumer", "uniform", [expected], 8, 7
        )
    else:
        assert found["a"].state == "Dead"


async def test_an_assignment_that_cannot_be_read_is_none() -> None:
    node = StubNode(1)
    members = [DescribedGroupMember(member_id="m", member_assignment=each) for each in (b"\0", b"")]
    node.answers["DescribeGroups"] = lambda _: DescribeGroupsResponse(
        groups=[DescribedGroup(group_id="a", protocol_type="consumer", members=members)]
    )
    async with cluster(node) as bootstrap, Client(bootstrap) as client:
        group = (await describe_groups(client, ["a"]))["a"]
    assert [each.assignment for each in group.members] == [None, {}]
    assert [each.partitions for each in group.members] == [[], []]


async def test_groups_of_several_nodes_are_listed_by_name() -> None:
    one, two = StubNode(1), StubNode(2)
    for node, names in ((one, "ca"), (two, "bc")):  # `c` moves meanwhile
        listed = [ListedGroup(group_id=each) for each in names]
        node.answers["ListGroups"] = lambda _, listed=listed: ListGroupsResponse(groups=listed)
    async with cluster(one, two) as bootstrap, Client(bootstrap) as client:
        assert [each.group_id for each in await list_groups(client)] == ["a", "b", "c"]


async def test_offsets_of_several_groups_in_one_request() -> None:
    node = StubNode(1)
    partitions = [
        OffsetFetchResponsePartitions(partition_index=0, committed_offset=7),
        OffsetFetchResponsePartitions(partition_index=1, committed_offset=-1),
    ]
    topics = [OffsetFetchResponseTopics(name="t", partitions=partitions)]
    node.answers["OffsetFetch"] = lambda asked: OffsetFetchResponse(
        groups=[OffsetFetchResponseGroup(group_id=g.group_id, topics=topics) for g in asked.groups]
    )
    async with cluster(node) as bootstrap, Client(bootstrap) as client:
        found = await committed_offsets(client, ["a", "b"])
    assert found == {each: {("t", 0): Committed(7, -1)} for each in "ab"}
    assert count(node, "OffsetFetch") == 1


async def test_brokers_that_take_one_group_a_request_are_asked_group_by_group() -> None:
    node = StubNode(1, {"FindCoordinator": (0, 3), "OffsetFetch": (0, 7)})
    partition = OffsetFetchResponsePartitions(committed_offset=7, committed_leader_epoch=2)
    topic = OffsetFetchResponseTopics(name="t", partitions=[partition])
    node.answers["OffsetFetch"] = lambda _: OffsetFetchResponse(topics=[topic])
    async with cluster(node) as bootstrap, Client(bootstrap) as client:
        found = await committed_offsets(client, ["a", "b"])
    assert found == {each: {("t", 0): Committed(7, 2)} for each in "ab"}
    assert (count(node, "FindCoordinator"), count(node, "OffsetFetch")) == (2, 2)


async def test_offsets_that_may_not_be_seen_are_an_error_with_the_group() -> None:
    node = StubNode(1, {"OffsetFetch": (0, 7)})
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    node.answers["OffsetFetch"] = lambda _: OffsetFetchResponse(error_code=code)
    async with cluster(node) as bootstrap, Client(bootstrap) as client:
        with pytest.raises(CallFailed, match=r"GROUP_AUTHORIZATION_FAILED \(group 'a'\)"):
            await committed_offsets(client, ["a"])


async def test_the_result_of_each_deletion() -> None:
    node = StubNode(1)
    results = [
        DeletableGroupResult(group_id="a"),
        DeletableGroupResult(group_id="b", error_code=ErrorCode.NON_EMPTY_GROUP),
    ]
    node.answers["DeleteGroups"] = lambda _: DeleteGroupsResponse(results=results)
    async with cluster(node) as bootstrap, Client(bootstrap) as client:
        found = await delete_groups(client, ["a", "b"])
    assert found == {"a": ErrorCode.NONE, "b": ErrorCode.NON_EMPTY_GROUP}


async def test_a_member_is_removed_with_both_of_its_ids() -> None:
    """So that a twin that took its place is not removed."""
    node = StubNode(1)
    seen: list[Any] = []

    def answer(request: Any) -> LeaveGroupResponse:
        seen.extend(request.members)
        fenced = MemberResponse(error_code=ErrorCode.FENCED_INSTANCE_ID)
        return LeaveGroupResponse(members=[fenced])

    node.answers["LeaveGroup"] = answer
    member = DescribedMember("m-1", "SAM", "client", "/10.0.0.7", {})
    async with cluster(node) as bootstrap, Client(bootstrap) as client:
        results = await remove_members(client, "g", [member], "r" * 300)
    assert results == [ErrorCode.FENCED_INSTANCE_ID]
    [left] = seen
    assert (left.member_id, left.group_instance_id, left.reason) == ("m-1", "SAM", "r" * 255)
