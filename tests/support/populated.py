"""A cluster with groups of every kind, for what looks at groups. Works on any broker.

    python -m tests.support.populated BOOTSTRAP [--modern]

joins the members of the groups, prints a line when all groups are stable, and leaves when its
standard input ends.
"""

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from threading import Timer
from typing import Any

from confluent_kafka import Consumer

from groupkeeper.client import Client
from groupkeeper.client.groups import STABLE, GroupDescription, describe_groups
from groupkeeper.client.partitions import LATEST, list_offsets
from groupkeeper.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from groupkeeper.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from groupkeeper.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from groupkeeper.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from groupkeeper.protocol.record_batch import encode_batch
from tests.support.coordinating import ask_coordinator
from tests.support.process import ROOT
from tests.support.requests import commit_request, sync_request

PARCELS, RECEIPTS = "parcels", "receipts"
PARTITIONS = {PARCELS: 4, RECEIPTS: 1}
RECORDS = 10
"""In each partition, each in a batch of its own: ten seconds ago to one second ago."""
START = 4
"""Where the log of `receipts` begins."""
EMPTIED, PAIR, STATIC, IDLE, WORKERS = "emptied", "pair", "static", "idle", "connect-sink"
MODERN = "modern"
OFFSETS = {
    EMPTIED: {(PARCELS, 0): 3, (PARCELS, 1): RECORDS, (RECEIPTS, 0): 1},
    PAIR: {(PARCELS, each): 2 + each for each in range(4)} | {(RECEIPTS, 0): 5},
    STATIC: {(RECEIPTS, 0): RECORDS},
}
"""What groups have committed; `receipts` below the start of its log."""
_WAIT_S = 30.0
"""For one group to be stable."""
_READY_S = 150.0
"""For all groups."""
_CLOSE_S = 10.0
"""For all members to leave."""
_WORKER_SESSION_MS = 300_000
"""Connect's worker sends no heartbeats here."""


@contextlib.contextmanager
def populated(bootstrap: str, now_ms: int, *, modern: bool = False) -> Iterator[None]:
    """Topics whose records were made just before `now_ms`, and these groups, while it is entered:

    `emptied` has offsets and no members; `pair` two members that share `parcels`; `static` two
    static members, of which one has the only partition of `receipts`; `idle` a member and no
    offsets; `connect-sink` a worker of Kafka Connect. With `modern` there is `modern`, too, a group
    of the new protocol (KIP-848) with one member.
    """
    asyncio.run(_prepare(bootstrap, now_ms))
    command = [sys.executable, "-m", "tests.support.populated", bootstrap]
    with _child([*command, "--modern"] if modern else command):
        yield


@contextlib.contextmanager
def _child(command: list[str]) -> Iterator[None]:
    """The members in a process of their own, which can be killed: librdkafka may never return from
    the close of a consumer that has an assignment it was not polled for.
    """
    child = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin is not None
    assert child.stdout is not None
    too_long = Timer(_READY_S, child.kill)
    too_long.start()
    try:
        line = child.stdout.readline()
        too_long.cancel()
        assert line, f"{command} ended, or was killed after {_READY_S} s"
        yield
    finally:
        too_long.cancel()
        child.stdin.close()
        try:
            child.wait(_CLOSE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        child.stdout.close()


def _hold_members(bootstrap: str, *, modern: bool) -> None:
    """Join the members of all groups, and leave when standard input ends."""
    groups = [
        (PAIR, PARCELS, ("one", "two")),
        (STATIC, RECEIPTS, ("static-a", "static-b")),
        (IDLE, RECEIPTS, ("three",)),
    ]
    with contextlib.ExitStack() as stack:
        for group, topic, names in [*groups, (MODERN, PARCELS, ("four",))][: 4 if modern else 3]:
            members = [_member(bootstrap, group, topic, name) for name in names]
            for each in members:
                stack.callback(each.close)
            _settle(bootstrap, group, members)
        print("stable", flush=True)
        sys.stdin.read()


def _member(bootstrap: str, group: str, topic: str, name: str) -> Consumer:
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "client.id": name,
        "enable.auto.commit": False,
        "max.poll.interval.ms": 3_600_000,  # nobody polls while tests look at the groups
    }
    if group == MODERN:
        settings["group.protocol"] = "consumer"
    if name.startswith("static"):
        settings["group.instance.id"] = name
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    return consumer


