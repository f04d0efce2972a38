"""Sums up frequent facts: one event for many commits of a member, or many stale requests.

Counting is done on the event loop and costs a dictionary lookup; the events are made later, on the
thread that writes them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final

from groupkeeper.coordinator.caller import Caller
from groupkeeper.coordinator.causes import Who
from groupkeeper.coordinator.facts import NotedFact, OffsetsCommitted, RequestRefused
from groupkeeper.observe.events import event_of, who_of
from groupkeeper.protocol.group_events import SHORTENED, Event

COMMITS_S: Final = 60.0
"""How long the commits of a member are counted before they are reported."""
MEMBERS_MOST: Final = 1_000
"""Members per partition whose commits are counted at a time; commits of others are left out."""
PLACES_MOST: Final = 1_000
"""Topic partitions reported per member and minute; the rest is only counted."""
REFUSALS_S: Final = 10.0
"""How long stale requests of a sender, with one API and error, are counted after the first one,
which is reported immediately."""
SENDERS_MOST: Final = 1_000
"""Senders per partition whose stale requests are counted at a time; others are left out."""
NAMES_MOST: Final = 4_000
"""Maximum total length of the ids of a member whose commits are counted."""
NAME_CHARACTERS: Final = 255
"""Maximum length of a stale request's ids here and in its event; longer ids are cut. Such a request
may name a group that does not exist, so the id may be anything."""


@dataclass(slots=True)
class CommitSum:
    """The commits of one member."""

    caller: Caller
    member: str
    instance: str | None
    head: tuple[str, int, str]
    """Group, generation and state at the last commit, whose fact would have all offsets."""
    at: tuple[int, int]
    """Unix and monotonic milliseconds of the last commit."""
    requests: int = 0
    places: int = 0
    partitions: dict[str, dict[int, None]] = field(default_factory=dict)
    heartbeats: int | None = None
    """Heartbeats of the member, as of its last commit; None if it is not a member."""
    longest_gap_ms: int | None = None
    """Longest interval between two heartbeats."""
    skipped: int = 0
    """Number of partitions beyond `PLACES_MOST`, which were skipped."""

    def event(self) -> Event | None:
        group, generation, state = self.head
        fields: dict[str, Any] = {
            "who": who_of(Who.calling(self.caller, self.member, self.instance)),
            "requests": self.requests,
            "partitions": {topic: sorted(some) for topic, some in self.partitions.items()},
            "heartbeats": self.heartbeats,
            "longest_gap_ms": self.longest_gap_ms,
        }
        if self.skipped:
            fields[SHORTENED] = {"partitions": self.places + self.skipped}
        wall, now = self.at
        place = -1, -1, -1
        return Event(*place, wall, now, group, "commits", generation, str(state), 0, fields)


class CommitSums:
    """The commits of a partition's groups since the last `take`."""

    def __init__(self) -> None:
        self._members: dict[tuple[str, str, str, str], CommitSum] = {}
        self.left_out = 0
        """Commits that were not counted since the last `take`."""

    def __bool__(self) -> bool:
        return bool(self._members)

    def add(self, noted: NotedFact) -> None:
        """Count a durable commit."""
        fact = noted.fact
        assert isinstance(fact, OffsetsCommitted)
        peer = fact.caller.peer
        key = fact.group, fact.member, peer.client_id, peer.host
        known = self._members.get(key)
        if known is None:
            if len(self._members) >= MEMBERS_MOST or sum(map(len, key)) > NAMES_MOST:
                self.left_out += 1
                return
            who = fact.caller, fact.member, fact.instance
            known = self._members[key] = CommitSum(*who, ("", 0, ""), (0, 0))
        known.requests += 1
        known.head = fact.group, fact.generation, fact.state
        known.at = noted.wall, noted.now
        if fact.rhythm is not None:
            known.heartbeats, gap_ms = fact.rhythm
            known.longest_gap_ms = max(gap_ms, known.longest_gap_ms or 0)
        for topic, accepted in islice(fact.partitions, PLACES_MOST + 1):  # may be named twice
            some = known.partitions.get(topic)
            if some is not None and accepted.keys() <= some.keys():  # nearly always
                continue
            for index in accepted:
                if some is not None and index in some:
                    continue
                if known.places >= PLACES_MOST:
                    known.skipped = max(known.skipped, fact.offsets - known.places, 1)
                    return
                if some is None:
                    some = known.partitions[topic] = {}
                some[index] = None
                known.places += 1

    def take(self) -> Iterator[CommitSum]:
        """Return and reset all counts."""
        members, self._members, self.left_out = self._members, {}, 0
        yield from members.values()


def cut(noted: NotedFact) -> NotedFact:
    """Shorten the ids of a stale request to `NAME_CHARACTERS`; rarely necessary."""
    fact = noted.fact
    assert isinstance(fact, RequestRefused)
    who, instance = fact.who, fact.who.instance
    names = fact.group, who.member, instance or "", who.client_id
    if max(map(len, names)) <= NAME_CHARACTERS:
        return noted
    group, member, short, client_id = (name[:NAME_CHARACTERS] for name in names)
    instance = None if instance is None else short
    who = replace(who, member=member, instance=instance, client_id=client_id)
    return replace(noted, fact=replace(fact, group=group, who=who))


@dataclass(slots=True)
class RefusalSum:
    """Stale requests of one sender with one API and error, after the first one."""

    due: float
    """When they are reported, in seconds of the caller's clock."""
    count: int = 0
    first_ms: int = 0
    last: NotedFact | None = None

    def event(self) -> Event | None:
        assert self.last is not None
        event = event_of(self.last)
        if event is not None:
            fields = {"count": self.count, "first_ms": self.first_ms}
            event = event._replace(fields={**event.fields, **fields})
        return event


class RefusalSums:
    """The stale requests of a partition's groups."""

    def __init__(self) -> None:
        self._senders: dict[tuple[str, ...], RefusalSum] = {}
        """In the order in which they are due."""

    def admits(self, noted: NotedFact, now: float) -> bool | None:
        """Return whether a stale request, already `cut`, is reported now. False if it is counted,
        None if it is left out. `now` is in seconds of one clock.
        """
        fact = noted.fact
        assert isinstance(fact, RequestRefused)
        who = fact.who
        key = fact.group, who.member, who.client_id, who.host, fact.api, fact.error
        known = self._senders.get(key)
        if known is None:
            if len(self._senders) >= SENDERS_MOST:
                return None
            self._senders[key] = RefusalSum(now + REFUSALS_S)
            return True
        if not known.count:
            known.first_ms = noted.wall
        known.count += 1
        known.last = noted
        return False

    @property
    def due(self) -> float | None:
        """When `take` has to be called next; None if nothing is counted."""
        return next((each.due for each in self._senders.values()), None)

    def take(self, now: float) -> Iterator[RefusalSum]:
        """Return the sums that are due. A sender without new requests is dropped, so that its next
        request is reported immediately.
        """
        for key, known in list(self._senders.items()):
            if known.due > now:
                break
            del self._senders[key]
            if known.count:
                yield known
                self._senders[key] = RefusalSum(now + REFUSALS_S)
