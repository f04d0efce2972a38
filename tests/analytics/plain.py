"""Records of batches in plain Python, with the project's codec: the compiled kernels are compared
with it.
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple

import pyarrow as pa

from groupkeeper.analytics.reading.columns import (
    GROUP_KEY_TYPE,
    NO_EPOCH,
    OFFSET_KEY_TYPES,
    SCHEMA,
    LostBytes,
    problem_rows,
)
from groupkeeper.analytics.reading.plan import Split
from groupkeeper.analytics.reading.problems import Problem
from groupkeeper.analytics.reading.segments import EVENTS
from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.record_batch import (
    BatchHeader,
    CorruptBatch,
    Record,
    decode_records,
    read_header,
)
from groupkeeper.protocol.records.consumer_offsets import (
    OffsetCommitKey,
    UnknownKey,
    decode_key,
    decode_offset_value,
)

_ROWS: Final = 10_000
_INT16: Final = Struct(">h")

Row = dict[str, object]


class Line(NamedTuple):
    """A batch, or bytes that are none, at `position` of a split. `epoch` is NO_EPOCH if the leader
    epoch is not to be believed.
    """

    position: int
    problem: int
    size: int
    epoch: int


def read_lines(buffer: bytes, split: Split, lines: Iterable[Line]) -> Iterator[pa.RecordBatch]:
    """Wanted rows of the batches at `lines`, then those about damage."""
    for batch in _read_lines(buffer, split, lines):
        wanted = batch.filter(split.selection.mask(batch)) if split.selection.columns else batch
        if wanted.num_rows:
            yield wanted


def _read_lines(buffer: bytes, split: Split, lines: Iterable[Line]) -> Iterator[pa.RecordBatch]:
    rows: list[Row] = []
    looked_at: list[Line] = []
    for each in lines:
        line = each
        if not line.problem:
            header = read_header(buffer, line.position)
            try:
                records = list(decode_records(buffer, header))
            except CorruptBatch:
                line = line._replace(problem=Problem.BAD_RECORDS)
            else:
                rows += [_row(record, header, line, split) for record in records]
        looked_at.append(line)
        if len(rows) >= _ROWS:
            yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
            rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    problems = list(lost(looked_at))
    if problems:
        yield problem_rows(split, problems)


def lost(lines: Iterable[Line]) -> Iterator[LostBytes]:
    """What `problem_rows` takes."""
    for line in lines:
        if line.problem and line.problem != Problem.OTHER_TASK:
            yield line.position, line.problem, line.size
        elif not line.problem and line.epoch == NO_EPOCH:
            yield line.position, Problem.BAD_EPOCH, 0


def _row(record: Record, header: BatchHeader, line: Line, split: Split) -> Row:
    row: Row = {
        "partition": split.partition,
        "batch_position": split.start + header.position,
        "offset": _int64(record.offset),
        "timestamp_ms": _int64(record.timestamp_ms),
        "leader_epoch": None if line.epoch == NO_EPOCH else header.leader_epoch,
        "producer_id": header.producer_id,
        "attributes": header.attributes,
        "tombstone": record.value is None,
        "key": record.key,
        "value": record.value,
    }
    if split.topic == EVENTS:
        read_event_key(row, record.key)
    elif not header.is_control:
        read_key(row, record.key)
    return row


def _int64(number: int) -> int:
    """The number wrapped to 64 bits, as Java does: an absurd timestamp must not stop the parser."""
    return (number + 2**63) % 2**64 - 2**63


def read_key(row: Row, key: bytes | None) -> None:
    """Fill the columns that are in the key of an offsets log, and in the value of a commit."""
    if key is None or len(key) < _INT16.size:
        row["problem"] = Problem.BAD_KEY.text
        return
    row["key_type"] = kind = _INT16.unpack_from(key)[0]
    if kind not in (*OFFSET_KEY_TYPES, GROUP_KEY_TYPE):
        row["group"] = _group_of_other_key(key) if kind >= 0 else None
        return
    try:
        decoded = decode_key(key)
    except DecodeError:
        row["problem"] = Problem.BAD_KEY.text
        return
    assert not isinstance(decoded, UnknownKey), "types 0 to 2 are known"
    row["key"] = None
    row["group"] = decoded.group
    if isinstance(decoded, OffsetCommitKey):
        row["topic"], row["topic_partition"] = decoded.topic, decoded.partition
        _read_offset_value(row)


def read_event_key(row: Row, key: bytes | None) -> None:
    """The group in UTF-8; empty for events of the partition itself."""
    try:
        if key is None:
            raise ValueError
        row["group"] = key.decode() or None
    except ValueError:
        row["problem"] = Problem.BAD_KEY.text


def _group_of_other_key(key: bytes) -> str | None:
    """Keys of types 3 to 24 begin with the group id; None if the key does not fit that."""
    if len(key) < 4:
        return None
    length = _INT16.unpack_from(key, 2)[0]
    if not 0 <= length <= len(key) - 4:
        return None
    try:
        return key[4 : 4 + length].decode()
    except UnicodeDecodeError:
        return None


def _read_offset_value(row: Row) -> None:
    data = row["value"]
    if not isinstance(data, bytes):
        return
    try:
        value = decode_offset_value(data)
    except DecodeError:
        row["problem"] = Problem.BAD_VALUE.text
        return
    row["value"] = None
    row["committed_offset"] = value.offset
    row["commit_leader_epoch"] = value.leader_epoch
    row["commit_timestamp_ms"] = value.commit_timestamp
    row["metadata"] = value.metadata


def read_plainly(pairs: pa.RecordBatch, topic: str) -> pa.RecordBatch:
    """As `sources.live.read_pairs`, with all columns."""
    read = read_event_key if topic == EVENTS else read_key
    rows = []
    for pair in pairs.to_pylist():
        row = pair | {"tombstone": pair["value"] is None}
        read(row, pair["key"])
        rows.append(row)
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
