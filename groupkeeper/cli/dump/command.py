"""`groupkeeper dump`: the contents of the files of a data directory, as text.

Takes no locks, so it works on a copy and beside a running server. Damage is reported on standard
error and does not end the dump.
"""

from pathlib import Path

import click

from groupkeeper.cli import FAILED
from groupkeeper.cli.app import CommandRefused
from groupkeeper.cli.dump.segment import OFFSETS_TOPIC, Dump
from groupkeeper.cli.progress import progress
from groupkeeper.storage.errors import StorageError
from groupkeeper.storage.files.files import FilesToRead


@click.command(short_help="Show the files of a data directory as text.")
@click.argument(
    "paths",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="PATH...",
)
@click.option("--records/--no-records", default=True, help="Show the records of every batch.")
@click.option(
    "--offsets", is_flag=True, help=f"Read as {OFFSETS_TOPIC}, whatever the folder's name."
)
def dump(paths: tuple[Path, ...], **options: bool) -> int:
    """Show the contents of segments, journals, partition folders and data directories.

    PATH is a file, a partition folder (also in an archive) or a data directory, of Groupkeeper,
    running or stopped, or of an Apache Kafka broker. A data directory is summarized, one line per
    log.

    Torn or damaged bytes are reported on standard error with file and byte, and the dump continues
    after them; the exit code is 1 then.

    \b
      groupkeeper dump groupkeeper-data
      groupkeeper dump --no-records groupkeeper-data/__consumer_offsets-7
      groupkeeper dump groupkeeper-data/journals/*
    """
    from groupkeeper.cli.dump.folder import show

    try:
        files = FilesToRead()
    except StorageError as error:
        raise CommandRefused(str(error)) from None
    with progress() as told:
        dumping = Dump(files, told, **options)
        for path in paths:
            try:
                show(dumping, str(path))
            except BrokenPipeError:
                raise
            except OSError as error:
                raise CommandRefused(f"{path}: {error}") from None
    return FAILED if dumping.damages else 0
