"""Records of the live topics, read by Spark's own Kafka source, as columns: those that the sources
over files have.

    records = spark.read.format("kafka").option("assign", ...).load()
    decode_consumer_offsets(records)

docs/analytics.md says which options that source needs: without them it finds nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.reading.parse import EVENT_COLUMNS, SCHEMA
from groupkeeper.analytics.reading.plain import PAIR_SCHEMA, read_pairs
from groupkeeper.analytics.reading.segments import EVENTS, OFFSETS
from groupkeeper.analytics.sources import decoded, events

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NEEDED: Final = ("key", "value", "partition", "offset", "timestamp")


def decode_consumer_offsets(records: "DataFrame", *, decode: bool = False) -> "DataFrame":
    """Records of `__consumer_offsets` -> the columns of the source `consumer_offsets`, with its
    option `decode`. What only files tell is null: batch_position, leader_epoch, producer_id,
    attributes, problem_bytes.

    `records` is of Spark's Kafka source, batch or stream. Raises AnalyticsError if a column of it
    is missing.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    pairs = _pairs(records)
    if decode:
        return pairs.mapInArrow(_decode_groups, from_arrow_schema(decoded.SCHEMA))
    return pairs.mapInArrow(_decode_offsets, from_arrow_schema(SCHEMA))


def decode_group_events(records: "DataFrame") -> "DataFrame":
    """Records of `__group_events` -> the columns of the source `group_events`, as above."""
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


def _decode_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return decoded.decode(_decode_offsets(batches))


def _decode_events(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return events.decode_events(_read(batches, EVENTS, EVENT_COLUMNS))
