"""
The format of a data directory, in the file `format`, and what about it never changes.

Two lines of text: JSON, and the CRC-32C of the first line in hexadecimal. Every format has this
file in this form, so that a server can refuse what a newer one made. Directories of format 0 have
none. The file is replaced whole or not at all.
"""

import json
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from groupkeeper.storage.errors import Corrupt, NewerFormat
from groupkeeper.storage.files import Files
from groupkeeper.storage.whole import read_whole, replace_whole

FILE_NAME: Final = "format"

VERSION: Final = 1
"""
The format that this code writes; it reads this one and all before. One more for every change after
which older code would read the directory wrongly, and then a fixture of it: tests/fixtures.
"""

_ID_BYTES: Final = 16


@dataclass(slots=True, frozen=True)
class Format:
    """What the file says."""

    version: int
    directory_id: str
    """Random, in hexadecimal: a copy has it, too, another directory never."""
    shards: int
    """How many partitions of the offsets topic the data was made with."""


def read_format(files: Files, data_dir: str) -> Format | None:
    """
    None for a directory without the file: a new one, or one of format 0.

    Raises NewerFormat, Corrupt and OSError.
    """
    path = f"{data_dir}/{FILE_NAME}"
    if FILE_NAME not in files.list_folder(data_dir):
        return None
    data = read_whole(files, path)
    line, _, checksum = data.partition(b"\n")
    if checksum != _checksum(line):
        raise Corrupt(
            f"{path} is damaged: restore it, or remove it if no newer version of the server has "
            "used this directory"
        )
    found = json.loads(line)
    if found["format"] > VERSION:
        raise NewerFormat(
            f"{data_dir} is in format {found['format']}, and this version reads formats up to "
            f"{VERSION}: start the newer version that made it, or choose another --data-dir"
        )
    return Format(found["format"], found["directory"], found["shards"])


def write_format(files: Files, data_dir: str, shards: int, directory_id: str = "") -> Format:
    """
    Make it durable that a directory is in the newest format. Without an id it gets one. Raises
    OSError, and all is as before.
    """
    made = Format(VERSION, directory_id or files.random_bytes(_ID_BYTES).hex(), shards)
    line = json.dumps(
        {"format": made.version, "directory": made.directory_id, "shards": made.shards}
    ).encode()
    data = line + b"\n" + _checksum(line)
    path = f"{data_dir}/{FILE_NAME}"
    replace_whole(files, path, data)
    files.sync_folder(data_dir)
    return made


def _checksum(line: bytes) -> bytes:
    return b"%08x\n" % crc32c(line)
