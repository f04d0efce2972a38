"""What can go wrong with the disk, as exceptions whose message is one line for an operator.

Mistakes of clients are not among them. An error of the storage closes the partition that met it;
its class says whether opening the partition again may help.
"""

from dataclasses import dataclass
from typing import Final

ACCEPT_FILE: Final = "accept-loss"
"""An operator creates this file in the folder of a damaged log to keep what is left of it."""


def remedy(folder: str) -> str:
    """What an operator can do about a damaged log."""
    return f"restore it from a backup, or keep what is left of it: groupkeeper repair {folder}"


class StorageError(Exception):
    """Any failure of the storage. The message is one line and names the file."""


class AppendFailed(StorageError):
    """Nothing of this append may be acknowledged. Close the log and open it again.

    A full disk (ENOSPC, EDQUOT) causes this: opening the log may fail in the same way until
    space is free.
    """


class SyncFailed(AppendFailed):
    """The kernel could not write back what it had accepted (EIO on fsync).

    The page cache can no longer be trusted, so the store refuses all further work: the process
    must exit.
    """


class DirectoryLost(SyncFailed):
    """The data directory was removed or replaced while it was in use.

    Whatever the process still writes is in files that no other process can find.
    """


class Corrupt(StorageError):
    """Bytes on the disk are damaged or missing, and no crash explains it.

    An operator has to repair it; opening again does not help.
    """


class NotCached(Exception):
    """Bytes that are wanted from memory may be on the disk only: read them on a thread."""


class OffsetOutOfRange(StorageError):
    """A read below the first offset of a log, or beyond its next one."""


class Fenced(StorageError):
    """A newer owner has the shard: nothing was written, and nothing will be."""


class LockLost(StorageError):
    """The lock file of a shard was removed: nothing was written, and another process may own it.

    The next claim tells: it succeeds unless another process holds the lock.
    """


class Locked(StorageError):
    """Another living process holds the node id or the shard."""


class NewerFormat(StorageError):
    """A newer version made the data directory."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Records of a log that are lost, or may be."""

    what: str
    """What is damaged or missing, in a line that names file and byte, or offset."""
    first: int
    """The first offset that is lost, or may be."""
    end: int | None
    """The offset after the last one; None if that is unknown."""
    path: str = ""
    start: int = 0
    stop: int = 0
    """The damaged file and bytes, if the records were in such bytes."""
