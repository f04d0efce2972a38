"""`groupkeeper restore`: makes a data directory of a backup.

The work is done in `storage/restore.py`.
"""

import sys
import time
from pathlib import Path

import click

from groupkeeper.cli.backup import FAILED, summary
from groupkeeper.cli.progress import progress
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

    BACKUP is verified, and stays as it is: its files are copied.
    """
    started = time.monotonic()
    try:
        with ended_in_order(), progress("copying") as told:
            note = copy_back(FilesToRead(), Files(), str(backup), str(data_dir), told)
    except (StorageError, OSError) as problem:
        print(f"groupkeeper: nothing was restored: {problem}", file=sys.stderr)
        return FAILED
    print(f"restored {backup} to {data_dir}: {summary(note, started)}")
    return 0
