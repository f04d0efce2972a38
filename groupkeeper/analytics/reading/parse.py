"""Parses bytes of segments into Arrow record batches: one row per record.

for split in chunk:
    for batch in parse_split(split): ...

The file may change between planning and reading: a broker truncates it, or compaction replaces it.
What it replaced is read again by offsets, from the files that are there then.

docs/analytics.md describes each column. Rows about damage have `problem` and `problem_bytes` and no
offset.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from groupkeeper.analytics.errors import AnalyticsError
from groupkeeper.analytics.reading import files
from groupkeeper.analytics.reading.plan import Split, cut
from groupkeeper.analytics.reading.problems import Problem
from groupkeeper.analytics.reading.segments import cover, log_files_in, segment_file

Lost = tuple[int, int, int]
"""Position in the split, Problem, number of bytes that gave no rows."""

# Spark rejects batches whose types differ from these.
SCHEMA: Final = pa.schema(
    [
        ("partition", pa.int32()),
        ("batch_position", pa.int64()),
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("producer_id", pa.int64()),
        ("attributes", pa.int16()),
        ("key_type", pa.int16()),
        ("group", pa.string()),
        ("topic", pa.string()),
        ("topic_partition", pa.int32()),
        ("committed_offset", pa.int64()),
        ("commit_leader_epoch", pa.int32()),
        ("commit_timestamp_ms", pa.int64()),
        ("metadata", pa.string()),
        ("tombstone", pa.bool_()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("problem", pa.string()),
        ("problem_bytes", pa.int64()),
    ]
)

EVENT_COLUMNS: Final = (
    *("partition", "batch_position", "offset", "timestamp_ms", "leader_epoch", "group"),
    *("tombstone", "value", "problem", "problem_bytes"),
)
"""Those of records of `__group_events`, whose values the parser does not decode. The group is that
of the key, null for events of the partition itself; a key that is null or no UTF-8 is a problem."""

NO_EPOCH: Final = -(2**31) - 1
"""In the place of a leader epoch that is not to be believed: no int32."""
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
OFFSET_KEY_TYPES: Final = (0, 1)
GROUP_KEY_TYPE: Final = 2
_OFFSET_SIZE: Final = 8
_ATTEMPTS: Final = 3
"""How often bytes are looked for that compaction moves again and again."""


def parse(
    buffer: bytes, split: Split, names: Sequence[str] = SCHEMA.names
) -> Iterator[pa.RecordBatch]:
    """The rows of `buffer`, which holds the bytes of `split` and starts with a batch, with the
    columns `names` of `groupkeeper.analytics.reading.parse`.

    Damaged bytes raise nothing: they become rows with `problem` and `problem_bytes`.
    """
    # Loading its kernels takes half a second, and compiling them the first time 20.
    from groupkeeper.analytics.reading import numba_engine

    return numba_engine.read(buffer, split, names)


def parse_split(split: Split, names: Sequence[str] = SCHEMA.names) -> Iterator[pa.RecordBatch]:
    """The rows of one split, read from its file. What cannot be read, or is gone, is a row."""
    if split.notes:
        yield note_rows(split).select(names)
    for part, buffer in _buffers(split, _ATTEMPTS):
        if isinstance(buffer, bytes):
            yield from parse(buffer, part, names)
        else:
            yield text_rows(part, [buffer]).select(names)


def _buffers(split: Split, attempts: int) -> Iterator[tuple[Split, bytes | tuple[int, str, int]]]:
    """What to parse, with its bytes, or a row about bytes that are not there."""
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
    """Whether this is not the file that was planned, or not its content: inodes are used again."""
    if split.identity == (0, 0):
        return False
    if split.identity != identity:
        return True
    base = int.from_bytes(buffer[:_OFFSET_SIZE], "big")
    return split.start > 0 and len(buffer) >= _OFFSET_SIZE and base != split.first


def _read_again(
    split: Split, attempts: int
) -> Iterator[tuple[Split, bytes | tuple[int, str, int]]]:
    """The offsets of the split, from the segments that are in its folder now."""
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


def problem_rows(split: Split, problems: Iterable[Lost]) -> pa.RecordBatch:
    """Rows for bytes without records. Neighbours of DUPLICATE are one row.

    A batch that is cut off at the end of the log counts as TORN_TAIL: it is still being written.
    """
    merged: list[Lost] = []
    for each in problems:
        before = merged[-1] if merged else None
        if (
            before
            and each[1] == before[1] == Problem.DUPLICATE
            and each[0] == before[0] + before[2]
        ):
            merged[-1] = (before[0], before[1], before[2] + each[2])
        else:
            merged.append(each)
    return text_rows(
        split,
        [
            (split.start + position, _text(Problem(problem), split), size)
            for position, problem, size in merged
        ],
    )


def _text(problem: Problem, split: Split) -> str:
    is_tail = problem == Problem.TORN and split.last
    return (Problem.TORN_TAIL if is_tail else problem).text


def note_rows(split: Split) -> pa.RecordBatch:
    """Rows for the offsets that the plan did not find in any segment."""
    return text_rows(
        split,
        [
            (split.start, f"{kind.text}: {first} to {until - 1} are not there", None)
            for kind, first, until in split.notes
        ],
    )


def text_rows(split: Split, rows: Iterable[tuple[int | None, str, int | None]]) -> pa.RecordBatch:
    """Rows about damage: position in the file, text, and number of bytes without records."""
    return pa.RecordBatch.from_pylist(
        [
            {
                "partition": split.partition,
                "batch_position": position,
                "tombstone": False,
                "problem": text,
                "problem_bytes": size,
            }
            for position, text, size in rows
        ],
        schema=SCHEMA,
    )
