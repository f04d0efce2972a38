"""Folds the events of one group into rounds: one `Round` per rebalance, from cause to assignments.

    folding = Folding()
    entries = [entry for event in events for entry in folding.add(event)]
    entries += folding.rest()

Events are of one group and of its partition, in the order of (epoch, seq). An entry is a finished
`Round`, or an event outside of rounds. If the events of the start were not read, a round lacks its
beginning. `state.saved` and `restore` continue a fold in another process.
"""

from collections import Counter
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final

from groupkeeper.history.alike import Alike, count_alike
from groupkeeper.history.fields import Part, checked, number, with_fields
from groupkeeper.history.unread import Incident, RoundCosts
from groupkeeper.protocol.group_event_types import TYPES
from groupkeeper.protocol.group_events import INFERRED, SEEN_START, SHORTENED, Event

UNDER_WAY: Final = "under_way"
COMPLETED: Final = "completed"
EMPTIED: Final = "emptied"
SUPERSEDED: Final = "superseded"
LOST: Final = "lost"
"""Outcomes. `lost`: the coordinator closed or moved before the round was over."""

PEOPLE: Final = 10_000
"""Maximum number of members whose client is remembered; the least recently seen is dropped."""


@dataclass(slots=True, frozen=True)
class SessionLimits:
    """The range of `session.timeout.ms` that the coordinator accepts; Kafka's defaults."""

    min_ms: int = 6_000
    """Setting `group.min.session.timeout.ms`."""
    max_ms: int = 1_800_000
    """Setting `group.max.session.timeout.ms`."""


@dataclass(slots=True, frozen=True)
class Outage:
    """The time before a load in which no event was stored."""

    ms: int
    is_exact: bool
    """True if a close of the coordinator marks the start; else the outage is shorter than `ms`,
    which is counted from the last event."""


@dataclass(slots=True)
class Round:
    """One rebalance. Fields ending in `_at_ms` are Unix ms, other `_ms` are durations; None is
    unknown. Parts of events (`cause`, `who`, list items) are as in docs/events.md.
    """

    group: str
    epoch: int
    round: int
    generation: int
    outcome: str = UNDER_WAY
    """`completed`, `emptied` (no member was left), `superseded` (by the next round), `lost` (with
    the coordinator) or `under_way`."""
    group_type: str | None = None
    """`consumer` for an epoch (`generation`) of a consumer group (KIP-848); else None."""
    started_at_ms: int | None = None
    ended_at_ms: int | None = None
    cause: Part | None = None
    more_causes: list[Part] = field(default_factory=list)
    from_state: str | None = None
    members: int | None = None
    expected: list[str] = field(default_factory=list)
    deadline_ms: int | None = None
    joined: list[Part] = field(default_factory=list)
    missing: list[Part] = field(default_factory=list)
    ended_by: str | None = None
    last: Part | None = None
    """The last member to arrive: `member`, `instance`, `after_ms` and `who` (null if unknown)."""
    leader: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    join_ms: int | None = None
    leader_ms: int | None = None
    duration_ms: int | None = None
    standstill_ms: int | None = None
    """The longest standstill of any partition as the event states it, or else the duration of the
    round; both include preceding superseded rounds."""
    assignment: list[Part] | None = None
    partitions: int | None = None
    """Number of assigned partitions; None if unknown."""
    moved: int | None = None
    unassigned_ms: int | None = None
    kept: bool | None = None
    """Whether members kept their partitions while they rejoined."""
    unread_ms: int | None = None
    """Estimate of the partition-milliseconds in which nobody read; None if unknown."""
    added: list[Part] = field(default_factory=list)
    """`at_ms`, `who` and `kind` of members that joined."""
    removed: list[Part] = field(default_factory=list)
    """`at_ms`, `who` and `cause` of members that left or were removed, and the number of their
    `partitions`; that is null if unknown."""
    replaced: list[Part] = field(default_factory=list)
    rejoined: list[Part] = field(default_factory=list)
    repeats: int = 1
    """Number of successive rounds with this cause, including this one."""
    repeats_since_ms: int | None = None
    """Time from the first of these rounds to this one."""
    repeats_from: str | None = None
    """The state before the first of these rounds."""
    returned_ms: int | None = None
    """For a member lost in this round that came back: time from its last request until a client
    with the same instance id, or host and client id, joined."""
    away_ms: int | None = None
    """The same duration, in the round in which the member came back."""
    away_connection: str | None = None
    """`open` or `closed`: that member's connection when its session ended; null if unknown."""
    session_timeout_ms: int | None = None
    """Session timeout of the member that was lost or came back, or triggered the round."""
    rebalance_timeout_ms: int | None = None
    """Its rebalance timeout, for most clients `max.poll.interval.ms`; not in the JSON."""
    outage: Outage | None = None
    """The outage before the last load; null if unknown."""
    source: str | None = None
    """`log` if the round is inferred from records, which do not show when it began. None if a
    coordinator stored its events; then neither this nor `confidence` is in the JSON."""
    confidence: float | None = None
    """How sure the inferred cause is, from 0 to 1; of an unknown cause, that there was a round."""
    not_before_ms: int | None = None
    first_seen_ms: int | None = None
    """Of an inferred round, bounds of its start, if coordinators were asked: the last time without
    it, and the first time with it."""
    limits: SessionLimits = SessionLimits()
    """Limits of the coordinator, for advice; not in the JSON."""
    arrived: int | None = None
    """How many members joined, even if the list `joined` was cut; not in the JSON."""
    clients: list[Part] = field(default_factory=list)
    """A member for each client software seen in the round; not in the JSON."""
    incident: Incident | None = None
    """Of a round in which members were lost that came back, or came back; not in the JSON."""

    def as_json(self) -> dict[str, Any]:
        """Return the round as a JSON object; its field names are stable."""
        whole = {name: getattr(self, name) for name in JSON_FIELDS}
        # asdict would copy each of thousands of members.
        whole["outage"] = None if self.outage is None else asdict(self.outage)
        if self.source is not None:
            whole |= {name: getattr(self, name) for name in (*INFERRED, *SEEN_START)}
        return whole


