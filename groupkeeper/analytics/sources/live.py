"""Decodes records of the live topics, read by Spark's own Kafka source, into the columns of the
sources over files.

    records = spark.read.format("kafka").option("assign", ...).load()
    decode_consumer_offsets(records)

docs/analytics.md lists the options that the Kafka source needs; without them it finds nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.reading.columns import EVENT_COLUMNS, SCHEMA
from groupkeeper.analytics.reading.plan import Split
from groupkeeper.analytics.reading.segments import EVENTS, OFFSETS
from groupkeeper.analytics.sources import events

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PAIR_SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
    ]
)
_AS_GIVEN: Final = ("partition", "offset", "timestamp_ms")
_OF_BATCHES: Final = ("batch_position", "leader_epoch", "producer_id", "attributes")
_NEEDED: Final = ("key", "value", "partition", "offset", "timestamp")


def decode_consumer_offsets(records: "DataFrame") -> "DataFrame":
    """Convert records of `__consumer_offsets` to the columns of the source `consumer_offsets`.
    Columns that only files have are null: batch_position, leader_epoch, producer_id, attributes,
    problem_bytes.

    `records` come from Spark's Kafka source, batch or stream. Raises AnalyticsError if a column is
    missing.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    return _pairs(records).mapInArrow(_decode_offsets, from_arrow_schema(SCHEMA))


def decode_group_events(records: "DataFrame") -> "DataFrame":
    """Convert records of `__group_events` to the columns of the source `group_events`, likewise."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return _pairs(records).mapInArrow(_decode_events, from_arrow_schema(events.SCHEMA))


def _pairs(records: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812  # its usual name

    missing = [name for name in _NEEDED if name not in records.columns]
    if missing:
        raise AnalyticsError(f"no column {', '.join(missing)}: spark.read.format('kafka') has them")
    time = F.unix_millis("timestamp").alias("timestamp_ms")
    return records.select("key", "value", "partition", "offset", time)


def _read(
    batches: Iterable[pa.RecordBatch], topic: str, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield read_pairs(batch.cast(PAIR_SCHEMA), topic, names)


def _decode_offsets(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return _read(batches, OFFSETS, SCHEMA.names)


def _decode_events(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return events.decode_events(_read(batches, EVENTS, EVENT_COLUMNS))


def read_pairs(pairs: pa.RecordBatch, topic: str, names: Sequence[str]) -> pa.RecordBatch:
    """Return a row with the columns `names` of `columns.SCHEMA` for each row of PAIR_SCHEMA."""
    from groupkeeper.analytics.reading import kernels, parser
    from groupkeeper.analytics.reading import record_kernels as fields

    rows = fields.cleared(pairs.num_rows)
    parts: list[bytes] = []
    at = 0
    for name, field in (("key", fields.KEY), ("value", fields.VALUE)):
        column = pairs.column(name)
        lengths = pc.binary_length(column).fill_null(0).to_numpy().astype(np.int64)
        is_there = pc.is_valid(column).to_numpy(zero_copy_only=False)
        starts = at + np.cumsum(lengths) - lengths
        rows[field] = np.where(is_there, starts, -1)
        rows[field + 1] = lengths
        parts += (each for each in column.to_pylist() if each)
        at += int(lengths.sum())
    rows[fields.TOMBSTONE] = rows[fields.VALUE] < 0
    buffer = np.frombuffer(b"".join(parts) or b"\0", np.uint8)
    fields.interpret(buffer, rows, int(topic == EVENTS))
    batches = np.zeros((1, kernels.BATCH_FIELDS), np.int64)
    split = Split("", 0, 0, 0, last=False, topic=topic)
    made = parser.batch_of(buffer, batches, rows, split, names)
    columns = [_column(name, made.column(name), pairs) for name in names]
    return pa.RecordBatch.from_arrays(columns, schema=made.schema)


def _column(name: str, made: pa.Array, pairs: pa.RecordBatch) -> pa.Array:
    if name in _AS_GIVEN:
        return pairs.column(name)
    return pa.nulls(len(made), made.type) if name in _OF_BATCHES else made
