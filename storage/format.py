"""The format version of a data directory, kept in its `format` file.

The file has two lines: JSON, and the CRC-32C of the JSON line in hexadecimal. Its own layout never
changes, so that any server can recognise and refuse a directory of another version. The file is
always replaced as a whole.
"""

import json
from dataclasses import dataclass
from typing import Final

from groupkeeper.storage.errors import Corrupt, OtherFormat, StorageError
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.files.whole import checksum, read_whole, replace_whole

FILE_NAME: Final = "format"

VERSION: Final = 2
"""The format version that this code reads and writes.

Increase it with every change that makes older code misread the directory. tests/fixtures has a
directory of this format, which the next release reads, too."""

RESTORING: Final = "restoring"
"""Name of a folder that exists in a directory while a backup is restored into it (backup.py)."""

OBSERVER: Final = "observer"
"""Name of the file that marks a directory as one of an observer (observer_mark.py)."""

_ID_BYTES: Final = 16


@dataclass(slots=True, frozen=True)
class Format:
    """The contents of the `format` file."""

    directory_id: str
    """Random, in hexadecimal. A copy of the directory has the same id."""
    shards: int
    """The number of partitions of the offsets topic when the directory was created."""


def refuse_observer(files: Files, data_dir: str) -> None:
    """Raise StorageError for the directory of an observer, for a server. Raises OSError."""
    if files.look(f"{data_dir}/{OBSERVER}") is not None:
        raise StorageError(
            f"{data_dir} is of `groupkeeper observe`: choose another --data-dir for a server"
        )


def read_format(files: Files, data_dir: str) -> Format | None:
    """Read the format file; None if there is none, as in a new directory.

    Raises OtherFormat, Corrupt, OSError, and StorageError if the directory is being restored.
    """
    path = f"{data_dir}/{FILE_NAME}"
    names = files.list_folder(data_dir)
    if RESTORING in names:
        raise StorageError(
            f"{data_dir} is being restored, or its restore was interrupted: in that case "
            "remove everything in it and restore it again"
        )
    if FILE_NAME not in names:
        return None
    line, _, found = read_whole(files, path).partition(b"\n")
    if found != checksum(line) + b"\n":
        raise Corrupt(
            f"{path} is damaged: restore it from a backup, or, if no other version of the server "
            f"has used this directory: groupkeeper repair {data_dir}"
        )
    content = json.loads(line)
    if content["format"] != VERSION:
        raise OtherFormat(
            f"{data_dir} is in format {content['format']}, and this version reads format "
            f"{VERSION}: start the version that made it, or choose another --data-dir"
        )
    return Format(content["directory"], content["shards"])


def write_format(files: Files, data_dir: str, shards: int) -> Format:
    """Durably write the format file, with a new directory id.

    Raises OSError, and the directory is unchanged.
    """
    written = Format(files.random_bytes(_ID_BYTES).hex(), shards)
    line = json.dumps(
        {"format": VERSION, "directory": written.directory_id, "shards": written.shards}
    ).encode()
    replace_whole(files, f"{data_dir}/{FILE_NAME}", line + b"\n" + checksum(line) + b"\n")
    files.sync_folder(data_dir)
    return written
