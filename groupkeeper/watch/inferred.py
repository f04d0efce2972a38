"""Infers the events of one group from its records and commits: those that a coordinator would have
stored, as far as records show them.

    events = GroupEvents("billing")
    told = events.take(items, known)    # items of `LogReader.feed`; Told.stored() for `Folding`

Classic groups (`history.story`) and consumer groups (KIP-848, `history.newer`) have rounds. Of
share and streams groups the records show who joined, who is gone and what moved, but no cause.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Self

from groupkeeper.history.asked import NOT_ASKED
from groupkeeper.history.causes import REMOVED, UNKNOWN
from groupkeeper.history.epochs import CONSUMER, GoneMember, Teller
from groupkeeper.history.inference import InferredCause
from groupkeeper.history.newer import MEMBER_TYPES, NewerItem, NewerStory
from groupkeeper.history.newer_departures import NO_LIMITS, LimitsByGroup
from groupkeeper.history.newer_topics import NO_NAMES, Names
from groupkeeper.history.partition import Fed
from groupkeeper.history.records import (
    CONVERTED,
    DELETED,
    GROUP_KEY_TYPE,
    OF_GROUPS,
    UNREADABLE,
    CommitRun,
    Generation,
    GroupRecord,
    read_record,
    with_conversions,
)
from groupkeeper.history.rows import KnownOffsets, RowWriter, Told, instant
from groupkeeper.history.state import restore, saved
from groupkeeper.history.story import LOST, NEW, Story, StoryItem, inferred
from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.records.consumer_offsets import GROUP_CONFIGS_TYPE
from groupkeeper.protocol.records.modern_groups import EPOCH_TYPES, ModernKey, decode_modern_key

_TABLES: Final = ("members", "assignments")
"""Tables of which no rows are made here."""
CLASSIC: Final = "classic"
"""Type of a classic group, as ListGroups names it."""


class GroupEvents:
    """The events of one group, in the order of its records. State between two responses is that of
    its last record, and the commits since.
    """

    def __init__(
        self, group: str, names: Names = NO_NAMES, sessions: LimitsByGroup = NO_LIMITS
    ) -> None:
        """`names`: topic id -> name; `sessions`: consumer group -> settings of its sessions. Both
        may grow.
        """
        self._group, self._names, self._sessions = group, names, sessions
        self._story: Story | None = None
        self.newer: NewerStory | None = None
        """The state of a group that is not a classic one."""
        self._gone: list[GoneMember] = []
        """Members whose records a conversion has deleted."""
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
        if self.newer is not None:
            return False
        return not self.unreadable if self._story is None else self._story.since == NEW

    @property
    def size(self) -> int:
        """Number of members, and of owned partitions: what takes most memory."""
        story, newer = self._story, self.newer
        size = 1
        if story is not None:
            size += len(story.held) + (0 if story.before is None else len(story.before.members))
        if newer is not None:
            size += len(newer.members) + len(newer.owners.held)
        return size

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
        if known.from_offset > self._whole_from:
            if self._story is not None:
                self._story.interrupted()
            if self.newer is not None:
                self.newer.owners.interrupted()
        self._whole_from = known.from_offset

    def _commit(self, run: CommitRun, known: KnownOffsets) -> None:
        is_whole = run.first_offset >= known.from_offset
        if self.newer is not None:
            self.newer.commit(run, is_whole)
        elif self._story is not None:
            self._story.commit(run, is_whole)

    # -- state -----------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """The state for `restore` as a JSON object."""
        return {
            "kind": self.kind,
            "whole_from": self._whole_from,
            "story": None if self._story is None else saved(self._story),
            "newer": None if self.newer is None else saved(self.newer),
        }

    @classmethod
    def restore(
        cls,
        group: str,
        state: Mapping[str, Any],
        names: Names = NO_NAMES,
        sessions: LimitsByGroup = NO_LIMITS,
    ) -> Self:
        """Restore a group from `state()`."""
        found = cls(group, names, sessions)
        found.kind, found._whole_from = state["kind"], state["whole_from"]
        if state["story"] is not None:
            found._story = restore(Story(LOST), state["story"])
        if state["newer"] is not None:
            found.newer = restore(found._new_newer(), state["newer"])
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
            elif record.key_type in OF_GROUPS and record.value is None:
                told += self._newer_end(record, converted=converted)
            elif record.key_type != GROUP_CONFIGS_TYPE:
                told += self._newer_record(record, known)
        if self.newer is not None:
            told += _events(self.newer.settle())
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
            if kind == CONVERTED:
                newer = self.newer = self._new_newer()
                newer.is_converted = before is not None and bool(before.members)
                return [_converted(record, CLASSIC, CONSUMER)]
            return [_deleted(record)] if kind == DELETED else []
        if story is None:
            story = self._story = Story()
        gone = [each for each in self._gone if each.member.member not in now.members]
        self._gone = []
        told = _left_by_conversion(gone, record, now) if converted else []
        found = _events(story.add(record, now, kind, known, self.asked))
        story.converted_by = _last_of(gone, now)
        if found and found[0].event.type == "group_created" and not now.generation:
            del found[1:]  # it is empty, but was not emptied
        return told + found

    def _newer_end(self, record: GroupRecord, *, converted: bool) -> list[Told]:
        """Return the events of the tombstone of a consumer, share or streams group."""
        newer, self.newer = self.newer, None
        if not converted:
            told = [] if newer is None else _events(newer.settle())
            return [*told, _deleted(record)]
        if newer is None:
            return []
        items, self._gone = newer.end(record)
        return _events(items)

    def _newer_record(self, record: GroupRecord, known: KnownOffsets) -> list[Told]:
        """Return the events of another record of a consumer, share or streams group."""
        if record.key_type in OF_GROUPS:
            self.kind = EPOCH_TYPES[record.key_type]
        try:
            key = decode_modern_key(record.key or b"")
            if key is None:
                return []
            if self.newer is None and record.value is None:
                return self._unknown_gone(record, key)
            if self.newer is None:
                self.newer = self._new_newer()
            return _events(self.newer.add(record, key, RowWriter(0, known, _TABLES)))
        except DecodeError:
            self.unreadable += 1
            return []

    def _unknown_gone(self, record: GroupRecord, key: ModernKey) -> list[Told]:
        """Return the event of a member that joined before what was read."""
        if key.key_type not in MEMBER_TYPES:
            return []
        fields = {"who": {"member": key.member_id}, "cause": {"code": UNKNOWN}}
        return [inferred(record, "member_removed", instant(record.time_ms) or 0, fields)]

    def _new_newer(self) -> NewerStory:
        return NewerStory(self._names, self._sessions)


def _events(items: Iterable[StoryItem | NewerItem]) -> list[Told]:
    return [each for each in items if isinstance(each, Told)]


def _left_by_conversion(
    gone: Sequence[GoneMember], record: GroupRecord, now: Generation
) -> list[Told]:
    """Return the events of a group that becomes a classic one, and of who is not in it."""
    teller = Teller(record, now.generation, "")
    for each in gone:
        teller.gone(each, is_in_round=False)
    return [*teller.told, _converted(record, CONSUMER, CLASSIC)]


def _last_of(gone: Sequence[GoneMember], now: Generation) -> InferredCause | None:
    """Return the cause for which a group was made a classic one: its last member of the newer
    protocol is gone, and all others rejoin. None if another one with its instance id is there.
    """
    if len(gone) != 1:
        return None
    [last] = gone
    instances = {each.instance for each in now.members.values()}
    if last.member.instance is not None and last.member.instance in instances:
        return None
    by = None if last.why.code in (UNKNOWN, REMOVED) else last.member.recorded
    return InferredCause(last.why.code, by, likely=last.why.likely)


def _converted(record: GroupRecord, old: str, new: str) -> Told:
    fields = {"from_type": old, "to_type": new}
    return inferred(record, "group_converted", instant(record.time_ms) or 0, fields)


def _deleted(record: GroupRecord) -> Told:
    return inferred(record, "group_deleted", instant(record.time_ms) or 0, {})
