"""Records that came over the wire, not from segments: keys and values, read as those of a log.

Nothing is known of their batches then: position, leader epoch, producer and attributes are null.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from groupkeeper.analytics.reading import plain
from groupkeeper.analytics.reading.parse import SCHEMA
from groupkeeper.analytics.reading.plan import Split
from groupkeeper.analytics.reading.segments import EVENTS

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


def read_pairs(pairs: pa.RecordBatch, topic: str, names: Sequence[str]) -> pa.RecordBatch:
    """Rows with the columns `names` of `columns.SCHEMA`, one for each row of PAIR_SCHEMA."""
    return _read_fast(pairs, topic, names) or read_plainly(pairs, topic).select(names)


def read_plainly(pairs: pa.RecordBatch, topic: str) -> pa.RecordBatch:
    """The same in plain Python, with all columns."""
    read = plain.read_event_key if topic == EVENTS else plain.read_key
    rows = []
    for pair in pairs.to_pylist():
        row = pair | {"tombstone": pair["value"] is None}
        read(row, pair["key"])
        rows.append(row)
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def _read_fast(pairs: pa.RecordBatch, topic: str, names: Sequence[str]) -> pa.RecordBatch | None:
    """None if the plain parser has to read them: see `record_kernels.UNSURE`."""
    from groupkeeper.analytics.reading import kernels, numba_engine
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
    if fields.interpret(buffer, rows, int(topic == EVENTS)) < 0:
        return None
    batches = np.zeros((1, kernels.BATCH_FIELDS), np.int64)
    split = Split("", 0, 0, 0, last=False, topic=topic)
    made = numba_engine.batch_of(buffer, batches, rows, split, names)
    columns = [_column(name, made.column(name), pairs) for name in names]
    return pa.RecordBatch.from_arrays(columns, schema=made.schema)


def _column(name: str, made: pa.Array, pairs: pa.RecordBatch) -> pa.Array:
    if name in _AS_GIVEN:
        return pairs.column(name)
    return pa.nulls(len(made), made.type) if name in _OF_BATCHES else made
