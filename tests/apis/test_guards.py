"""Guards: what is denied is counted and logged, long requests are decided in slices, and without
an authorizer there is no guard.
"""

from collections.abc import Callable
from typing import Any

import pytest

from groupkeeper.apis.rights.client import Rights
from groupkeeper.apis.rights.guard import Guarded
from groupkeeper.apis.rights.guards import guard_of
from groupkeeper.apis.table import TABLE, Dependencies, handlers
from groupkeeper.coordinator.caller import Caller, Peer
from groupkeeper.node import Node
from groupkeeper.observe.exposition import _families
from groupkeeper.protocol.acl_codes import Operation, ResourceKind
from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.messages.describe_groups import DescribeGroupsRequest
from groupkeeper.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from groupkeeper.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from groupkeeper.protocol.messages.init_producer_id import InitProducerIdRequest
from groupkeeper.protocol.messages.list_groups import ListGroupsRequest
from groupkeeper.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from groupkeeper.protocol.messages.offset_fetch import OffsetFetchRequest
from groupkeeper.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from groupkeeper.protocol.messages.produce import ProduceRequest
from groupkeeper.settings.table import Settings, SettingsError
from tests.support.guarded import AUTHORIZER, client_of, grant, guarded, right
from tests.support.requests import commit_request, create_request, fetch_request, produce_request
from tests.support.served import Client, Lines, Served, settle
from tests.support.slices import counted
from tests.support.wire import frame

OP = Operation
TOPIC, GROUP, CLUSTER = ResourceKind.TOPIC, ResourceKind.GROUP, ResourceKind.CLUSTER
TOPIC_DENIED, GROUP_DENIED, CLUSTER_DENIED = 29, 30, 31


@pytest.fixture
def served(serve: Callable[..., Served]) -> Served:
    return guarded(serve)


def test_without_an_authorizer_handlers_are_as_they_are(serve: Callable[..., Served]) -> None:
    server = serve().server
    assert server._rights is None
    parts = server.group_partitions, server.topics, Node(0, server.address), Settings()
    for handler in handlers(Dependencies(*parts)).values():
        assert not handler.__module__.startswith("groupkeeper.apis.rights")


def test_a_super_user_that_is_no_principal_stops_the_start(serve: Callable[..., Served]) -> None:
    with pytest.raises(SettingsError, match=r"super.users: 'bob' is not Type:name"):
        serve(AUTHORIZER, "super.users=bob")


# -- rows ------------------------------------------------------------------------------------------


def test_lists_have_what_one_may_see(served: Served) -> None:
    admin, bob = served.client(), client_of(served)
    for group in ("a", "b", "c"):
        settle(admin, group)
    assert bob.call(4, ListGroupsRequest()).groups == []
    grant(served, right(OP.DESCRIBE, GROUP, "b"))
    assert [each.group_id for each in bob.call(4, ListGroupsRequest()).groups] == ["b"]
    grant(served, right(OP.DESCRIBE, CLUSTER))
    assert len(bob.call(4, ListGroupsRequest()).groups) == 3


def test_offsets_of_all_topics_are_those_that_one_may_see(served: Served) -> None:
    admin, bob = served.client(), client_of(served)
    admin.call(8, commit_request({("orders", 0): 1, ("payments", 0): 2}))
    grant(served, right(OP.DESCRIBE, GROUP, "g"), right(OP.DESCRIBE, TOPIC, "payments"))
    assert bob.fetched() == {("payments", 0): 2}
    [group] = bob.call(8, fetch_request("g", topics={"orders": [0], "payments": [0]})).groups
    assert {each.name: each.partitions[0].error_code for each in group.topics} == {
        "orders": TOPIC_DENIED,
        "payments": 0,
    }


