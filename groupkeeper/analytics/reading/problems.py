"""What can be wrong in a log, the text that tells it, and which of it is harmless."""

from enum import IntEnum
from typing import Final


class Problem(IntEnum):
    """Up to GONE it concerns bytes that gave no rows; BAD_KEY and BAD_VALUE concern one record."""

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
    BAD_OFFSET = 10
    BAD_EPOCH = 11
    DUPLICATE = 12
    SHORTER = 13
    UNREADABLE = 14
    BEGINS = 15
    COMPACTED = 16
    MISSING = 17
    OTHER_TASK = 18
    REMOVED = 19
    COMPACTED_AWAY = 20
    WITHOUT_RECORD = 21
    DELETED = 22
    VANISHED = 23
    CUT = 24
    REWRITTEN = 25
    UNKNOWN_TYPE = 26


PROBLEM_TEXTS: Final = {
    Problem.TORN_TAIL: "unfinished batch at the end of the log",
    Problem.TORN: "batch is cut off",
    Problem.BAD_HEADER: "bytes that are no batch skipped, up to the next batch",
    Problem.BAD_CHECKSUM: "batch with a wrong checksum skipped",
    Problem.OLD_MAGIC: "batch of an old format (magic 0 or 1) skipped",
    Problem.BAD_RECORDS: "batch whose records cannot be told apart skipped",
    Problem.GONE: "segment went away before it was read",
    Problem.BAD_KEY: "unreadable key",
    Problem.BAD_VALUE: "unreadable value",
    Problem.BAD_OFFSET: "batch whose base offset does not fit those around it skipped",
    Problem.BAD_EPOCH: "leader epoch does not fit those around it, read as null",
    Problem.DUPLICATE: "records that another segment holds too, read once",
    Problem.SHORTER: "segment was cut off while it was read",
    Problem.UNREADABLE: "file cannot be read",
    Problem.BEGINS: "log does not begin at offset 0",
    Problem.COMPACTED: "offsets removed by compaction between segments",
    Problem.MISSING: "offsets missing between segments",
    Problem.REMOVED: "offsets removed before they were read",
    Problem.COMPACTED_AWAY: "offsets compacted away before they were read",
    Problem.WITHOUT_RECORD: "offsets without a record",
    Problem.DELETED: "offsets deleted before they were read",
    Problem.VANISHED: "log is gone",
    Problem.CUT: "log ends before what was read",
    Problem.REWRITTEN: "log was rewritten below what was read",
    Problem.UNKNOWN_TYPE: "records of unknown types",
}
"""Details follow after a colon. OTHER_TASK has none: it is never told. Those from COMPACTED_AWAY
to REWRITTEN are of streams."""

_HARMLESS: Final = frozenset(
    {Problem.TORN_TAIL, Problem.GONE, Problem.DUPLICATE, Problem.BEGINS, Problem.COMPACTED}
    | {Problem.REMOVED, Problem.COMPACTED_AWAY, Problem.UNKNOWN_TYPE}
)
HARMLESS_TEXTS: Final = frozenset(PROBLEM_TEXTS[each] for each in _HARMLESS)


def is_damage(problem: str) -> bool:
    """Whether the text of the column `problem` tells of records that are lost or wrong, and not of
    what is normal in a log that is being written or compacted.
    """
    return problem.partition(":")[0] not in HARMLESS_TEXTS
