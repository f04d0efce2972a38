"""`groupkeeper dump`: what is in the files of a data directory, as text.

It takes no locks, so it works on a copy and beside a running server. Damage is a line on standard
error, and does not end it.
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path

import click

from groupkeeper.cli.progress import Progress, progress
from groupkeeper.storage.files import Files, FilesToRead

OFFSETS_TOPIC = "__consumer_offsets"


@dataclass
class Dump:
    """What one call of the command shows, and how."""

    files: Files
    told: Progress
    records: bool = True
    offsets: bool = False
    everything: bool = False
    damages: int = field(default=0, init=False)

    def line(self, text: str) -> None:
        """Show a line."""
        click.echo(text)

    def damage(self, path: str, what: str) -> None:
        """Report damage: the exit code is 1 at the end."""
        self.damages += 1
        sys.stdout.flush()
        print(f"groupkeeper: {path}: {what}", file=sys.stderr)

    def holds_offsets(self, folder: str) -> bool:
        """Whether the records of a folder, or a log, are decoded as groups and offsets."""
        return self.offsets or folder.rpartition("/")[2].startswith(f"{OFFSETS_TOPIC}-")


@click.command()
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
@click.option(
    "--all", "everything", is_flag=True, help="Of a data directory: show its files, not a summary."
)
def dump(paths: tuple[Path, ...], **options: bool) -> int:
    """Show what is in segments, journals, folders of partitions and data directories.

    PATH is a file, the folder of a partition (in an archive, too) or a data directory, of
    Groupkeeper, running or stopped, or of an Apache Kafka broker. A data directory is summed up, a
    line for each log; --all shows all its files.

    Torn or damaged bytes are reported on standard error with file and byte, and the dump goes on
    after them; the exit code is 1 then.

    \b
      groupkeeper dump groupkeeper-data
      groupkeeper dump --no-records groupkeeper-data/__consumer_offsets-7
      groupkeeper dump groupkeeper-data/journals/*
    """
    from groupkeeper.cli.dump_folder import show

    with progress() as told:
        dumping = Dump(FilesToRead(), told, **options)
        for path in paths:
            try:
                show(dumping, str(path))
            except BrokenPipeError:
                raise
            except OSError as error:
                raise click.ClickException(f"{path}: {error}") from None
    return 1 if dumping.damages else 0
