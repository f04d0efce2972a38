"""Decodes records of `__group_events` into typed columns: those of the table `events`, and columns
for unreadable records.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa

from groupkeeper.analytics.pipeline.output import fitting
from groupkeeper.analytics.reading.problems import Problem
from groupkeeper.analytics.schemas import TABLES
from groupkeeper.history.rows import decoded_row

_MICROSECONDS: Final = pa.timestamp("us", tz="UTC")
# Spark counts times in microseconds.
_OF_EVENT: Final = [
    field.with_type(_MICROSECONDS) if pa.types.is_timestamp(field.type) else field
    for field in TABLES["events"].schema
]
SCHEMA: Final = pa.schema(
    [
        *_OF_EVENT,
        ("value", pa.binary()),
        ("batch_position", pa.int64()),
        ("problem", pa.string()),
        ("problem_bytes", pa.int64()),
    ]
)

_LATEST_MS: Final = 2**63 // 1000 - 1
"""Latest time in Spark's range, which counts microseconds in 64 bits."""

_Row = dict[str, object]


def decode_events(
    batches: Iterable[pa.RecordBatch], names: Sequence[str] = SCHEMA.names
) -> Iterator[pa.RecordBatch]:
    """Convert batches with the columns `reading.columns.EVENT_COLUMNS` to the columns `names` of
    SCHEMA.

    `time` is the time of the record, which equals that of the event. A record that is not an event
    has `problem` and its raw value.
    """
    schema = pa.schema([SCHEMA.field(name) for name in names])
    for batch in batches:
        rows = [_row(row) for row in batch.to_pylist()]
        try:
            yield pa.RecordBatch.from_pylist(rows, schema=schema)
        except (pa.ArrowInvalid, UnicodeEncodeError):
            fit = [
                {each.name: fitting(row.get(each.name), each.type) for each in schema}
                for row in rows
            ]
            yield pa.RecordBatch.from_pylist(fit, schema=schema)


def _row(record: _Row) -> _Row:
    value, time = record.pop("value"), record.pop("timestamp_ms")
    row = record | {"time": _microseconds(time)}
    if record["problem"] is not None:
        return row | {"value": value}
    assert isinstance(value, bytes | None), "the column is binary"
    partition, offset, group = record["partition"], record["offset"], record["group"]
    key = group.encode() if isinstance(group, str) else b""
    assert isinstance(partition, int), "a record has a partition"
    assert isinstance(offset, int), "a record has an offset"
    try:
        found = decoded_row(partition, offset, key, value or b"")
    except ValueError as error:
        text = f"{Problem.BAD_VALUE.text}: {error}"
        return row | {"value": value, "problem": text}
    return found | row


def _microseconds(time: object) -> int | None:
    """Convert milliseconds; None for a time outside of Spark's range."""
    if not isinstance(time, int) or abs(time) > _LATEST_MS:
        return None
    return time * 1000
