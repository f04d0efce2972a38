"""The history of each group of a test broker since its start or reset, across restarts.

Built from the server's facts, which are published when responses are sent, before the events are
stored. All calls are made on the thread of the running server's loop, or while no server runs.
"""

import time
from collections import deque
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from typing import Final

from groupkeeper.coordinator.facts import GroupsLoaded, NotedFact, OffsetsCommitted
from groupkeeper.history.returns import find_returns
from groupkeeper.history.rounds import Folding, HistoryEntry, Round, SessionLimits
from groupkeeper.observe.events import event_of
from groupkeeper.observe.fact_readers import Origin
from groupkeeper.protocol.group_events import Event, decode, encode

ENTRIES: Final = 1_000
"""Maximum number of rounds, and events outside rounds, kept per group; the newest are kept."""
GROUPS: Final = 10_000
"""Maximum number of groups; the first one seen is dropped first."""


@dataclass(slots=True)
class _Past:
    """The history of one group."""

    folding: Folding
    partition: int
    began: int = 0
    """Number of rounds started."""
    entries: deque[HistoryEntry] = field(default_factory=lambda: deque(maxlen=ENTRIES))


class GroupHistories:
    """The histories of all groups."""

    def __init__(self, changed: Callable[[str | None], None], limits: SessionLimits) -> None:
        """`changed` is called with the id of each group with new activity; None means any group."""
        self._changed = changed
        self._limits = limits
        self._past: dict[str, _Past] = {}
        self._life_began = 0.0

    def begin_life(self) -> None:
        """Note the time of a server start, to measure how long loading takes."""
        self._life_began = time.monotonic()

    def clear(self) -> None:
        """Drop everything."""
        self._past.clear()

    def read(self, origin: Origin, noted: NotedFact) -> None:
        """Add one fact; implements `Reader`."""
        fact = noted.fact
        if isinstance(fact, GroupsLoaded):
            self._loaded(origin, noted, fact)
            self._changed(None)
            return
        if not isinstance(fact, OffsetsCommitted):
            event = event_of(noted)
            if event is not None and event.group is not None:
                event = event._replace(seq=noted.order, epoch=origin.leader_epoch)
                self._add(decode(None, encode(event)), origin)  # as it will be read from the log
        self._changed(fact.group)

    def _loaded(self, origin: Origin, noted: NotedFact, fact: GroupsLoaded) -> None:
        """Add a `coordinator_loaded` event to each group of the partition."""
        fields = {
            "records": fact.records,
            "groups": fact.groups,
            "members": fact.members,
            "duration_ms": int((time.monotonic() - self._life_began) * 1000),
        }
        event = Event(
            seq=noted.order,
            epoch=origin.leader_epoch,
            node=-1,
            at_ms=noted.wall,
            mono_ms=noted.now,
            group=None,
            type="coordinator_loaded",
            fields=fields,
        )
        for past in self._past.values():
            if past.partition == origin.partition:
                _add(past, event)

    def _add(self, event: Event, origin: Origin) -> None:
        group = event.group or ""
        past = self._past.get(group)
        if past is None:
            if len(self._past) >= GROUPS:
                del self._past[next(iter(self._past))]
            past = self._past[group] = _Past(Folding(self._limits), origin.partition)
        _add(past, event)

    # -- questions -----------------------------------------------------------------------------

    def entries(self, group: str) -> list[HistoryEntry]:
        """Return rounds, and events outside rounds, oldest first; a round in progress is last.
        Call it only between steps, when all facts of the last step have been read.
        """
        past = self._past.get(group)
        if past is None:
            return []
        past.entries += past.folding.let_go()
        found = [*past.entries]
        under_way = past.folding.under_way
        if under_way is not None:
            found.append(_copied(under_way))
        find_returns(found)
        return found

    def began(self, group: str) -> int:
        """Return the number of rounds started, including dropped ones."""
        past = self._past.get(group)
        return 0 if past is None else past.began

    def groups(self) -> list[str]:
        """Return the ids of all groups with a history, in the order of their first event."""
        return [*self._past]


def _add(past: _Past, event: Event) -> None:
    if event.type == "rebalance_started":
        past.began += 1
    for entry in past.folding.add(event):
        last = past.entries[-1] if past.entries else None
        again = _again(last, entry)
        if again is None:
            past.entries.append(entry)
        else:
            past.entries[-1] = again


def _again(last: HistoryEntry | None, entry: HistoryEntry) -> Event | None:
    """Merge `requests_refused` events of the same client, API and error; None if they differ."""
    if not isinstance(last, Event) or not isinstance(entry, Event):
        return None
    if last.type != "requests_refused" or entry.type != last.type:
        return None
    if any(last.fields[key] != entry.fields[key] for key in ("who", "api", "error")):
        return None
    count = last.fields["count"] + entry.fields["count"]
    both = {**last.fields, "count": count, "last_ms": entry.fields["last_ms"]}
    return last._replace(fields=both)


def _copied(under_way: Round) -> Round:
    """Return a copy of the round in progress that later events do not change."""
    copied = copy(under_way)
    for name in ("more_causes", "added", "removed", "replaced", "rejoined"):
        setattr(copied, name, [*getattr(under_way, name)])
    return copied
