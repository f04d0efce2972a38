"""What happened to the groups of a test broker since its start or reset, over all its restarts.

Reads the facts of each server as they are told, which is when answers leave; the stored events come
later. All calls are on the thread of the present server's loop, or while none runs.
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
"""Rounds, and events outside of rounds, that are kept of a group; then the oldest is dropped."""
GROUPS: Final = 10_000
"""Groups that are remembered; then the one that was heard of first is forgotten."""


@dataclass(slots=True)
class _Past:
    """What happened to one group."""

    folding: Folding
    partition: int
    began: int = 0
    """How many rounds have begun."""
    entries: deque[HistoryEntry] = field(default_factory=lambda: deque(maxlen=ENTRIES))


class GroupHistories:
    """The past of all groups."""

    def __init__(self, changed: Callable[[str | None], None], limits: SessionLimits) -> None:
        """`changed` is told about every group that something has happened to; None: any group."""
        self._changed = changed
        self._limits = limits
        self._past: dict[str, _Past] = {}
        self._before: dict[str, int] = {}
        """How many rounds of a group had begun before `clear`; of the last `GROUPS` groups."""
        self._life_began = 0.0

    def begin_life(self) -> None:
        """A server is about to start."""
        self._life_began = time.monotonic()

    def clear(self) -> None:
        """Forget everything but how many rounds there were."""
        for group in self._past:
            self._before[group] = self.before(group) + self.began(group)
        while len(self._before) > GROUPS:
            del self._before[next(iter(self._before))]
        self._past.clear()

    def read(self, origin: Origin, noted: NotedFact) -> None:
        """A `Reader` of facts."""
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
        """As an event of each group of the partition."""
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
        """Rounds, and events outside of rounds, the oldest first; the round under way is the last.
        Ask it when the facts of whole steps have been read.
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
        """How many rounds have begun, also those that are dropped."""
        past = self._past.get(group)
        return 0 if past is None else past.began

    def before(self, group: str) -> int:
        """How many had begun before `clear`."""
        return self._before.get(group, 0)

    def groups(self) -> list[str]:
        """Those that something has happened to, in the order in which they were heard of."""
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
    """Both in one, if they tell of the same requests that were refused."""
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
    """What does not change any more."""
    copied = copy(under_way)
    for name in ("more_causes", "added", "removed", "replaced", "rejoined"):
        setattr(copied, name, [*getattr(under_way, name)])
    return copied
