"""The note in a backup, the file `backup`: when and of what it was made, and all its files.

Two lines of text, as in format.py: JSON, and the CRC-32C of the first line. Written last, so a
folder without it is no backup.
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
"""How the name of a backup ends until all of it is on the disk."""


class BackupError(StorageError):
    """A backup cannot be made or used."""


class NotRestored(BackupError):
    """A backup was to be used as a data directory."""


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
    """The contents of the file."""

    made_at: str
    """When the state was that of the backup: UTC, as ISO 8601 has it."""
    data_dir: str
    """The path of the data directory."""
    files: Sequence[FileEntry]
    version: int = VERSION


def write_note(files: Files, folder: str, note: BackupNote) -> None:
    """Write the note, durable when the folder is synced. Raises OSError."""
    line = json.dumps(asdict(note), separators=(",", ":")).encode()
    replace_whole(files, f"{folder}/{FILE_NAME}", line + b"\n" + checksum(line) + b"\n")


def read_note(files: Files, folder: str) -> BackupNote:
    """The note of a backup. Raises OSError, and BackupError if there is none or it is damaged."""
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
    """Raise NotRestored for a backup: what writes to it makes it useless. Raises OSError."""
    if files.look(f"{data_dir}/{FILE_NAME}") is not None:
        raise NotRestored(
            f"{data_dir} is a backup: restore it with `groupkeeper restore {data_dir} --data-dir "
            "FOLDER`, and use that folder"
        )
    if data_dir.rstrip("/").endswith(INCOMPLETE) and files.list_folder(data_dir):
        raise NotRestored(
            f"{data_dir} is a backup that was not completed: remove it, and choose another folder"
        )
