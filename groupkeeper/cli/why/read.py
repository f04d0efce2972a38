"""Reads the entries that `groupkeeper why` shows: the last rounds, or those since a time."""

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from groupkeeper.history.returns import find_returns
from groupkeeper.history.rounds import Folding, HistoryEntry, Round, SessionLimits, time_of
from groupkeeper.protocol.group_events import Event
from groupkeeper.why.texts import time_text

if TYPE_CHECKING:
    from groupkeeper.client import CallFailed
    from groupkeeper.client.group_events import EventTopicReader

MOST_ENTRIES: Final = 10_000
"""Maximum number of entries kept while events are read; older ones are dropped."""
MOST_MEMBERS: Final = 200_000
"""The same for the members listed in rounds, some 100 MB."""


class FollowedLog(Protocol):
    """A log whose events can be followed from `end` on."""

    end: int

    def follow(
        self, start: int, wait_ms: Callable[[], int], lost: "Callable[[CallFailed], None]"
    ) -> AsyncIterator[list[Event]]:
        """Yield new events forever, and an empty list after each `wait_ms()` without any."""
        ...


@dataclass(slots=True)
class ReadEntries:
    """The entries read so far. `folding` continues where the events ended."""

    entries: deque[HistoryEntry] = field(default_factory=deque)
    folding: Folding = field(default_factory=Folding)
    left_out: str = ""
    """Why earlier events are missing; empty if they are not."""
    members: int = 0
    """Number of members in the rounds of `entries`."""

    def all(self, *, with_rest: bool = True) -> list[HistoryEntry]:
        """Return the entries in order; with the rest, also those that are not over yet."""
        found = [*self.entries, *(self.folding.rest() if with_rest else ())]
        find_returns(found)
        return sorted(found, key=time_of)

    def forget_before(self, at_ms: int | None) -> None:
        """Drop entries before a time, in Unix ms; None drops none."""
        if at_ms is not None:
            self.entries = deque(each for each in self.entries if time_of(each) >= at_ms)

    def take(self, events: Iterable[Event]) -> None:
        for event in events:
            for entry in self.folding.add(event):
                self.entries.append(entry)
                self.members += _members_in(entry)
                if len(self.entries) > MOST_ENTRIES or self.members > MOST_MEMBERS:
                    self._forget()

    def _forget(self) -> None:
        """Drop the oldest entries, but never the last one."""
        while len(self.entries) > 1 and (
            len(self.entries) > MOST_ENTRIES or self.members > MOST_MEMBERS
        ):
            self.members -= _members_in(self.entries.popleft())
        oldest = time_text(time_of(self.entries[0]))
        self.left_out = f"too much was stored: only entries since {oldest} are shown"


def _members_in(entry: HistoryEntry) -> int:
    if not isinstance(entry, Round):
        return 0
    lists = (entry.expected, entry.joined, entry.missing, entry.assignment or ())
    return sum(map(len, lists))


async def read_last(log: "EventTopicReader", rounds: int, limits: SessionLimits) -> ReadEntries:
    """Read the last rounds backwards from the end, and no more of the log than necessary."""
    pieces: list[list[Event]] = []
    started = 0
    start = log.start
    async for piece in log.backwards():
        pieces.append(piece)
        started += sum(each.type == "rebalance_started" for each in piece)
        if started >= rounds:
            break
    told = ReadEntries(folding=Folding(limits))
    for piece in reversed(pieces):
        told.take(piece)
    if started < rounds and log.start > start:
        oldest = time_text(log.oldest_ms)
        told.left_out = f"only events since {oldest} were read: give --since an earlier time"
    return told


async def read_from(log: "EventTopicReader", offset: int, limits: SessionLimits) -> ReadEntries:
    """Read all entries from an offset on."""
    told = ReadEntries(folding=Folding(limits))
    async for events in log.read(offset, log.end):
        told.take(events)
    return told
