"""Partitions that are copied into segment files: nothing is lost, changed or added."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from groupkeeper.client import CallFailed, Client, segment_copy
from groupkeeper.client.segment_copy import copy_partitions
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from groupkeeper.protocol.record_batch import encode_batch
from tests.client.log_node import LogNode, Place
from tests.client.stub import StubNode, cluster

T = ("t", 0)


def node_with(bases: Iterable[int], most_bytes: int = 1 << 20) -> LogNode:
    """Partition 0 of `t`, with batches of two records at these offsets."""
    node = LogNode(most_bytes=most_bytes)
    node.logs[T] = [
        (base, base + 2, encode_batch(base, 0, 1000, [(b"k", b"%d" % base), (b"k", None)]))
        for base in bases
    ]
    return node


def written(place: Path) -> dict[str, bytes]:
    return {str(each.relative_to(place)): each.read_bytes() for each in place.glob("*/*")}


def data_of(node: LogNode, place: Place = T) -> bytes:
    return b"".join(data for _, _, data in node.logs[place])


class Copy:
    """One copy of the partitions of a node, from these offsets on."""

    def __init__(self) -> None:
        self.bytes = 0
        self.gone: list[tuple[str, int]] = []

    async def of(
        self, node: StubNode, place: Path, starts: dict[Place, int], timeout_ms: int = 30_000
    ) -> None:
        def told(_: str, size: int) -> None:
            self.bytes += size

        def gone(name: str, offset: int) -> None:
            self.gone.append((name, offset))

        async with (
            cluster(node) as bootstrap,
            Client(bootstrap, request_timeout_ms=timeout_ms) as client,
        ):
            await copy_partitions(client, starts, place, told, gone)


async def test_a_log_is_one_file_of_the_same_bytes(tmp_path: Path) -> None:
    node, copy = node_with(range(0, 40, 2), most_bytes=250), Copy()
    node.logs["t", 1] = []
    await copy.of(node, tmp_path, {T: 0, ("t", 1): 0})
    assert written(tmp_path) == {
        "t-0/00000000000000000000.log": data_of(node),
        "t-1/00000000000000000000.log": b"",
    }
    assert copy.bytes == len(data_of(node))
    assert len(node.fetched) > 5


async def test_a_copy_begins_where_it_is_wanted_or_where_the_log_does(tmp_path: Path) -> None:
    node = node_with(range(4, 40, 2))
    node.starts[T] = 5
    await Copy().of(node, tmp_path / ".", {T: 0})
    assert list(written(tmp_path)) == ["t-0/00000000000000000005.log"]
    (tmp_path / "later").mkdir()
    await Copy().of(node, tmp_path / "later", {T: 36})
    assert written(tmp_path / "later") == {
        "t-0/00000000000000000036.log": b"".join(data for _, _, data in node.logs[T][-2:])
    }


async def test_what_comes_after_the_begin_is_left_out(tmp_path: Path) -> None:
    node = node_with([0, 2])
    before = data_of(node)
    served = node.answers["Fetch"]

    def grows(request: object) -> object:
        base = node.end(T)
        node.logs[T].append((base, base + 1, encode_batch(base, 0, 1000, [(b"k", b"new")])))
        return served(request)

    node.answers["Fetch"] = grows
    await Copy().of(node, tmp_path, {T: 0})
    assert written(tmp_path) == {"t-0/00000000000000000000.log": before}


async def test_offsets_of_a_file_are_less_than_2_to_31_apart(tmp_path: Path) -> None:
    """As in a log of which compaction has left little."""
    far = 2**31 + 10
    node = node_with([2, far, far + 2])
    await Copy().of(node, tmp_path, {T: 0})
    assert written(tmp_path) == {
        "t-0/00000000000000000000.log": node.logs[T][0][2],
        f"t-0/{far:020d}.log": node.logs[T][1][2] + node.logs[T][2][2],
    }


async def test_records_that_are_deleted_meanwhile_are_told(tmp_path: Path) -> None:
    node, copy = node_with(range(0, 40, 2), most_bytes=250), Copy()
    served = node.answers["Fetch"]

    def deletes(request: object) -> object:
        if len(node.fetched) == 3:
            node.starts[T] = 20
            node.logs[T] = [each for each in node.logs[T] if each[0] >= 20]
        return served(request)

    node.answers["Fetch"] = deletes
    await copy.of(node, tmp_path, {T: 0})
    assert written(tmp_path) == {"t-0/00000000000000000020.log": data_of(node)}
    assert copy.gone == [("t, partition 0", 20)]


async def test_a_log_that_is_cut_off_meanwhile_is_an_error(tmp_path: Path) -> None:
    node = node_with(range(0, 40, 2), most_bytes=250)
    served = node.answers["Fetch"]

    def cuts(request: object) -> object:
        if len(node.fetched) == 3:
            del node.logs[T][1:]
        return served(request)

    node.answers["Fetch"] = cuts
    with pytest.raises(CallFailed, match=r"t, partition 0 ends before offset \d+") as raised:
        await Copy().of(node, tmp_path, {T: 0})
    assert raised.value.error is ErrorCode.OFFSET_OUT_OF_RANGE


async def test_a_log_that_ends_before_the_wanted_offset_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CallFailed, match="t, partition 0 ends before offset 50"):
        await Copy().of(node_with([0, 2]), tmp_path, {T: 50})


async def test_leaders_that_change_are_asked_again(tmp_path: Path) -> None:
    node = node_with(range(0, 40, 2), most_bytes=250)
    node.errors[T] = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_LEADER_EPOCH]
    await Copy().of(node, tmp_path, {T: 0})
    assert written(tmp_path) == {"t-0/00000000000000000000.log": data_of(node)}


async def test_what_may_not_be_read_ends_the_copy(tmp_path: Path) -> None:
    node = node_with([0])
    node.errors[T] = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    with pytest.raises(CallFailed) as raised:
        await Copy().of(node, tmp_path, {T: 0})
    assert raised.value.error is ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_a_leader_that_has_nothing_more_is_left_after_the_timeout(tmp_path: Path) -> None:
    node = node_with([0, 2])
    answer = FetchableTopicResponse(topic="t", partitions=[PartitionData()])
    node.answers["Fetch"] = lambda _: FetchResponse(responses=[answer])
    with pytest.raises(CallFailed, match="no records arrive from offset 0 on"):
        await Copy().of(node, tmp_path, {T: 0}, timeout_ms=300)


async def test_a_partition_without_a_leader_is_named(tmp_path: Path) -> None:
    with pytest.raises(CallFailed, match=r"LEADER_NOT_AVAILABLE \(t, partition 7\)"):
        await Copy().of(node_with([0]), tmp_path, {("t", 7): 0})


async def test_few_partitions_are_read_at_a_time(tmp_path: Path) -> None:
    node = node_with([])
    places = {("t", number): 0 for number in range(3 * segment_copy.AT_ONCE)}
    for place in places:
        node.logs[place] = node_with([0, 2]).logs[T]
    under_way = most = 0
    fetch = segment_copy.PartitionReader.fetch

    async def counted(log: segment_copy.PartitionReader, start: int, wait_ms: int = 0) -> object:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        try:
            return await fetch(log, start, wait_ms)
        finally:
            under_way -= 1

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment_copy.PartitionReader, "fetch", counted)
        await Copy().of(node, tmp_path, places)
    assert most == segment_copy.AT_ONCE
    assert len(written(tmp_path)) == len(places)
