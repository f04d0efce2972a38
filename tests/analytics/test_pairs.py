"""Keys and values that came over the wire: the same columns as those of a segment."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.reading import parse
from groupkeeper.analytics.reading.columns import CONTROL, EVENT_COLUMNS, SCHEMA
from groupkeeper.analytics.reading.plan import Split
from groupkeeper.analytics.reading.segments import EVENTS, OFFSETS
from groupkeeper.analytics.sources.live import (
    PAIR_SCHEMA,
    decode_consumer_offsets,
    decode_group_events,
    read_pairs,
)
from groupkeeper.protocol.record_batch import decode_records, iter_batches
from tests.analytics.logs import NOW, group, varied
from tests.analytics.plain import read_plainly
from tests.analytics.test_events_log import LOG as EVENTS_LOG
from tests.analytics.test_events_log import event

LOG = b"".join(varied())
UNKNOWN = ("batch_position", "leader_epoch", "producer_id", "attributes")


def pairs(data):
    rows = [
        (record.key, record.value, 3, record.offset, record.timestamp_ms)
        for header in iter_batches(data)
        if not header.attributes & CONTROL
        for record in decode_records(data, header)
    ]
    made = [dict(zip(PAIR_SCHEMA.names, row, strict=True)) for row in rows]
    return pa.RecordBatch.from_pylist(made, schema=PAIR_SCHEMA)


def of_segment(data, topic, names):
    split = Split("", 3, 0, len(data), last=True, topic=topic)
    found = [row for batch in parse(data, split) for row in batch.to_pylist()]
    found = [row | dict.fromkeys(UNKNOWN) for row in found if not row["attributes"] & CONTROL]
    return [{name: row[name] for name in names} for row in found]


@pytest.mark.parametrize(
    ("topic", "data", "names"), [(OFFSETS, LOG, SCHEMA.names), (EVENTS, EVENTS_LOG, EVENT_COLUMNS)]
)
def test_pairs_have_the_columns_of_a_segment(topic, data, names):
    expected = of_segment(data, topic, names)
    whole = pairs(data)
    assert read_pairs(whole, topic, names).to_pylist() == expected
    assert read_pairs(whole.slice(2, 3), topic, names).to_pylist() == expected[2:5]
    few = ["group", "partition"]
    assert read_pairs(whole, topic, few).to_pylist() == [
        {name: row[name] for name in few} for row in expected
    ]


def test_no_pairs_are_no_rows():
    assert read_pairs(pairs(b""), OFFSETS, SCHEMA.names).num_rows == 0


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    st.none() | st.binary(max_size=30), st.none() | st.binary(max_size=60), st.sampled_from([0, 1])
)
def test_any_pair_is_seen_alike(key, value, number):
    topic = (OFFSETS, EVENTS)[number]
    pair = dict(zip(PAIR_SCHEMA.names, (key, value, 1, 2, 3), strict=True))
    batch = pa.RecordBatch.from_pylist([pair], schema=PAIR_SCHEMA)
    fast = read_pairs(batch, topic, SCHEMA.names)
    assert fast.to_pylist() == read_plainly(batch, topic).to_pylist()


TEXTS = st.sampled_from(
    (b"g", b"\xc3\xbc", b"\xff", b"\xe2\x82", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80")
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.integers(0, 6), TEXTS, TEXTS, st.integers(0, 4), TEXTS, st.sampled_from([0, 1]))
def test_text_that_is_not_utf_8_is_seen_alike(
    kind, group_id, topic_name, version, metadata, number
):
    texts = [len(each).to_bytes(2, "big") + each for each in (group_id, topic_name)]
    key = b"\0" + bytes([kind]) + b"".join(texts[: 2 if kind < 2 else 1]) + bytes(4 * (kind < 2))
    size = (
        (len(metadata) + 1).to_bytes(1, "big") if version == 4 else len(metadata).to_bytes(2, "big")
    )
    value = b"\0" + bytes([version]) + bytes(12 if version > 2 else 8) + size + metadata
    value += bytes({1: 16, 4: 9}.get(version, 8))
    topic = (OFFSETS, EVENTS)[number]
    pair = dict(
        zip(PAIR_SCHEMA.names, (key if number == 0 else group_id, value, 1, 2, 3), strict=True)
    )
    batch = pa.RecordBatch.from_pylist([pair], schema=PAIR_SCHEMA)
    fast = read_pairs(batch, topic, SCHEMA.names)
    assert fast.to_pylist() == read_plainly(batch, topic).to_pylist()


def test_another_table_than_kafkas_is_refused():
    with pytest.raises(AnalyticsError, match=r"no column key, timestamp: spark\.read\.format"):
        decode_group_events(SimpleNamespace(columns=["value", "partition", "offset"]))


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_records_of_sparks_kafka_source_are_decoded(spark):
    columns = "key binary, value binary, topic string, partition int, offset bigint, "
    columns += "timestamp timestamp"
    time = datetime.fromtimestamp(NOW / 1000, UTC)
    rows = [(*pair, "any", 3, at, time) for at, pair in enumerate([group("g", 1, "m"), event("g")])]
    fetched = spark.createDataFrame(rows, columns)
    found = decode_consumer_offsets(fetched.where("offset = 0")).head()
    assert (found["group"], found["timestamp_ms"], found["key_type"]) == ("g", NOW, 2)
    assert found.__fields__ == SCHEMA.names
    (told,) = decode_group_events(fetched.where("offset = 1")).collect()
    assert (told["group"], told["type"], told["partition"]) == ("g", "group_created", 3)
