"""`groupkeeper backup` and `groupkeeper restore`: copy a data directory, and copy it back.

The work is done in `storage/backup/backup.py`, which explains why the copy is sound.
"""

import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import click

from groupkeeper.cli.app import CommandRefused
from groupkeeper.cli.dump.record_text import USER_KEYS
from groupkeeper.cli.options import Decorator
from groupkeeper.cli.progress import ByteProgress, ended_in_order, progress
from groupkeeper.cli.serve import DATA_DIR
from groupkeeper.storage.backup.backup import BackupJob, back_up, left_out
from groupkeeper.storage.backup.backup import restore as copy_back
from groupkeeper.storage.backup.note import BackupError, BackupNote
from groupkeeper.storage.errors import StorageError
from groupkeeper.storage.files.files import Files, FilesToRead
from groupkeeper.storage.folders import is_partition
from groupkeeper.storage.log.segment import LOG_SUFFIX
from groupkeeper.topics.catalog_log import FOLDERS as CATALOG
from groupkeeper.topics.names import RESERVED

PAUSE_S = 0.01
"""Pause before a retry of something that has changed meanwhile."""


def _data_dir(text: str) -> Decorator:
    return click.option(
        "--data-dir",
        type=click.Path(file_okay=False, path_type=Path),
        default=DATA_DIR,
        show_default=True,
        help=text,
    )


class _CountedFiles(Files):
    """The real file system, with progress shown by the bytes that are written."""

    def __init__(self, told: ByteProgress) -> None:
        super().__init__()
        self._told = told

    def write(self, handle: int, data: bytes, position: int) -> None:
        super().write(handle, data, position)
        self._told("", len(data))


@click.command(short_help="Copy a data directory, also that of a running server.")
@click.argument("dest", type=click.Path(path_type=Path))
@_data_dir("The data directory.")
def backup(dest: Path, data_dir: Path) -> None:
    """Copy a data directory to DEST, a new folder, whether a server is running on it or not.

    The copy has everything that was acknowledged before the backup began, also what passwords of
    users are checked with: keep it as safe as the data directory.

    \b
      groupkeeper backup /backups/$(date -I) --data-dir /var/lib/groupkeeper
      groupkeeper restore /backups/2026-11-22 --data-dir /var/lib/groupkeeper
    """
    started = time.monotonic()
    try:
        _check_place(dest, data_dir)
        with ended_in_order(), progress("copying") as told:
            job = BackupJob(
                data_dir=str(data_dir),
                dest=str(dest),
                catalog=CATALOG,
                journaled=RESERVED,
                now=lambda: datetime.now(UTC).isoformat(timespec="seconds"),
                pause=lambda: time.sleep(PAUSE_S),
            )
            note = back_up(FilesToRead(), _CountedFiles(told), job)
            others = left_out(FilesToRead(), job)
    except (StorageError, OSError) as problem:
        raise CommandRefused(f"no backup was made: {problem}") from None
    if others:
        names = ", ".join(others)
        print(f"groupkeeper: left out, as not made by a server: {names}", file=sys.stderr)
    if _has_users(dest):
        keys = "what passwords of users are checked with is in it: keep it as safe as the data"
        print(f"groupkeeper: {keys}", file=sys.stderr)
    print(f"backed up {data_dir} to {dest}: {_summary(note, started)}")


@click.command(short_help="Create a data directory from a backup.")
@click.argument("backup", type=click.Path(exists=True, file_okay=False, path_type=Path))
@_data_dir("The data directory to create: missing, or an empty folder.")
def restore(backup: Path, data_dir: Path) -> None:
    """Create a data directory from BACKUP, which was made by `groupkeeper backup`.

    BACKUP is verified, and not changed: its files are copied.
    """
    started = time.monotonic()
    try:
        with ended_in_order(), progress("copying") as told:
            note = copy_back(FilesToRead(), _CountedFiles(told), str(backup), str(data_dir))
    except (StorageError, OSError) as problem:
        raise CommandRefused(f"nothing was restored: {problem}") from None
    print(f"restored {backup} to {data_dir}: {_summary(note, started)}")


def _has_users(backup: Path) -> bool:
    """Return whether the catalog of a backup has, or had, users."""
    segments = (backup / CATALOG[0]).glob(f"*{LOG_SUFFIX}")
    return any(USER_KEYS in each.read_bytes() for each in segments)


def _summary(note: BackupNote, started: float) -> str:
    """Return a backup's contents in numbers, and the time since a value of `time.monotonic`."""
    from rich.filesize import decimal

    folders = {each.name.partition("/")[0] for each in note.files}
    return (
        f"{sum(map(is_partition, folders))} partitions, "
        f"{decimal(sum(each.size for each in note.files))} in {len(note.files)} files, as of "
        f"{note.made_at}, in {time.monotonic() - started:.1f} s"
    )


def _check_place(dest: Path, data_dir: Path) -> None:
    if dest.resolve().is_relative_to(data_dir.resolve()):
        raise BackupError(f"{dest} is in the data directory: name a folder elsewhere")
    if os.path.ismount(dest):
        raise BackupError(f"{dest} is a mount point: name a new folder in it")
