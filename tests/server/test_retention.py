"""Retention in a server: when it acts, what is logged and counted, and the first start after an
upgrade.
"""

from typing import Any

from groupkeeper.observe.exposition import Exposition
from groupkeeper.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from groupkeeper.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from groupkeeper.protocol.record_batch import encode_batch
from tests.support.served import Serve, Served
from tests.support.slices import whole

INTERVAL_S = 300.0


def produce(served: Served, topic: str = "orders") -> None:
    records = encode_batch(0, -1, served.disk.wall_ms(), [(b"key", b"value")])
    data = PartitionProduceData(index=0, records=records)
    sent = TopicProduceData(name=topic, partition_data=[data])
    answer = served.client().call(9, ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[sent]))
    assert not answer.responses[0].partition_responses[0].error_code


def span(served: Served, topic: str = "orders") -> tuple[int, int]:
    """The first offset and the next one."""

    def ask(timestamp: int) -> int:
        wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=[wanted])])
        found = served.client().call(7, request).topics[0].partitions[0]
        assert not found.error_code
        return int(found.offset)

    return ask(-2), ask(-1)


def events(lines: Any, event: str) -> list[dict[str, Any]]:
    return [line for line in lines() if line["event"] == event]


def test_a_pass_comes_an_interval_after_the_start_and_after_each_other(
    serve: Serve, lines: Any
) -> None:
    served = serve("log.retention.ms=1000")
    began = served.loop.time()
    produce(served)
    served.advance(INTERVAL_S - 1)
    assert span(served) == (0, 1)
    produce(served)
    served.advance(INTERVAL_S + 5 - (served.loop.time() - began))
    assert span(served) == (0, 2), "the segment has a young record"
    served.advance(INTERVAL_S)
    assert span(served) == (2, 2)
    [line] = events(lines, "topics: segments deleted")
    assert {"partition": "orders-0", "segments": 1, "start_offset": 2}.items() <= line.items()
    assert line["bytes"] > 100
    assert line["level"] == "info"
    served.advance(INTERVAL_S)
    assert len(events(lines, "topics: segments deleted")) == 1
    page = b"".join(whole(Exposition(served.server.metrics).page())).decode().splitlines()
    assert "groupkeeper_topic_segments_deleted_total 1.0" in page


def test_the_interval_is_a_setting(serve: Serve) -> None:
    served = serve("log.retention.ms=1", "log.retention.check.interval.ms=10000")
    produce(served)
    served.advance(9)
    assert span(served) == (0, 1)
    served.advance(2)
    assert span(served) == (1, 1)


def test_a_server_that_stops_ends_its_passes(serve: Serve) -> None:
    served = serve("log.retention.ms=1", "log.retention.check.interval.ms=1")
    for _ in range(20):
        produce(served)
        served.advance(0.01)
    served.stop()
    start = span_after(served)
    assert start[1] == 20


def span_after(served: Served) -> tuple[int, int]:
    served.start()
    served.settled()
    return span(served)
