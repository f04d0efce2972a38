"""Parses segment bytes into Arrow record batches, one row per record, with compiled kernels.

A window of batches has about a hundred thousand records, which bounds memory use. Compressed
batches are first decompressed behind the window's bytes, so the kernels see only plain records.

The file may be truncated by a broker, or replaced by compaction, between planning and reading.
Replaced offsets are read again from the files that hold them now.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.reading import files, kernels
from groupkeeper.analytics.reading import record_kernels as fields
from groupkeeper.analytics.reading.columns import (
    NO_EPOCH,
    SCHEMA,
    LostBytes,
    note_rows,
    problem_rows,
    text_rows,
)
from groupkeeper.analytics.reading.compiled import ByteArray, Int64Array
from groupkeeper.analytics.reading.plan import Split, cut
from groupkeeper.analytics.reading.problems import Problem
from groupkeeper.analytics.reading.segments import EVENTS, cover, log_files_in, segment_file
from groupkeeper.analytics.reading.walk import disagreeing
from groupkeeper.protocol.compression import DecompressionError, decompress
from groupkeeper.protocol.record_batch import DECOMPRESSED_LIMIT

_OFFSET_SIZE: Final = 8
_ATTEMPTS: Final = 3
"""How often to look again for bytes that compaction moves meanwhile."""
WINDOW_RECORDS: Final = 100_000
_WINDOW_BATCHES: Final = 32_768
_CODEC: Final = 0x07

_STRINGS: Final = {
    "group": fields.GROUP,
    "topic": fields.TOPIC,
    "metadata": fields.METADATA,
    "key": fields.KEY,
    "value": fields.VALUE,
}
_OF_BATCH: Final = {"producer_id": kernels.PRODUCER_ID, "attributes": kernels.ATTRIBUTES}
_NUMBERS: Final = {
    "offset": fields.OFFSET,
    "timestamp_ms": fields.TIMESTAMP,
    "key_type": fields.KEY_TYPE,
    "topic_partition": fields.TOPIC_PARTITION,
    "committed_offset": fields.COMMITTED,
    "commit_leader_epoch": fields.COMMIT_EPOCH,
    "commit_timestamp_ms": fields.COMMIT_TIMESTAMP,
}

_Mask = npt.NDArray[np.bool_]


def parse_split(split: Split, names: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """See `reading.parse_split`."""
    names = names or SCHEMA.names
    if split.notes:
        yield note_rows(split).select(names)
    for part, buffer in _buffers(split, _ATTEMPTS):
        if isinstance(buffer, bytes):
            yield from parse(buffer, part, names)
        else:
            yield text_rows(part, [buffer]).select(names)


def parse(
    buffer: bytes, split: Split, names: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """See `reading.parse`."""
    names = names or SCHEMA.names
    view = np.frombuffer(buffer, np.uint8)
    table = _batches(view, split)
    # Records up to each batch; a window ends where they exceed another WINDOW_RECORDS.
    records = np.cumsum(table[:, kernels.COUNT])
    start = 0
    room = np.empty(0, np.int64)
    while start < len(table):
        before = int(records[start] - table[start, kernels.COUNT])
        end = int(np.searchsorted(records, before + WINDOW_RECORDS)) + 1
        batches = table[start : min(end, start + _WINDOW_BATCHES)]
        working, batches = _unfold(buffer, view, batches)
        start += len(batches)
        rows, room = _rows(int(batches[:, kernels.COUNT].sum()), room)
        count = fields.read_records(working, batches, rows, int(split.topic == EVENTS))
        rows = rows[:, :count]
        if count and split.selection.columns:
            asked = batch_of(working, batches, rows, split, split.selection.columns)
            wanted = split.selection.mask(asked).to_numpy(zero_copy_only=False)
            rows = np.ascontiguousarray(rows[:, wanted])
        if rows.size:
            yield batch_of(working, batches, rows, split, names)
        if problems := [*_lost(batches)]:
            yield problem_rows(split, problems).select(names)


def _rows(count: int, room: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return a record table in `room`, a buffer reused by every window, and the buffer."""
    size = count * fields.RECORD_FIELDS
    if size > len(room):
        room = np.empty(size, np.int64)
    return room[:size].reshape(fields.RECORD_FIELDS, count), room


