"""Folds one partition of `__consumer_offsets`, as Fetch returns it, into events of its groups.

    fold = PartitionWatch(partition)
    step = fold.feed(data, fold.position)       # events that have to be stored
    records = fold.checkpoint()                 # state, to be stored after these events
    fold = PartitionWatch.restore(partition, records)
    fold.leave_out(offset, count)               # the place of the last event that is stored

Theory of operation. The state of a group changes with each commit, so it is not stored with each
response, but in checkpoints. The partition's own record says from which offset on the log has to be
read again. What is read again makes the same events again; `feed` leaves out those up to the last
one that is stored. A group's record says from which offset on its records count, so that the
records of a checkpoint may be stored in parts. The log is folded batch by batch, and events are in
the order of its offsets: they do not depend on where responses end.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final, NamedTuple, Self

from groupkeeper.history.asked import NOT_ASKED, Asked
from groupkeeper.history.coverage import OFFSETS_LOG, Coverage, Span
from groupkeeper.history.records import CommitRun, GroupRecord
from groupkeeper.history.rows import LOG, SEEN, KnownOffsets, Told
from groupkeeper.history.state import restore, saved
from groupkeeper.protocol.group_events import Event
from groupkeeper.watch.answers import ClusterAnswers
from groupkeeper.watch.group import GroupWatch
from groupkeeper.watch.offsets import CommittedOffsets, encoded
from groupkeeper.watch.records import LAST_OFFSET, LogReader, batch_size

GROUPS_MOST: Final = 20_000
"""Maximum number of groups of one partition; beyond, the state of the group whose last record is
oldest is dropped."""
SIZE_MOST: Final = 1_000_000
"""Maximum number of members and owned partitions of all groups of one partition; as above."""
LOSSES_MOST: Final = 1_000
"""Maximum number of losses of records to remember, the last ones."""
HISTORY_LOST: Final = "history_lost"
"""Type of the event that records of the log were lost."""

StateRecord = tuple[bytes, bytes | None]
"""Key and value of the state; None as value removes the key."""
_PARTITION: Final = b""
"""Key of the partition's own record; groups, and their offsets, have an id with a prefix."""
_GROUP: Final = b"group:"
_OFFSETS: Final = b"offsets:"
STATE_VERSION: Final = 3
"""Version of these records: 1 had no offsets, and other groups of newer types; 2 had no leader
epochs of commits."""


@dataclass(slots=True)
class FoldStep:
    """The changes that a response made."""

    position: int
    """Offset to fetch next."""
    events: list[Told] = field(default_factory=list)
    """Events that are not stored yet, in order."""
    changed: dict[str, None] = field(default_factory=dict)
    """Ids of groups with a new record, and of dropped ones."""


class StoredUntil(NamedTuple):
    """Events of records before `offset` are stored, and the first `number` of that record."""

    offset: int
    number: int


