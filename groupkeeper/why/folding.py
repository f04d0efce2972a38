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
            if each.type == "rebalance_deferred" and stretch and _is_its_join(stretch[-1], each):
                stretch.pop()  # the line says that it joined
            stretch.append(each)
    return shown + _fold(stretch)


def _is_its_join(before: Event, event: Event) -> bool:
    members = [(each.fields.get("who") or {}).get("member") for each in (before, event)]
    return before.type == "member_joined" and members[0] == members[1]


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
        is_seat = _reserved_ms(event) is not None
        return event.type, is_seat, fields.get("quick"), fields.get("likely") in TWO_CLIENTS
    if event.type == "seat_reserved":
        return event.type, who.get("instance") or who.get("client_id"), who.get("host")
    if event.type == "member_fenced":
        return event.type, who.get("instance"), fields.get("api"), fields.get("likely")
    if event.type == "requests_refused":
        return event.type, name_of(who), fields.get("api"), fields.get("error")
    return id(event)


def _reserved_ms(event: Event) -> int | None:
    return number(event.fields.get("evidence") or {}, "reserved_ms")


def repeated_text(repeated: Repeated) -> str:
    """Return the time of the first event and a sentence about all of them."""
    return f"{time_text(repeated.at_ms)}  {_sentence(repeated)}"


def _sentence(repeated: Repeated) -> str:
    events = repeated.events
    last, times = events[-1].fields, len(events)
    within = f"in {span(repeated.until_ms - repeated.at_ms)}"
    if events[0].type == "member_replaced":
        return _replaced(events, within)
    if events[0].type == "seat_reserved":
        return f"{person(last.get('who'))} was lost {times} times {within}, and its place kept"
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


def _replaced(events: tuple[Event, ...], within: str) -> str:
    last, times, is_seat = events[-1].fields, len(events), _reserved_ms(events[0]) is not None
    who = [each.fields.get("who") or {} for each in events]
    # A dynamic member has another id each time.
    names = [(is_seat and each.get("client_id")) or name_of(each) for each in who]
    known = [number(each.fields, "away_ms") for each in events]
    away = [each for each in known if each is not None]
    spans = dict.fromkeys((span(min(away)), span(max(away)))) if away else ()
    after = f", away for {' to '.join(spans)}" if spans else ""
    how = "without a rebalance" if last.get("quick") else "with a rebalance"
    did = "changed hands" if last.get("likely") in TWO_CLIENTS else "restarted"
    if last.get("source"):  # records do not show whether the old client ended
        did = "restarted, or changed hands,"
    cost = f": {_still(events)} partition-seconds, and nobody else stopped" if is_seat else ""
    text = f"{some_of(dict.fromkeys(names))} {did} {times} times {within}{after}, {how}"
    return f"{text}{cost}{guess_text(last)}"


def _still(events: tuple[Event, ...]) -> int:
    """Return for how many partition-seconds the partitions of these members stood still."""
    parts = [(each.fields, each.fields.get("evidence") or {}) for each in events]
    unread_ms = sum(
        (number(fields, "away_ms") or 0) * (number(evidence, "partitions") or 0)
        for fields, evidence in parts
    )
    return round(unread_ms / 1_000)
