"""Kinds of damage and gaps in a log, their messages, and which of them are harmless."""

from enum import IntEnum
from typing import Final, Self


class Problem(IntEnum):
    """A kind of problem. Up to GONE: bytes without rows; BAD_KEY and BAD_VALUE: one record; from
    COMPACTED_AWAY to REWRITTEN: only in streams. Details follow the text after a colon.
    """

    text: str
    """Empty if it is never reported."""

    def __new__(cls, number: int, text: str = "") -> Self:
        made = int.__new__(cls, number)
        made._value_ = number
        made.text = text
        return made

    NONE = 0
    TORN_TAIL = 1, "unfinished batch at the end of the log"
    TORN = 2, "batch is cut off"
    BAD_HEADER = 3, "bytes that are not a batch skipped, up to the next batch"
    BAD_CHECKSUM = 4, "batch with a wrong checksum skipped"
    OLD_MAGIC = 5, "batch of an old format (magic 0 or 1) skipped"
    BAD_RECORDS = 6, "batch whose records cannot be told apart skipped"
    GONE = 7, "segment went away before it was read"
    BAD_KEY = 8, "unreadable key"
    BAD_VALUE = 9, "unreadable value"
    BAD_OFFSET = 10, "batch whose base offset does not fit those around it skipped"
    BAD_EPOCH = 11, "leader epoch does not fit those around it, read as null"
    DUPLICATE = 12, "records that another segment holds too, read once"
    SHORTER = 13, "segment was cut off while it was read"
    UNREADABLE = 14, "file cannot be read"
    BEGINS = 15, "log does not begin at offset 0"
    COMPACTED = 16, "offsets removed by compaction between segments"
    MISSING = 17, "offsets missing between segments"
    OTHER_TASK = 18
    REMOVED = 19, "offsets removed before they were read"
    COMPACTED_AWAY = 20, "offsets compacted away before they were read"
    WITHOUT_RECORD = 21, "offsets without a record"
    DELETED = 22, "offsets deleted before they were read"
    VANISHED = 23, "log is gone"
    CUT = 24, "log ends before what was read"
    REWRITTEN = 25, "log was rewritten below what was read"
    UNKNOWN_TYPE = 26, "records of unknown types"


_HARMLESS: Final = frozenset(
    problem.text
    for problem in (
        *(Problem.TORN_TAIL, Problem.GONE, Problem.DUPLICATE, Problem.BEGINS, Problem.COMPACTED),
        *(Problem.REMOVED, Problem.COMPACTED_AWAY, Problem.UNKNOWN_TYPE),
    )
)


def is_damage(problem: str) -> bool:
    """Return whether the text of a column `problem` reports lost or wrong records, rather than a
    normal state of a log that is being written or compacted.
    """
    return problem.partition(":")[0] not in _HARMLESS