JSON_FIELDS: Final = tuple(
    each.name
    for each in fields(Round)
    if each.name not in ("rebalance_timeout_ms", "limits", "arrived", "clients", "incident")
    and each.name not in (*INFERRED, *SEEN_START)
)

HistoryEntry = Round | Event


def time_of(entry: HistoryEntry) -> int:
    """Return when the entry happened, or began, in Unix ms."""
    if isinstance(entry, Event):
        return entry.at_ms
    return entry.started_at_ms or entry.ended_at_ms or 0


_MEMBERSHIP: Final = {
    "member_joined": "added",
    "member_removed": "removed",
    "member_replaced": "replaced",
    "member_rejoined": "rejoined",
}
"""Type of event -> the list of the round that receives it."""
_QUIET: Final = frozenset(
    {"commits", "member_rejoined", "group_created", "rebalance_joined", "rebalance_completed"}
)
"""Types of events that make no entry outside of a round."""
_AFTER_MEMBERSHIP: Final = (
    *("rebalance_deferred", "standby_activated", "assignment_changed", "group_converted"),
)
LOADS: Final = frozenset({"coordinator_loaded", "coordinator_closed"})
"""Types of partition events that concern its groups."""


class Folding:
    """Folds events, in order, into entries. `limits` are passed on to the rounds."""

    under_way: Round | None
    _before: list[Event]
    """Changes of membership in the current step, which may start a round."""
    _closed: list[int] | None
    _superseded_ms: int
    _alike: Alike | None
    _people: dict[str, Part]
    _costs: RoundCosts
    _last: tuple[str, int] | None
    """Type and time of the last event."""
    _outage: Outage | None
    """The outage before the load of this epoch."""

    def __init__(self, limits: SessionLimits | None = None) -> None:
        self._limits = limits or SessionLimits()
        self.unknown: Counter[str] = Counter()
        """Number of events per unknown type, and of unknown fields as `type.field`."""
        self.under_way = self._closed = self._alike = self._last = self._outage = None
        self._before, self._people, self._superseded_ms = [], {}, 0
        self._costs = RoundCosts()

    def add(self, event: Event) -> list[HistoryEntry]:
        """Return the entries that this event finishes."""
        if event.type not in TYPES:
            self.unknown[event.type] += 1
            return []
        fields, strange = checked(event)
        self.unknown.update(f"{event.type}.{name}" for name in strange)
        return self.fold(with_fields(event, fields))

    def fold(self, event: Event) -> list[HistoryEntry]:
        """Return the entries finished by an event of a known type with `checked` fields."""
        event = self._after_outage(event)
        self._meet(event)
        first = self._before[0] if self._before else event
        is_same_step = (event.epoch, event.mono_ms) == (first.epoch, first.mono_ms)
        entries = [] if is_same_step else self.let_go()
        current = self.under_way
        if current is not None and (event.type in LOADS or event.epoch != current.epoch):
            entries.append(self._close(current, LOST, event))
        if event.type == "rebalance_started":
            if self.under_way is not None:  # the event of its end is missing
                entries.append(self._close(self.under_way, LOST, event))
            self._start(event)
        elif event.round and event.type not in LOADS:
            entries += self._in_round(event)
        elif event.type in _MEMBERSHIP:
            self._before.append(event)
        elif event.type not in _QUIET:
            if event.type in _AFTER_MEMBERSHIP:
                entries += self.let_go()
            entries.append(event)
        return entries

    def rest(self) -> list[HistoryEntry]:
        """Return the remaining entries at the end of the input, and the round under way."""
        return self.let_go() + ([] if self.under_way is None else [self.under_way])

    def let_go(self) -> list[HistoryEntry]:
        """Return the changes of membership in the last step if no round followed."""
        found: list[HistoryEntry] = [each for each in self._before if each.type not in _QUIET]
        self._before = []
        return found

    def _round_of(self, event: Event) -> Round:
        found = Round(event.group or "", event.epoch, event.round, event.generation)
        found.limits, found.protocol_type = self._limits, self._costs.protocol_type
        return found

    def _after_outage(self, event: Event) -> Event:
        """Return the event; for a load, with the `outage` before it if known."""
        before, self._last = self._last, (event.type, event.at_ms)
        if event.type != "coordinator_loaded":
            return event
        self._outage = self._alike = None  # clients may all rejoin: not a series of alike rounds
        if before is not None:
            is_exact = before[0] == "coordinator_closed"
            self._outage = Outage(max(0, event.at_ms - before[1]), is_exact)
            event = event._replace(fields={**event.fields, "outage": asdict(self._outage)})
        return event

    def _start(self, event: Event) -> None:
        fields = event.fields
        started = self._round_of(event)
        started.cause = fields.get("cause")
        started.from_state, started.group_type = fields.get("from_state"), fields.get("group_type")
        started.source, started.confidence = (fields.get(name) for name in INFERRED)
        started.members = fields.get("members")
        started.expected = list(fields.get("expected") or ())
        started.deadline_ms = fields.get("deadline_ms")
        evidence = (started.cause or {}).get("evidence") or {}
        started.session_timeout_ms = number(evidence, "session_timeout_ms")
        started.started_at_ms = event.at_ms
        started.not_before_ms, started.first_seen_ms = (number(fields, each) for each in SEEN_START)
        for each in self._before:
            _keep(started, each)
        self._before = []
        self._alike = count_alike(self._alike, started)
        self.under_way, self._closed = started, None  # a recreated group counts from 1

    def _in_round(self, event: Event) -> list[HistoryEntry]:
        if event.type == "commits":  # a sum of commits may be of two rounds and generations
            return []
        if [event.epoch, event.round] == self._closed:
            return [] if event.type == "group_emptied" or event.type in _QUIET else [event]
        # Without one its beginning was not read.
        current = self.under_way = self.under_way or self._round_of(event)
        current.generation = event.generation
        if event.type in _MEMBERSHIP:
            _keep(current, event)
        elif event.type == "rebalance_cause_added":
            current.more_causes.append(event.fields.get("cause") or {})
        elif event.type == "rebalance_joined":
            self._joined(current, event.fields)
        elif event.type == "rebalance_completed":
            _completed(current, event.fields)
            over = self._close(current, COMPLETED, event)
            self._forget_people(over)
            return [over]
        elif event.type == "rebalance_abandoned":
            why = SUPERSEDED if event.fields.get("why") == SUPERSEDED else EMPTIED
            return [self._close(current, why, event)]
        elif event.type not in _QUIET:
            return [event]
        return []

    def _joined(self, current: Round, fields: Part) -> None:
        current.leader, current.protocol = fields.get("leader"), fields.get("protocol")
        self._costs.protocol_type = fields.get("protocol_type") or self._costs.protocol_type
        current.protocol_type = self._costs.protocol_type
        current.join_ms, current.ended_by = fields.get("duration_ms"), fields.get("ended_by")
        current.joined = list(fields.get("joined") or ())
        if fields.get("joined") is not None:  # the list may have been cut
            current.arrived = number(fields.get(SHORTENED) or {}, "joined") or len(current.joined)
        current.missing = [
            {**each, "who": self._people.get(each.get("member", ""))}
            for each in fields.get("missing") or ()
        ]
        for each in current.joined:
            if each.get("member") == fields.get("last"):
                current.last = {**each, "who": self._people.get(each["member"])}

    def _close(self, current: Round, outcome: str, event: Event) -> Round:
        current.outcome = outcome
        current.ended_at_ms = event.at_ms
        current.outage = self._outage
        current.source, current.confidence = (event.fields.get(name) for name in INFERRED)
        if current.source is not None and current.group_type is None:
            current.started_at_ms = None  # records show only how it ended
        if current.started_at_ms is not None:
            if current.duration_ms is None:
                current.duration_ms = max(0, event.at_ms - current.started_at_ms)
            still = current.unassigned_ms
            still = current.duration_ms if still is None else still
            current.standstill_ms = still + self._superseded_ms
        self._superseded_ms = (current.standstill_ms or 0) if outcome == SUPERSEDED else 0
        self._costs.close(current, self._people)
        if outcome == EMPTIED:
            self._costs.emptied(event.at_ms)
        elif outcome == COMPLETED:
            plan = current.assignment if current.partitions is not None else None
            self._costs.completed(current, plan)
        if current.source is not None:
            current.unread_ms = None
        self._closed = [current.epoch, current.round]
        self.under_way = None
        return current

    def _meet(self, event: Event) -> None:
        fields, people = event.fields, self._people
        self._costs.meet(event)
        cause = fields.get("cause")
        for who in (cause.get("who") if cause else None, fields.get("who")):
            if who and (member := who.get("member")):
                people.pop(member, None)
                people[member] = who
        while len(people) > PEOPLE:
            del people[next(iter(people))]

    def _forget_people(self, current: Round) -> None:
        """Drop clients that are no longer members."""
        if current.arrived == len(current.joined):
            stay = {each["member"] for each in (*current.joined, *current.missing)}
            self._people = {name: who for name, who in self._people.items() if name in stay}
            self._costs.forget(stay)


def plan_of(event: Event) -> Round:
    """Return the assignments of a `rebalance_completed` outside of a round."""
    current = Round(event.group or "", event.epoch, event.round, event.generation)
    current.ended_at_ms = event.at_ms
    _completed(current, event.fields)
    return current


def _keep(current: Round, event: Event) -> None:
    into: list[Part] = getattr(current, _MEMBERSHIP[event.type])
    into.append({"at_ms": event.at_ms, "who": {}, **event.fields})


def _completed(current: Round, fields: Part) -> None:
    current.leader_ms, current.duration_ms = fields.get("leader_ms"), fields.get("duration_ms")
    current.moved, current.unassigned_ms = fields.get("moved"), fields.get("unassigned_ms")
    current.assignment, current.kept = fields.get("assignment"), fields.get("kept")
    if current.assignment is not None and "assignment" not in (fields.get(SHORTENED) or {}):
        current.partitions = sum(
            len(some)
            for each in current.assignment
            for some in (each.get("partitions") or {}).values()
        )
