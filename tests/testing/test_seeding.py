"""Topics, records and offsets that a test sets up, and reads back."""

import re
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafkas_murmur2

from groupkeeper.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from groupkeeper.testing import Broker, BrokerDown, Record, RequestFailed
from groupkeeper.testing.partitioner import murmur2
from tests.support.requests import delete_records_request, join_request
from tests.testing.wired import dial


def _values(records: list[Record]) -> list[bytes | None]:
    return [each.value for each in records]


def test_a_record_is_read_as_it_was_given() -> None:
    with Broker(topics={"orders": 3}) as broker:
        made = broker.produce(
            "orders",
            "caf\u00e9",
            key=b"k",
            partition=2,
            headers={"trace": "7", "empty": None},
            timestamp_ms=1_234,
        )
        headers = (("trace", b"7"), ("empty", None))
        assert made == Record("orders", 2, 0, 1_234, b"k", "caf\u00e9".encode(), headers)
        assert broker.records("orders") == broker.records("orders", 2) == [made]
        assert broker.records("orders", 0) == []


def test_a_record_has_the_brokers_time_unless_it_is_given() -> None:
    with Broker(topics={"orders": 1}) as broker:
        first, second = broker.produce("orders", "a"), broker.produce("orders", None)
        assert 0 <= second.timestamp_ms - first.timestamp_ms < 60_000
        assert _values(broker.records("orders")) == [b"a", None]


def test_the_key_chooses_the_partition_and_others_take_turns() -> None:
    with Broker(topics={"orders": 3}) as broker:
        keyed = [broker.produce("orders", "v", key=key).partition for key in "abab"]
        assert keyed[:2] == keyed[2:]
        assert [broker.produce("orders", "v").partition for _ in range(4)] == [0, 1, 2, 0]
        broker.reset()
        assert [broker.produce("orders", "v").partition for _ in range(2)] == [0, 1]


@given(st.binary(max_size=30))
def test_keys_are_hashed_as_kafkas_clients_do(key: bytes) -> None:
    assert murmur2(key) == kafkas_murmur2(key) & 0xFFFFFFFF


def test_many_records_come_back_in_their_order() -> None:
    count = 40_000
    with Broker(topics={"orders": 2}) as broker:
        made = broker.produce_many("orders", (("k", f"v{n}") for n in range(count)))
        assert [each.offset for each in made] == list(range(count))
        assert broker.records("orders", made[0].partition) == made


def test_a_batch_that_is_too_large_for_the_topic_is_halved() -> None:
    with Broker() as broker:
        broker.create_topic("small", configs={"max.message.bytes": "500"})
        values = ["x" * 100] * 20
        broker.produce_many("small", values)
        assert _values(broker.records("small")) == [each.encode() for each in values]
        with pytest.raises(RequestFailed, match=r"'small'.*TOO_LARGE: .* maximum of 500"):
            broker.produce("small", "x" * 1000)


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_records_of_every_codec_are_read(codec: int) -> None:
    batch = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 100_000)
    batch.append(0, 5, b"k", b"value" * 50, [])
    data = PartitionProduceData(index=0, records=bytes(batch.build()))
    topics = [TopicProduceData(name="orders", partition_data=[data])]
    with Broker(topics={"orders": 1}) as broker, dial(broker) as client:
        client.call(9, ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics))
        assert _values(broker.records("orders")) == [b"value" * 50]


def test_records_begin_where_the_log_begins() -> None:
    with Broker(topics={"orders": 1}) as broker, dial(broker) as client:
        broker.produce_many("orders", [*"abc"])
        client.call(2, delete_records_request("orders", 0, 2))
        assert [each.offset for each in broker.records("orders")] == [2]


def test_offsets_are_committed_and_read() -> None:
    offsets = {("orders", 0): 5, ("orders", 1): 7}
    with Broker(topics={"orders": 2}) as broker:
        assert broker.committed("billing") == {}
        broker.commit("billing", offsets)
        assert broker.committed("billing") == offsets


