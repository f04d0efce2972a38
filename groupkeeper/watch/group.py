"""Infers the events of one classic group from its records and commits, and keeps the state for it.

`history.story` infers; this module numbers the rebalances, tells of deletions, and saves the state,
so that another process continues with the next record.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from groupkeeper.history.fields import Part
from groupkeeper.history.records import (
    CONVERTED,
    GROUP_KEY_TYPE,
    CommitRun,
    GroupRecord,
    converted_in,
    kind_of,
    read_generation,
)
from groupkeeper.history.rows import KnownOffsets, Told
from groupkeeper.history.state import restore, saved
from groupkeeper.history.story import KNOWN, LOST, NEW, Gap, Story, StoryItem, inferred
from groupkeeper.protocol.errors import DecodeError

STATES: Final[Mapping[str, str]] = {
    "group_created": "Empty",
    "group_deleted": "Dead",
    "group_emptied": "Empty",
    "rebalance_started": "PreparingRebalance",
    "rebalance_joined": "CompletingRebalance",
    "rebalance_completed": "Stable",
}
"""Type of event -> state of the group after it."""
_STARTED: Final = "rebalance_started"


@dataclass(slots=True, frozen=True)
class LastRecord:
    """The last record with a value of a group."""

    offset: int
    time_ms: int
    value: bytes


@dataclass(slots=True, frozen=True)
class LastCause:
    """The cause of a group's last rebalance: `cause` of its first event, and that event's time."""

    at_ms: int
    round: int
    cause: Part
    confidence: float


class GroupWatch:
    """One group. Records are added in the order of the log, those of a batch together."""

    __slots__ = ("_rounds", "_story", "last", "last_cause", "since")

    last: LastRecord | None
    """None if the group does not exist, or its last record cannot be decoded."""
    last_cause: LastCause | None
    since: int
    """Records of the group before this offset are contained in the state."""

    def __init__(self) -> None:
        self._story: Story | None = None
        self._rounds = 0
        self.last = self.last_cause = None
        self.since = 0

    @property
    def size(self) -> int:
        """Number of members and of owned partitions, which take most of the memory."""
        story = self._story
        if story is None:
            return 1
        return 1 + len(story.held) + (0 if story.before is None else len(story.before.members))

    @property
    def is_deleted(self) -> bool:
        """Whether the group was deleted, and its next record begins a new one."""
        return self._story is not None and self._story.since == NEW

    def commit(self, run: CommitRun, whole_from: int) -> None:
        """Add commits. Of the partition's records, none is missing from offset `whole_from` on."""
        if self._story is not None:
            self._story.commit(run, run.first_offset >= whole_from, whole_from)

    def add(
        self, batch: Sequence[GroupRecord], known: KnownOffsets, *, is_lost: bool
    ) -> list[Told]:
        """Add the group's records of one batch. Returns the events that they show. `is_lost`: an
        earlier state of the group may have been dropped, so that a first record shows no new group.
        """
        conversions = converted_in(batch)
        found: list[Told] = []
        for record in batch:
            if record.key_type == GROUP_KEY_TYPE:
                converted = record.offset in conversions
                found += self._record(record, known, is_lost=is_lost, converted=converted)
        return found

    def _record(
        self, record: GroupRecord, known: KnownOffsets, *, is_lost: bool, converted: bool
    ) -> list[Told]:
        story = self._story
        if story is None:
            story = self._story = Story(LOST) if is_lost else Story.begin(record, known)
        value = record.value
        if value is None:
            was_known, self.last = story.since == KNOWN, None
            story.end(record, is_known=not converted)
            return [] if converted or not was_known else [_deleted(record)]
        try:
            now = read_generation(value)
        except DecodeError:
            self.last = None
            story.end(record, is_known=False)
            return []
        kind = CONVERTED if converted else kind_of(story.before, now)
        items = story.add(record, now, kind, known)
        self.last = LastRecord(record.offset, record.time_ms, value)
        return self._numbered(items)

    def _numbered(self, items: Sequence[StoryItem]) -> list[Told]:
        """Number the rounds of events; their first ones become the last cause."""
        found = []
        for told in items:
            if isinstance(told, Gap):
                continue
            event = told.event
            if event.type == _STARTED:
                self._rounds += 1
            number = self._rounds if event.round else 0
            state = STATES.get(event.type, "")
            event = event._replace(round=number, state=state)
            found.append(told._replace(event=event))
        ends = [each for each in found if each.event.type == "rebalance_completed"]
        for told in found:
            if told.event.type == _STARTED:
                cause = told.event.fields.get("cause") or {}
                sure = ends[0].confidence if ends else told.confidence
                at = told.event.at_ms, told.event.round
                self.last_cause = LastCause(*at, cause, sure)
        return found

    # -- state -----------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """The state for `restore` as a JSON object."""
        last, cause = self.last, self.last_cause
        return {
            "since": self.since,
            "rounds": self._rounds,
            "story": None if self._story is None else saved(self._story),
            "last": None
            if last is None
            else [last.offset, last.time_ms, base64.b64encode(last.value).decode()],
            "cause": None
            if cause is None
            else [cause.at_ms, cause.round, dict(cause.cause), cause.confidence],
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Self:
        """Restore a group from `state()`."""
        found = cls()
        found.since, found._rounds = state["since"], state["rounds"]
        if state["story"] is not None:
            found._story = restore(Story(LOST), state["story"])
        if state["last"] is not None:
            offset, time_ms, value = state["last"]
            found.last = LastRecord(offset, time_ms, base64.b64decode(value))
        if state["cause"] is not None:
            found.last_cause = LastCause(*state["cause"])
        return found


def _deleted(record: GroupRecord) -> Told:
    """The event of a tombstone; it does not say who deleted the group."""
    told = inferred(record, "group_deleted", max(0, record.time_ms), {})
    return told._replace(event=told.event._replace(state=STATES["group_deleted"]))
