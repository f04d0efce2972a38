"""The history of a group from its stored events, unchanged or folded into rounds."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from groupkeeper.history.returns import find_returns
from groupkeeper.history.rounds import Folding, HistoryEntry, Round, SessionLimits, time_of
from groupkeeper.protocol.group_events import Event, decode
from groupkeeper.topics.slices import Pace
from groupkeeper.turns import Slices
from groupkeeper.web.encoding import Raw
from groupkeeper.web.group_view import driver_of, live_of
from groupkeeper.web.parts import HttpRefused, Object, Parts, RoutedRequest
from groupkeeper.web.repeats import EventsRow, timeline_rows
from groupkeeper.web.route import EventPosition, place_text
from groupkeeper.web.stored_events import EventReader, Stored
from groupkeeper.why.entries import entry_json, last_rounds

ROUNDS: Final = 10
"""Default number of rounds in a response."""
ROUNDS_MOST: Final = 1_000
EVENTS: Final = 100
"""Default number of events in a response."""
EVENTS_MOST: Final = 1_000
EVENTS_BYTES: Final = 1024 * 1024
"""Maximum size of the events in a response, except for a single larger event."""
EVENT_BYTES: Final = 100
"""Event size that costs as much time as one item of a `Pace`."""
UNREADABLE: Final = "unreadable"
"""Key in `unknown` that counts events that cannot be decoded, such as those of later versions."""

STARTED: Final = "rebalance_started"
_STARTED: Final = b'"type":"%b"' % STARTED.encode()
_MEMBER: Final = "member_"
"""How types of events begin that tell of one member."""


async def events(parts: Parts, call: RoutedRequest) -> Object:
    """`GET /groups/G/events`: the events after a place, or the last ones."""
    limit: int = call.query["limit"]
    after: EventPosition | None = call.query["after"]
    reader = _reader_of(parts, call)
    start, end = await reader.bounds()
    found: list[Stored] = []
    if after is None:
        following = end
        async for begin, piece in reader.backwards(start, end):
            found = [*piece, *found]
            if len(found) >= limit or begin == start or _fitting(found) < len(found):
                break
        found = found[-limit:]
        found = found[len(found) - _fitting(found[::-1]) :]
    else:
        following = start = await reader.after(after)
        async for some in reader.read(start, end):
            found += [each for each in some.events if each.place > after]
            following = some.following
            if len(found) >= limit or _fitting(found) < len(found):
                break
        some_fit = min(limit, _fitting(found))
        if len(found) > some_fit:
            found = found[:some_fit]
            following = found[-1].offset + 1
    if not found:
        _check_known(parts, call)
    last = await reader.place_before(following)
    return {
        "group": call.names["group"],
        "events": [Raw(each.value) for each in found],
        "next": None if last is None else place_text(last),
        "more": following < end,
    }


def _fitting(events: Sequence[Stored]) -> int:
    """Return how many of the first events fit into `EVENTS_BYTES`; at least one if there is any."""
    size = 0
    for number, each in enumerate(events):
        size += len(each.value)
        if number and size > EVENTS_BYTES:
            return number
    return len(events)


async def rounds(parts: Parts, call: RoutedRequest) -> Object:
    """`GET /groups/G/rounds`."""
    told = await _tell(parts, call)
    if not told.entries:
        _check_known(parts, call)
    only = [each for each in told.entries if isinstance(each, Round)]
    return {
        "group": call.names["group"],
        "rounds": await parts.turns.run(_as_json(only)),
        "events_enabled": parts.options.settings.group_events_enabled,
        "next": told.earlier,
        "unknown": dict(told.unknown),
    }


async def why(parts: Parts, call: RoutedRequest) -> Object:
    """`GET /groups/G/why`: the output of `groupkeeper why --json`."""
    told = await _tell(parts, call)
    if not told.entries:
        _check_known(parts, call)
    entries = await parts.turns.run(_as_json(told.entries))
    live = await live_of(parts, call.names["group"])
    if live is not None:
        entries.append({"kind": "live", **live})
    return {
        "group": call.names["group"],
        "entries": entries,
        "next": told.earlier,
        "unknown": dict(told.unknown),
    }


async def timeline(parts: Parts, call: RoutedRequest) -> Object:
    """`GET /groups/G/timeline`: rounds, and the events between them with repeated ones folded."""
    told = await _tell(parts, call)
    if not told.entries:
        _check_known(parts, call)
    return {
        "group": call.names["group"],
        "entries": await parts.turns.run(
            _as_json(await parts.turns.run(timeline_rows(told.entries)))
        ),
        "events_enabled": parts.options.settings.group_events_enabled,
        "next": told.earlier,
        "unknown": dict(told.unknown),
    }


@dataclass(slots=True)
class _Told:
    """Entries, and the place before which earlier ones can be read (None: at the start)."""

    entries: list[HistoryEntry]
    earlier: str | None
    unknown: dict[str, int] = field(default_factory=dict)


async def _tell(parts: Parts, call: RoutedRequest) -> _Told:
    """Return the entries selected by the parameters `last`, `since` and `before`."""
    reader = _reader_of(parts, call)
    start, end = await reader.bounds()
    if call.query["before"] is not None:
        epoch, seq = call.query["before"]
        end = await reader.after((epoch, seq - 1))
    since: int | None = call.query["since"]
    last: int | None = call.query["last"]
    oldest = start if since is None else min(await reader.since(since), end)
    wanted = ROUNDS if last is None and since is None else ROUNDS_MOST if last is None else last
    pieces: list[list[Stored]] = []
    begin, started = end, 0
    async for begin, piece in reader.backwards(oldest, end):  # noqa: B007  # used below
        pieces.append(piece)
        started += await parts.turns.run(_count_started(piece))
        if started > wanted:  # one more, since events of the first round may precede its start
            break
    read = [each for piece in reversed(pieces) for each in piece]
    settings = parts.options.settings
    folding = Folding(
        SessionLimits(settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms)
    )
    entries, began = await parts.turns.run(_folded(folding, read))
    shown = last_rounds(entries, wanted)
    is_more = begin > start or len(shown) < len(entries)
    first = next((each for each in shown if isinstance(each, Round)), None) if is_more else None
    earlier = None if first is None else began.get((first.epoch, first.round))
    if is_more and earlier is None:  # no event of the group in the part that was read
        earlier = await reader.place_at(begin)
    text = None if earlier is None else place_text(earlier)
    return _Told(shown, text, dict(folding.unknown))


def _count_started(piece: Sequence[Stored]) -> Slices[int]:
    number, pace = 0, Pace()
    for each in piece:
        number += _STARTED in each.value
        if pace.spent(1 + len(each.value) // 10_000):
            yield
    return number


def _folded(
    folding: Folding, read: Sequence[Stored]
) -> Slices[tuple[list[HistoryEntry], dict[tuple[int, int], EventPosition]]]:
    """Return the entries, and the place of each round's first event by (epoch, round)."""
    entries, began, pace = list[HistoryEntry](), dict[tuple[int, int], EventPosition](), Pace()
    step, place = (0, 0), (0, 0)  # of changes of membership, which may start a round
    for each in read:
        event = _decoded(each)
        if event is None:
            folding.unknown[UNREADABLE] += 1
        else:
            entries += folding.add(event)
            if event.type.startswith(_MEMBER) and step != (event.epoch, event.mono_ms):
                step, place = (event.epoch, event.mono_ms), each.place
            is_theirs = event.type == STARTED and step == (event.epoch, event.mono_ms)
            first = place if is_theirs else each.place
            began.setdefault((event.epoch, event.round), first)
        if pace.spent(_cost(each)):
            yield
    entries += folding.rest()
    find_returns(entries)
    entries.sort(key=time_of)
    return entries, began


def _decoded(stored: Stored) -> Event | None:
    """Decode an event; None if that fails, as for an event of a later version."""
    try:
        return decode(stored.key, stored.value)
    except ValueError:
        return None


def _cost(stored: Stored) -> int:
    """Return the cost of an event in items of a `Pace`; one with many members takes ms."""
    return 1 + len(stored.value) // EVENT_BYTES


def _as_json(entries: Sequence[HistoryEntry | EventsRow]) -> Slices[list[Object]]:
    found = []
    for entry in entries:
        found.append(entry.as_json() if isinstance(entry, EventsRow) else entry_json(entry))
        yield
    return found


def _check_known(parts: Parts, call: RoutedRequest) -> None:
    """Raise HttpRefused if a group without events does not exist, either."""
    group = call.names["group"]
    if driver_of(parts, group).peek(group) is None:
        raise HttpRefused(404, f"group '{group}' does not exist, and has no such events")


def _reader_of(parts: Parts, call: RoutedRequest) -> EventReader:
    group = call.names["group"]
    return EventReader(parts.topics, parts.turns, driver_of(parts, group).index, group)
