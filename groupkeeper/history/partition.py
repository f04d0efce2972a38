"""Folds one partition of `__consumer_offsets` and of `__group_events` into rows of tables.

    fold = PartitionHistory(partition, known)
    for each in ...:            # events first: nothing is inferred after the first one
        fold.add(each)          # Told, GroupRecord, CommitRun, Span: each kind in log order
    finished, under_way = fold.take(), fold.open()

Rows of `take` never change again; those of `open` are replaced by a later call. `state` returns a
JSON object for `PartitionHistory.restore`. Reading a log in parts, cut between any two record
batches, yields the same rows as reading it at once.

Events normally come from one writer after the other. But the topic may have foreign authors, and a
limit of the server may have dropped events: what does not fit becomes unknown, never a guess.

Two records of one group are neighbours in a compacted log, too. Compaction keeps only the newest
record of a key in the range it cleaned, so of two records left the later one is after that range,
together with everything written since. A record without a predecessor may have had one that was
compacted. Where records were lost, nothing is inferred across the gap.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final, Self

from groupkeeper.history.coverage import OFFSETS_LOG, Coverage, Epochs, Span
from groupkeeper.history.fields import LAST_MS, checked, with_fields
from groupkeeper.history.group import GroupHistory
from groupkeeper.history.newer_topics import NO_NAMES, Names
from groupkeeper.history.records import CommitRun, GroupRecord
from groupkeeper.history.rounds import LOADS
from groupkeeper.history.rows import (
    ALL,
    KnownOffsets,
    Row,
    Rows,
    RowWriter,
    Told,
    event_row,
    out_of_range,
)
from groupkeeper.history.state import restore, saved
from groupkeeper.protocol.group_event_types import TYPES
from groupkeeper.protocol.group_events import TOPIC

Fed = Told | GroupRecord | CommitRun | Span

GROUPS_MOST: Final = 100_000
"""Maximum number of groups of a partition whose events are followed (LRU). The rows of a group that
is dropped are finished as they are; it begins anew with its next event."""


class PartitionHistory:
    """The history of the groups of one partition. Rows of the tables `left_out` are not made."""

    _lately: dict[str, None]
    """Groups whose events are followed, least recently seen first."""
    _records: Coverage
    _writers: Epochs
    _events: Coverage
    _leaders: Epochs

    def __init__(
        self,
        partition: int,
        known: KnownOffsets = ALL,
        names: Names = NO_NAMES,
        left_out: Collection[str] = (),
    ) -> None:
        """`known`: completeness of all records to come; `names`: topic id -> name."""
        self._out, self._names = RowWriter(partition, known, left_out), names
        self._groups: dict[str, GroupHistory] = {}
        self._lately = {}
        self._waiting: dict[str, GroupHistory] = {}
        """Groups with records in the current batch."""
        self._batch = -1
        self._commits: dict[str, dict[str, _Commits]] = {}
        """Group -> member -> pending `commits` events, not yet added to the group."""
        rows = self._out.rows["epochs"]
        self._records, self._writers = _log(OFFSETS_LOG, partition, rows)
        self._events, self._leaders = _log(TOPIC, partition, rows)

    def add(self, fed: Fed) -> None:
        """Add the next event, record, run of commits or span. Raises ValueError if the offset of an
        event does not rise.
        """
        if isinstance(fed, Told):
            self._event(fed)
        elif isinstance(fed, GroupRecord):
            if fed.batch != self._batch:
                self._end_batch()
            self._batch = fed.batch
            group = self._waiting[fed.group] = self._of(fed.group)
            group.add(fed)
        elif isinstance(fed, CommitRun):
            if fed.group in self._waiting:
                self._end_batch()
            if (known := self._groups.get(fed.group)) is not None:
                known.add(fed)
        else:
            self._records.read(fed)
            self._writers.wrote(fed)

    def skip(self, offset: int, at_ms: int, epoch: int | None = None) -> Span:
        """Skip a record of the event log that is not an event.

        Raises ValueError if the offset does not rise.
        """
        if offset <= (last := self._events.last_offset):
            raise ValueError(
                f"offset {offset} of partition {self._out.partition} comes after {last}"
            )
        span = Span(offset, offset, offset, at_ms, epoch, at_ms, at_ms, 1)
        self._events.read(span)
        return span

    def _event(self, told: Told) -> None:
        if self._waiting:
            self._end_batch()
        offset, event, source, sure = told
        is_kept = "events" not in self._out.left_out
        if not is_kept and event.type == "commits" and self._is_merged(told):
            return
        span = self.skip(offset, event.at_ms, event.epoch)
        if out_of_range(event) is not None:  # no server writes it
            return
        fields = checked(event)[0] if event.type in TYPES else {}
        if is_kept:
            row = event_row(self._out.partition, offset, event, fields)
            self._out.rows["events"].append(row)
        self._events.told(event, offset)
        event = with_fields(event, fields)
        self._leaders.told(event, span)
        if event.group is not None and event.type in TYPES:
            self._of_group(event.group, Told(offset, event, source, sure))
        elif event.type in LOADS:
            self._tell_all_commits()
            for each in self._groups.values():
                each.add(Told(offset, event, source, sure))

    def _is_merged(self, told: Told) -> bool:
        """Merge a `commits` event that directly follows the last event; False if it has to be
        added by itself.
        """
        offset, event = told.offset, told.event
        is_next = self._events.follows(offset) and self._leaders.is_last(event)
        if not is_next or out_of_range(event) is not None or not self._is_put_off(told):
            return False
        self._events.add(event, offset)
        self._leaders.add(event, offset)
        return True

    def _is_put_off(self, told: Told) -> bool:
        """Merge a `commits` event into the pending one of its member; False if it has to be added
        now. Most events are `commits`, and the last between two other events of the group says it
        all.
        """
        event = told.event
        who = event.fields.get("who")
        member = who.get("member") if isinstance(who, dict) else None
        name = event.group
        if name is None or not isinstance(member, str):
            return False
        waiting = self._commits.setdefault(name, {})
        run = waiting.pop(member, None)
        if run is None:
            group = self._groups.get(name)
            if group is None or not group.goes_on(event, member):
                return False
            run = _Commits(told)
        is_more = run.add(told)
        waiting[member] = run
        if is_more:
            self._lately[name] = self._lately.pop(name, None)
        return is_more

    def _tell_commits(self, name: str) -> None:
        """Add the pending `commits` events of a group to its history."""
        if name in self._commits:
            for run in self._commits.pop(name).values():
                self._of(name).add(run.told())

    def _end_input(self) -> None:
        """Add everything that is pending to its groups."""
        self._end_batch()
        self._tell_all_commits()

    def _tell_all_commits(self) -> None:
        for name in [*self._commits]:
            self._tell_commits(name)

    def _of_group(self, name: str, told: Told) -> None:
        self._tell_commits(name)
        group = self._of(name)
        group.add(told)
        self._lately.pop(name, None)
        if group.is_told:
            self._lately[name] = None
        if len(self._lately) > GROUPS_MOST:
            oldest = next(iter(self._lately))
            del self._lately[oldest]
            self._tell_commits(oldest)
            self._groups[oldest].let_go()

    def _of(self, name: str) -> GroupHistory:
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = GroupHistory(name, self._out, self._names)
        return group

    def _end_batch(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for each in waiting.values():
            each.flush()

    # -- rows ------------------------------------------------------------------------------------

    def take(self) -> Rows:
        """Return the rows finished since the last call."""
        self._end_input()
        return self._out.take()

    def open(self) -> Rows:
        """Return the unfinished rows. Later calls return updated versions."""
        self._end_input()
        more = RowWriter(self._out.partition, self._out.known)
        for group in self._groups.values():
            group.open(more)
        more.rows["epochs"] += [*self._leaders.last, *self._writers.last]
        more.rows["coverage"] += [*self._events.rows(), *self._records.rows()]
        return more.rows

    # -- state -----------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """The state for `restore` as a JSON object, without the rows that `take` would return."""
        self._end_input()
        return {
            "partition": self._out.partition,
            "known": self._out.known,
            **saved(self),
            "groups": [each.state() for each in self._groups.values()],
        }

    @classmethod
    def restore(
        cls,
        state: Mapping[str, Any],
        known: KnownOffsets | None = None,
        names: Names = NO_NAMES,
        left_out: Collection[str] = (),
    ) -> Self:
        """Restore a fold from `state()`. `known`: completeness from now on; None for as before."""
        from_offset, lost_until = state["known"]
        known = known or KnownOffsets(from_offset, tuple(lost_until))
        fold = cls(state["partition"], known, names, left_out)
        for each in state["groups"]:
            fold._groups[each["group"]] = GroupHistory.restore(each, fold._out, names)
        return restore(fold, state)


_NO_COUNT: Final = -LAST_MS - 1


class _Commits:
    """Consecutive `commits` events of one member, to be added as one event."""

    __slots__ = ("_beats", "_gap_ms", "_last")

    def __init__(self, first: Told) -> None:
        self._last = first
        self._beats = self._gap_ms = _NO_COUNT

    def add(self, told: Told) -> bool:
        """Add an event; False, without adding it, if it cannot be merged with the others."""
        before, event = self._last.event, told.event
        fields = event.fields
        if (
            before.at_ms > event.at_ms
            or before.generation != event.generation
            or before.round != event.round
            or before.epoch != event.epoch
            or before.fields["who"] != fields["who"]
        ):
            return False
        beats, gap_ms = fields.get("heartbeats"), fields.get("longest_gap_ms")
        if type(beats) is int and self._beats < beats <= LAST_MS:
            self._beats = beats
        if type(gap_ms) is int and self._gap_ms < gap_ms <= LAST_MS:
            self._gap_ms = gap_ms
        self._last = told
        return True

    def told(self) -> Told:
        """Return the last event with the highest counts of all."""
        event = self._last.event
        fields = checked(event)[0]
        if self._beats != _NO_COUNT:
            fields["heartbeats"] = self._beats
        if self._gap_ms != _NO_COUNT:
            fields["longest_gap_ms"] = self._gap_ms
        return self._last._replace(event=with_fields(event, fields))


def _log(name: str, partition: int, epochs: list[Row]) -> tuple[Coverage, Epochs]:
    """Return the coverage and the epochs of a log."""
    return Coverage(name, partition), Epochs(name, partition, epochs)