def test_offsets_of_a_group_with_members_are_theirs() -> None:
    with Broker(topics={"orders": 1}) as broker, dial(broker) as client:
        client.call(0, join_request("billing", session_timeout_ms=10_000))
        with pytest.raises(
            RequestFailed, match="'billing' was not committed: the group has members"
        ):
            broker.commit("billing", {("orders", 0): 5})


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda b: b.produce("ordres", "x"), "topic 'ordres' does not exist: name it in topics="),
        (lambda b: b.records("ordres"), "topic 'ordres' does not exist"),
        (
            lambda b: b.produce("orders", "x", partition=2),
            "has no partition 2: it has 2, numbered from 0",
        ),
        (lambda b: b.records("orders", 2), "topic 'orders' has no partition 2"),
        (lambda b: b.produce("__consumer_offsets", "x"), "INVALID_TOPIC_EXCEPTION: Cannot append"),
        (lambda b: b.create_topic("orders"), "'orders' was not created: Topic 'orders' already"),
        (lambda b: b.create_topic("x", configs={"y": "1"}), "'x' was not created: .*y"),
        (lambda b: b.commit("g", {("ordres", 0): 1}), "ordres-0 .*: UNKNOWN_TOPIC_OR_PARTITION"),
    ],
)
def test_what_is_refused_says_what_and_why(call: Any, line: str) -> None:
    settings = {"auto.create.topics.enable": False}
    with (
        Broker(topics={"orders": 2}, settings=settings) as broker,
        pytest.raises(RequestFailed, match=line) as error,
    ):
        call(broker)
    assert "\n" not in str(error.value)


def test_a_missing_topic_is_created_where_the_settings_say_so() -> None:
    with Broker(settings={"num.partitions": 2}) as broker:
        assert broker.produce("orders", "x").partition == 0
        assert broker.produce("orders", "x").partition == 1
        with pytest.raises(RequestFailed, match="does not exist"):
            broker.records("others")


def test_what_is_no_bytes_is_refused() -> None:
    line = re.escape("a value is bytes, str or None, not dict: encode it, as with json.dumps()")
    with Broker(topics={"orders": 1}) as broker, pytest.raises(TypeError, match=line):
        broker.produce("orders", {"id": 1})  # type: ignore[arg-type]


def test_a_broker_that_does_not_run_says_so() -> None:
    broker = Broker(topics={"orders": 1})
    with pytest.raises(BrokerDown, match="start"):
        broker.produce("orders", "x")
    with pytest.raises(BrokerDown, match="start"):
        broker.committed("billing")


async def test_in_a_coroutine() -> None:
    async with Broker(topics={"orders": 1}) as broker:
        await broker.create_topic("others", 2)
        made = await broker.produce("orders", "a", key="k", headers={"h": "1"})
        more = await broker.produce_many("others", ["b", ("k", "c")], partition=1)
        assert await broker.records("orders") == [made]
        assert await broker.records("others") == more
        await broker.commit("billing", {("orders", 0): 1})
        assert await broker.committed("billing") == {("orders", 0): 1}


def test_with_log_append_time_records_have_the_time_of_the_broker() -> None:
    with Broker() as broker:
        broker.create_topic("stamped", configs={"message.timestamp.type": "LogAppendTime"})
        records = broker.produce_many("stamped", ["a", "b"], timestamp_ms=5)
        assert records == broker.records("stamped")
        assert all(record.timestamp_ms > 1_700_000_000_000 for record in records)


def test_a_record_too_far_ahead_is_refused_with_what_is_wrong() -> None:
    with Broker(topics={"orders": 1}) as broker:
        later = broker.produce("orders", "a").timestamp_ms + 7_200_000
        with pytest.raises(RequestFailed) as refused:
            broker.produce_many("orders", ["v"] * 9, partition=0, timestamp_ms=later)
    text = str(refused.value)
    assert "INVALID_TIMESTAMP: One or more records have been rejected due to invalid" in text
    assert text.count(f"Timestamp {later} of message") == 3
