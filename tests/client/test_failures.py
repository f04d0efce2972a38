"""The client against nodes that are older, move groups, or do not answer as they should."""

import asyncio
from collections.abc import Callable
from contextlib import closing
from socket import socket
from typing import Any

import pytest
from aiokafka.client import AIOKafkaClient

from groupkeeper.client import CallFailed, Client, NotKafka
from groupkeeper.client import client as client_module
from groupkeeper.client.greeting import speaks_http
from groupkeeper.observe.http_server import HttpServer
from groupkeeper.protocol.messages.api_versions import ApiVersionsRequest
from groupkeeper.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from groupkeeper.protocol.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from groupkeeper.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from tests.client.stub import HANG_UP, KNOWN, SILENCE, StubNode, cluster


def group_list(*names: str) -> Callable[[Any], ListGroupsResponse]:
    return lambda _: ListGroupsResponse(groups=[ListedGroup(group_id=name) for name in names])


async def test_every_node_is_asked() -> None:
    one, two = StubNode(1), StubNode(2)
    one.answers["ListGroups"] = group_list("a", "b")
    two.answers["ListGroups"] = group_list("c")
    async with cluster(one, two) as bootstrap, Client(bootstrap) as client:
        answers = await client.call_each(ListGroupsRequest())
    found = {node: [each.group_id for each in told.groups] for node, told in answers.items()}
    assert found == {1: ["a", "b"], 2: ["c"]}


async def test_a_client_apart_has_a_second_connection_to_a_node() -> None:
    node = StubNode(1)
    node.answers["ListGroups"] = group_list("a")
    async with cluster(node) as bootstrap, Client(bootstrap) as client:
        await client.call(ListGroupsRequest(), node=1)
        before = len(node._connections)
        for _ in range(2):
            await client.apart().call(ListGroupsRequest(), node=1)
        assert len(node._connections) == before + 1
        await client.call(ListGroupsRequest(), node=1)
        assert len(node._connections) == before + 1


async def test_a_request_to_any_node_passes_over_one_that_is_dead() -> None:
    one, two = StubNode(1), StubNode(2)
    two.answers["ListGroups"] = group_list("c")
    async with cluster(one, two) as bootstrap, Client(bootstrap) as client:
        await one.stop()
        assert (await client.call(ListGroupsRequest())).groups[0].group_id == "c"


async def test_a_node_that_is_not_known_is_not_available() -> None:
    async with cluster(StubNode(1)) as bootstrap, Client(bootstrap) as client:
        with pytest.raises(CallFailed, match=r"^ListGroups to node 7: BROKER_NOT_AVAILABLE"):
            await client.call(ListGroupsRequest(), node=7)


async def test_one_bootstrap_server_is_enough() -> None:
    with closing(socket()) as held:  # nothing listens on its port, and nothing else can take it
        held.bind(("127.0.0.1", 0))
        dead = f"127.0.0.1:{held.getsockname()[1]}"
        async with cluster(StubNode(1)) as bootstrap:
            for _ in range(5):  # aiokafka asks them in random order
                async with Client(f"{dead},{bootstrap}") as client:
                    assert client.nodes == [1]
        with pytest.raises(CallFailed, match=f"^Metadata: NETWORK_EXCEPTION .*{dead[-5:]}"):
            async with Client(dead):
                pass


async def test_api_versions_has_the_oldest_header_in_a_flexible_version() -> None:
    asked = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
    async with cluster(StubNode(1)) as bootstrap, Client(bootstrap) as client:
        told = {each.api_key for each in (await client.call(asked)).api_keys}
    assert told == set(KNOWN)


async def test_no_node_can_be_reached() -> None:
    one, two = StubNode(1), StubNode(2)
    async with cluster(one, two) as bootstrap, Client(bootstrap) as client:
        await one.stop()
        await two.stop()
        with pytest.raises(CallFailed, match=r"^ListGroups: BROKER_NOT_AVAILABLE"):
            await client.call(ListGroupsRequest())


