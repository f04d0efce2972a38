"""Builds the history of consumer, share and streams groups (KIP-848, KIP-932, KIP-1071) from
records.

    story = NewerStory(names)
    items = story.add(record, key, out) + ... + story.settle()  # after the last one of a batch

Each record states one member or its partitions, so `members`, `assignments`, `sessions` and
`ownership` need no inference. Consumer groups have rounds, one for each epoch (`history.epochs`):
what is in the log of share and streams groups, who joined, who is gone and what moved, is told
without. The session timeout is a setting of the coordinator, and not in the log. Topics are shown
by name if `names` has their id, and by id otherwise.
"""

from bisect import bisect_right
from typing import Final, NamedTuple

from groupkeeper.history.causes import SUBSCRIPTION
from groupkeeper.history.epochs import (
    CONSUMER,
    EpochChanges,
    EpochRound,
    GoneMember,
    Teller,
    join_code,
)
from groupkeeper.history.fields import Part
from groupkeeper.history.newer_departures import NO_LIMITS, LimitsByGroup, SessionLimit, departure
from groupkeeper.history.newer_members import AWAY, NewerMember, write_current
from groupkeeper.history.newer_owners import NO_EVIDENCE, Owners
from groupkeeper.history.newer_topics import NO_NAMES, Names, NewerTopics, named
from groupkeeper.history.ownership import OwnedPartition
from groupkeeper.history.records import CommitRun, GroupRecord
from groupkeeper.history.rows import KnownOffsets, RowWriter, Told, instant
from groupkeeper.protocol.records.modern_groups import (
    AnyMember,
    ConsumerEpoch,
    Current,
    Epoch,
    ModernKey,
    PartitionMetadata,
    ResolvedPattern,
    Target,
    TargetEpoch,
    Value,
    decode_modern_value,
)

MEMBER_TYPES: Final = (5, 10, 19)
CURRENT_TYPES: Final = (8, 14, 22)
STABLE_STATES: Final = {CONSUMER: 0, "share": 0, "streams": 1}
"""Type of group -> state of a member that waits for nothing."""


class OwnedNow(NamedTuple):
    """The partitions of a member from a record on; in epoch 0 it is gone."""

    offset: int
    at_ms: int
    epoch: int
    who: Part
    places: list[OwnedPartition]


NewerItem = Told | OwnedNow


class _Bump(NamedTuple):
    """The record of an epoch, with what changed before it, until the targets behind it are read."""

    record: GroupRecord
    epoch: int
    changed: EpochChanges
    from_state: str | None


