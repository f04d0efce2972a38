"""`groupkeeper restore`: makes a data directory of a backup.

The work is done in `storage/restore.py`.
"""

import sys
import time
from pathlib import Path

import click

from groupkeeper.cli.backup import FAILED, size_text
from groupkeeper.cli.serve import DATA_DIR
from groupkeeper.cli.signals import ended_in_order
from groupkeeper.storage.errors import StorageError
from groupkeeper.storage.files import Files, FilesToRead
from groupkeeper.storage.restore import restore as copy_back


@click.command()
@click.argument("backup", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=DATA_DIR,
    show_default=True,
    help="The data directory to make: missing, or an empty folder.",
)
def restore(backup: Path, data_dir: Path) -> int:
    """Make a data directory of BACKUP, which `groupkeeper backup` has made.

    BACKUP is verified first, and stays as it is: its files are copied, never linked.
    """
    started = time.monotonic()
    try:
        with ended_in_order():
            note = copy_back(FilesToRead(), Files(), str(backup), str(data_dir))
    except (StorageError, OSError) as problem:
        print(f"groupkeeper: nothing was restored: {problem}", file=sys.stderr)
        return FAILED
    print(
        f"restored {backup} to {data_dir}: {note.partitions} partitions, {note.segments} segments, "
        f"{size_text(note.size_bytes)} in {len(note.files)} files, as of {note.made_at}, in "
        f"{time.monotonic() - started:.1f} s"
    )
    return 0
