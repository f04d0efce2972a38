"""What happened to one group, from its events: its rebalances, owners and members.

Rebalances are those of `why.rounds`, which `groupkeeper why` shows, too.
"""

from collections.abc import Mapping
from typing import Any, Final, Self

from groupkeeper.analytics.history.ownership import Ownership
from groupkeeper.analytics.history.round_rows import round_row
from groupkeeper.analytics.history.rows import Rows
from groupkeeper.analytics.history.sessions import UNKNOWN, Sessions
from groupkeeper.protocol.group_events import Event
from groupkeeper.why.fields import number
from groupkeeper.why.returns import Returns
from groupkeeper.why.rounds import COMPLETED, EMPTIED, LOST, SUPERSEDED, Folding, Round

ROUNDS: Final = "rounds"
OWNERSHIP: Final = "ownership"
SESSIONS: Final = "sessions"
TABLES: Final = (ROUNDS, OWNERSHIP, SESSIONS)
"""The tables of which there are rows for a group."""
_ENDS: Final = frozenset({"coordinator_loaded", "coordinator_closed"})


class GroupFold:
    """One group's events in, rows out: `rows` gets what is finished."""

    __slots__ = (
        *("_folding", "_group", "_offset", "_ownership", "_partition"),
        *("_returns", "_rows", "_sessions"),
    )

    def __init__(self, group: str, partition: int, rows: Rows) -> None:
        self._group, self._partition, self._rows = group, partition, rows
        self._folding = Folding()
        self._returns = Returns(keeps_rounds=False)
        self._sessions = Sessions(group, partition, rows[SESSIONS])
        self._ownership = Ownership(group, partition, rows[OWNERSHIP])
        self._offset = 0
        """Of the last event."""

    def add(self, event: Event, offset: int) -> None:
        """An event of the group, of a known type and with checked fields."""
        self._offset, kind = offset, event.type
        event = self._sessions.with_address(event)
        if kind == "group_created":  # its end was not read, if it was known
            self._ownership.forget(offset)
        self._sessions.add(event, offset)
        rounds = [each for each in self._folding.fold(event) if isinstance(each, Round)]
        for each in rounds:
            if each.outcome != COMPLETED:
                self._not_completed(each, event, offset)
        self._ownership.seen(event, offset)
        self._own(event, offset)
        for each in rounds:
            if each.outcome == COMPLETED:
                people = self._sessions.people
                self._tell(each, offset, self._ownership.completed(each, people, offset))

    def _own(self, event: Event, offset: int) -> None:
        kind, fields, at_ms = event.type, event.fields, event.at_ms
        who = fields.get("who") or {}
        if kind == "rebalance_started":
            self._ownership.started(at_ms)
        elif kind == "rebalance_joined":
            began_ms = at_ms - (number(fields, "duration_ms") or 0)
            self._ownership.started(began_ms)
            self._ownership.joined(fields.get("joined") or (), began_ms)
        elif kind == "member_removed" and who.get("member"):
            self._ownership.removed(who["member"], at_ms)
        elif kind == "member_replaced" and who.get("member"):
            old = fields.get("old_member") or ""
            self._ownership.replaced(old, who, at_ms, event.generation, offset)
        elif kind == "group_emptied":
            self._ownership.emptied(at_ms, event.generation, offset)

    def _not_completed(self, current: Round, event: Event, offset: int) -> None:
        if current.outcome == EMPTIED:
            self._ownership.emptied(event.at_ms, event.generation, offset)
        elif current.outcome != SUPERSEDED:
            if event.epoch == current.epoch and event.type not in _ENDS:
                self._ownership.forget(offset)  # its end was left out
            else:
                self._ownership.lost()
        self._tell(current, offset, None)

    def _tell(self, current: Round, offset: int, unowned_ms: int | None) -> None:
        self._returns.add(current)
        self._rows[ROUNDS].append(round_row(self._partition, offset, current, unowned_ms))

    # -- the coordinator and the end --------------------------------------------------------------

    def coordinated(self, event: Event, offset: int) -> None:
        """The coordinator was loaded or closed: events of the partition."""
        for each in self._folding.fold(event):
            if isinstance(each, Round):
                self._not_completed(each, event, offset)

    def taken_over(self, at_ms: int, offset: int) -> None:
        """Another coordinator has begun: it knows what was stored."""
        self._sessions.loaded(at_ms, offset)
        self._ownership.lost()

    def deleted(self, at_ms: int, offset: int) -> None:
        """The group is gone: everything ends."""
        self._sessions.all_ended(UNKNOWN, at_ms, offset)
        self._ownership.forget(offset, at_ms)
        current = self._folding.under_way
        if current is not None:
            current.outcome, current.ended_at_ms = LOST, at_ms
            self._tell(current, offset, None)

    def open(self, rows: Rows) -> None:
        """Add what is not finished to `rows`."""
        current = self._folding.under_way
        if current is not None:
            rows[ROUNDS].append(round_row(self._partition, self._offset, current, None))
        rows[SESSIONS] += self._sessions.open()
        rows[OWNERSHIP] += self._ownership.open()

    # -- to go on later ---------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """All that is remembered, for `restore`: a JSON object."""
        return {
            "group": self._group,
            "offset": self._offset,
            "folding": self._folding.state(),
            "returns": self._returns.state(),
            "sessions": self._sessions.state(),
            "ownership": self._ownership.state(),
        }

    @classmethod
    def restore(cls, partition: int, rows: Rows, state: Mapping[str, Any]) -> Self:
        """One that goes on where another one was when it returned this `state`."""
        group = state["group"]
        found = cls(group, partition, rows)
        found._offset = state["offset"]
        found._folding = Folding.restore(state["folding"])
        found._returns = Returns.restore(state["returns"])
        about = group, partition
        found._sessions = Sessions.restore(*about, rows[SESSIONS], state["sessions"])
        found._ownership = Ownership.restore(*about, rows[OWNERSHIP], state["ownership"])
        return found
