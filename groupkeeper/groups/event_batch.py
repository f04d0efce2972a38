"""Makes the records of `__group_events`, on the thread that writes the flush."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from groupkeeper.coordinator.causes import Who
from groupkeeper.coordinator.facts import NotedFact, RebalanceStarted
from groupkeeper.groups.event_budget import BODY, Charged
from groupkeeper.groups.event_limits import EVENT_BYTES, SenderLimit, fitting, sender_of_fact
from groupkeeper.groups.event_sums import CommitSum, RefusalSum
from groupkeeper.groups.partition_log import LateRecords
from groupkeeper.groups.services import EventServices
from groupkeeper.observe.events import event_of, type_of, who_of
from groupkeeper.protocol.group_event_types import TYPES
from groupkeeper.protocol.group_events import Event
from groupkeeper.protocol.record_batch import HEADER_SIZE
from groupkeeper.protocol.timed_batch import OVERHEAD, TimedRecord, size_of_record

FACT_BYTES: Final = 300
"""Estimated size of an event, for the size of a flush."""
DROPPED_MS: Final = 1_000
"""Minimum interval between two `events_dropped`, while the partition is served."""

EventRecord = NotedFact | CommitSum | RefusalSum | Event
"""Sources of events. An Event gets its place (seq, epoch, node) here."""
_Sized = tuple[TimedRecord, int]
"""A record, and its size in a batch."""


def _sized(record: TimedRecord) -> _Sized:
    return record, size_of_record(record)


def _key(group: str | None) -> bytes:
    return (group or "").encode("utf-8", "backslashreplace")


def type_of_item(item: EventRecord) -> str:
    """Return the type of the event that an item becomes."""
    if isinstance(item, NotedFact):
        return type_of(type(item.fact).__name__)
    if isinstance(item, Event):
        return item.type
    return "commits" if isinstance(item, CommitSum) else "requests_refused"


def is_end(item: EventRecord) -> bool:
    """Return whether an item is the event that the partition was closed."""
    return isinstance(item, Event) and item.type == "coordinator_closed"


def _event_of(item: EventRecord) -> Event | None:
    if isinstance(item, NotedFact):
        return event_of(item)
    return item if isinstance(item, Event) else item.event()


def _source(
    item: NotedFact | CommitSum | RefusalSum, kind: str, partition: int
) -> tuple[Charged, Who | None]:
    """Return what an item's event is charged to, and the client that caused it."""
    if isinstance(item, CommitSum):
        who = Who.calling(item.caller, item.member, item.instance)
        return Charged(kind, partition, item.head[0], who.host, 0), who
    noted = item if isinstance(item, NotedFact) else item.last
    assert noted is not None
    fact, sender = noted.fact, sender_of_fact(noted.fact)
    host = None if sender is None else sender.host
    return Charged(kind, partition, fact.group or None, host, fact.round), sender


@dataclass(slots=True)
class Dropped:
    """Events that were left out since the last `events_dropped`."""

    types: Counter[str] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    """Cause codes of the rebalances among them."""
    senders: list[Who | None] = field(default_factory=list)
    """At most two different senders: enough to know whether there is more than one."""
    group: str | None = None

    def copy(self) -> "Dropped":
        """Return a copy, to restore the counts later."""
        types, causes, senders = self.types.copy(), self.causes.copy(), [*self.senders]
        return Dropped(types, causes, senders, self.group)

    def add(self, kind: str, group: str | None, who: Who | None) -> None:
        """Count an event of a type, with its group and sender."""
        if not self.types:
            self.group = group
        elif self.group != group:
            self.group = None
        if who is not None or kind not in BODY:  # BODY has the sender of its rebalance
            self._add_sender(who)
        self.types[kind] += 1

    def _add_sender(self, who: Who | None) -> None:
        for number, known in enumerate(self.senders):
            if known is None or who is None:
                if known is who:
                    return
            elif (known.client_id, known.host) == (who.client_id, who.host):
                is_of_member = known.member or known.instance is not None
                if is_of_member and known != who:  # another member of the client
                    self.senders[number] = replace(known, member="", instance=None)
                return
        if len(self.senders) < 2:
            self.senders.append(who)

    def add_types(self, types: Mapping[str, int]) -> None:
        """Count events of which only the type is known."""
        if types:
            self.types.update(types)
            self.senders, self.group = [None, None], None

    def event(self, at_ms: int, mono_ms: int) -> Event:
        """Return the `events_dropped` for these counts."""
        [who] = self.senders if len(self.senders) == 1 else [None]
        fields = {
            "count": self.types.total(),
            "types": dict(self.types),
            "causes": dict(self.causes),
            "who": who_of(who),
        }
        return Event(-1, -1, -1, at_ms, mono_ms, self.group, "events_dropped", fields=fields)


