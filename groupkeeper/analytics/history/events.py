"""Folds the events of one partition of `__group_events` into rows of tables.

    fold = EventFold(partition)
    for offset, event in ...:
        fold.add(offset, event)
    finished, under_way = fold.take(), fold.open()

Rows of `take` never change again; those of `open` are replaced by what a later call returns.
`state` is a JSON object, with which `EventFold.restore` goes on: a partition that is read in parts
has the rows of one that is read at once.

Events are those of one writer after the other, but a topic of this name may have other authors, and
a limit of the server may have left events out: what does not fit is unknown, and never a guess.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final, Self

from groupkeeper.analytics.history.epochs import Coverage, Epochs
from groupkeeper.analytics.history.event_rows import REFUSALS, event_row, out_of_range, refusal_row
from groupkeeper.analytics.history.group_fold import TABLES, GroupFold
from groupkeeper.analytics.history.rows import Rows
from groupkeeper.protocol.group_events import TYPES, Event
from groupkeeper.why.fields import LAST_MS, checked

EVENTS: Final = "events"
REFUSED: Final = "refusals"
EPOCHS: Final = "epochs"
COVERAGE: Final = "coverage"

GROUPS_MOST: Final = 100_000
"""Groups of a partition that are followed at a time. Of more, those that were heard of least lately
are finished as they are, and begin anew with their next event."""

_BEGINS: Final = frozenset(
    {
        *("group_created", "group_emptied", "member_joined", "member_rejoined", "member_replaced"),
        *("member_removed", "rebalance_started", "rebalance_cause_added", "rebalance_joined"),
        *("rebalance_completed", "rebalance_abandoned", "commits"),
    }
)
"""Types of events that tell of members: others do not make a group known."""
_LOADS: Final = frozenset({"coordinator_loaded", "coordinator_closed"})


class EventFold:
    """Events of one partition in, in the order of the log; rows out. Of `left_out` the table
    `events`, which has a row for each of them, is not made.
    """

    def __init__(self, partition: int, left_out: Collection[str] = ()) -> None:
        self._partition = partition
        self._keeps_events = EVENTS not in left_out
        self._rows: Rows = {name: [] for name in (EVENTS, REFUSED, EPOCHS, *TABLES)}
        self._groups: dict[str, GroupFold] = {}
        """The one that was heard of least lately is the first."""
        self._coverage = Coverage(partition)
        self._epochs = Epochs(partition, self._rows[EPOCHS])
        self.strange = 0
        """Events that are not followed, as a number in their envelope cannot be."""

    def add(self, offset: int, event: Event) -> None:
        """The next event. Raises ValueError if the offset does not rise."""
        self.skip(offset, event.at_ms)
        if out_of_range(event) is not None:
            self.strange += 1
            return
        is_known = event.type in TYPES
        fields = checked(event)[0] if is_known else {}
        if self._keeps_events:
            self._rows[EVENTS].append(event_row(self._partition, offset, event, fields))
        self._coverage.told(event, offset)
        event = event._replace(fields=fields)
        before = self._epochs.epoch
        self._epochs.told(event, offset)
        if event.type == "coordinator_loaded" or before not in (None, event.epoch):
            for each in self._groups.values():
                each.taken_over(event.at_ms, offset)
        if is_known:
            self._fold(event, offset)

    def skip(self, offset: int, at_ms: int) -> None:
        """The next record is no event: a tombstone, or of no known form. Raises ValueError if the
        offset does not rise.
        """
        if offset <= self._coverage.last_offset:
            last = self._coverage.last_offset
            raise ValueError(f"offset {offset} of partition {self._partition} comes after {last}")
        self._coverage.read(offset, at_ms if 0 <= at_ms <= LAST_MS else None)

    def _fold(self, event: Event, offset: int) -> None:
        if event.type in REFUSALS:
            self._rows[REFUSED].append(refusal_row(self._partition, offset, event))
        if event.group is None:
            if event.type in _LOADS:
                for each in self._groups.values():
                    each.coordinated(event, offset)
            return
        group = self._groups.pop(event.group, None)
        if group is None:
            if not _tells_of_members(event):
                return
            group = GroupFold(event.group, self._partition, self._rows)
        if event.type == "group_deleted":
            group.deleted(event.at_ms, offset)
            return
        self._groups[event.group] = group
        group.add(event, offset)
        if len(self._groups) > GROUPS_MOST:
            self._groups.pop(next(iter(self._groups))).open(self._rows)

    # -- rows ------------------------------------------------------------------------------------

    def take(self) -> Rows:
        """The rows that are finished since the last call."""
        taken = {name: [*rows] for name, rows in self._rows.items()}
        for rows in self._rows.values():
            rows.clear()
        return taken

    def open(self) -> Rows:
        """The rows that are not finished: later calls return them with what has changed."""
        rows: Rows = {name: [] for name in TABLES}
        for group in self._groups.values():
            group.open(rows)
        return rows | {EPOCHS: self._epochs.open(), COVERAGE: self._coverage.rows()}

    # -- to go on later --------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """All that is remembered, for `restore`, without the rows that `take` would return: a JSON
        object.
        """
        return {
            "partition": self._partition,
            "coverage": self._coverage.state(),
            "epochs": self._epochs.state(),
            "strange": self.strange,
            "groups": [each.state() for each in self._groups.values()],
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any], left_out: Collection[str] = ()) -> Self:
        """One that goes on where another one was when it returned this `state`."""
        partition = state["partition"]
        fold = cls(partition, left_out)
        fold._coverage = Coverage.restore(state["coverage"])
        fold._epochs = Epochs.restore(partition, fold._rows[EPOCHS], state["epochs"])
        fold.strange = state["strange"]
        for each in state["groups"]:
            fold._groups[each["group"]] = GroupFold.restore(partition, fold._rows, each)
        return fold


def _tells_of_members(event: Event) -> bool:
    if event.type != "commits":
        return event.type in _BEGINS
    return bool((event.fields.get("who") or {}).get("member"))