def test_a_group_that_is_named_twice_has_two_results(served: Served) -> None:
    admin, bob = served.client(), client_of(served)
    admin.call(8, commit_request({("orders", 0): 1, ("payments", 0): 2}))
    grant(served, right(OP.DESCRIBE, GROUP, "g"), right(OP.DESCRIBE, TOPIC, "orders"))
    asked = [*fetch_request("g").groups, *fetch_request("g").groups]
    for name in ("payments", "refunds"):
        asked += fetch_request("g", topics={"orders": [0], name: [0]}).groups
    groups = bob.call(8, OffsetFetchRequest(groups=asked)).groups
    found = [{each.name: each.partitions[0].error_code for each in one.topics} for one in groups]
    whole = {"orders": 0}
    assert found == [whole, whole, whole | {"payments": 29}, whole | {"refunds": 29}]


def test_what_one_may_do_to_a_group_is_told(served: Served) -> None:
    bob = client_of(served)
    settle(served.client(), "g")
    grant(served, right(OP.READ, GROUP, "g"))
    request = DescribeGroupsRequest(groups=["g"], include_authorized_operations=True)
    [group] = bob.call(5, request).groups
    assert group.authorized_operations == 1 << OP.READ | 1 << OP.DESCRIBE


def test_a_topic_is_created_for_who_may_create_it(served: Served) -> None:
    bob = client_of(served)
    grant(served, right(OP.DESCRIBE, TOPIC, "new"))
    request = MetadataRequest(topics=[MetadataRequestTopic(name="new")])
    assert bob.call(9, request).topics[0].error_code == TOPIC_DENIED
    assert "new" not in served.server.topics.catalog.by_name
    grant(served, right(OP.CREATE, TOPIC, "new"))
    assert bob.call(9, request).topics[0].error_code == 0
    assert "new" in served.server.topics.catalog.by_name


def test_the_cluster_is_enough_to_create_topics(served: Served) -> None:
    bob = client_of(served)
    grant(served, right(OP.CREATE, CLUSTER))
    [topic] = bob.call(5, create_request("new")).topics
    assert topic.error_code == 0 and topic.topic_config_error_code == TOPIC_DENIED
    assert topic.num_partitions == -1 and topic.configs == []


def test_write_on_any_topic_is_enough_for_a_producer_id(served: Served) -> None:
    bob, request = client_of(served), InitProducerIdRequest(transactional_id=None)
    refused = bob.call(4, request)
    assert (refused.error_code, refused.producer_id) == (CLUSTER_DENIED, -1)
    grant(served, right(OP.WRITE, TOPIC, "anything"))
    assert bob.call(4, request).error_code == 0


def test_a_follower_needs_a_right_on_the_cluster(served: Served) -> None:
    bob = client_of(served)
    grant(served, right(OP.READ, TOPIC, "orders"))
    partitions = [FetchPartition(partition=0, partition_max_bytes=1000)]
    topics = [FetchTopic(topic="orders", partitions=partitions)]

    def error(replica_id: int) -> int:
        request = FetchRequest(replica_id=replica_id, max_wait_ms=0, topics=topics)
        return int(bob.call(11, request).responses[0].partitions[0].error_code)

    assert error(-1) == 0 and error(1) == TOPIC_DENIED
    grant(served, right(OP.CLUSTER_ACTION, CLUSTER))
    assert error(1) == 0


def test_a_right_on_the_cluster_stands_for_those_on_topics(served: Served) -> None:
    bob = client_of(served)
    partitions = [OffsetForLeaderPartition(partition=0, leader_epoch=0)]
    topics = [OffsetForLeaderTopic(topic="orders", partitions=partitions)]
    request = OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)
    assert bob.call(3, request).topics[0].partitions[0].error_code == TOPIC_DENIED
    grant(served, right(OP.CLUSTER_ACTION, CLUSTER))
    assert bob.call(3, request).topics[0].partitions[0].error_code == 0


# -- Produce ---------------------------------------------------------------------------------------


def test_requests_that_came_together_are_allowed_one_by_one(served: Served) -> None:
    bob = client_of(served)
    grant(served, right(OP.WRITE, TOPIC, "orders"))
    topics = ("orders", "payments", "orders", "payments")
    bob.deliver(*(bob.frame(7, produce_request(each, 0, b"v")) for each in topics))
    found = [bob.take().responses[0].partition_responses[0].error_code for _ in topics]
    assert found == [0, TOPIC_DENIED, 0, TOPIC_DENIED]
    assert served.client().span("payments") == (0, 0)


