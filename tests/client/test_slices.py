"""Long responses are decoded in slices, between which the event loop does other work."""

import asyncio
from typing import Any

import pytest

from groupkeeper.client import CallFailed, Client
from groupkeeper.client.structs import RequestFrame
from groupkeeper.protocol.compile_encode import Framing
from groupkeeper.protocol.compiler import encoder
from groupkeeper.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from groupkeeper.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.client.stub import StubNode, cluster
from tests.support.work import instructions

VERSION = 12


def metadata(topics: int, partitions: int) -> MetadataResponse:
    rows = [MetadataResponsePartition(partition_index=each) for each in range(partitions)]
    return MetadataResponse(
        topics=[MetadataResponseTopic(name=f"t{each}", partitions=rows) for each in range(topics)]
    )


def longest_slice(response: MetadataResponse) -> int:
    """The most instructions in one slice; -1 if another response is decoded."""
    body = encoder(MetadataResponse, VERSION, Framing.BARE)(response)
    frame = RequestFrame(MetadataRequest(), VERSION, in_slices=True)
    slices, most = frame.RESPONSE_TYPE.decode(b"\0" + body), 0
    while True:
        try:
            _, count = instructions(next, slices)
        except StopIteration as end:
            return most if end.value == response else -1
        most = max(most, count)


@pytest.mark.parametrize(("topics", "partitions"), [(4, 2_000), (4_000, 2)])
def test_a_slice_does_not_grow_with_the_response(topics: int, partitions: int) -> None:
    few = longest_slice(metadata(2, 500))
    assert 0 < longest_slice(metadata(topics, partitions)) <= 1.5 * few


async def test_other_work_is_done_between_slices() -> None:
    node, long = StubNode(1), metadata(10, 1_000)
    async with cluster(node) as bootstrap, Client(bootstrap) as client:
        node.answers["Metadata"] = lambda _: long
        done, next_slice = 0, asyncio.sleep

        async def counted(seconds: float) -> Any:
            nonlocal done
            done += seconds == 0
            return await next_slice(seconds)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(asyncio, "sleep", counted)
            found = await client.call_in_slices(MetadataRequest())
    assert found == long
    assert done >= 10 * 1_000 / 500


async def test_errors_are_those_of_other_calls() -> None:
    node = StubNode(1)
    async with cluster(node) as bootstrap, Client(bootstrap) as client:
        node.answers["ListGroups"] = lambda _: b"\0\0\0\0\0"
        with pytest.raises(CallFailed, match=r"^ListGroups to node 1: NETWORK_EXCEPTION .ListGr"):
            await client.call_in_slices(ListGroupsRequest())
        node.answers["ListGroups"] = lambda _: ListGroupsResponse(error_code=15)
        with pytest.raises(CallFailed, match=r"^ListGroups to node 1: COORDINATOR_NOT_AVAILABLE$"):
            await client.call_in_slices(ListGroupsRequest(), node=1)
