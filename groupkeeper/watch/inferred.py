"""Infers the events of one group from its records and commits: those that a coordinator would have
stored, as far as records show them.

    events = GroupEvents("billing")
    told = events.take(items, known)    # items of `LogReader.feed`; Told.stored() for `Folding`

A classic group has rounds (`history.story`). Of consumer, share and streams groups the records show
who joined, who is gone and which partitions moved, but no cause.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Self

from groupkeeper.history.asked import NOT_ASKED
from groupkeeper.history.causes import UNKNOWN
from groupkeeper.history.fields import Part
from groupkeeper.history.fold import GroupFold
from groupkeeper.history.newer import MEMBER_TYPES, NO_NAMES, Names, NewerStory
from groupkeeper.history.ownership import OwnedPartition
from groupkeeper.history.partition import Fed
from groupkeeper.history.records import (
    DELETED,
    GROUP_KEY_TYPE,
    OF_GROUPS,
    UNREADABLE,
    CommitRun,
    GroupRecord,
    read_record,
    with_conversions,
)
from groupkeeper.history.rows import LOG, KnownOffsets, RowSource, RowWriter, Told, instant
from groupkeeper.history.state import restore, saved
from groupkeeper.history.story import LOST, NEW, Gap, Story, StoryItem, inferred
from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.records.consumer_offsets import GROUP_CONFIGS_TYPE
from groupkeeper.protocol.records.modern_groups import EPOCH_TYPES, decode_modern_key

_TABLES: Final = ("members", "assignments")
"""Tables of which no rows are made here."""


class GroupEvents:
    """The events of one group, in the order of its records. State between two responses is that of
    its last record, and the commits since.
    """

    def __init__(self, group: str, names: Names = NO_NAMES) -> None:
        """`names`: topic id -> name, for consumer and share groups."""
        self._group, self._names = group, names
        self._story: Story | None = None
        self._newer: NewerStory | None = None
        self._moves = _Moves(group)
        self._whole_from = 0
        self._batch: list[GroupRecord] = []
        self.kind: str | None = None
        """`consumer`, `share` or `streams` if the last record is of such a group."""
        self.has_record = False
        """Whether a record was read that says whether the group exists."""
        self.unreadable = 0
        """Number of records of the group with an unreadable value."""
        self.asked = NOT_ASKED
        """What was asked about the group since the last record."""

    @property
    def is_deleted(self) -> bool:
        """Whether the group does not exist as far as is known: its next record begins a new one."""
        if self._newer is not None:
            return False
        return not self.unreadable if self._story is None else self._story.since == NEW

    @property
    def size(self) -> int:
        """Number of members, and of owned partitions of a classic group: what takes most memory."""
        story, members = self._story, len(self._moves.places)
        if story is None:
            return 1 + members
        members += 0 if story.before is None else len(story.before.members)
        return 1 + members + len(story.held)

    def take(self, items: Iterable[Fed], known: KnownOffsets) -> list[Told]:
        """Return the events of the group in a response, or in any number of whole batches. `known`:
        how far the log is known at its end.
        """
        self._know(known)
        told: list[Told] = []
        for each in items:
            if isinstance(each, GroupRecord):
                if each.group == self._group:
                    told += self._record(each, known)
            elif isinstance(each, CommitRun) and each.group == self._group:
                told += self._end_batch(known)
                self._commit(each, known)
        return told + self._end_batch(known)

    def commit(self, run: CommitRun, known: KnownOffsets) -> None:
        """Add commits of the group, as `take` does."""
        self._know(known)
        self._commit(run, known)

    def _know(self, known: KnownOffsets) -> None:
        if known.from_offset > self._whole_from and self._story is not None:
            self._story.interrupted()
        self._whole_from = known.from_offset

    def _commit(self, run: CommitRun, known: KnownOffsets) -> None:
        if self._story is not None:
            self._story.commit(run, run.first_offset >= known.from_offset)

    # -- state -----------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """The state for `restore` as a JSON object."""
        return {
            "kind": self.kind,
            "whole_from": self._whole_from,
            "story": None if self._story is None else saved(self._story),
            "newer": None if self._newer is None else saved(self._newer),
            "places": self._moves.places,
        }

    @classmethod
    def restore(cls, group: str, state: Mapping[str, Any], names: Names = NO_NAMES) -> Self:
        """Restore a group from `state()`."""
        found = cls(group, names)
        found.kind, found._whole_from = state["kind"], state["whole_from"]
        if state["story"] is not None:
            found._story = restore(Story(LOST), state["story"])
        if state["newer"] is not None:
            found._newer = restore(found._new_newer(), state["newer"])
        found._moves.places = {
            member: [(topic, number) for topic, number in some]
            for member, some in state["places"].items()
        }
        return found

    # -- records ---------------------------------------------------------------------------------

    def _record(self, record: GroupRecord, known: KnownOffsets) -> list[Told]:
        """Add a record: a converted group has several in one batch."""
        self.has_record |= record.key_type in OF_GROUPS
        is_new = bool(self._batch) and self._batch[0].batch != record.batch
        told = self._end_batch(known) if is_new else []
        self._batch.append(record)
        return told

    def _end_batch(self, known: KnownOffsets) -> list[Told]:
        batch, self._batch = self._batch, []
        told: list[Told] = []
        for record, converted in with_conversions(batch):
            if record.key_type == GROUP_KEY_TYPE:
                told += self._classic(record, known, converted=converted)
            elif record.key_type in OF_GROUPS:
                told += self._epoch(record, converted=converted)
            elif record.key_type != GROUP_CONFIGS_TYPE:
                told += self._member(record, known)
        return told

    def _classic(self, record: GroupRecord, known: KnownOffsets, *, converted: bool) -> list[Told]:
        """Return the events of the record of a classic group."""
        story = self._story
        before = None if story is None else story.before
        kind, now = read_record(record, before, converted=converted)
        if record.value is not None:
            self.kind = None
        if now is None:
            self.unreadable += kind == UNREADABLE
            if story is not None:
                story.end(record, is_known=kind == DELETED)
            return [_deleted(record)] if kind == DELETED else []
        if story is None:
            story = self._story = Story()
        told = _events(story.add(record, now, kind, known, self.asked))
        if told and told[0].event.type == "group_created" and not now.generation:
            del told[1:]  # it is empty, but was not emptied
        return told

    def _epoch(self, record: GroupRecord, *, converted: bool) -> list[Told]:
        """Return the events of the record of another group's epoch."""
        if record.value is not None:
            self.kind = EPOCH_TYPES[record.key_type]
            return []
        self._newer = None
        return [] if converted else [_deleted(record)]

    def _member(self, record: GroupRecord, known: KnownOffsets) -> list[Told]:
        """Return the events of a record of a member of a consumer, share or streams group."""
        if self._newer is None:
            self._newer = self._new_newer()
        out = RowWriter(0, known, _TABLES)
        try:
            key = decode_modern_key(record.key or b"")
            if key is not None:
                self._newer.add(record, key, self._names, out)
        except DecodeError:
            self.unreadable += 1
            return []
        told = self._moves.taken(record)
        is_gone = key is not None and key.key_type in MEMBER_TYPES and record.value is None
        if key is not None and is_gone and not told:  # it joined before what was read
            fields = {"who": {"member": key.member_id}, "cause": {"code": UNKNOWN}}
            told = [inferred(record, "member_removed", instant(record.time_ms) or 0, fields)]
        return told

    def _new_newer(self) -> NewerStory:
        self._moves = _Moves(self._group)
        return NewerStory(self._moves.about, {}, self._moves)


