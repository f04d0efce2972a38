"""Folds the records of one partition of `__consumer_offsets` into tables: what any Kafka's log
tells without events.

    fold = SnapshotFold(partition, known)
    for each in in_order(records, runs, spans):
        fold.add(each)
    rows = fold.take()      # they never change again
    rest = fold.open()      # they may: the next analysis replaces them
    fold = SnapshotFold.restore(fold.state())

What is fed may be cut anywhere between two record batches. Group records give `snapshots`,
`members` and `assignments` as they are; `rounds`, `ownership` and `sessions` are inferred from
neighbours (`history.inference`), and spans give `epochs` and `coverage`.

Two records of one group are neighbours in a compacted log, too: compaction keeps only the newest
record of a key in the range that it cleaned, so that of two that are left the later one is behind
that range, with all that was written since. A record without one before it may have had one there,
and where records were lost nothing is inferred across the gap.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final, Self

from groupkeeper.analytics.history.feed import CommitRun, Fed, Record
from groupkeeper.analytics.history.generations import instant, read_generation
from groupkeeper.analytics.history.group_story import GroupStory
from groupkeeper.analytics.history.newer import Names, NewerStory
from groupkeeper.analytics.history.spans import Spans
from groupkeeper.analytics.history.writer import ALL, Known, Rows, Writer
from groupkeeper.analytics.reading.columns import GROUP_KEY_TYPE
from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.records.modern_groups import EPOCH_TYPES, decode_modern_key

NO_NAMES: Final[Names] = {}
_EPOCH_BYTES: Final = slice(2, 6)
_OF_GROUPS: Final = frozenset({GROUP_KEY_TYPE, *EPOCH_TYPES})
"""Key types of records that say whether a group exists."""


class SnapshotFold:
    """Takes what is fed of one partition, in the order of log offsets."""

    def __init__(
        self,
        partition: int,
        known: Known = ALL,
        names: Names = NO_NAMES,
        left_out: Collection[str] = (),
    ) -> None:
        """`names`: topic id -> name, for consumer and share groups; `left_out`: see Writer."""
        self._out = Writer(partition, known, left_out)
        self._names = names
        self._groups: dict[str, GroupStory] = {}
        self._newer: dict[str, NewerStory] = {}
        self._spans = Spans(partition)
        self._batch: list[Record] = []
        """The records of one batch: a conversion of a group is told by all of them."""
        self._waiting: set[str] = set()
        """Their groups."""

    def add(self, fed: Fed) -> None:
        """Records, runs of commits and spans; in the order of their first offsets."""
        if isinstance(fed, Record):
            if self._batch and self._batch[0].batch != fed.batch:
                self._end_batch()
            self._batch.append(fed)
            self._waiting.add(fed.group)
        elif isinstance(fed, CommitRun):
            if fed.group in self._waiting:
                self._end_batch()
            story = self._groups.get(fed.group)
            if story is not None:
                is_whole = fed.first_offset >= self._out.known.from_offset
                story.holdings.add(fed, story.offset, is_whole)
        else:
            self._spans.add(fed)

    def take(self) -> Rows:
        """Rows that are finished since the last call."""
        self._end_batch()
        rows = self._out.take()
        rows["epochs"] = self._spans.take()
        return rows

    def open(self) -> Rows:
        """Rows that are not finished: ownership, sessions, the last epoch, and the coverage."""
        self._end_batch()
        rows = Writer(self._out.partition, self._out.known)
        for name, story in self._groups.items():
            story.open(name, rows)
        for name, newer in self._newer.items():
            newer.open(name, rows)
        return {**rows.take(), **self._spans.open(self._out.known)}

    def state(self) -> dict[str, Any]:
        """As JSON. What was finished and not taken yet is not part of it."""
        self._end_batch()
        return {
            "partition": self._out.partition,
            "known": [self._out.known.from_offset, [*self._out.known.lost_until]],
            "groups": {name: story.state() for name, story in self._groups.items()},
            "newer": {name: newer.state() for name, newer in self._newer.items()},
            "spans": self._spans.state(),
        }

    @classmethod
    def restore(
        cls,
        state: Mapping[str, Any],
        known: Known | None = None,
        names: Names = NO_NAMES,
        left_out: Collection[str] = (),
    ) -> Self:
        """A fold that goes on. `known` of all that is fed from now on; as before without."""
        from_offset, lost_until = state["known"]
        known = known or Known(from_offset, tuple(lost_until))
        fold = cls(state["partition"], known, names, left_out)
        fold._groups = {name: GroupStory.restore(story) for name, story in state["groups"].items()}
        fold._newer = {name: NewerStory.restore(each) for name, each in state["newer"].items()}
        fold._spans = Spans.restore(state["spans"])
        return fold

    # -- one batch -------------------------------------------------------------------------------

    def _end_batch(self) -> None:
        batch = self._batch
        if not batch:
            return
        self._batch, self._waiting = [], set()
        held: dict[str, set[tuple[bool, bool]]] = {}
        for record in batch if len(batch) > 1 else ():
            if record.key_type in _OF_GROUPS:
                held.setdefault(record.group, set()).add(_kind(record))
        for record in batch:
            if record.key_type not in _OF_GROUPS:
                self._member(record)
                continue
            # The other protocol, with a value where this record has none.
            is_modern, is_tombstone = _kind(record)
            goes_on = (not is_modern, not is_tombstone) in held.get(record.group, ())
            converted = goes_on and (is_tombstone or not is_modern)
            if record.key_type == GROUP_KEY_TYPE:
                self._group_record(record, converted)
            else:
                self._epoch(record, converted)

    def _member(self, record: Record) -> None:
        """Of a newer group."""
        story = self._newer.setdefault(record.group, NewerStory())
        try:
            key = decode_modern_key(record.key or b"")
            if key is not None:
                story.add(record, key, self._names, self._out)
        except DecodeError:
            self._snapshot(record, "unreadable")

    def _group_record(self, record: Record, converted: bool) -> None:
        story = self._groups.get(record.group)
        if story is None:
            story = self._groups[record.group] = GroupStory.begin(record, self._out.known)
        if record.value is None:
            story.end(record, converted, self._out)
            return
        try:
            now = read_generation(record.value)
        except DecodeError:
            story.unreadable(record, self._out)
            return
        story.add(record, now, converted, self._out)

    def _epoch(self, record: Record, converted: bool) -> None:
        """Of a newer group."""
        kind = "converted" if converted else "deleted" if record.value is None else "epoch"
        epoch = None
        if record.value is None:
            self._newer.pop(record.group, NewerStory()).end(record, self._out)
        else:
            epoch = int.from_bytes(record.value[_EPOCH_BYTES], "big", signed=True)
        self._snapshot(record, kind, epoch)

    def _snapshot(self, record: Record, kind: str, epoch: int | None = None) -> None:
        self._out.add(
            "snapshots",
            group=record.group,
            offset=record.offset,
            time=instant(record.time_ms),
            kind=kind,
            generation=epoch,
        )


def _kind(record: Record) -> tuple[bool, bool]:
    """Whether it is of a newer group, and whether it is a tombstone."""
    return record.key_type != GROUP_KEY_TYPE, record.value is None
