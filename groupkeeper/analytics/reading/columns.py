"""The Arrow columns of a parsed log (see docs/analytics.md), and rows that report damage: those
have `problem` and `problem_bytes`, and no offset.
"""

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from groupkeeper.analytics.reading.plan import Split
from groupkeeper.analytics.reading.problems import Problem

LostBytes = tuple[int, int, int]
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
    *("value", "problem", "problem_bytes"),
)
"""Columns for records of `__group_events`, whose values the parser does not decode. The group is
the key, null for events of the partition itself; a key that is null or not UTF-8 is a problem."""

NO_EPOCH: Final = -(2**31) - 1
"""Stands for an implausible leader epoch; outside of int32."""
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
OFFSET_KEY_TYPES: Final = (0, 1)
GROUP_KEY_TYPE: Final = 2


def problem_rows(split: Split, problems: Iterable[LostBytes]) -> pa.RecordBatch:
    """Return rows for bytes without records. Adjacent DUPLICATE ranges are merged into one row.

    A batch that is cut off at the end of the log counts as TORN_TAIL: it is still being written.
    """
    merged: list[LostBytes] = []
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
    """Return rows for offsets that the plan found in no segment."""
    return text_rows(
        split,
        [
            (split.start, f"{kind.text}: {first} to {until - 1} are missing", None)
            for kind, first, until in split.notes
        ],
    )


def text_rows(split: Split, rows: Iterable[tuple[int | None, str, int | None]]) -> pa.RecordBatch:
    """Rows about damage, from position in the file, text, and number of bytes without records."""
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
