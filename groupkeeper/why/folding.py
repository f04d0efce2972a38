"""Folds events that repeat themselves into one line for people: restarts, fencings, refusals.

    for each in folded(entries):
        print(entry_text(each))

Only events between two rebalances are folded. Machines get every event: see `entries.entry_json`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from groupkeeper.history.fields import number
from groupkeeper.history.rounds import HistoryEntry, Round
from groupkeeper.protocol.group_events import Event
from groupkeeper.why.lines import guess_text
from groupkeeper.why.texts import count, name_of, person, some_of, span, time_text

LEAST: Final = 3
"""Fewer alike events are told one by one."""
TWO_CLIENTS: Final = ("duel", "taken_over")
"""Guesses that a static member did not restart."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """Alike events, in order."""

    events: tuple[Event, ...]

    @property
    def at_ms(self) -> int:
        """Time of the first one, in Unix ms."""
        return self.events[0].at_ms

    @property
    def until_ms(self) -> int:
        """Time of the last one, in Unix ms."""
        return self.events[-1].at_ms


ShownEntry = HistoryEntry | Repeated


def folded(entries: Iterable[HistoryEntry]) -> list[ShownEntry]:
    """Return the entries in order; alike events are one entry, at the place of the first."""
    shown: list[ShownEntry] = []
    stretch: list[Event] = []
    for each in entries:
        if isinstance(each, Round):
            shown += _fold(stretch)
            shown.append(each)
            stretch = []
        else:
            stretch.append(each)
    return shown + _fold(stretch)


def _fold(events: list[Event]) -> list[ShownEntry]:
    alike: dict[object, list[Event]] = {}
    for each in events:
        alike.setdefault(_kind(each), []).append(each)
    shown: list[ShownEntry] = []
    for each in events:
        some = alike[_kind(each)]
        if len(some) < LEAST:
            shown.append(each)
        elif some[0] is each:
            shown.append(Repeated(tuple(some)))
    return shown


def _kind(event: Event) -> object:
    """Return a key that is equal for alike events, and unique for events that are never folded."""
    fields = event.fields
    who = fields.get("who") or {}
    if event.type == "member_replaced":
        return event.type, fields.get("quick"), fields.get("likely") in TWO_CLIENTS
    if event.type == "member_fenced":
        return event.type, who.get("instance"), fields.get("api"), fields.get("likely")
    if event.type == "requests_refused":
        return event.type, name_of(who), fields.get("api"), fields.get("error")
    return id(event)


def repeated_text(repeated: Repeated) -> str:
    """Return the time of the first event and a sentence about all of them."""
    return f"{time_text(repeated.at_ms)}  {_sentence(repeated)}"


def _sentence(repeated: Repeated) -> str:
    events = repeated.events
    last, times = events[-1].fields, len(events)
    within = f"in {span(repeated.until_ms - repeated.at_ms)}"
    if events[0].type == "member_replaced":
        names = some_of(dict.fromkeys(name_of(each.fields.get("who") or {}) for each in events))
        known = [number(each.fields, "away_ms") for each in events]
        away = [each for each in known if each is not None]
        spans = dict.fromkeys((span(min(away)), span(max(away)))) if away else ()
        after = f", away for {' to '.join(spans)}" if spans else ""
        how = "without a rebalance" if last.get("quick") else "with a rebalance"
        did = "changed hands" if last.get("likely") in TWO_CLIENTS else "restarted"
        return f"{names} {did} {times} times {within}{after}, {how}{guess_text(last)}"
    if events[0].type == "member_fenced":
        return (
            f"{person(last.get('who'))} was fenced {times} times {within}: its "
            f"{last.get('api', 'request')} was refused, as another member has its "
            f"group.instance.id{guess_text(last)}"
        )
    refused = sum(number(each.fields, "count") or 1 for each in events)
    return (
        f"{count(refused, 'request')} ({last.get('api', 'unknown')}) of {person(last.get('who'))} "
        f"refused with {last.get('error', 'an error')} {within}"
    )