class NewerStory:
    """The state of one group after a batch of records."""

    kind: str
    """`consumer`, `share` or `streams`."""
    epoch: int
    """Epoch of the group; -1 before its record was read."""
    target_epoch: int
    """Epoch of the computed assignments; -1 if unknown."""
    members: dict[str, NewerMember]
    owners: Owners
    """Of the partitions of a consumer group."""
    topics: NewerTopics
    limit: SessionLimit | None
    """Of sessions; None if unknown."""
    since_ms: int
    """Time of the last change of `state`, in Unix ms; -1 if unknown."""
    behind: dict[str, None]
    """Members that have not reached the epoch, or wait for partitions."""
    round: EpochRound | None
    """The round under way."""
    offset: int
    """Offset of the last record."""
    _is_doubtful: bool
    """Records were lost since the last epoch."""

    def __init__(self, names: Names = NO_NAMES, sessions: LimitsByGroup | None = NO_LIMITS) -> None:
        """`names`: topic id -> name; `sessions`: group -> settings, as far as they were asked for.
        Both may grow. Without `sessions` no commits are added, and it is
        not inferred why members are gone.
        """
        self.kind, self.epoch, self.target_epoch, self.since_ms = CONSUMER, -1, -1, -1
        self.members, self.behind = {}, {}
        self.owners, self.topics = Owners(), NewerTopics(names)
        self.round, self.offset, self.limit, self._is_doubtful = None, -1, None, False
        self._names, self._sessions = names, sessions
        self.is_converted = self._is_stated = False
        """The next records state the members, or partitions, of a classic group."""
        self._changed, self._bump = EpochChanges(), _NO_BUMP
        self._state_before = "Empty"
        """State of the group before what has changed in this batch."""
        self._record: GroupRecord | None = None

    @property
    def state(self) -> str:
        """The state as ListGroups names it, as far as records show it."""
        if not self.members:
            return "Empty"
        if self.kind == "share":
            return "Stable"
        if self.target_epoch < self.epoch:
            return "Assigning"
        return "Reconciling" if self.behind else "Stable"

    # -- commits ---------------------------------------------------------------------------------

    def commit(self, run: CommitRun, is_whole: bool) -> None:
        """Add commits. `is_whole`: no commit before them is missing."""
        self.owners.commit(self.topics.id_of(run.topic), run, is_whole)

    # -- records ---------------------------------------------------------------------------------

    def add(self, record: GroupRecord, key: ModernKey, out: RowWriter) -> list[NewerItem]:
        """Add a record of the group, and return what it shows. Raises DecodeError."""
        before = self.state
        if self._sessions:
            self.limit = self._sessions.get(record.group, self.limit)
        if self._changed == _NO_CHANGE:
            self._state_before = before
        value = None if record.value is None else decode_modern_value(key.key_type, record.value)
        self._begin(record, key, out.known)
        if value is None:
            items = self._gone(record, key, out.known)
        elif isinstance(value, Current):
            items = self._current(record, key.member_id or "", value, out)
        elif isinstance(value, AnyMember):
            items = self._flush()
            self._member(record, key.member_id or "", value, out.known)
        else:
            items = self._of_group(record, key, value, out.known)
        self.offset, self._record = record.offset, record
        if self.state != before:
            self.since_ms = record.time_ms
        return items

    def settle(self) -> list[NewerItem]:
        """Return what is left of the last batch, which is complete."""
        items, self._is_stated = self._told(), False
        return items

    def _told(self) -> list[NewerItem]:
        """Return what the last step of the coordinator has changed."""
        items = self._flush()
        changed, self._changed = self._changed, EpochChanges()
        if self._record is not None and changed != _NO_CHANGE:
            self._free(changed, self._record)
            for each in changed.joined:
                each.waits_as = join_code(each) if each.pattern else ""
            for each in changed.resubscribed:
                each.waits_as = SUBSCRIPTION if each.pattern else ""
            teller = Teller(self._record, self.epoch, self.state)
            teller.changes(changed, is_in_round=False)
            items += teller.told
        return items

    def _begin(self, record: GroupRecord, key: ModernKey, known: KnownOffsets) -> None:
        """Note the type of the group. Behind a loss of records, most of which compaction removed,
        the newest of each member are left, but it is not known what has happened meanwhile.
        """
        lost = known.lost_until
        if bisect_right(lost, self.offset) != bisect_right(lost, record.offset):
            self.round, self._is_doubtful = None, True
            self.owners.over()
        number = key.key_type
        self.kind = (
            CONSUMER if number < 9 or number == 16 else "share" if number < 16 else "streams"
        )

    def _of_group(
        self, record: GroupRecord, key: ModernKey, value: Value, known: KnownOffsets
    ) -> list[NewerItem]:
        items: list[NewerItem] = []
        if isinstance(value, ConsumerEpoch | Epoch):
            items = self._flush()
            self._raised(record, value.epoch, known)
        elif isinstance(value, TargetEpoch):
            self.target_epoch = value.assignment_epoch
        elif isinstance(value, Target):
            self.topics.targets(value)
        elif isinstance(value, PartitionMetadata):
            self.topics.described(value)
        elif isinstance(value, ResolvedPattern):
            items = self._flush()
            self._resolved(key.pattern or "", value.topics)
        return items

    def _resolved(self, pattern: str, topics: list[str]) -> None:
        """A pattern was resolved, or again with another result."""
        waited = [each for each in self.members.values() if each.waits_as]
        self._changed.waited += [each for each in waited if each.pattern == pattern]
        about = self.topics.resolved(pattern, topics)
        if about is not None:
            self._changed.topics.append(about)

    # -- epochs ----------------------------------------------------------------------------------

    def _raised(self, record: GroupRecord, epoch: int, known: KnownOffsets) -> None:
        """The group has another epoch, for what was changed before."""
        # Without the epoch before, or with a part of the batch, something may be missing.
        is_next = epoch == self.epoch + 1 and record.offset >= known.from_offset
        is_next, self._is_doubtful = is_next and not self._is_doubtful, False
        before = "Empty" if epoch == 1 else self._state_before if is_next else None
        changed, self._changed = self._changed, EpochChanges()
        self._free(changed, record)
        self.epoch, self.behind = epoch, dict.fromkeys(self.members)
        self.topics.changes()  # those of targets in earlier epochs are no news
        if self.is_converted:
            self.is_converted, self._is_stated = False, True
            return
        self._is_stated = False
        self._bump = _Bump(record, epoch, changed, before)

    def _flush(self) -> list[NewerItem]:
        """Return the events of an epoch whose targets were read."""
        bump, self._bump = self._bump, _NO_BUMP
        if bump is _NO_BUMP:
            return []
        record, epoch, changed, from_state = bump
        if not self.members and not changed.causes():
            return []  # as of an empty group that begins anew
        teller = Teller(record, epoch, self.state)
        if self.kind != CONSUMER:
            teller.changes(changed, is_in_round=False)
            return [*teller.told]
        items = self._superseded(record)
        changed.topics += self.topics.changes()
        if epoch == 1:
            teller.tell("group_created", is_in_round=False)
        current = teller.started(changed, from_state, len(self.members))
        for each in changed.waited:
            each.waits_as = ""
        if self.members:
            self.round = current
        else:
            teller.emptied(current)
            self.owners.over()
        return [*items, *teller.told]

    def end(self, record: GroupRecord) -> tuple[list[NewerItem], list[GoneMember]]:
        """End the story: the group becomes a classic one. Returns the end of a round under way, and
        the members of this batch whose records are deleted: they are gone, or in the new group.
        """
        gone, self._changed = self._changed.gone, EpochChanges()
        return self._superseded(record), gone

    def _superseded(self, record: GroupRecord) -> list[NewerItem]:
        if self.round is None:
            return []
        teller = Teller(record, self.round.epoch, self.state)
        teller.superseded(self.round)
        self.round = None
        return [*teller.told]

    # -- members ---------------------------------------------------------------------------------

    def _member(
        self, record: GroupRecord, member_id: str, value: AnyMember, known: KnownOffsets
    ) -> None:
        """Add a new member, or the changed subscription of a known one."""
        old = self.members.get(member_id)
        new = self.members[member_id] = old or NewerMember(member_id)
        is_known, wants, client = new.topics is not None, new.wants, new.client
        new.take(value)
        new.heard(record)
        changed = self._changed
        if old is None:
            self.behind[member_id] = None
            name = new.instance
            gone = [each for each in changed.gone if name and each.member.instance == name]
            if gone:
                changed.gone.remove(gone[0])
                changed.replaced.append((gone[0].member, new))
                self.owners.renamed(gone[0].member, new)
            elif record.offset >= known.from_offset and instant(record.time_ms):
                changed.joined.append(new)
            else:
                changed.updated.append(new)
        elif is_known and wants != new.wants:
            changed.resubscribed.append(new)
        elif client != new.client:
            changed.updated.append(new)

    def _gone(self, record: GroupRecord, key: ModernKey, known: KnownOffsets) -> list[NewerItem]:
        """Add a tombstone."""
        kind, member_id = key.key_type, key.member_id
        items: list[NewerItem] = []
        if member_id is None:
            self.topics.forget_pattern(key.pattern)
            return items
        if kind in MEMBER_TYPES + CURRENT_TYPES:
            items = self._flush()
            who = (self.members.get(member_id) or NewerMember(member_id)).who
            items.append(OwnedNow(record.offset, record.time_ms, 0, who, []))
        if kind in MEMBER_TYPES:
            member = self.members.pop(member_id, None)
            self.behind.pop(member_id, None)
            evidence, of = NO_EVIDENCE, None
            if member is not None and self.kind == CONSUMER and self._sessions is not None:
                evidence, of = self.owners.evidence(member), member
            why = departure(of, record, evidence, self.limit)
            if member is not None or record.offset >= known.from_offset:
                self._changed.gone.append(
                    GoneMember(member or NewerMember(member_id), why, evidence)
                )
        return items

    def _free(self, changed: EpochChanges, record: GroupRecord) -> None:
        """Take the partitions of members that are gone."""
        for each in changed.gone:
            self._own(each.member, [], record.time_ms)

    # -- partitions ------------------------------------------------------------------------------

    def _current(
        self, record: GroupRecord, member_id: str, value: Current, out: RowWriter
    ) -> list[NewerItem]:
        """Take the epoch and the partitions that a member has now."""
        member = self.members.setdefault(member_id, NewerMember(member_id))
        if value.previous_epoch > 0:  # it is a member for longer, and was not read before
            for changed in (self._changed, self._bump.changed):
                if member in changed.joined:
                    changed.joined.remove(member)
                    changed.resubscribed.append(member)
        epoch, places = value.member_epoch, self.topics.places(value)
        items = self._told() if epoch > 0 else self._flush()  # ends what a heartbeat wrote
        owned = named(value, self._names)
        write_current(record, member, epoch, owned, out)
        items.append(OwnedNow(record.offset, record.time_ms, epoch, member.who, owned))
        if member.state != value.state:
            member.state, member.state_ms = value.state, record.time_ms
        member.epoch = epoch
        member.heard(record)
        is_moved = places != member.owned
        self._own(member, places, record.time_ms)
        self.behind.pop(member_id, None)
        if epoch != self.epoch or value.state != STABLE_STATES[self.kind]:
            self.behind[member_id] = None
        if self.round is not None:
            return items + self._reached(self.round, member, record)
        is_moved &= epoch != AWAY and not self._is_stated
        if is_moved and (self.kind != CONSUMER or self.epoch >= 0):
            teller = Teller(record, self.epoch, self.state)
            teller.moved(member, self.topics.names)
            items += teller.told
        return items

    def _reached(
        self, current: EpochRound, member: NewerMember, record: GroupRecord
    ) -> list[NewerItem]:
        """Note whether a member has reached the epoch; if all have, the round is over."""
        if member.epoch >= current.epoch:
            after_ms = max(0, record.time_ms - current.since_ms)
            current.reached.setdefault(member.member, after_ms)
        if self.behind:
            return []
        owners, members = self.owners, self.members.values()
        teller = Teller(record, self.epoch, self.state)
        teller.completed(current, members, owners.moved, owners.longest_ms, self.topics.names)
        self.round = None
        owners.over()
        return [*teller.told]

    def _own(self, member: NewerMember, places: list[OwnedPartition], at_ms: int) -> None:
        """Set the partitions of a member; members of a share group may have the same."""
        if self.kind == CONSUMER:
            self.owners.set(member, places, at_ms)
        else:
            member.owned = places


_NO_CHANGE: Final = EpochChanges()
_NO_BUMP: Final = _Bump(GroupRecord(-1, -1, None, -1, -1, "", None, None), -1, EpochChanges(), None)
"""Stands for no epoch that waits for its targets."""
