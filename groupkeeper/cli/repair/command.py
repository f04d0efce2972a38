"""`groupkeeper repair`: shows what is left of damaged logs, and optionally repairs them."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from groupkeeper.cli import FAILED
from groupkeeper.cli.app import CommandRefused
from groupkeeper.cli.progress import progress

if TYPE_CHECKING:
    from groupkeeper.repair.logs import RepairTarget
    from groupkeeper.storage.files.files import Files

UNFINISHED: Final = "; the repair is incomplete, and the originals are kept: run the command again"


@click.command(short_help="Show what is left of damaged data, and keep it.")
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option("--write", "writes", is_flag=True, help="Repair; without it nothing is changed.")
def repair(path: Path, *, writes: bool) -> int:
    """Show which parts of damaged data are readable and which are lost; with --write, repair it.

    PATH is a data directory, a partition folder or a segment (for the whole log that it
    belongs to). Stop the server first. If you have a backup, restore that instead: a repair cannot
    bring back lost data. Shown are the logs that a start would refuse, the groups, members,
    offsets and records that are readable, and where how many are lost.

    --write keeps the originals in a folder repaired-TIME in the data directory, and repairs those
    logs only. The exit code is 1 if something is left to repair.

    \b
      groupkeeper repair groupkeeper-data
      groupkeeper repair groupkeeper-data/__consumer_offsets-7 | less
      groupkeeper repair groupkeeper-data --write
    """
    from groupkeeper.cli.repair import text as repair_text
    from groupkeeper.repair.survey import survey
    from groupkeeper.repair.writing import Wishes, write
    from groupkeeper.storage.files.files import Files, FilesToRead
    from groupkeeper.storage.locks import NodeLocks
    from groupkeeper.topics.topics import new_cluster_id

    with _errors_in_a_line(), progress() as told:
        files = Files() if writes else FilesToRead()
        target = _target(files, path, writes=writes)
        locks = NodeLocks(files, target.data_dir)
        try:
            found = survey(files, target, told)
            originals = ""
            if writes and found.is_damaged:
                wall_ms = time.time_ns() // 1_000_000
                stamp = f"{datetime.fromtimestamp(wall_ms / 1000, UTC):%Y%m%dT%H%M%SZ}"
                lines = [*repair_text.survey_lines(found), ""]
                wishes = Wishes(stamp, wall_ms, new_cluster_id(os.urandom), "\n".join(lines))
                with _errors_in_a_line(UNFINISHED):
                    originals = write(files, found, locks, wishes)
        finally:
            locks.close()
    shown = repair_text.survey_lines(found, repair_text.SHOWN if sys.stdout.isatty() else None)
    click.echo("\n".join([*shown, *repair_text.end_lines(found, originals)]))
    left = any(log.beyond_repair for log in found.logs) if originals else found.is_damaged
    return FAILED if left else 0


@contextmanager
def _errors_in_a_line(
    what_then: str = "", kind: type[click.ClickException] = CommandRefused
) -> Iterator[None]:
    from groupkeeper.storage.errors import StorageError

    try:
        yield
    except (StorageError, OSError) as error:
        raise kind(f"{error}{what_then}") from None


def _target(files: "Files", path: Path, *, writes: bool) -> "RepairTarget":
    """Return what `path` names. Raises ClickException if that is nothing to repair or to change."""
    from groupkeeper.repair.logs import target_of
    from groupkeeper.storage.backup.note import refuse_backup

    with _errors_in_a_line(kind=click.ClickException):
        target = target_of(files, str(path))
        if writes:
            refuse_backup(files, target.data_dir)
    if writes:
        _check_owner(target.data_dir)
    return target


def _check_owner(data_dir: str) -> None:
    """Refuse data directories whose server could not write to the repaired files."""
    import pwd  # not available on Windows, which has no data directories

    owner = os.stat(data_dir).st_uid
    if owner != os.geteuid():
        try:
            name = pwd.getpwuid(owner).pw_name
        except KeyError:
            name = str(owner)
        raise CommandRefused(
            f"{data_dir} belongs to the user {name}: repair it as that user, or the server cannot "
            "write to the repaired files"
        )