class EventMaker:
    """Makes the events of one partition. For one call at a time, on any thread."""

    def __init__(self, partition: int, services: EventServices) -> None:
        self._partition = partition
        self._services = services
        self._most = services.message_max_bytes
        self._limit = SenderLimit()
        self._epoch = -1
        self._seq = 0
        self._dropped = Dropped()
        self._told_ms = -DROPPED_MS
        self.is_stopping = False
        """The process is ending: this is the last chance to report dropped events."""
        self._left_out: Counter[str] = Counter()
        self.bug: Exception | None = None
        """The last exception while making an event; to be logged and cleared."""

    def begin(self, epoch: int) -> None:
        """Number events from 0 in a new epoch."""
        if epoch != self._epoch:
            self._epoch, self._seq = epoch, 0

    @property
    def has_begun(self) -> bool:
        """Whether an event of this epoch was made."""
        return bool(self._seq)

    def take_left_out(self) -> Mapping[str, int]:
        """Return the events that were left out here since the last call, by type."""
        if not self._left_out:
            return {}
        left_out, self._left_out = self._left_out, Counter()
        return left_out

    @property
    def has_dropped(self) -> bool:
        """Whether an `events_dropped` is due, now or soon."""
        return bool(self._dropped.types)

    def stand(self) -> Callable[[], None]:
        """Return a function that restores the present counts of left out and reported events."""
        dropped, told_ms, left_out = self._dropped, self._told_ms, self._left_out
        kept = dropped.copy() if dropped.types else None  # nearly always None
        counts = left_out.copy() if left_out else None

        def undo() -> None:
            self._dropped, self._told_ms = kept or Dropped(), told_ms
            self._left_out = Counter() if counts is None else counts

        return undo

    def records(
        self, items: Iterable[EventRecord], dropped: Mapping[str, int], at: tuple[int, int]
    ) -> list[list[TimedRecord]]:
        """Return the records of some items, in batches that fit into a message. `dropped`: events
        that were left out earlier, by type. `at`: Unix and monotonic ms.
        """
        self._dropped.add_types(dropped)
        batches: list[list[TimedRecord]] = []
        room = 0
        for record, size in self._made(items, at):
            if size > room:
                batches.append([])
                room = self._most - HEADER_SIZE
            room -= size
            batches[-1].append(record)
        return batches

    def _made(self, items: Iterable[EventRecord], at: tuple[int, int]) -> Iterable[_Sized]:
        has_room = self._services.limits.room.suffices(at[1])
        for item in items:
            if has_room and is_end(item):
                yield from self._told(at)  # so that everything is reported before a clean end
            try:
                record = self._of_item(item, at[1], has_room)
            except Exception as bug:  # noqa: BLE001  # costs only this event
                kind, self.bug = type_of_item(item), bug
                self._dropped.add_types({kind: 1})
                self._left_out[kind] += 1
                continue
            if record is not None:
                yield record
        if has_room and (self.is_stopping or at[1] - self._told_ms >= DROPPED_MS):
            yield from self._told(at)

    def _told(self, at: tuple[int, int]) -> Iterable[_Sized]:
        """Yield the `events_dropped` for events left out since the last one."""
        if not self._dropped.types:
            return
        dropped, self._dropped, self._told_ms = self._dropped, Dropped(), at[1]
        record = self._record(dropped.event(*at))
        if record is not None:
            yield _sized(record)

    def _of_item(self, item: EventRecord, now_ms: int, has_room: bool) -> _Sized | None:
        """Return an item's record; None if it has no event, or that was left out and counted."""
        kind = type_of_item(item)
        if kind not in TYPES:
            return None
        if isinstance(item, Event):  # from the partition itself
            record = self._record(item) if has_room else None
            if record is None:
                self._leave_out(item.type, item.group, None)
                return None
            return _sized(record)
        charged, who = _source(item, kind, self._partition)
        record, budget = None, self._services.limits.budget
        if budget.admits(charged, now_ms, has_room=has_room) and self._is_in_number(
            item, kind, who
        ):
            event = _event_of(item)
            if event is None:
                return None
            record = self._record(event)
        if record is None:
            self._leave_out(kind, charged.group, who)
            if isinstance(item, NotedFact) and isinstance(item.fact, RebalanceStarted):
                self._dropped.causes[str(item.fact.cause.code)] += 1
            return None
        found = _sized(record)
        budget.charge(charged, found[1], now_ms)
        return found

    def _is_in_number(
        self, item: NotedFact | CommitSum | RefusalSum, kind: str, who: Who | None
    ) -> bool:
        # Facts that wrote records are limited by bytes, not by number.
        if not isinstance(item, NotedFact) or item.with_records:
            return True
        return self._limit.admits_fact(kind, item, who)

    def _leave_out(self, kind: str, group: str | None, who: Who | None) -> None:
        self._dropped.add(kind, group, who)
        self._left_out[kind] += 1

    def _record(self, event: Event) -> TimedRecord | None:
        # `_replace` takes three times as long.
        placed = Event(self._seq, self._epoch, self._services.node_id, *event[3:])
        key = _key(event.group)
        most = self._most - HEADER_SIZE - OVERHEAD - len(key)
        value = fitting(self._services.personal.applied(placed), min(most, EVENT_BYTES))
        if value is None:
            return None
        self._seq += 1
        return TimedRecord(event.at_ms, key, value)


class EventBatch(LateRecords):
    """The events of one flush, to be made with it."""

    __slots__ = ("_at", "_dropped", "_maker", "_undo", "items", "made")

    def __init__(
        self,
        maker: EventMaker,
        items: Sequence[EventRecord],
        dropped: Mapping[str, int],
        at: tuple[int, int],
    ) -> None:
        """`at`: Unix and monotonic ms."""
        super().__init__([], 0, 0, FACT_BYTES * len(items), [])
        self._maker = maker
        self._dropped = dropped
        self._at = at
        self.items = items
        self.made = 0
        """Number of events made."""
        self._undo: Callable[[], None] | None = None

    def withdraw(self) -> Mapping[str, int]:
        """Undo the batch, which was not written. Returns earlier drops that are unreported."""
        if self._undo is not None:
            self._undo()
        return self._dropped

    def make(self) -> Sequence[Sequence[TimedRecord]]:
        self._undo = self._maker.stand()
        batches = self._maker.records(self.items, self._dropped, self._at)
        self.made = sum(map(len, batches))
        return batches