def _settle(bootstrap: str, group: str, members: list[Consumer]) -> None:
    """Poll until all of them are members of a stable group."""
    until = time.monotonic() + _WAIT_S
    while True:
        for each in members:
            each.poll(0.05)
        found = asyncio.run(_describe(bootstrap, group))
        if found.state == STABLE and len(found.members) == len(members):
            for each in members:
                each.poll(0.2)  # lets it take its assignment over
            return
        assert time.monotonic() < until, f"{group} is {found.state} with {found.members}"


async def _describe(bootstrap: str, group: str) -> GroupDescription:
    async with Client(bootstrap) as client:
        return (await describe_groups(client, [group]))[group]


async def _prepare(bootstrap: str, now_ms: int) -> None:
    async with Client(bootstrap) as client:
        await _make_topics(client, now_ms)
        await _start_worker(client)
    for group, offsets in OFFSETS.items():
        await commit(bootstrap, group, offsets)


async def commit(bootstrap: str, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Commit for a group without members."""
    async with Client(bootstrap) as client:
        answer = await ask_coordinator(client, commit_request(offsets, group), group)
    codes = [each.error_code for one in answer.topics for each in one.partitions]
    assert not any(codes), codes


async def _make_topics(client: Client, now_ms: int) -> None:
    topics = [
        CreatableTopic(name=name, num_partitions=count, replication_factor=1)
        for name, count in PARTITIONS.items()
    ]
    await client.call(CreateTopicsRequest(topics=topics, timeout_ms=10_000))
    await _await_leaders(client)
    for age in range(RECORDS, 0, -1):
        await _produce(client, encode_batch(0, -1, now_ms - 1000 * age, [(b"k", b"v")]))
    part = DeleteRecordsPartition(partition_index=0, offset=START)
    moved = DeleteRecordsTopic(name=RECEIPTS, partitions=[part])
    await client.call(DeleteRecordsRequest(topics=[moved], timeout_ms=10_000))


async def _await_leaders(client: Client) -> None:
    """Metadata may name a leader before it leads."""
    partitions = [(name, each) for name, count in PARTITIONS.items() for each in range(count)]
    ends = await list_offsets(client, partitions, LATEST)
    assert [*ends.values()] == [0] * len(partitions), ends


async def _produce(client: Client, batch: bytes) -> None:
    topics = [
        TopicProduceData(
            name=name,
            partition_data=[
                PartitionProduceData(index=each, records=batch) for each in range(count)
            ],
        )
        for name, count in PARTITIONS.items()
    ]
    request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=topics)
    answer = await client.call(request)
    codes = [each.error_code for one in answer.responses for each in one.partition_responses]
    assert not any(codes), codes


async def _start_worker(client: Client) -> None:
    """A static member, which needs no second JoinGroup for its id."""
    protocol = JoinGroupRequestProtocol(name="sessioned", metadata=b"\0\1")
    join = JoinGroupRequest(
        group_id=WORKERS,
        group_instance_id="worker",
        protocol_type="connect",
        protocols=[protocol],
        session_timeout_ms=_WORKER_SESSION_MS,
        rebalance_timeout_ms=_WORKER_SESSION_MS,
    )
    joined = await ask_coordinator(client, join, WORKERS)
    plan = {joined.member_id: b"\0\1work"}
    sync = sync_request(joined.member_id, joined.generation_id, WORKERS, plan)
    sync.group_instance_id, sync.protocol_type, sync.protocol_name = (
        "worker",
        "connect",
        "sessioned",
    )
    await ask_coordinator(client, sync, WORKERS)


if __name__ == "__main__":
    _hold_members(sys.argv[1], modern="--modern" in sys.argv[2:])
