"""Producing and reading: what every client writes, every offset it asks for, comes out right."""

import time
import uuid

import pytest

from tests.clients.process import Worker, wait_until
from tests.clients.scene import PARTITIONS


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_records_come_back_as_they_were_sent(client: Worker, topic: str, codec: str | None) -> None:
    sent = [[number % PARTITIONS, f"{number} " + "x" * 300, None] for number in range(120)]
    offsets = client.ask("produce", topic=topic, records=sent, compression=codec)
    client.ask("read", partitions=[[topic, number] for number in range(PARTITIONS)])
    wait_until(lambda: len(client.records) >= len(sent), [client])
    assert sorted(client.records) == sorted(
        (topic, partition, offset, value)
        for (partition, value, _), offset in zip(sent, offsets, strict=True)
    )


def test_producing_to_a_topic_creates_it(client: Worker) -> None:
    name = f"topic-{uuid.uuid4().hex[:12]}"
    last = PARTITIONS - 1
    assert client.ask("produce", topic=name, records=[[last, "first", None]]) == [0]
    client.ask("read", partitions=[[name, last]])
    wait_until(lambda: client.records == [(name, last, 0, "first")], [client])


@pytest.mark.needs("idempotence")
def test_an_idempotent_producer_writes_everything_once_in_order(client: Worker, topic: str) -> None:
    records = [[0, f"value {number}", None] for number in range(200)]
    offsets = client.ask("produce", topic=topic, records=records, idempotent=True)
    assert offsets == list(range(200))
    client.ask("read", partitions=[[topic, 0]])
    wait_until(lambda: len(client.records) >= len(records), [client])
    assert [value for *_, value in client.records] == [value for _, value, _ in records]


def test_offsets_are_found_at_the_ends_and_by_time(client: Worker, topic: str) -> None:
    now = int(time.time() * 1000)
    client.ask("produce", topic=topic, records=[[2, f"{n}", now + 1000 * n] for n in range(5)])
    client.ask("read", partitions=[[topic, 2]])
    assert client.ask("ends", partition=[topic, 2]) == [0, 5]
    assert client.ask("ends", partition=[topic, 3]) == [0, 0]
    asked = [now - 1, now, now + 1, now + 4000, now + 4001]
    found = [client.ask("offset_at", partition=[topic, 2], timestamp_ms=at) for at in asked]
    assert found == [0, 0, 1, 4, None]


def test_seek_moves_the_position_back_and_forth(client: Worker, topic: str) -> None:
    client.ask("produce", topic=topic, records=[[1, f"{n}", None] for n in range(10)])
    client.ask("read", partitions=[[topic, 1]], offset=7)
    wait_until(lambda: [offset for _, _, offset, _ in client.records] == [7, 8, 9], [client])
    client.ask("seek", partition=[topic, 1], offset=4)
    wait_until(lambda: len(client.records) >= 9, [client])
    assert [offset for _, _, offset, _ in client.records] == [7, 8, 9, 4, 5, 6, 7, 8, 9]
    assert client.ask("position", partition=[topic, 1]) == 10
