"""One call of `groupkeeper dump`: what it shows, and the damage that it meets."""

import sys
from dataclasses import dataclass, field

import click

from groupkeeper.cli.progress import Progress
from groupkeeper.storage.files import Files

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
