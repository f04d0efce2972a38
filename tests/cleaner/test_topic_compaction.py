"""Topics with cleanup.policy=compact keep the newest record of each key; others keep all."""

from collections.abc import Callable
from typing import Any

from groupkeeper.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from groupkeeper.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from groupkeeper.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from groupkeeper.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from groupkeeper.protocol.record_batch import decode_records, encode_batch, iter_batches
from tests.simulation.cluster import START_OF_TIME_MS
from tests.support.requests import alter_topic_request, topic_configs
from tests.support.served import Client, Lines, Served

Serve = Callable[..., Served]

FAST = "log.cleaner.backoff.ms=1000"
KEYS = 5
RECORDS = 60


def create(client: Client, **configs: str) -> None:
    rows = topic_configs(**configs)
    topic = CreatableTopic(name="state", num_partitions=1, replication_factor=1, configs=rows)
    made = client.call(5, CreateTopicsRequest(topics=[topic], timeout_ms=1000))
    assert not made.topics[0].error_code, made.topics[0].error_message


def alter(client: Client, **configs: str) -> None:
    client.call(1, alter_topic_request("state", **configs))


def produce(client: Client, key: bytes, value: bytes | None, at_ms: int) -> None:
    data = PartitionProduceData(index=0, records=encode_batch(0, -1, at_ms, [(key, value)]))
    topic = TopicProduceData(name="state", partition_data=[data])
    done = client.call(9, ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]))
    assert not done.responses[0].partition_responses[0].error_code


def fill(served: Served, records: int = RECORDS, start: int = 0) -> None:
    """Records ten seconds apart: with segment.ms=1000, each begins a segment."""
    client = served.client()
    for number in range(start, start + records):
        key, at_ms = b"key %d" % (number % KEYS), START_OF_TIME_MS - 10**7 + number * 10_000
        produce(client, key, b"%d" % number, at_ms)


def fetch(client: Client, offset: int) -> Any:
    part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic="state", partitions=[part])
    request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=[topic])
    [found] = client.call(11, request).responses[0].partitions
    assert not found.error_code
    return found


def read_all(client: Client) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of all records, as a consumer reads them."""
    position, found = 0, []
    while position < fetch(client, position).high_watermark:
        data = fetch(client, position).records
        for header in iter_batches(data):
            found += [(r.offset, r.key, r.value) for r in decode_records(data, header)]
            position = header.next_offset
    return found


def test_the_newest_record_of_each_key_stays_with_its_offset(serve: Serve) -> None:
    served = serve(FAST)
    create(served.client(), cleanup_policy="compact", segment_ms="1000")
    fill(served)
    served.advance(5)
    newest = [(n, b"key %d" % (n % KEYS), b"%d" % n) for n in range(RECORDS - KEYS, RECORDS)]
    # One record more: that in the segment which takes appends has not been compared yet.
    before = [(n, b"key %d" % (n % KEYS), b"%d" % n) for n in [RECORDS - KEYS - 1]]
    assert read_all(served.client()) == [*before, *newest]
    assert served.server.metrics.cleaner.runs >= 1
    served.stop()
    served.start()
    assert read_all(served.client()) == [*before, *newest]
    fill(served, records=KEYS, start=RECORDS)
    assert len(read_all(served.client())) == 2 * KEYS + 1


def test_a_topic_that_is_not_compacted_keeps_all(serve: Serve) -> None:
    served = serve(FAST)
    create(served.client(), segment_ms="1000")
    fill(served)
    served.advance(60)
    assert len(read_all(served.client())) == RECORDS
    alter(served.client(), cleanup_policy="compact")
    served.advance(5)
    assert len(read_all(served.client())) == KEYS + 1


def test_tombstones_go_after_delete_retention_and_their_values_before(serve: Serve) -> None:
    served = serve(FAST)
    create(
        served.client(),
        cleanup_policy="compact",
        segment_ms="1000",
        delete_retention_ms="600000",
        min_cleanable_dirty_ratio="0.01",
    )
    client = served.client()
    produce(client, b"gone", b"value", START_OF_TIME_MS)
    produce(client, b"gone", None, START_OF_TIME_MS + 10_000)
    produce(client, b"other", b"value", START_OF_TIME_MS + 20_000)
    served.advance(5)
    assert [(key, value) for _, key, value in read_all(client)] == [
        (b"gone", None),
        (b"other", b"value"),
    ]
    served.advance(500)
    produce(client, b"more", b"value", START_OF_TIME_MS + 30_000)
    served.advance(5)
    assert (1, b"gone", None) in read_all(client)
    served.advance(600)
    produce(client, b"even more", b"value", START_OF_TIME_MS + 40_000)
    served.advance(5)
    assert [key for _, key, _ in read_all(client)] == [b"other", b"more", b"even more"]


def test_lags_of_the_topic_hold_compaction_back_and_force_it(serve: Serve) -> None:
    served = serve(FAST)
    create(
        served.client(),
        cleanup_policy="compact",
        segment_ms="1000",
        min_compaction_lag_ms=str(10**9),
    )
    fill(served)
    served.advance(30)
    assert len(read_all(served.client())) == RECORDS
    alter(served.client(), min_compaction_lag_ms="0", min_cleanable_dirty_ratio="1")
    served.advance(30)
    assert len(read_all(served.client())) == RECORDS
    alter(served.client(), max_compaction_lag_ms="1000")
    served.advance(30)
    assert len(read_all(served.client())) == KEYS + 1


def test_a_topic_deleted_during_its_compaction_leaves_no_files(serve: Serve, lines: Lines) -> None:
    served = serve(FAST)
    create(served.client(), cleanup_policy="compact", segment_ms="1000")
    fill(served)
    for _ in range(40):
        served.advance(0.05)
        if [n for n in served.disk.children("data/state-0") if n.endswith((".cleaned", ".swap"))]:
            break
    gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="state")], timeout_ms=1000)
    assert not served.client().call(6, gone).responses[0].error_code
    served.advance(5)
    assert not served.disk.has("data/state-0")
    assert not [line for line in lines() if line["level"] == "error"]
