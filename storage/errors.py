"""
What can go wrong with the disk, as exceptions whose message is one clear line for a person.

Not here: mistakes of clients. An error of the storage closes the partition that met it; which
error it is says whether opening it again may help.
"""

from typing import Final

ACCEPT_FILE: Final = "accept-loss"
"""A person makes this file in the folder of a damaged log to have what is left of it."""


def remedy(folder: str) -> str:
    """What a person can do about a damaged log."""
    return f"restore it, or make {folder}/{ACCEPT_FILE} to have what is left, and start again"


class StorageError(Exception):
    """Any failure of the storage. The message is one line and names the file."""


class AppendFailed(StorageError):
    """
    Nothing of this append may be acknowledged. Close the log, open it again and see what it
    holds.

    No space left (ENOSPC, EDQUOT) looks like this: opening again may fail the same way until
    there is space.
    """


class SyncFailed(AppendFailed):
    """
    The kernel could not write back what it had accepted (EIO on fsync).

    The page cache cannot be trusted any more, so the store refuses all further work: let go of
    the leases and exit.
    """


class DirectoryLost(SyncFailed):
    """
    The data directory was removed or replaced while the process used it: what is written to it
    now, nobody will find.
    """


class Corrupt(StorageError):
    """
    Bytes on the disk are damaged where nothing explains it. Needs a person; opening again does
    not help.
    """


class OffsetOutOfRange(StorageError):
    """A read below the first or beyond the next offset of a log."""


class Fenced(StorageError):
    """A newer owner has taken the shard: nothing was written and nothing will be."""


class Locked(StorageError):
    """Another living process holds the node id or the shard."""


class NewerFormat(StorageError):
    """The data directory was made by a newer version."""
