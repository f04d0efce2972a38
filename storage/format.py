"""The format version of a data directory, kept in its `format` file.

The file has two lines: JSON, and the CRC-32C of the JSON line in hexadecimal. Its own layout never
changes, so that any server can recognise and refuse a directory made by a newer one. Directories of
format 0 have no such file. The file is always replaced as a whole.
"""

import json
from dataclasses import dataclass
from typing import Final

from groupkeeper.storage.errors import Corrupt, NewerFormat, StorageError
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.files.whole import checksum, read_whole, replace_whole

FILE_NAME: Final = "format"

VERSION: Final = 2
"""The format version that this code writes; it reads this version and all older ones.

Increase it with every change that makes older code misread the directory, and add a directory of
the previous format to tests/fixtures."""

RESTORING: Final = "restoring"
"""Name of a folder that exists in a directory while a backup is restored into it (backup.py)."""

_ID_BYTES: Final = 16


@dataclass(slots=True, frozen=True)
class Format:
    """The contents of the `format` file."""

    version: int
    directory_id: str
    """Random, in hexadecimal. A copy of the directory has the same id."""
    shards: int
    """The number of partitions of the offsets topic when the directory was created."""


def read_format(files: Files, data_dir: str) -> Format | None:
    """Read the format file; None if there is none, as in a new directory or one of format 0.

    Raises NewerFormat, Corrupt, OSError, and StorageError if the directory is being restored.
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
            f"{path} is damaged: restore it from a backup, or, if no newer version of the server "
            f"has used this directory: groupkeeper repair {data_dir}"
        )
    content = json.loads(line)
    if content["format"] > VERSION:
        raise NewerFormat(
            f"{data_dir} is in format {content['format']}, and this version reads formats up to "
            f"{VERSION}: start the newer version that made it, or choose another --data-dir"
        )
    return Format(content["format"], content["directory"], content["shards"])


def write_format(files: Files, data_dir: str, shards: int, directory_id: str = "") -> Format:
    """Durably mark a directory as being in the newest format. Without an id, a new one is chosen.

    Raises OSError, and the directory is unchanged.
    """
    written = Format(VERSION, directory_id or files.random_bytes(_ID_BYTES).hex(), shards)
    line = json.dumps(
        {"format": written.version, "directory": written.directory_id, "shards": written.shards}
    ).encode()
    replace_whole(files, f"{data_dir}/{FILE_NAME}", line + b"\n" + checksum(line) + b"\n")
    files.sync_folder(data_dir)
    return written
