"""One call of `groupkeeper dump`: what it shows, and the damage that it meets."""

import sys
from dataclasses import dataclass, field

import click

from groupkeeper.cli.progress import Progress
from groupkeeper.cli.record_text import RecordText, consumer_offset, group_event, plain
from groupkeeper.protocol.group_events import TOPIC as EVENT_TOPIC
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

    def text_of(self, folder: str) -> RecordText:
        """What makes the records of a folder, or a log, text."""
        topic = folder.rpartition("/")[2].rpartition("-")[0]
        if self.offsets or topic == OFFSETS_TOPIC:
            return consumer_offset
        return group_event if topic == EVENT_TOPIC else plain
