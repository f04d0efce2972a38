"""Exceptions for disk failures. Every message is one line for an operator.

Client mistakes are not covered here. A storage error closes the partition it occurred in; the
exception class tells whether reopening the partition may help.
"""

from dataclasses import dataclass
from typing import Final

ACCEPT_FILE: Final = "accept-loss"
"""An operator creates this file in the folder of a damaged log to keep what is left of it."""


def remedy(folder: str) -> str:
    """Return the advice for an operator with a damaged log."""
    return f"restore it from a backup, or keep what is left of it: groupkeeper repair {folder}"


class StorageError(Exception):
    """Base class of all storage failures. The message is one line and names the file."""


class AppendFailed(StorageError):
    """No part of the append may be acknowledged. Close the log and open it again.

    A full disk (ENOSPC, EDQUOT) also raises this: reopening the log may fail the same way until
    space is freed.
    """


class SyncFailed(AppendFailed):
    """The kernel failed to write back data it had accepted (EIO on fsync).

    The page cache can no longer be trusted, so the store refuses all further work: the process must
    exit.
    """


class DirectoryLost(SyncFailed):
    """The data directory was removed or replaced while in use.

    Anything the process still writes goes to files that no other process can find.
    """


class Corrupt(StorageError):
    """Bytes on disk are damaged or missing in a way that no crash explains.

    An operator has to repair the log; reopening it does not help.
    """


class NotCached(Exception):
    """The bytes may not be in the page cache: read them on a thread instead."""


class OffsetOutOfRange(StorageError):
    """A read before the first offset of a log or past its end."""


class Fenced(StorageError):
    """A newer owner holds the shard: nothing was written, and nothing will be."""


class LockLost(StorageError):
    """The lock file of a shard was removed: nothing was written, and the shard may be taken."""


class Locked(StorageError):
    """Another running process holds the node id or the shard."""


class OtherFormat(StorageError):
    """The data directory is in a format of another version."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A range of log records that are lost or may be lost."""

    what: str
    """Description of the damage in one line, with file and byte, or offset."""
    first: int
    """First offset of the range."""
    end: int | None
    """Offset after the range; None if unknown."""
    path: str = ""
    start: int = 0
    stop: int = 0
    """The damaged file and byte range, if the records were in damaged bytes."""
