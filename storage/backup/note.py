"""The file `backup` in a backup: when and from what it was made, and a list of its files.

Two lines of text, as in format.py: JSON, and the CRC-32C of the first line. Written last, so a
folder without this file is not a backup.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final, NamedTuple

from groupkeeper.storage.errors import StorageError
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.files.whole import checksum, read_whole, replace_whole

FILE_NAME: Final = "backup"
VERSION: Final = 1
INCOMPLETE: Final = ".incomplete"
"""Suffix of a backup's name until all of it is on disk."""


class BackupError(StorageError):
    """A backup cannot be made or used."""


class NotRestored(BackupError):
    """A backup is used as a data directory without being restored."""


class FileEntry(NamedTuple):
    """A file of the backup."""

    name: str
    """Its path in the backup."""
    size: int
    """Bytes."""
    crc: int
    """CRC-32C."""


@dataclass(slots=True, frozen=True)
class BackupNote:
    """The contents of the `backup` file."""

    made_at: str
    """The moment whose state was copied: UTC, in ISO 8601."""
    data_dir: str
    """The path of the data directory."""
    files: Sequence[FileEntry]
    version: int = VERSION


def write_note(files: Files, folder: str, note: BackupNote) -> None:
    """Write the note. It is durable once the folder is synced. Raises OSError."""
    line = json.dumps(asdict(note), separators=(",", ":")).encode()
    replace_whole(files, f"{folder}/{FILE_NAME}", line + b"\n" + checksum(line) + b"\n")


def read_note(files: Files, folder: str) -> BackupNote:
    """Read the note of a backup. Raises OSError, and BackupError if it is missing or damaged."""
    path = f"{folder}/{FILE_NAME}"
    try:
        line, _, found = read_whole(files, path).partition(b"\n")
    except FileNotFoundError:
        raise BackupError(
            f"{folder} is not a complete backup: it has no file `{FILE_NAME}`"
        ) from None
    if found != checksum(line) + b"\n":
        raise BackupError(f"{path} is damaged: take another backup")
    content = json.loads(line)
    if content["version"] > VERSION:
        raise BackupError(f"{folder} was made by a newer version of Groupkeeper: use that")
    entries = [FileEntry(*entry) for entry in content.pop("files")]
    return BackupNote(files=entries, **content)


def refuse_backup(files: Files, data_dir: str) -> None:
    """Raise NotRestored for a backup, which writes would make useless. Raises OSError."""
    if files.look(f"{data_dir}/{FILE_NAME}") is not None:
        raise NotRestored(
            f"{data_dir} is a backup: restore it with `groupkeeper restore {data_dir} --data-dir "
            "FOLDER`, and use that folder"
        )
    if data_dir.rstrip("/").endswith(INCOMPLETE) and files.list_folder(data_dir):
        raise NotRestored(
            f"{data_dir} is a backup that was not completed: remove it, and choose another folder"
        )
