"""The client against this server: a process of its own, with real sockets."""

import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from socket import socket

import pytest

from groupkeeper.client import CallFailed, Client
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.api_versions import ApiVersionsRequest
from groupkeeper.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from groupkeeper.protocol.messages.delete_groups import DeleteGroupsRequest
from groupkeeper.protocol.messages.describe_groups import DescribeGroupsRequest
from groupkeeper.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from groupkeeper.protocol.messages.list_groups import ListGroupsRequest
from groupkeeper.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from groupkeeper.protocol.messages.offset_fetch import OffsetFetchRequest
from groupkeeper.protocol.registry import APIS
from tests.support.coordinating import ask_coordinator
from tests.support.process import Server
from tests.support.requests import commit_request, fetch_request, join_request, sync_request


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    async with Client(server.bootstrap) as opened:
        yield opened


@pytest.fixture
def group_id() -> str:
    return f"g-{uuid.uuid4().hex[:8]}"


@pytest.fixture
async def orders(client: Client) -> str:
    topic = CreatableTopic(name="orders", num_partitions=6, replication_factor=1)
    await client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
    return "orders"


@pytest.fixture
def dead_port() -> Iterator[int]:
    """A port that nothing listens on, and nothing else can take."""
    with closing(socket()) as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


async def test_metadata_of_a_topic(client: Client, orders: str) -> None:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=orders)])
    [topic] = (await client.call(asked)).topics
    assert (topic.error_code, topic.name, len(topic.partitions)) == (0, orders, 6)
    assert topic.topic_id != bytes(16)


async def test_api_versions_has_the_oldest_header_in_a_flexible_version(client: Client) -> None:
    asked = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
    told = {each.api_key for each in (await client.call(asked)).api_keys}
    assert told == set(APIS)


async def test_offsets_are_committed_from_outside_and_fetched_in_the_version_that_fits(
    client: Client, group_id: str, orders: str
) -> None:
    offsets = {(orders, 0): 41, (orders, 5): 7}
    done = await ask_coordinator(client, commit_request(offsets, group_id), group_id)
    assert [each.error_code for each in done.topics[0].partitions] == [0, 0]

    several = await ask_coordinator(client, fetch_request(group_id), group_id)
    [group] = several.groups
    found = {
        (t.name, p.partition_index): p.committed_offset for t in group.topics for p in t.partitions
    }
    assert found == offsets

    one = OffsetFetchRequest(group_id=group_id, topics=None)
    answer = await ask_coordinator(client, one, group_id)
    assert {p.committed_offset for p in answer.topics[0].partitions} == {41, 7}
    assert answer.groups == []


async def test_a_group_is_listed_described_left_and_deleted(client: Client, group_id: str) -> None:
    join = join_request(group_id, group_instance_id="SAM")
    member = await ask_coordinator(client, join, group_id)
    plan = sync_request(member.member_id, member.generation_id, group_id, {member.member_id: b"p"})
    plan.group_instance_id = "SAM"
    await ask_coordinator(client, plan, group_id)

    listed = await client.call_each(ListGroupsRequest(states_filter=["Stable"]))
    assert group_id in {each.group_id for answer in listed.values() for each in answer.groups}
    assert list(listed) == client.nodes == [0]

    asked = DescribeGroupsRequest(groups=[group_id])
    [group] = (await ask_coordinator(client, asked, group_id)).groups
    assert (group.group_state, group.members[0].group_instance_id) == ("Stable", "SAM")

    gone = [
        MemberIdentity(group_instance_id="SAM", reason="removed by an operator"),
        MemberIdentity(group_instance_id="TIM"),
    ]
    leave = LeaveGroupRequest(group_id=group_id, members=gone)
    left = await ask_coordinator(client, leave, group_id)
    assert [each.error_code for each in left.members] == [0, ErrorCode.UNKNOWN_MEMBER_ID]

    delete = DeleteGroupsRequest(groups_names=[group_id])
    [result] = (await ask_coordinator(client, delete, group_id)).results
    assert result.error_code == 0


async def test_an_error_of_a_part_is_in_the_response(client: Client, group_id: str) -> None:
    delete = DeleteGroupsRequest(groups_names=[group_id])
    [result] = (await ask_coordinator(client, delete, group_id)).results
    assert result.error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_an_error_of_the_whole_response_is_raised_with_api_node_and_name(
    client: Client, group_id: str
) -> None:
    with pytest.raises(CallFailed, match=r"^SyncGroup to node 0: UNKNOWN_MEMBER_ID") as failed:
        await ask_coordinator(client, sync_request("m", 1, group_id), group_id)
    assert (failed.value.api, failed.value.node) == ("SyncGroup", 0)
    assert failed.value.error is ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_dead_bootstrap_server_among_two(server: Server, dead_port: int) -> None:
    for _ in range(5):  # aiokafka asks them in random order
        async with Client(f"127.0.0.1:{dead_port},{server.bootstrap}") as client:
            assert client.nodes == [0]


async def test_no_bootstrap_server_answers(dead_port: int) -> None:
    with pytest.raises(CallFailed, match=f"^Metadata: NETWORK_EXCEPTION .*{dead_port}"):
        async with Client(f"127.0.0.1:{dead_port}"):
            pass


async def test_an_unknown_node(client: Client) -> None:
    with pytest.raises(CallFailed, match=r"^ListGroups to node 7: BROKER_NOT_AVAILABLE"):
        await client.call(ListGroupsRequest(), node=7)
