"""The format of a data directory: the file `format`, in a form that never changes.

Two lines of text: JSON, and the CRC-32C of the first line in hexadecimal. Every format has this
file in this form, so that a server can refuse a directory that a newer one made. A directory of
format 0 has no such file. The file is replaced whole.
"""

import json
from dataclasses import dataclass
from typing import Final

from groupkeeper.storage.errors import Corrupt, NewerFormat, StorageError
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.files.whole import checksum, read_whole, replace_whole

FILE_NAME: Final = "format"

VERSION: Final = 2
"""The format that this code writes; it reads this one and all older ones.

Raise it with every change after which older code would read the directory wrongly, and add a
directory of the format before to tests/fixtures."""

RESTORING: Final = "restoring"
"""A folder in a directory while it is made of a backup (backup.py)."""

_ID_BYTES: Final = 16


@dataclass(slots=True, frozen=True)
class Format:
    """The contents of the file."""

    version: int
    directory_id: str
    """Random, in hexadecimal. A copy of the directory has the same id."""
    shards: int
    """The number of partitions of the offsets topic that the data was made with."""


def read_format(files: Files, data_dir: str) -> Format | None:
    """None for a directory without the file: a new one, or one of format 0.

    Raises NewerFormat, Corrupt, StorageError for one that is being restored, and OSError.
    """
    path = f"{data_dir}/{FILE_NAME}"
    names = files.list_folder(data_dir)
    if RESTORING in names:
        raise StorageError(
            f"{data_dir} is being restored, or its restore was interrupted: then remove all that "
            "is in it, and restore it again"
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
    """Make it durable that a directory is in the newest format, with its id or a new one.

    Raises OSError, and the directory is as before.
    """
    written = Format(VERSION, directory_id or files.random_bytes(_ID_BYTES).hex(), shards)
    line = json.dumps(
        {"format": written.version, "directory": written.directory_id, "shards": written.shards}
    ).encode()
    replace_whole(files, f"{data_dir}/{FILE_NAME}", line + b"\n" + checksum(line) + b"\n")
    files.sync_folder(data_dir)
    return written
