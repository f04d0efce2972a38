"""Several nodes: what each says of the others, and what it refuses."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from groupkeeper.protocol.messages.describe_cluster import DescribeClusterRequest
from groupkeeper.protocol.messages.describe_groups import DescribeGroupsRequest
from groupkeeper.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from groupkeeper.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from groupkeeper.protocol.messages.find_coordinator import FindCoordinatorRequest
from groupkeeper.protocol.messages.list_groups import ListGroupsRequest
from groupkeeper.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from groupkeeper.protocol.messages.metadata import MetadataRequest
from groupkeeper.protocol.messages.produce import ProduceRequest
from groupkeeper.testing import Broker, RequestFailed
from tests.support.requests import commit_request, fetch_request, heartbeat, join_request
from tests.support.wire import Client, Gone, connect
from tests.testing.members import until
from tests.testing.wired import produce_request

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
TOPICS = {"orders": 3}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(TOPICS, brokers=3) as broker:
        yield broker


def _to(broker: Broker, node: int) -> Client:
    host, port = broker.node(node).address.split(":")
    return connect((host, int(port)), timeout=60)


def _ask(broker: Broker, node: int, version: int, request: Any) -> Any:
    with _to(broker, node) as client:
        return client.call(version, request)


def _leaders(broker: Broker, node: int) -> dict[int, tuple[int, int]]:
    """Leader and epoch of the partitions of `orders`."""
    answer = _ask(broker, node, 12, MetadataRequest(topics=None))
    [orders] = [topic for topic in answer.topics if topic.name == "orders"]
    return {row.partition_index: (row.leader_id, row.leader_epoch) for row in orders.partitions}


def _other(broker: Broker, group: str) -> tuple[int, int]:
    """The coordinator of a group, and another node."""
    at = broker.coordinator(group)
    return at, (at + 1) % 3


def _errors(topics: Any, partitions: str, index: str = "partition_index") -> dict[int, int]:
    return {getattr(row, index): row.error_code for row in getattr(topics[0], partitions)}


def _produce(*partitions: int, acks: int = -1) -> ProduceRequest:
    return produce_request([("orders", each) for each in partitions], acks)


def _fetch(*partitions: int, wait_ms: int = 0, **fields: Any) -> FetchRequest:
    rows = [FetchPartition(partition=each, partition_max_bytes=1 << 20) for each in partitions]
    for row in rows:
        row.current_leader_epoch = fields.get("epoch", -1)
    topic = FetchTopic(topic="orders", partitions=rows)
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20, topics=[topic])


# -- what they say -----------------------------------------------------------------------------


def test_every_node_names_all_nodes_and_their_leaders(broker: Broker) -> None:
    addresses = broker.bootstrap_servers.split(",")
    assert addresses == [broker.node(node).address for node in range(3)]
    for node in range(3):
        answer = _ask(broker, node, 12, MetadataRequest(topics=None))
        assert [f"{each.host}:{each.port}" for each in answer.brokers] == addresses
        assert [each.node_id for each in answer.brokers] == [0, 1, 2]
        told = _ask(broker, node, 0, DescribeClusterRequest())
        assert [f"{each.host}:{each.port}" for each in told.brokers] == addresses
        assert _leaders(broker, node) == {0: (0, 0), 1: (1, 0), 2: (2, 0)}
        wanted = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name="orders")], response_partition_limit=10
        )
        rows = _ask(broker, node, 0, wanted).topics[0].partitions
        assert [(row.leader_id, row.replica_nodes) for row in rows] == [
            (0, [0, 1, 2]),
            (1, [1, 2, 0]),
            (2, [2, 0, 1]),
        ]


@pytest.mark.parametrize("version", [3, 4])
def test_the_coordinator_of_a_group_is_one_of_them(broker: Broker, version: int) -> None:
    found = set()
    for number in range(20):
        group = f"g{number}"
        request = FindCoordinatorRequest(key=group, coordinator_keys=[group])
        answer = _ask(broker, 1, version, request)
        answer = answer.coordinators[0] if version >= 4 else answer
        assert answer.node_id == broker.coordinator(group)
        assert f"{answer.host}:{answer.port}" == broker.node(answer.node_id).address
        found.add(answer.node_id)
    assert found == {0, 1, 2}


@pytest.mark.parametrize(("factor", "error"), [(3, 0), (-1, 0), (4, 38)])
def test_topics_have_as_many_replicas_as_there_are_nodes(
    broker: Broker, factor: int, error: int
) -> None:
    topic = CreatableTopic(name="new", num_partitions=1, replication_factor=factor)
    [answer] = _ask(broker, 1, 7, CreateTopicsRequest(topics=[topic], timeout_ms=5000)).topics
    assert answer.error_code == error
    if error:
        assert "only 3 broker(s)" in answer.error_message
    else:
        assert answer.replication_factor == 3


# -- what they refuse --------------------------------------------------------------------------


def test_a_node_serves_the_partitions_that_it_leads(broker: Broker) -> None:
    answer = _ask(broker, 1, 9, _produce(0, 1, 2))
    refused = {0: NOT_LEADER, 1: 0, 2: NOT_LEADER}
    assert _errors(answer.responses, "partition_responses", "index") == refused
    answer = _ask(broker, 1, 12, _fetch(0, 1, 2, wait_ms=60_000))
    assert _errors(answer.responses, "partitions") == refused
    assert [bool(row.records) for row in answer.responses[0].partitions] == [False, True, False]
    rows = [ListOffsetsPartition(partition_index=each, timestamp=-1) for each in range(3)]
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="orders", partitions=rows)])
    assert _errors(_ask(broker, 1, 5, request).topics, "partitions") == refused


def test_a_node_that_leads_nothing_of_a_request_refuses_all(broker: Broker) -> None:
    answer = _ask(broker, 1, 9, _produce(0, 2))
    assert _errors(answer.responses, "partition_responses", "index") == {0: 6, 2: 6}
    answer = _ask(broker, 1, 12, _fetch(0, wait_ms=60_000))
    assert _errors(answer.responses, "partitions") == {0: NOT_LEADER}


def test_new_versions_name_the_leader_and_its_address(broker: Broker) -> None:
    answer = _ask(broker, 1, 12, _produce(2))
    [row] = answer.responses[0].partition_responses
    assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == (2, 0)
    [endpoint] = answer.node_endpoints
    assert f"{endpoint.host}:{endpoint.port}" == broker.node(2).address


def test_produce_without_an_answer_ends_the_connection(broker: Broker) -> None:
    with _to(broker, 1) as client:
        client.send(9, _produce(2, acks=0))
        assert client.is_closed()


def test_groups_are_refused_elsewhere(broker: Broker) -> None:
    at, other = _other(broker, "g")
    commit = commit_request({("orders", 0): 7}, "g")
    for node, error in ((other, ErrorCode.NOT_COORDINATOR), (at, 0)):
        answer = _ask(broker, node, 8, commit)
        assert answer.topics[0].partitions[0].error_code == error
        assert [each.group_id for each in _ask(broker, node, 4, ListGroupsRequest()).groups] == (
            [] if error else ["g"]
        )


def test_requests_that_name_several_groups_are_served_in_part(broker: Broker) -> None:
    _, other = _other(broker, "g")
    here = next(f"g{n}" for n in range(99) if broker.coordinator(f"g{n}") == other)
    wanted = {"g": ErrorCode.NOT_COORDINATOR, here: 0}
    answer = _ask(broker, other, 8, fetch_request("g", here))
    assert {each.group_id: each.error_code for each in answer.groups} == wanted
    answer = _ask(broker, other, 4, DescribeGroupsRequest(groups=["g", here]))
    assert {each.group_id: each.error_code for each in answer.groups} == wanted
    answer = _ask(broker, other, 4, DescribeGroupsRequest(groups=["g"]))
    assert {each.group_id: each.error_code for each in answer.groups} == {"g": 16}


# -- moves -------------------------------------------------------------------------------------


def test_a_moved_partition_has_a_new_epoch_and_clients_with_the_old_one_are_fenced(
    broker: Broker,
) -> None:
    _ask(broker, 0, 9, _produce(0))
    broker.move_leader("orders", 0, to=2)
    assert _leaders(broker, 1)[0] == (2, 1)
    assert broker.leader("orders", 0) == 2
    epochs = {0: ErrorCode.FENCED_LEADER_EPOCH, 1: 0, 2: ErrorCode.UNKNOWN_LEADER_EPOCH}
    for epoch, error in epochs.items():
        answer = _ask(broker, 2, 12, _fetch(0, epoch=epoch))
        assert _errors(answer.responses, "partitions") == {0: error}
        assert bool(answer.responses[0].partitions[0].records) == (not error)
    answer = _ask(broker, 0, 12, _fetch(0, epoch=1))
    assert _errors(answer.responses, "partitions") == {0: NOT_LEADER}


def test_a_fetch_that_waits_ends_and_the_next_one_hears_of_the_new_leader(broker: Broker) -> None:
    with _to(broker, 0) as client:
        client.send(12, _fetch(0, wait_ms=60_000))
        until(lambda: bool(broker._bench.server.topics.waiting_fetches))
        broker.move_leader("orders", 0, to=1)
        assert _errors(client.take().responses, "partitions") == {0: 0}
        answer = client.call(12, _fetch(0, wait_ms=60_000))
        assert _errors(answer.responses, "partitions") == {0: NOT_LEADER}


@pytest.fixture
def patient() -> Iterator[Broker]:
    """A broker in which the first JoinGroup waits."""
    settings = {"group.initial.rebalance.delay.ms": 60_000}
    with Broker(TOPICS, brokers=3, settings=settings) as broker:
        yield broker


def test_a_coordinator_that_moves_refuses_who_waits_and_keeps_what_was_written(
    patient: Broker, capfd: pytest.CaptureFixture[str]
) -> None:
    broker = patient
    at, other = _other(broker, "g")
    _ask(broker, at, 8, commit_request({("orders", 0): 7}, "g"))
    with _to(broker, at) as client:
        client.send(9, join_request(session_timeout_ms=10_000))
        member_id = client.take().member_id
        client.send(9, join_request(member_id=member_id, session_timeout_ms=10_000))
        with _to(broker, other) as second:
            assert second.call(4, heartbeat(member_id, 1)).error_code == 16
            broker.move_coordinator("g", to=other)
            assert client.take().error_code == ErrorCode.NOT_COORDINATOR
            answer = second.call(8, fetch_request("g", topics={"orders": [0]}))
            assert answer.groups[0].topics[0].partitions[0].committed_offset == 7
    assert broker.coordinator("g") == other
    assert any(f"moves from node {at} to node {other}" in line for line in broker.logs)
    assert capfd.readouterr() == ("", "")
    broker.move_coordinator("g", to=other)
    broker.restart()
    assert broker.coordinator("g") == other


def test_a_node_that_stops_hands_over_and_comes_back_to_its_port(broker: Broker) -> None:
    two = broker.node(2)
    with _to(broker, 2) as client:
        assert client.call(4, ListGroupsRequest()).error_code == 0
        two.stop()
        with pytest.raises(Gone):
            client.call(4, ListGroupsRequest())
    assert not two.is_up
    assert len(broker.bootstrap_servers.split(",")) == 2
    host, port = two.address.split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), 1).close()
    assert _leaders(broker, 1) == {0: (0, 0), 1: (1, 0), 2: (0, 1)}
    assert _errors(_ask(broker, 0, 9, _produce(2)).responses, "partition_responses", "index") == {
        2: 0
    }
    two.stop()
    two.start()
    two.start()
    assert _leaders(broker, 2) == {0: (0, 0), 1: (1, 0), 2: (0, 1)}
    broker.move_leader("orders", 2, to=2)
    assert _leaders(broker, 2)[2] == (2, 2)


def test_topics_made_while_a_node_is_down_stay_where_they_are(broker: Broker) -> None:
    broker.node(0).stop()
    topic = CreatableTopic(name="new", num_partitions=1, replication_factor=1)
    _ask(broker, 1, 7, CreateTopicsRequest(topics=[topic], timeout_ms=5000))
    assert broker.leader("new", 0) == 1
    broker.node(0).start()
    assert broker.leader("new", 0) == 1


def test_all_nodes_run_after_a_restart_and_nothing_is_moved_after_a_reset(broker: Broker) -> None:
    before = broker.bootstrap_servers
    broker.move_leader("orders", 0, to=1)
    broker.node(2).stop()
    broker.restart()
    assert broker.bootstrap_servers == before
    assert [broker.leader("orders", each) for each in range(3)] == [1, 1, 0]
    broker.node(2).stop()
    broker.reset()
    assert broker.bootstrap_servers == before
    assert [broker.leader("orders", each) for each in range(3)] == [0, 1, 2]
    assert _leaders(broker, 2) == {0: (0, 0), 1: (1, 0), 2: (2, 0)}


def test_what_cannot_be_done_is_said() -> None:
    with pytest.raises(RequestFailed, match="brokers=0"):
        Broker(brokers=0)
    with Broker(TOPICS) as one:
        with pytest.raises(RequestFailed, match="the last running"):
            one.node(0).stop()
        with pytest.raises(RequestFailed, match="no node 1: this broker has 0 to 0"):
            one.node(1)
    with Broker(TOPICS, brokers=2) as two:
        two.node(1).stop()
        with pytest.raises(RequestFailed, match=r"node\(1\)\.start\(\)"):
            two.move_coordinator("g", to=1)
        with pytest.raises(RequestFailed, match="no partition 3 of topic 'orders'"):
            two.move_leader("orders", 3, to=0)


async def test_the_same_in_a_coroutine() -> None:
    async with Broker(TOPICS, brokers=2) as broker:
        await broker.move_coordinator("g", to=0)
        await broker.move_coordinator("g", to=1)
        await broker.move_leader("orders", 0, to=1)
        await broker.node(0).stop()
        assert broker.bootstrap_servers == broker.node(1).address
        await broker.node(0).start()
        assert len(broker.bootstrap_servers.split(",")) == 2
