"""Folds repeated events between two rebalances into one row each, for the page's timeline.

A static member that restarts every minute leaves hundreds of events between two rebalances; the
page shows one row with their number and the last of them. `groupkeeper why --json` and the API's
`why` have each event.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from groupkeeper.history.rounds import HistoryEntry
from groupkeeper.protocol.group_events import Event
from groupkeeper.topics.slices import Pace
from groupkeeper.turns import Slices
from groupkeeper.why.folding import Repeated, folded, repeated_text
from groupkeeper.why.lines import line
from groupkeeper.why.texts import time_text

SHOWN: Final = 20
"""Maximum number of sentences per row: the last ones."""
ALIKE_MOST: Final = 1_000
"""Maximum number of events that are compared for one sentence; takes about 3 ms."""


@dataclass(slots=True)
class EventsRow:
    """Events of one type, without a rebalance between them."""

    events: list[Event]

    # Any: JSON.
    def as_json(self) -> dict[str, Any]:
        """Return the row: number, first and last time, and the sentences of the last events."""
        first, last = self.events[0], self.events[-1]
        lines = [
            {"at_ms": each.at_ms, "text": line_text(each)} for each in self.events[-SHOWN:][::-1]
        ]
        return {
            "kind": "events",
            "type": first.type,
            "epoch": first.epoch,
            "seq": first.seq,
            "count": len(self.events),
            "first_ms": first.at_ms,
            "last_ms": last.at_ms,
            "text": self._text(),
            "lines": lines,
        }

    def _text(self) -> str:
        """Return one sentence about all events if they are alike, else that of the last one."""
        shown = folded(self.events) if len(self.events) <= ALIKE_MOST else []
        if len(shown) == 1 and isinstance(shown[0], Repeated):
            return _untimed(repeated_text(shown[0]), shown[0].at_ms)
        return line_text(self.events[-1])


def line_text(event: Event) -> str:
    """Return the line of `groupkeeper why` about an event, without its time."""
    return _untimed(line(event), event.at_ms)


def _untimed(text: str, at_ms: int) -> str:
    return text.removeprefix(time_text(at_ms)).lstrip()


def timeline_rows(entries: Iterable[HistoryEntry]) -> Slices[list[HistoryEntry | EventsRow]]:
    """Return the entries, with events of one type gathered at the place of the last one. A row ends
    with a rebalance, and with an event of the whole partition: a load, a stall or an end.
    """
    found: list[HistoryEntry | EventsRow] = []
    rows, pace = dict[str, EventsRow](), Pace()  # by type, in the order of their last events
    for entry in entries:
        if pace.spent():
            yield
        if isinstance(entry, Event) and entry.group is not None:
            row = rows.pop(entry.type, None) or EventsRow([])
            row.events.append(entry)
            rows[entry.type] = row
            continue
        found += rows.values()
        rows = {}
        found.append(EventsRow([entry]) if isinstance(entry, Event) else entry)
    return [*found, *rows.values()]