@pytest.mark.parametrize(
    ("request_", "versions", "chosen"),
    [
        (ListGroupsRequest(), (0, 99), 5),
        (ListGroupsRequest(), (0, 3), 3),
        (ListGroupsRequest(states_filter=["Stable"]), (0, 4), 4),
        (OffsetFetchRequest(group_id="g"), (0, 9), 7),
        (OffsetFetchRequest(group_id="g", topics=None), (0, 3), 3),
        (OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g")]), (0, 8), 8),
    ],
)
async def test_the_newest_version_that_carries_the_request(
    request_: object, versions: tuple[int, int], chosen: int
) -> None:
    api = type(request_).__name__.removesuffix("Request")
    node = StubNode(1, {api: versions})
    node.answers = {
        **node.answers,
        "ListGroups": group_list(),
        "OffsetFetch": lambda _: OffsetFetchResponse(),
    }
    async with cluster(node) as bootstrap, Client(bootstrap) as client:
        await client.call(request_)
    assert (api, chosen) in node.asked


@pytest.mark.parametrize(
    ("request_", "versions"),
    [
        (ListGroupsRequest(states_filter=["Stable"]), (0, 3)),
        (OffsetFetchRequest(group_id="g", topics=None), (0, 1)),
        (LeaveGroupRequest(group_id="g", members=[MemberIdentity(reason="why")]), (0, 4)),
        (ListGroupsRequest(), (6, 9)),
    ],
)
async def test_a_node_that_is_too_old_or_too_new(
    request_: object, versions: tuple[int, int]
) -> None:
    api = type(request_).__name__.removesuffix("Request")
    low, high = versions
    told = rf"^{api} to node 1: UNSUPPORTED_VERSION \(the node supports versions {low} to {high}, "
    async with cluster(StubNode(1, {api: versions})) as bootstrap, Client(bootstrap) as client:
        with pytest.raises(CallFailed, match=told):
            await client.call(request_)


async def test_an_api_that_the_node_does_not_have() -> None:
    node = StubNode(1, {"ListGroups": None})
    async with cluster(node) as bootstrap, Client(bootstrap) as client:
        with pytest.raises(
            CallFailed, match=r"UNSUPPORTED_VERSION \(the node does not have this API"
        ):
            await client.call(ListGroupsRequest())


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (HANG_UP, r"NETWORK_EXCEPTION \(Connection at 127.0.0.1:\d+ closed\)"),
        (SILENCE, "REQUEST_TIMED_OUT$"),
        (b"\0\0\0\0\0", "NETWORK_EXCEPTION .ListGroupsResponse"),
        (ListGroupsResponse(error_code=15), "COORDINATOR_NOT_AVAILABLE$"),
        (ListGroupsResponse(error_code=999), r"UNKNOWN_SERVER_ERROR \(error 999\)"),
    ],
)
async def test_a_node_that_fails_to_answer(answer: object, told: str) -> None:
    node = StubNode(1)
    node.answers["ListGroups"] = lambda _: answer
    async with cluster(node) as bootstrap, Client(bootstrap, request_timeout_ms=1000) as client:
        with pytest.raises(CallFailed, match=f"^ListGroups to node 1: {told}"):
            await client.call(ListGroupsRequest(), node=1)
        node.answers["ListGroups"] = group_list("a")
        assert (await client.call(ListGroupsRequest(), node=1)).groups[0].group_id == "a"


async def test_nothing_of_a_closed_client_is_left() -> None:
    node = StubNode(1)
    node.answers["ListGroups"] = group_list()
    before = asyncio.all_tasks()
    async with cluster(node) as bootstrap:
        async with Client(bootstrap) as client:
            await client.call(ListGroupsRequest())
        await asyncio.sleep(0)
        ours = {task for task in asyncio.all_tasks() - before if "StubNode" not in repr(task)}
        assert not ours


async def test_parameters_of_sasl_and_tls_reach_aiokafka(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, object] = {}

    class Recorder(AIOKafkaClient):
        def __init__(self, **parameters: object) -> None:
            given.update(parameters)
            super().__init__(**parameters)

        async def bootstrap(self) -> None:
            """Nothing listens."""

    monkeypatch.setattr("groupkeeper.client.client.AIOKafkaClient", Recorder)
    security = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "lea",
        "sasl_plain_password": "secret",
    }
    async with Client("kafka.example:9093", request_timeout_ms=5000, **security):
        pass
    settings = {"client_id": "groupkeeper", "request_timeout_ms": 5000}
    assert given == {"bootstrap_servers": "kafka.example:9093"} | settings | security


async def test_security_parameters_that_do_not_fit_together() -> None:
    with pytest.raises(ValueError, match="ssl_context"):
        async with Client("kafka.example:9093", security_protocol="SSL"):
            pass


async def test_an_http_port_is_no_node_and_is_told_before_a_request_times_out() -> None:
    server = HttpServer({})
    host, port = await server.start(("127.0.0.1", 0))
    try:
        with pytest.raises(NotKafka, match=f"^{host}:{port}$"):
            async with Client(f"{host}:{port}", request_timeout_ms=600_000):
                pass
    finally:
        await server.close()


async def test_a_node_that_is_slow_at_first_is_no_http_port(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_module, "SOON_S", 0)
    async with cluster(StubNode(1)) as bootstrap:
        host, _, port = bootstrap.partition(":")
        assert not await speaks_http(host, int(port))
        async with Client(bootstrap) as client:
            assert client.nodes == [1]


async def test_nothing_speaks_http_where_nothing_listens() -> None:
    assert not await speaks_http("127.0.0.1", 1)