def _events(items: Iterable[StoryItem]) -> list[Told]:
    return [each for each in items if not isinstance(each, Gap)]


def _deleted(record: GroupRecord) -> Told:
    return inferred(record, "group_deleted", instant(record.time_ms) or 0, {})


class _Moves(GroupFold):
    """Collects the events about members of a group that the server assigns, and makes one of each
    change of a member's partitions.
    """

    __slots__ = ("_changes", "_found", "about", "places")

    def __init__(self, group: str) -> None:
        self.about = RowSource(group, 0, LOG)
        super().__init__(self.about, {"sessions": [], "ownership": [], "rounds": []})
        self._found: list[Told] = []
        self._changes: list[dict[str, object]] = []
        self.places: dict[str, list[OwnedPartition]] = {}
        """Partitions by member."""

    def add(self, told: Told) -> None:
        """Keep an event."""
        self._found.append(told)

    def assigned(
        self, offset: int, at_ms: int, generation: int, who: Part, places: Iterable[OwnedPartition]
    ) -> None:
        """Keep the partitions of a member; in epoch 0 it is gone."""
        member, some = who["member"], [*places]
        before = self.places.pop(member, [])
        if generation:
            self.places[member] = some
            if some != before:
                partitions: dict[str, list[int]] = {}
                for topic, number in some:
                    partitions.setdefault(topic, []).append(number)
                change = {"member": member, "instance": who.get("instance")}
                self._changes.append({**change, "partitions": partitions})

    def taken(self, record: GroupRecord) -> list[Told]:
        """Return the events since the last call."""
        told, changes = self._found, self._changes
        self._found, self._changes = [], []
        if changes:
            at_ms = instant(record.time_ms) or 0
            told.append(inferred(record, "assignment_changed", at_ms, {"assignment": changes}))
        return told
