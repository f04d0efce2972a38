"""Folds repeated events between two rebalances into one row each, for the page's timeline.

A static member that restarts every minute leaves hundreds of events between two rebalances; the
page shows one row with their number and the last of them. `groupkeeper why --json` and the API's
`why` have each event.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from groupkeeper.history.rounds import HistoryEntry
from groupkeeper.protocol.group_events import Event
from groupkeeper.why.lines import line
from groupkeeper.why.texts import time_text

SHOWN: Final = 20
"""Maximum number of sentences per row: the last ones."""


@dataclass(slots=True)
class Repeats:
    """Events of one type, without a rebalance between them; at least one."""

    events: list[Event]

    # Any: JSON.
    def as_json(self) -> dict[str, Any]:
        """Return the row: number, first and last time, and the sentences of the last events."""
        first, last = self.events[0], self.events[-1]
        lines = [
            {"at_ms": each.at_ms, "text": sentence(each)} for each in self.events[-SHOWN:][::-1]
        ]
        return {
            "kind": "events",
            "type": first.type,
            "epoch": first.epoch,
            "seq": first.seq,
            "count": len(self.events),
            "first_ms": first.at_ms,
            "last_ms": last.at_ms,
            "text": lines[0]["text"],
            "lines": lines,
        }


def sentence(event: Event) -> str:
    """Return the line of `groupkeeper why` about an event, without its time."""
    return line(event).removeprefix(time_text(event.at_ms)).lstrip()


def folded(entries: Iterable[HistoryEntry]) -> list[HistoryEntry | Repeats]:
    """Return the entries, with events of one type gathered at the place of the last one. A row ends
    with a rebalance, and with an event of the whole partition: a load, a stall or an end.
    """
    found: list[HistoryEntry | Repeats] = []
    some = list[Event]()
    for entry in entries:
        if isinstance(entry, Event) and entry.group is not None:
            some.append(entry)
            continue
        found += _by_type(some)
        some = []
        found.append(Repeats([entry]) if isinstance(entry, Event) else entry)
    return found + _by_type(some)


def _by_type(events: Sequence[Event]) -> list[HistoryEntry | Repeats]:
    """Return one row for each type, in the order of their last events."""
    rows = dict[str, list[Event]]()
    for each in events:
        same = rows.pop(each.type, [])
        same.append(each)
        rows[each.type] = same
    return [Repeats(each) for each in rows.values()]