def test_what_is_denied_and_not_acknowledged_is_not_stored(served: Served) -> None:
    bob = client_of(served)
    request: ProduceRequest = produce_request("orders", 0, b"v")
    request.acks = 0
    bob.pipe.write(frame(7, request))
    grant(served, right(OP.WRITE, TOPIC, "payments"))
    answer = bob.call(7, produce_request("payments", 0, b"v"))
    assert answer.responses[0].partition_responses[0].error_code == 0
    assert served.client().span("orders") == (0, 0)


# -- long requests ---------------------------------------------------------------------------------

MANY = 20_000


def errors(client: Client, version: int, request: Any, array: str) -> list[int]:
    return [each.error_code for each in getattr(client.call(version, request), array)]


def test_long_requests_are_decided_row_by_row(served: Served) -> None:
    bob = client_of(served)
    grant(served, right(OP.DESCRIBE, GROUP, "g7"))
    groups = [f"g{at}" for at in range(MANY)]
    found = errors(bob, 4, FindCoordinatorRequest(coordinator_keys=groups), "coordinators")
    assert found == [GROUP_DENIED if each != "g7" else 0 for each in groups]
    found = errors(bob, 4, DescribeGroupsRequest(groups=groups), "groups")
    assert (found.count(GROUP_DENIED), found[-1]) == (MANY - 1, 0)
    topics = [MetadataRequestTopic(name=f"t{at}") for at in range(MANY)]
    assert set(errors(bob, 9, MetadataRequest(topics=topics), "topics")) == {TOPIC_DENIED}


def test_rows_are_decided_and_put_together_in_slices(served: Served) -> None:
    """Rows that are few are in one slice, 200 of many."""
    rights = served.server._rights
    assert rights is not None
    answer = FindCoordinatorResponse(coordinators=[Coordinator(key="g7")])
    parts = rights, served.server.topics, served.server.turns
    needs = next(row.needs for row in TABLE if row.key is ApiKey.FIND_COORDINATOR)
    grant(served, right(OP.DESCRIBE, GROUP, "g7"))

    def slices_of(count: int) -> int:
        guard = guard_of(Guarded(ApiKey.FIND_COORDINATOR, needs, lambda *_: answer, *parts))
        request = FindCoordinatorRequest(coordinator_keys=[f"g{at}" for at in range(count)])
        answer.coordinators = [Coordinator(key="g7")]
        response, slices = counted(guard(request, Caller(4, Peer(principal="User:bob")), None))
        assert len(response.coordinators) == count
        return slices

    assert slices_of(10) == 1
    assert slices_of(MANY) >= 2 * MANY / 200


# -- what is told ----------------------------------------------------------------------------------


def test_denials_are_counted(served: Served) -> None:
    bob = client_of(served)
    bob.join()
    bob.call(9, MetadataRequest(topics=[MetadataRequestTopic(name=each) for each in "abc"]))
    bob.call(9, MetadataRequest(topics=None))
    denied = served.server.metrics.denied
    assert denied == {("JoinGroup", "GROUP"): 1, ("Metadata", "TOPIC"): 3}
    families = {family.name: family for family in _families(served.server.metrics, ())}
    samples = {
        tuple(sample.labels.values()): sample.value
        for sample in families["groupkeeper_denied"].samples
    }
    assert samples == denied


def test_denials_have_one_line_a_second(served: Served, lines: Lines) -> None:
    rights = served.server._rights
    assert isinstance(rights, Rights)
    now = 100.0
    rights._seldom._seconds = lambda: now
    bob = client_of(served)
    for _ in range(3):
        bob.join()
    now += 1
    bob.join("h")
    first, second = (each for each in lines() if each["event"] == "denied")
    assert first | {"timestamp": ""} == {
        "level": "warning",
        "logger": "access",
        "event": "denied",
        "principal": "User:bob",
        "client": "/127.0.0.1",
        "client_id": first["client_id"],
        "api": "JoinGroup",
        "operation": "READ",
        "resource": "GROUP 'g'",
        "times": 1,
        "timestamp": "",
    }
    assert (second["resource"], second["times"]) == ("GROUP 'h'", 3)