def _batches(view: ByteArray, split: Split) -> Int64Array:
    """Return the batch table of the whole split."""
    tables = []
    state = np.zeros(2, np.int64)
    while state[0] < len(view):
        part = np.empty((_WINDOW_BATCHES, kernels.BATCH_FIELDS), np.int64)
        used = kernels.walk(view, split.first, split.until, state, part)
        tables.append(part[:used].copy())
    table = np.concatenate(tables) if tables else np.empty((0, kernels.BATCH_FIELDS), np.int64)
    spans = table[:, kernels.LAST_DELTA] + 1
    problems, epochs = table[:, kernels.PROBLEM], table[:, kernels.LEADER_EPOCH]
    settle(problems, table[:, kernels.BASE_OFFSET], spans, epochs, split)
    table[table[:, kernels.PROBLEM] != 0, kernels.COUNT] = 0
    return table


def settle(
    problems: Int64Array, bases: Int64Array, spans: Int64Array, epochs: Int64Array, split: Split
) -> None:
    """Decide which batches of a split count: offsets must rise, and each is read only once.

    Sets `problems` (0: none so far) of batches whose base offset is impossible or that are read
    from another segment, and replaces impossible leader epochs. `spans` are numbers of offsets.
    """
    _check_offsets(problems, bases, spans, split)
    sound = np.flatnonzero(problems == 0)
    if np.any(np.diff(epochs[sound]) < 0) or np.any(epochs[sound] < -1):
        wrong = disagreeing(epochs[sound].tolist(), -1, 2**31)
        epochs[sound[wrong]] = NO_EPOCH
    first, until = split.only
    problems[(problems == 0) & ((bases < first) | (bases >= until))] = Problem.OTHER_TASK
    for first, until in split.elsewhere:
        problems[(problems == 0) & (bases >= first) & (bases < until)] = Problem.DUPLICATE


def _check_offsets(
    problems: Int64Array, bases: Int64Array, spans: Int64Array, split: Split
) -> None:
    sound = np.flatnonzero(problems == 0)
    if not len(sound):
        return
    of_sound = spans[sound]
    # Offsets unused before each batch: see walk.rooms.
    rooms = bases[sound] - (np.cumsum(of_sound) - of_sound)
    highest = split.until - int(of_sound.sum())
    if rooms[0] < split.first or rooms[-1] > highest or np.any(np.diff(rooms) < 0):
        problems[sound[disagreeing(rooms.tolist(), split.first, highest)]] = Problem.BAD_OFFSET


def _lost(batches: Int64Array) -> Iterator[LostBytes]:
    """Yield the arguments of `problem_rows`."""
    told = (batches[:, kernels.PROBLEM] != 0) | (batches[:, kernels.LEADER_EPOCH] == NO_EPOCH)
    names = (kernels.POSITION, kernels.PROBLEM, kernels.SIZE)
    for position, problem, size in batches[told][:, names].tolist():
        if not problem:
            yield position, Problem.BAD_EPOCH, 0
        elif problem != Problem.OTHER_TASK:
            yield position, problem, size


