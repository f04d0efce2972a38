"""What attacks have in common: topics, groups and records to work on, and ways of sending."""

import contextlib
import http.client
import struct
from collections.abc import Iterable, Sequence
from typing import Any

from crc32c import crc32c

from groupkeeper.protocol.message import Message, key_of
from groupkeeper.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.chaos.target import MIB, Target, check
from tests.chaos.wire import Client, Stream, ask_all, dial, pump
from tests.support.codecs import response_decoder
from tests.support.requests import commit_request, create_request, join_request, sync_request
from tests.support.wire import frame

FITTING = 4 * MIB - 4096
"""Bytes of the largest request other than Produce that the server takes, headers left out."""
TOPICS_AT_ONCE = 1_000
WIDE = 9_900
"""Partitions of a topic that has as many as it can; Kafka and we allow 10,000 records a request."""
SETTLE_SETTINGS = {"group.initial.rebalance.delay.ms": "1000"}
"""So that all of `roster` are members of the first generation."""


def topics(target: Target, names: Sequence[str], partitions: int = 1) -> None:
    """Create them, as many at a time as a server allows."""
    at_once = max(1, min(TOPICS_AT_ONCE, 10_000 // (partitions + 1)))
    client = Client(target.kafka)
    for at in range(0, len(names), at_once):
        wanted = names[at : at + at_once]
        answer = client.call(4, create_request(*wanted, partitions=partitions))
        errors = {each.error_code for each in answer.topics}
        assert errors == {0}, f"CreateTopics: errors {errors}"
    client.close()


def committed(target: Target, groups: Iterable[str], places: dict[tuple[str, int], int]) -> None:
    """Groups that have offsets and no members."""
    frames = [frame(7, commit_request(places, group)) for group in groups]
    answered = ask_all(target.kafka, frames, connections=50, seconds=100.0)
    assert answered == len(frames), f"{answered} of {len(frames)} commits answered"


def produce(name: str, records: bytes, partitions: int = 1, acks: int = -1) -> ProduceRequest:
    """The same batch to each of the first partitions of a topic."""
    data = [PartitionProduceData(index=index, records=records) for index in range(partitions)]
    return ProduceRequest(
        acks=acks, timeout_ms=30_000, topic_data=[TopicProduceData(name=name, partition_data=data)]
    )


def store(target: Target, name: str, batches: Iterable[bytes]) -> None:
    """Produce batches to the first partition of a topic, one after another."""
    client = Client(target.kafka)
    for batch in batches:
        answer = client.call(7, produce(name, batch))
        error = answer.responses[0].partition_responses[0].error_code
        assert error == 0, f"Produce: error {error}"
    client.close()


def promising(batch: bytes, timestamp: int) -> bytes:
    """The batch with a header that promises a record of this time, which it does not have."""
    made = bytearray(batch)
    struct.pack_into(">q", made, 35, timestamp)
    struct.pack_into(">I", made, 17, crc32c(bytes(made[21:])))
    return bytes(made)


def roster(
    target: Target, group_id: str, count: int, session_ms: int = 60_000
) -> list[tuple[Client, str]]:
    """A Stable group of so many members, each with a connection: (connection, member id).

    Needs `SETTLE_SETTINGS`.
    """
    clients = [Client(target.kafka) for _ in range(count)]
    request = join_request(group_id, session_timeout_ms=session_ms)
    joined = _answers(clients, 3, [request] * count)
    members = [answer.member_id for answer in joined]
    generations = {answer.generation_id for answer in joined}
    assert len(generations) == 1, f"members of generations {generations}"
    generation = generations.pop()
    shares = dict.fromkeys(members, b"share")
    plans = [shares if answer.leader == answer.member_id else {} for answer in joined]
    syncs = [
        sync_request(who, generation, group_id, plan)
        for who, plan in zip(members, plans, strict=True)
    ]
    assert {each.error_code for each in _answers(clients, 3, syncs)} == {0}
    return list(zip(clients, members, strict=True))


def _answers(clients: list[Client], version: int, requests: Sequence[Message]) -> list[Any]:
    """One answer to each of the requests, one on each connection, all at the same time."""
    bodies: list[list[bytes]] = [[] for _ in clients]
    streams = [
        Stream(client.socket, frame(version, request), 1, body.append)
        for client, request, body in zip(clients, requests, bodies, strict=True)
    ]
    assert pump(streams, 60.0), "not all were answered"
    for client in clients:
        client.socket.setblocking(True)
    decode = response_decoder(key_of(type(requests[0])), version)
    return [decode(body[0], 0, len(body[0]))[1] for body in bodies]


def deliver(target: Target, data: bytes, answers: int, seconds: float = 45.0) -> Stream:
    """Send all of it on one connection and read until everything is answered.

    Raises Complaint if neither that nor the end of the connection came in time.
    """
    stream = Stream(dial(target.kafka), data, answers)
    over = pump([stream], seconds)
    stream.socket.close()
    check(over, f"{stream.answers} of {answers} answers after {seconds:.0f} s")
    return stream


def outcome(stream: Stream) -> str:
    """What became of it, in words."""
    if stream.closed and not stream.answers:
        return "refused"
    size = f"{stream.received / 1e6:.1f} MB" if stream.received > 50_000 else "answered"
    return size + (", then closed" if stream.closed else "")


def each_of(target: Target, **requests: bytes) -> str:
    """Deliver single requests one after another; what became of each."""
    return ", ".join(
        f"{name.replace('_', ' ')}: {outcome(deliver(target, data, 1))}"
        for name, data in requests.items()
    )


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def fetch_page(target: Target, path: str, seconds: float) -> int:
    """The status of a page of the HTTP port; 0 if there is none in that time."""
    connection = http.client.HTTPConnection(*target.http, timeout=seconds)
    with contextlib.closing(connection):
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0
