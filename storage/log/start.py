"""The first offset of a log that is kept, if it is not the first one in the segments.

Stored in a checkpoint in Kafka's text format, one per folder that needs it (Kafka has one file for
all its folders): a version line `0`, the number of entries, then `topic partition offset`. The file
is replaced as a whole. log.py and opening.py apply it.

Source: Kafka's OffsetCheckpointFile and LogManager.checkpointLogStartOffsets.
"""

from typing import Final

from groupkeeper.storage.errors import Corrupt, SyncFailed, remedy
from groupkeeper.storage.files.files import Files, parent_of
from groupkeeper.storage.files.whole import read_whole, replace_whole

FILE_NAME: Final = "log-start-offset-checkpoint"


def read_start(files: Files, folder: str) -> int:
    """Make the checkpoint of a folder durable and return its offset. Raises Corrupt and OSError.

    The process that wrote the file may have ended or failed before it was durable.
    """
    _sync_name(files, folder)
    return peek_start(files, folder)


def peek_start(files: Files, folder: str) -> int:
    """Return the offset in a folder's checkpoint, maybe not durable. Raises Corrupt and OSError."""
    path = f"{folder}/{FILE_NAME}"
    text = read_whole(files, path)
    try:
        version, count, entry, rest = text.decode("ascii").split("\n")
        _, _, number = entry.split(" ")
        offset = -1 if rest else int(number)
    except ValueError:
        version, count, offset = "", "", -1
    if (version, count) != ("0", "1") or offset < 0:
        raise Corrupt(f"{path} is damaged: {remedy(folder)}") from None
    return offset


def write_start(files: Files, folder: str, offset: int) -> None:
    """Make the offset durable in an existing folder, blocking.

    Raises OSError with nothing changed, or SyncFailed: the file has the new offset, but a power cut
    may bring the old one back. Then close the log and reopen it, which makes one of them durable.
    """
    topic, _, partition = folder.rpartition("/")[2].rpartition("-")
    data = f"0\n1\n{topic} {partition} {offset}\n".encode("ascii")
    replace_whole(files, f"{folder}/{FILE_NAME}", data)
    try:
        _sync_name(files, folder)
    except OSError as error:
        raise SyncFailed(f"cannot sync {folder}: {error}") from error


def _sync_name(files: Files, folder: str) -> None:
    files.sync_folder(folder)
    files.sync_folder(parent_of(folder))
