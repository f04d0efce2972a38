"""Folds the events of one group, from one source, into rounds, ownership and sessions."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from groupkeeper.history.fields import Part, number
from groupkeeper.history.ownership import OwnedPartition, Ownership
from groupkeeper.history.returns import on_one_connection
from groupkeeper.history.rounds import (
    COMPLETED,
    EMPTIED,
    LOADS,
    LOST,
    SUPERSEDED,
    Folding,
    Round,
    plan_of,
)
from groupkeeper.history.rows import Rows, RowSource, Told, round_row
from groupkeeper.history.sessions import UNKNOWN, Sessions
from groupkeeper.history.story import Gap
from groupkeeper.protocol.group_events import Event

_OWNS: Final = frozenset(
    {
        *("rebalance_started", "rebalance_joined", "rebalance_completed"),
        *("member_removed", "member_replaced", "group_emptied", "standby_activated"),
        "assignment_changed",
    }
)
"""Types of events that change which member owns a partition."""


class GroupFold:
    """Folds the events of one group and source; finished rows go to `rows`."""

    __slots__ = ("_about", "_folding", "_last", "_ownership", "_rows", "sessions")

    _folding: Folding
    sessions: Sessions
    _ownership: Ownership
    _last: int
    """Offset of the last event."""

    def __init__(self, about: RowSource, rows: Rows) -> None:
        self._about, self._rows = about, rows
        self._folding = Folding()
        self.sessions = Sessions(about, rows["sessions"])
        self._ownership = Ownership(about, rows["ownership"])
        self._last = 0

    def add(self, told: Told) -> None:
        """Add an event of the group, of a known type and with checked fields."""
        event, self._last = self.sessions.with_address(told.event), told.offset
        if event is not told.event:
            told = told._replace(event=event)
        if event.type == "group_created":  # the end of an earlier group was not read
            self._ownership.forget(told.offset)
        self.sessions.add(told)
        finished = self._folding.fold(event)
        rounds = [each for each in finished if isinstance(each, Round)] if finished else ()
        for each in rounds:
            if each.outcome != COMPLETED:
                self._not_completed(each, told)
        self._ownership.seen(told)
        if event.type in _OWNS:
            self._own(told)
        for each in rounds:
            if each.outcome == COMPLETED:
                self._tell(each, told, self._completed(each, told))

    def _completed(self, current: Round, told: Told) -> int | None:
        return self._ownership.completed(current, self.sessions.people, told.offset)

    def _own(self, told: Told) -> None:
        event, offset = told.event, told.offset
        kind, fields, at_ms = event.type, event.fields, event.at_ms
        who = fields.get("who") or {}
        if kind == "rebalance_started":
            self._ownership.started(at_ms)
        elif kind == "rebalance_joined":
            began_ms = at_ms - (number(fields, "duration_ms") or 0)
            self._ownership.started(began_ms)
            self._ownership.joined(fields.get("joined") or (), began_ms)
        elif kind == "member_removed" and who.get("member"):
            self._ownership.removed(who["member"], at_ms, told.confidence)
        elif kind == "member_replaced" and who.get("member"):
            old = fields.get("old_member") or ""
            self._ownership.replaced(old, who, at_ms, event.generation, offset)
            if fields.get("quick"):
                self._ownership.stored()
        elif kind == "standby_activated" and who.get("member"):
            places = _places(fields.get("partitions") or {})
            self._ownership.assigned(offset, at_ms, event.generation, who, places)
            self._ownership.stored()
        elif kind == "assignment_changed":
            self._moved(event, offset)
        elif kind == "group_emptied":
            self._ownership.emptied(at_ms, event.generation, offset)
        elif kind == "rebalance_completed" and not event.round:
            self._completed(plan_of(event), told)  # a record after a gap, not a rebalance

    def _moved(self, event: Event, offset: int) -> None:
        """Take over what the server assigned; first what members gave up."""
        people = self.sessions.people
        members = event.fields.get("assignment") or []
        for each in sorted(members, key=lambda one: sum(map(len, one["partitions"].values()))):
            who = people.get(each["member"]) or each
            self._ownership.assigned(
                offset, event.at_ms, event.generation, who, _places(each["partitions"])
            )
        self._ownership.stored()

    def assigned(
        self, offset: int, at_ms: int, generation: int, who: Part, places: Iterable[OwnedPartition]
    ) -> None:
        """Set the partitions of a member to exactly `places`; other members keep theirs."""
        self._ownership.assigned(offset, at_ms, generation, who, places)

    def _not_completed(self, current: Round, told: Told) -> None:
        event, offset = told.event, told.offset
        if current.outcome == EMPTIED:
            self._ownership.emptied(event.at_ms, event.generation, offset)
        elif current.outcome != SUPERSEDED:
            if event.epoch == current.epoch and event.type not in LOADS:
                self._ownership.forget(offset)  # the event of its end is missing
            else:
                self._ownership.lost()
        self._tell(current, told, None)

    def _tell(self, current: Round, told: Told, unowned_ms: int | None) -> None:
        """Add the row of a round. Members that came back on the same connection were not away."""
        stayed = on_one_connection(current)
        members = {(each.get("who") or {}).get("member") for each in current.added} - stayed
        away = [self.sessions.away_ms(each) for each in members if each]
        away_ms = max((each for each in away if each is not None), default=None)
        row = round_row(self._about.partition, told, current, unowned_ms, away_ms)
        self._rows["rounds"].append(row)

    # -- the coordinator and the end --------------------------------------------------------------

    def coordinated(self, told: Told) -> None:
        """Add a `coordinator_loaded` or `coordinator_closed` event of the partition."""
        for each in self._folding.fold(told.event):
            if isinstance(each, Round):
                self._not_completed(each, told)

    def taken_over(self, at_ms: int, offset: int) -> None:
        """Another coordinator took over: it has only the stored state."""
        self.sessions.loaded(at_ms, offset)
        self._ownership.taken_over(at_ms, offset)

    def end(self, gap: Gap) -> None:
        """End everything: the group was deleted, or its later records are unrelated."""
        self.sessions.all_ended(UNKNOWN, gap.at_ms, gap.offset)
        self._ownership.forget(gap.offset, gap.owned_ms)
        current = self._folding.under_way
        if current is not None:
            current.outcome, current.ended_at_ms = LOST, gap.at_ms
            self._tell(current, self._told(gap.offset), None)

    def open(self, rows: Rows) -> None:
        """Add unfinished rows to `rows`."""
        current = self._folding.under_way
        if current is not None:
            told = self._told(self._last)
            rows["rounds"].append(round_row(self._about.partition, told, current, None, None))
        rows["sessions"] += self.sessions.open()
        rows["ownership"] += self._ownership.open()

    def _told(self, offset: int) -> Told:
        """A stand-in for the last event, for rows that no event finished."""
        nothing = Event(0, 0, -1, 0, 0, self._about.group, "")
        return Told(offset, nothing, self._about.source, self._about.confidence)


def _places(partitions: Mapping[str, Sequence[int]]) -> list[OwnedPartition]:
    return [(topic, each) for topic, some in partitions.items() for each in some]
