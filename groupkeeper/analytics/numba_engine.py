"""The fast parser: compiled kernels over windows of batches. Gives the same rows as `reference`.

A window has about a hundred thousand records, so memory use is bounded. Compressed batches are
first decompressed behind the bytes of the window, so the kernels only see plain records. A window
with a string that is not UTF-8 goes to the reference parser.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from groupkeeper.analytics import kernels, reference
from groupkeeper.analytics import record_kernels as fields
from groupkeeper.analytics.columns import PROBLEM_TEXTS, SCHEMA, Problem, problem_rows
from groupkeeper.analytics.compiled import ByteArray, Int64Array
from groupkeeper.analytics.plan import Split
from groupkeeper.protocol.compression import DecompressionError, decompress
from groupkeeper.protocol.record_batch import DECOMPRESSED_LIMIT

WINDOW_RECORDS: Final = 100_000
_WINDOW_BATCHES: Final = 32_768
_CODEC: Final = 0x07

Mask = npt.NDArray[np.bool_]


def read(buffer: bytes, split: Split) -> Iterator[pa.RecordBatch]:
    """Rows of `buffer`, the bytes of `split`. Damaged bytes raise nothing."""
    view = np.frombuffer(buffer, np.uint8)
    table = np.zeros((_WINDOW_BATCHES, kernels.BATCH_FIELDS), np.int64)
    start = 0
    while start < len(view):
        used, end = kernels.walk(view, start, len(view), table, WINDOW_RECORDS)
        working, batches = _unfold(buffer, view, table[:used])
        if len(batches) < used:
            end = int(table[len(batches), kernels.POSITION])
        rows = np.empty((int(batches[:, kernels.COUNT].sum()), fields.RECORD_FIELDS), np.int64)
        count = fields.read_records(working, batches, rows)
        try:
            tables = list(_tables(working, batches, rows[:count], split)) if count >= 0 else None
        except pa.ArrowInvalid:
            tables = None
        yield from reference.read(buffer, split, start, end) if tables is None else tables
        start = end


def _unfold(buffer: bytes, view: ByteArray, batches: Int64Array) -> tuple[ByteArray, Int64Array]:
    """A buffer with the records of all batches decompressed, and the batches: fewer than given if
    DECOMPRESSED_LIMIT was reached.

    RECORDS and RECORDS_END of compressed batches point to the decompressed records.
    """
    parts: list[bytes] = []
    at = len(view)
    for number in np.flatnonzero(batches[:, kernels.ATTRIBUTES] & _CODEC):
        if at - len(view) > DECOMPRESSED_LIMIT:
            batches = batches[:number]
            break
        line = batches[number]
        packed = buffer[line[kernels.RECORDS] : line[kernels.RECORDS_END]]
        try:
            parts.append(
                decompress(int(line[kernels.ATTRIBUTES]) & _CODEC, packed, DECOMPRESSED_LIMIT)
            )
        except DecompressionError:
            line[kernels.PROBLEM] = Problem.BAD_RECORDS
            line[kernels.COUNT] = 0
            continue
        line[kernels.RECORDS] = at
        line[kernels.RECORDS_END] = at = at + len(parts[-1])
        # The Python function: compiling it for one call would cost more.
        kernels.check_count.py_func(line)  # type: ignore[attr-defined]  # numba adds it
    if parts:
        view = np.frombuffer(b"".join((buffer, *parts)), np.uint8)
    return view, batches


def _tables(
    working: ByteArray, batches: Int64Array, rows: Int64Array, split: Split
) -> Iterator[pa.RecordBatch]:
    """Records, then problems. Raises ArrowInvalid for bad UTF-8."""
    if len(rows):
        columns = _columns(working, batches[rows[:, fields.BATCH]], rows, split)
        yield pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)
    problems = [
        (int(line[kernels.POSITION]), int(line[kernels.PROBLEM]), int(line[kernels.SIZE]))
        for line in batches[batches[:, kernels.PROBLEM] != 0]
    ]
    if problems:
        yield problem_rows(split, problems)


def _columns(
    working: ByteArray, of_batch: Int64Array, rows: Int64Array, split: Split
) -> dict[str, pa.Array]:
    has_topic = rows[:, fields.TOPIC] >= 0
    has_commit = rows[:, fields.METADATA] >= 0
    key_type = rows[:, fields.KEY_TYPE]
    problems = rows[:, fields.PROBLEM]
    columns = {
        "partition": _numbers("partition", np.full(len(rows), split.partition)),
        "batch_position": _numbers("batch_position", of_batch[:, kernels.POSITION] + split.start),
        "offset": _numbers("offset", rows[:, fields.OFFSET]),
        "timestamp_ms": _numbers("timestamp_ms", rows[:, fields.TIMESTAMP]),
        "leader_epoch": _numbers("leader_epoch", of_batch[:, kernels.LEADER_EPOCH]),
        "producer_id": _numbers("producer_id", of_batch[:, kernels.PRODUCER_ID]),
        "attributes": _numbers("attributes", of_batch[:, kernels.ATTRIBUTES]),
        "key_type": _numbers("key_type", key_type, key_type != fields.NO_TYPE),
        "topic_partition": _numbers("topic_partition", rows[:, fields.TOPIC_PARTITION], has_topic),
        "tombstone": pa.array(rows[:, fields.TOMBSTONE] == 1),
        "problem": pa.array(
            [PROBLEM_TEXTS[Problem(code)] if code else None for code in problems.tolist()],
            pa.string(),
        )
        if problems.any()
        else pa.nulls(len(rows), pa.string()),
        "problem_bytes": pa.nulls(len(rows), pa.int64()),
    }
    for name, field in (
        ("committed_offset", fields.COMMITTED),
        ("commit_leader_epoch", fields.COMMIT_EPOCH),
        ("commit_timestamp_ms", fields.COMMIT_TIMESTAMP),
    ):
        columns[name] = _numbers(name, rows[:, field], has_commit)
    for name, field in (
        ("group", fields.GROUP),
        ("topic", fields.TOPIC),
        ("metadata", fields.METADATA),
        ("key", fields.KEY),
        ("value", fields.VALUE),
    ):
        columns[name] = _strings(name, working, rows[:, field], rows[:, field + 1])
    return columns


def _numbers(name: str, values: Int64Array, valid: Mask | None = None) -> pa.Array:
    kind = SCHEMA.field(name).type
    data = np.ascontiguousarray(values.astype(kind.to_pandas_dtype()))
    return pa.Array.from_buffers(kind, len(data), [_bitmap(valid), pa.py_buffer(data)])


def _strings(name: str, working: ByteArray, starts: Int64Array, lengths: Int64Array) -> pa.Array:
    """A string or binary column. Raises ArrowInvalid if a string is not UTF-8."""
    starts, lengths = np.ascontiguousarray(starts), np.ascontiguousarray(lengths)
    offsets = np.empty(len(starts) + 1, np.int32)
    data = np.empty(kernels.string_offsets(starts, lengths, offsets), np.uint8)
    kernels.gather(working, starts, lengths, data)
    buffers = [_bitmap(starts >= 0), pa.py_buffer(offsets), pa.py_buffer(data)]
    array = pa.Array.from_buffers(SCHEMA.field(name).type, len(starts), buffers)
    array.validate(full=True)
    return array


def _bitmap(valid: Mask | None) -> pa.Buffer | None:
    if valid is None or valid.all():
        return None
    return pa.py_buffer(np.packbits(valid, bitorder="little"))