class PartitionWatch:
    """The fold of one partition."""

    def __init__(
        self,
        partition: int,
        groups_most: int = GROUPS_MOST,
        size_most: int = SIZE_MOST,
        answers: ClusterAnswers | None = None,
    ) -> None:
        self.partition, self._answers = partition, answers or ClusterAnswers()
        self.position = 0
        """Offset of the next record to read."""
        self.topic_id = ""
        """Id of the topic that was read, in hex; empty if unknown."""
        self.groups: dict[str, GroupWatch] = {}
        """Groups by id, the one whose record is oldest first."""
        self.dropped = 0
        """Number of groups whose state was dropped because of a limit since the start."""
        self._groups_most, self._size_most, self._size = groups_most, size_most, 0
        self.reader = LogReader(partition)
        self.offsets = CommittedOffsets()
        self.asked: Callable[[str], Asked] = lambda group: NOT_ASKED
        """Returns what was asked about a group."""
        self._coverage = Coverage(OFFSETS_LOG, partition)
        self._lost_until: list[int] = []
        self._has_lost = False
        """Records were lost, and none was read since."""
        self._values_unreadable, self._first_error = 0, ""
        """Of records of groups whose key can be decoded."""
        self.gaps = 0
        """Number of gaps since the start that compaction left before the records were read."""
        self.last_ms = -1
        """Time of the last record that was read; -1 before."""
        self._first_end: int | None = None
        """The end of the log when it was first reached; None before."""
        self._has_dropped = False
        """The first record of a group may not be its first one, because of a limit."""
        self._stored = StoredUntil(0, 0)
        self._at = StoredUntil(0, 0)
        """The record of the last event, and how many events of it there were."""
        self._base: dict[str, Any] = {}
        """The partition's record of the last checkpoint."""
        self._dirty: dict[str, None] = {}
        """Groups whose state differs from that of the last checkpoint."""
        self._since = 0
        """Records before this offset may be contained in the state of some groups."""

    @property
    def unreadable(self) -> int:
        """Number of records and batches that could not be decoded since the start."""
        return self.reader.unreadable + self._values_unreadable

    @property
    def first_error(self) -> str:
        """The first error of decoding since the start."""
        return self.reader.first_error or self._first_error

    @property
    def has_begun(self) -> bool:
        """Whether it is known where the log begins: see `begin`."""
        return bool(self._base)

    @property
    def is_dirty(self) -> bool:
        """Whether a checkpoint would store anything."""
        is_dirty = bool(self._dirty) or self.offsets.is_dirty
        return is_dirty or self._base.get("read") != self.position

    @property
    def known(self) -> KnownOffsets:
        """The known part of the log, at the present position."""
        losses = [0] if self._has_dropped and not self._lost_until else self._lost_until
        return KnownOffsets(self._coverage.whole_from, tuple(losses))

    @property
    def known_from_ms(self) -> int | None:
        """The time from which on no record is missing; None if unknown."""
        rows = self._coverage.rows()
        found: int | None = rows[0].get("known_from") if rows else None
        return found

    # -- records ---------------------------------------------------------------------------------

    def begin(self, offset: int, topic_id: str) -> None:
        """Begin to read a log that starts at an offset."""
        self.position, self.topic_id = offset, topic_id
        self._base = self._partition_state(offset, self._coverage)

    def feed(self, data: bytes, log_end: int = LAST_OFFSET) -> FoldStep:
        """Add a response to a Fetch from `position`; its last batch may be cut off. `log_end`:
        offset behind the last record of the log.

        Raises CorruptBatch if the first bytes are no batch.
        """
        step = FoldStep(self.position)
        start = self._commits_alone(data, 0)
        while (size := batch_size(data, start)) and start + size <= len(data):
            self._batch(data[start : start + size], log_end, step)
            start = self._commits_alone(data, start + size)
        step.position = self.position
        return step

    def _commits_alone(self, data: bytes, start: int) -> int:
        """Add batches that are one commit each; return where the first other one begins."""
        found = self.reader.commits(data, start, self._since)
        if found.runs:
            first, self.position = found.first_offset, found.next_offset
            records = self.position - first
            times = found.first_ms, found.last_ms
            self._cover(
                Span(first, self.position - 1, first, found.first_ms, None, *times, records)
            )
            known = self.known
            for each in found.runs:
                self.offsets.put(each.values)
                self._commits(each.run, known)
        return found.end

    def _batch(self, data: bytes, log_end: int, step: FoldStep) -> None:
        unreadable, events = self.reader.unreadable, list[Told]()
        self.position, items = self.reader.feed(data, self.position, log_end)
        if self.reader.newest:
            self.offsets.put(self.reader.newest.items())
        spans = [each for each in items if isinstance(each, Span)]
        if not spans:
            self._has_lost |= self.reader.unreadable > unreadable
            return
        for span in spans:
            self._cover(span)
        waiting: dict[str, list[GroupRecord]] = {}  # a group may write several in one batch
        for each in items:
            if isinstance(each, GroupRecord):
                waiting.setdefault(each.group, []).append(each)
            elif isinstance(each, CommitRun):
                if each.group in waiting:
                    events += self._records(each.group, waiting.pop(each.group), step)
                self._commits(each, self.known)
        for name, batch in waiting.items():
            events += self._records(name, batch, step)
        events.sort(key=itemgetter(0))  # the order of offsets
        step.events += [each for each in events if not self._is_stored(each)]

    def _is_stored(self, told: Told) -> bool:
        """Count an event, and return whether it is stored already."""
        is_same = told.offset == self._at.offset
        self._at = StoredUntil(told.offset, self._at.number + 1 if is_same else 1)
        return self._at <= self._stored

    def _commits(self, run: CommitRun, known: KnownOffsets) -> None:
        group = self.groups.get(run.group)
        if group is not None and run.first_offset >= group.since:
            self._dirty[run.group] = None
            group.commit(run, known)

    def reached_end(self) -> None:
        """Note that the present position is the end of the log."""
        if self._first_end is None:
            self._first_end = self.position

    def _cover(self, span: Span) -> None:
        """Note which records were read. Up to the first end, compaction kept the newest record of
        each group, so two that are left are neighbours. Behind it, records of groups whose state is
        older may have been compacted since: that is a loss.
        """
        expected = max(self._coverage.last_offset + 1, self._first_end or 0)
        is_whole = span.whole_from == span.first_offset <= expected
        if self._first_end is not None and span.whole_from > expected and not is_whole:
            self.gaps += 1
            self._lose_until(span.whole_from)
        elif self._has_lost:
            self._lose_until(span.first_offset)
        self._has_lost = False
        self._coverage.read(span)
        self.last_ms = span.last_ms

    def _lose_until(self, offset: int) -> None:
        self._lost_until = [*self._lost_until[1 - LOSSES_MOST :], offset]

    def _records(self, name: str, batch: list[GroupRecord], step: FoldStep) -> list[Told]:
        group = self.groups.pop(name, None)
        batch = [each for each in batch if group is None or each.offset >= group.since]
        if not batch:
            if group is not None:
                self.groups[name] = group
            return []
        self._size -= 0 if group is None else group.events.size
        group = group or GroupWatch(name, self._answers)
        unreadable = group.events.unreadable
        events = group.add(batch, self.known, self.asked(name))
        if group.events.unreadable > unreadable:
            self._values_unreadable += group.events.unreadable - unreadable
            where = f"partition {self.partition}: offset {batch[-1].offset}"
            self._first_error = self._first_error or f"{where}: unreadable value of group {name!r}"
        step.changed[name] = self._dirty[name] = None
        # Where the first record of a group proves nothing, its deletion has to be remembered.
        if not group.events.is_deleted or self._lost_until or self._has_dropped:
            self.groups[name] = group
            self._size += group.events.size
        self._drop_oldest(step)
        return events

    def _drop_oldest(self, step: FoldStep) -> None:
        """Drop the state of groups beyond the limits, except of the last one."""
        while len(self.groups) > 1 and (
            len(self.groups) > self._groups_most or self._size > self._size_most
        ):
            name = next(iter(self.groups))
            self._size -= self.groups.pop(name).events.size
            step.changed[name] = self._dirty[name] = None
            self.dropped += 1
            self._has_dropped = True

    # -- losses ----------------------------------------------------------------------------------

    def lose(self, offset: int, why: str, at_ms: int) -> FoldStep:
        """Note that the log does not hold the present position any more, and goes on at `offset`.

        If that is not larger, the log was truncated or created anew: the state of all groups is
        dropped.
        """
        step = FoldStep(offset)
        fields = {"why": why, "from_offset": self.position, "to_offset": offset}
        event = Event(0, 0, -1, at_ms, offset, None, HISTORY_LOST, fields=fields)
        step.events.append(Told(offset, event, LOG, SEEN))
        self._has_lost = True
        if offset <= self.position:
            for name in self.groups:
                step.changed[name] = self._dirty[name] = None
            self.groups, self._size = {}, 0
            self.offsets.clear()
            self._coverage = Coverage(OFFSETS_LOG, self.partition)
            self._lost_until, self._stored = [], StoredUntil(offset, 0)
            self._has_lost, self._first_end = offset > 0, None
        self.position, self.reader.epoch = offset, -1
        return step

    # -- state -----------------------------------------------------------------------------------

    def leave_out(self, offset: int, count: int) -> None:
        """Leave out the events up to the first `count` of the record at an offset: the last event
        that is stored is of this record.
        """
        self._stored = max(self._stored, StoredUntil(offset, count))

    def checkpoint(self) -> list[StateRecord]:
        """The records that changed since the last checkpoint, the partition's own last. Events of
        all steps have to be stored before.
        """
        return self._checkpoint([*self._dirty], whole=False)

    def whole(self) -> list[StateRecord]:
        """Like `checkpoint`, with the records of all groups. Earlier records may still be read."""
        return self._checkpoint([*(self._dirty | dict.fromkeys(self.groups))], whole=True)

    def _checkpoint(self, names: Iterable[str], *, whole: bool) -> list[StateRecord]:
        offsets = self.offsets.take_changed(whole=whole)
        found: list[StateRecord] = [(_key(name, _OFFSETS), value) for name, value in offsets]
        for name in names:
            group = self.groups.get(name)
            if group is not None:
                group.since = max(group.since, self.position)
            found.append((_key(name), None if group is None else encoded(group.state())))
        self._dirty.clear()
        self._stored = max(self._stored, StoredUntil(self.position, 0))
        self._base = self._partition_state(self.position, self._coverage)
        found.append((_PARTITION, encoded(self._base)))
        return found

    def _partition_state(self, read: int, coverage: Coverage) -> dict[str, Any]:
        return {
            "v": STATE_VERSION,
            "topic": self.topic_id,
            "read": read,
            "stored": [*self._stored],
            "coverage": saved(coverage),
            "lost_until": self._lost_until,
            "has_lost": self._has_lost,
            "has_dropped": self._has_dropped,
            "first_end": self._first_end,
        }

    @classmethod
    def restore(
        cls,
        partition: int,
        records: Mapping[bytes, bytes],
        groups_most: int = GROUPS_MOST,
        size_most: int = SIZE_MOST,
        answers: ClusterAnswers | None = None,
    ) -> Self:
        """Restore a fold from the newest record of each key. Raises ValueError for other data."""
        found = cls(partition, groups_most, size_most, answers)
        base = json.loads(records.get(_PARTITION, b"{}"))
        if base:
            if base["v"] != STATE_VERSION:
                raise ValueError(
                    f"it has version {base['v']}, and this program reads version {STATE_VERSION}: "
                    "choose an empty --data"
                )
            found._base, found.position = base, base["read"]
            found._stored = StoredUntil(*base["stored"])
            found.topic_id, found._lost_until = base["topic"], base["lost_until"]
            found._has_lost, found._has_dropped = base["has_lost"], base["has_dropped"]
            found._first_end = base["first_end"]
            restore(found._coverage, base["coverage"])
        for key, value in records.items():
            if key.startswith(_OFFSETS):
                found.offsets.restore(_name(key, _OFFSETS), value)
            elif key.startswith(_GROUP):
                name = _name(key, _GROUP)
                group = GroupWatch.restore(name, json.loads(value), found._answers)
                found.groups[name] = group
                found._size += group.events.size
                found._since = max(found._since, group.since)
        by_record = sorted(found.groups.items(), key=lambda each: each[1].offset)
        found.groups = dict(by_record)
        return found


def _key(group: str, prefix: bytes = _GROUP) -> bytes:
    return prefix + group.encode("utf-8", "surrogatepass")


def _name(key: bytes, prefix: bytes) -> str:
    return key[len(prefix) :].decode("utf-8", "surrogatepass")
