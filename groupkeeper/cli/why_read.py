"""Reads the entries that `groupkeeper why` shows, from the end or from a time on."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from groupkeeper.cli.progress import Progress
from groupkeeper.protocol.group_events import TOPIC, Event
from groupkeeper.why.rounds import Entry, Folding

if TYPE_CHECKING:
    from groupkeeper.client.group_events import EventLog

MOST_ENTRIES: Final = 10_000
"""Rounds and lines that are kept while events are read; then the oldest are left out."""


@dataclass(slots=True)
class Told:
    """What was read. `folding` goes on where the events ended."""

    entries: deque[Entry] = field(default_factory=lambda: deque(maxlen=MOST_ENTRIES))
    folding: Folding = field(default_factory=Folding)
    left_out: str = ""
    """Why earlier events are not in it; empty if they are."""

    def take(self, events: Iterable[Event]) -> None:
        for event in events:
            for entry in self.folding.add(event):
                if len(self.entries) == MOST_ENTRIES:
                    self.left_out = f"only the last {MOST_ENTRIES} entries are shown"
                self.entries.append(entry)


async def read_last(log: "EventLog", rounds: int, show: Progress) -> Told:
    """So many rounds, read from the end backwards, and no more of the log than they need."""
    pieces: list[list[Event]] = []
    started, seen = 0, 0
    start = log.start
    async for piece in log.backwards():
        pieces.append(piece)
        show(TOPIC, log.bytes_read - seen)
        seen = log.bytes_read
        started += sum(each.type == "rebalance_started" for each in piece)
        if started >= rounds:
            break
    told = Told()
    for piece in reversed(pieces):
        told.take(piece)
    if started < rounds and log.start > start:
        told.left_out = "the log is long, and its beginning was not read: use --since"
    return told


async def read_from(log: "EventLog", offset: int, show: Progress) -> Told:
    """All from an offset on."""
    told, seen = Told(), 0
    async for events in log.read(offset, log.end):
        show(TOPIC, log.bytes_read - seen)
        seen = log.bytes_read
        told.take(events)
    return told
