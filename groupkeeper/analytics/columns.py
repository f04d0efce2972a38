"""Names and types of the columns that both parsers produce: one row per record.

docs/analytics.md describes each column. Rows about damage have `problem` and `problem_bytes` and no
offset.
"""

from enum import IntEnum
from typing import Final

import pyarrow as pa

from groupkeeper.analytics.plan import Split

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

TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
OFFSET_KEY_TYPES: Final = (0, 1)
GROUP_KEY_TYPE: Final = 2


class Problem(IntEnum):
    """Damage in a log. Up to GONE it concerns bytes that gave no rows, after that one record."""

    NONE = 0
    TORN_TAIL = 1
    TORN = 2
    BAD_HEADER = 3
    BAD_CHECKSUM = 4
    OLD_MAGIC = 5
    BAD_RECORDS = 6
    GONE = 7
    BAD_KEY = 8
    BAD_VALUE = 9


PROBLEM_TEXTS: Final = {
    Problem.TORN_TAIL: "unfinished batch at the end of the log",
    Problem.TORN: "batch is cut off",
    Problem.BAD_HEADER: "not a batch header, rest of the split skipped",
    Problem.BAD_CHECKSUM: "batch with a wrong checksum skipped",
    Problem.OLD_MAGIC: "batch of an old format (magic 0 or 1) skipped",
    Problem.BAD_RECORDS: "batch whose records cannot be told apart skipped",
    Problem.GONE: "segment went away before it was read",
    Problem.BAD_KEY: "unreadable key",
    Problem.BAD_VALUE: "unreadable value",
}


def problem_rows(split: Split, problems: list[tuple[int, int, int]]) -> pa.RecordBatch:
    """Rows for bytes without records, each given as (position in the split, Problem, number of
    bytes).

    A batch that is cut off at the end of the log counts as TORN_TAIL: it is still being written.
    """
    return pa.RecordBatch.from_pylist(
        [
            {
                "partition": split.partition,
                "batch_position": split.start + position,
                "tombstone": False,
                "problem": PROBLEM_TEXTS[
                    Problem.TORN_TAIL
                    if problem == Problem.TORN and split.last
                    else Problem(problem)
                ],
                "problem_bytes": size,
            }
            for position, problem, size in problems
        ],
        schema=SCHEMA,
    )
