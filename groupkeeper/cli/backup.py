"""`groupkeeper backup`: a copy of a data directory, while a server serves it or not.

The work is done in `storage/backup.py`, which says why the copy is sound.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import click

from groupkeeper.cli.serve import DATA_DIR
from groupkeeper.cli.signals import ended_in_order
from groupkeeper.storage.backup import BackupJob, Made, back_up
from groupkeeper.storage.backup import Progress as Passed
from groupkeeper.storage.backup_note import BackupError
from groupkeeper.storage.errors import StorageError
from groupkeeper.storage.files import Files, FilesToRead
from groupkeeper.topics.catalog_log import FOLDERS as CATALOG
from groupkeeper.topics.names import RESERVED

FAILED = 1
PAUSE_S = 0.01
"""Before something that has changed meanwhile is copied again."""


@click.command()
@click.argument("dest", type=click.Path(path_type=Path))
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=DATA_DIR,
    show_default=True,
    help="The data directory.",
)
@click.option(
    "--copy", is_flag=True, help="Copy all files, also where hard links would be possible."
)
def backup(dest: Path, data_dir: Path, copy: bool) -> int:
    """Copy a data directory to DEST, a new folder, while a server serves it or not.

    Everything that was acknowledged before the backup began is in it. Segments that are full are
    hard links if DEST is on the same file system: they take no space there, and share their bytes
    with the data directory until it lets go of them. Copy DEST elsewhere to survive the disk.

    \b
      groupkeeper backup /backups/$(date -I) --data-dir /var/lib/groupkeeper
      groupkeeper restore /backups/2026-11-22 --data-dir /var/lib/groupkeeper
    """
    started = time.monotonic()
    try:
        _check_place(dest, data_dir)
        with ended_in_order(), _shown() as shown:
            job = BackupJob(
                data_dir=str(data_dir),
                dest=str(dest),
                catalog=CATALOG,
                journaled=RESERVED,
                now=lambda: datetime.now(UTC).isoformat(timespec="seconds"),
                may_link=not copy,
                pause=lambda: time.sleep(PAUSE_S),
                told=shown,
            )
            made = back_up(FilesToRead(), Files(), job)
    except (StorageError, OSError) as problem:
        print(f"groupkeeper: no backup was made: {problem}", file=sys.stderr)
        return FAILED
    _report(made, dest, data_dir, time.monotonic() - started)
    return 0


def _check_place(dest: Path, data_dir: Path) -> None:
    if dest.resolve().is_relative_to(data_dir.resolve()):
        raise BackupError(f"{dest} is in the data directory: name a folder elsewhere")
    if os.path.ismount(dest):
        raise BackupError(f"{dest} is a mount point: name a new folder in it")


@contextmanager
def _shown() -> Iterator[Callable[[Passed], None]]:
    """A line on standard error that shows the progress; nothing if that is no terminal."""
    if not sys.stderr.isatty():
        yield lambda passed: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[copied]}")
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task("pass 1", copied="")

        def show(passed: Passed) -> None:
            bar.update(
                task,
                description=f"pass {passed.number}, folder {passed.done} of {passed.total}",
                completed=passed.done,
                total=passed.total,
                copied=f"{size_text(passed.bytes_copied)} copied",
            )

        yield show


def size_text(size: int) -> str:
    """A number of bytes for people."""
    from rich.filesize import decimal

    return decimal(size)


def _report(made: Made, dest: Path, data_dir: Path, seconds: float) -> None:
    for line in made.warnings:
        print(f"groupkeeper: warning: {line}", file=sys.stderr)
    if made.left_out:
        names = ", ".join(made.left_out)
        print(f"groupkeeper: left out, as no server made it: {names}", file=sys.stderr)
    note = made.note
    linked = f"{note.linked} of them linked"
    if made.no_links:
        linked += f", the others copied: {dest} {made.no_links}"
    print(
        f"backed up {data_dir} to {dest}: {note.partitions} partitions, {note.segments} segments, "
        f"{size_text(note.size_bytes)} in {len(note.files)} files ({linked}), as of "
        f"{note.made_at}, in {seconds:.1f} s"
    )