def _unfold(buffer: bytes, view: ByteArray, batches: Int64Array) -> tuple[ByteArray, Int64Array]:
    """Decompress batches. Returns a buffer with all records, and the batches, fewer than given if
    DECOMPRESSED_LIMIT was reached.

    RECORDS and RECORDS_END of compressed batches then point to the decompressed records.
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


def batch_of(
    working: ByteArray, batches: Int64Array, rows: Int64Array, split: Split, names: Sequence[str]
) -> pa.RecordBatch:
    """Return the columns `names` of a record table; its strings are in `working`."""
    columns = [_column(name, working, batches, rows, split) for name in names]
    schema = pa.schema([SCHEMA.field(name) for name in names])
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(
    name: str, working: ByteArray, batches: Int64Array, rows: Int64Array, split: Split
) -> pa.Array:
    """Return one column of SCHEMA, from the record table or from the batch of each record."""
    of_batch = rows[fields.BATCH]
    valid: _Mask | None = None
    match name:
        case "group" | "topic" | "metadata" | "key" | "value":
            field = _STRINGS[name]
            return _strings(name, working, rows[field], rows[field + 1])
        case "partition":
            values = np.full(len(of_batch), split.partition)
        case "batch_position":
            values = batches[of_batch, kernels.POSITION] + split.start
        case "leader_epoch":
            values = batches[of_batch, kernels.LEADER_EPOCH]
            valid = values != NO_EPOCH
        case "producer_id" | "attributes":
            values = batches[of_batch, _OF_BATCH[name]]
        case "tombstone":
            return pa.array(rows[fields.TOMBSTONE] == 1)
        case "problem":
            return _problems(rows[fields.PROBLEM])
        case "problem_bytes":
            return pa.nulls(len(of_batch), pa.int64())
        case _:
            values = rows[_NUMBERS[name]]
            valid = _valid(name, rows)
    return _numbers(name, values, valid)


def _valid(name: str, rows: Int64Array) -> _Mask | None:
    valid: _Mask | None = None
    if name == "key_type":
        valid = rows[fields.KEY_TYPE] != fields.NO_TYPE
    elif name == "topic_partition":
        valid = rows[fields.TOPIC] >= 0
    elif name.startswith("commit"):
        valid = rows[fields.METADATA] >= 0
    return valid


def _problems(codes: Int64Array) -> pa.Array:
    if not codes.any():
        return pa.nulls(len(codes), pa.string())
    texts = [Problem(code).text if code else None for code in codes.tolist()]
    return pa.array(texts, pa.string())


def _numbers(name: str, values: Int64Array, valid: _Mask | None = None) -> pa.Array:
    kind = SCHEMA.field(name).type
    data = np.ascontiguousarray(values.astype(kind.to_pandas_dtype()))
    return pa.Array.from_buffers(kind, len(data), [_bitmap(valid), pa.py_buffer(data)])


def _strings(name: str, working: ByteArray, starts: Int64Array, lengths: Int64Array) -> pa.Array:
    """Return a string or binary column. The kernels have checked that strings are UTF-8."""
    offsets = np.empty(len(starts) + 1, np.int32)
    data = np.empty(kernels.string_offsets(starts, lengths, offsets), np.uint8)
    kernels.gather(working, starts, lengths, data)
    buffers = [_bitmap(starts >= 0), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(SCHEMA.field(name).type, len(starts), buffers)


def _bitmap(valid: _Mask | None) -> pa.Buffer | None:
    if valid is None or valid.all():
        return None
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


# -- the bytes of a split --------------------------------------------------------------------------


def _buffers(split: Split, attempts: int) -> Iterator[tuple[Split, bytes | tuple[int, str, int]]]:
    """Yield parts to parse with their bytes, or with a row about missing bytes."""
    try:
        path = files.place(split.path)
        with path.open("rb") as file:
            identity = files.identity(path, file)
            file.seek(split.start)
            buffer = file.read(split.size)
    except FileNotFoundError:
        yield from _read_again(split, attempts)
        return
    except OSError as error:
        text = f"{Problem.UNREADABLE.text}: {files.one_line(error)}"
        yield split, (split.start, text, split.size)
        return
    if _is_replaced(split, identity, buffer):
        yield from _read_again(split, attempts)
        return
    yield replace(split, last=split.last and len(buffer) == split.size), buffer
    if len(buffer) < split.size:
        missing = split.size - len(buffer)
        yield split, (split.start + len(buffer), Problem.SHORTER.text, missing)


def _is_replaced(split: Split, identity: tuple[int, int], buffer: bytes) -> bool:
    """Return whether the file is not the planned one, or has new content (inodes are reused)."""
    if split.identity == (0, 0):
        return False
    if split.identity != identity:
        return True
    base = int.from_bytes(buffer[:_OFFSET_SIZE], "big")
    return split.start > 0 and len(buffer) >= _OFFSET_SIZE and base != split.first


def _read_again(
    split: Split, attempts: int
) -> Iterator[tuple[Split, bytes | tuple[int, str, int]]]:
    """Read the offsets of the split from the segments that are in its folder now."""
    path = files.place(split.path)
    gone = split, (split.start, Problem.GONE.text, split.size)
    try:
        there = log_files_in(path.parent)
        found = [segment_file(file, split.partition, split.topic) for file in there]
    except AnalyticsError:
        found = []
    covered = list(cover([segment for segment in found if segment]))
    only = max(split.first, split.only[0]), min(split.until, split.only[1])
    parts = [
        replace(part, notes=(), only=only, selection=split.selection)
        for each in covered
        for part in cut(each, max(split.size, 1), last=split.last and each is covered[-1])
        if part.first < split.until and part.until > split.first
    ]
    if not parts or not attempts:
        yield gone
    for part in parts if attempts else ():
        yield from _buffers(part, attempts - 1)
