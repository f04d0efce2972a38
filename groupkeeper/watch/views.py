"""The groups of an observed cluster as pages and metrics read them: in place of a coordinator's.

A classic group is what its last record says: Stable with its members and their assignments, or
Empty. A rebalance since then is shown if the group's coordinator was asked (`phases`). Other
groups: see `newer_groups`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from groupkeeper.clock import Clock
from groupkeeper.coordinator.causes import Cause
from groupkeeper.coordinator.deadlines import Deadlines
from groupkeeper.coordinator.group import Group
from groupkeeper.coordinator.live import MEMBERS_IN_A_SLICE, View, live_view
from groupkeeper.coordinator.records import restore_group
from groupkeeper.coordinator.soft_state import Rebalance
from groupkeeper.groups.group_partitions import counted
from groupkeeper.history.rows import LOG, Told
from groupkeeper.observe.metrics import PartitionSnapshot
from groupkeeper.protocol.errors import DecodeError, ErrorCode
from groupkeeper.protocol.group_events import CauseCode
from groupkeeper.protocol.placement import partition_of
from groupkeeper.protocol.records.consumer_offsets import decode_group_value
from groupkeeper.turns import Slices
from groupkeeper.watch.group import GroupWatch, LastCause
from groupkeeper.watch.newer_groups import NewerGroup, newer_group, row_with_epoch, with_epochs
from groupkeeper.watch.offsets import TopicOffsets
from groupkeeper.watch.phases import SeenPhases

WRITTEN: Final = ("events_written",)
"""Key of the count of stored events."""
_CODES: Final = {str(each): each for each in CauseCode}
_NOT_IN_THE_LOG: Final = dict.fromkeys(("heard", "heard_ms_ago", "joined", "synced"))
"""Requests of members, none of which an observer sees."""


class WatchedGroup(NamedTuple):
    """A group, and the cause of its last rebalance."""

    group: Group
    cause: LastCause | None


def view_of(group_id: str, state: GroupWatch | None) -> WatchedGroup | None:
    """Return the view of a group; None if it does not exist, or its record cannot be read."""
    newer = None if state is None else state.events.newer
    if state is not None and newer is not None and newer.epoch >= 0:
        whole = newer_group(group_id, newer, state.answers.sessions.get(group_id, newer.limit))
        whole.round = 0 if state.last_cause is None else state.last_cause.round
        return WatchedGroup(whole, state.last_cause)
    if state is None or state.last is None:
        return None
    try:
        group = restore_group(group_id, decode_group_value(state.last.value))
    except DecodeError:
        return None
    if group.state_timestamp_ms < 0:
        group.state_timestamp_ms = state.last.time_ms
    group.round = 0 if state.last_cause is None else state.last_cause.round
    return WatchedGroup(group, state.last_cause)


class WatchedPartition:
    """One partition."""

    def __init__(self, index: int, clock: Clock) -> None:
        self.index = index
        self.offsets: Mapping[str, TopicOffsets] = {}
        """The committed offsets by group; another thread changes them."""
        self.is_ready = False
        """Whether the log was read to its end once."""
        self.left = -1
        """Number of offsets that are left to read; -1 if unknown."""
        self.configs: Mapping[str, Mapping[str, str]] = {}
        self.phases = SeenPhases(clock)
        self._clock = clock
        self._groups: dict[str, WatchedGroup] = {}

    def set(self, group_id: str, view: WatchedGroup | None) -> None:
        """Replace the view of a group; None removes it."""
        self.phases.renewed(group_id)
        if view is None:
            self._groups.pop(group_id, None)
            return
        self._groups[group_id] = view
        code = None if view.cause is None else _CODES.get(view.cause.code)
        if view.cause is not None and code is not None:
            ago = max(0, self._clock.wall() - view.cause.at_ms)
            view.group.rebalance = Rebalance(Cause(code), self._clock.now() - ago)

    def inferred_cause(self, group_id: str) -> dict[str, Any] | None:
        """Return `last_cause` of the JSON API."""
        view = self._groups.get(group_id)
        if view is None or view.cause is None:
            return None
        found = view.cause
        about = {"code": found.code, "text": found.text, "at_ms": found.at_ms}
        return about | {"source": LOG, "confidence": found.confidence}

    # -- as `ServedPartition` ----------------------------------------------------------------------

    @property
    def absence(self) -> ErrorCode:
        return ErrorCode.NONE if self.is_ready else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def snapshot(self) -> PartitionSnapshot:
        if self.is_ready:
            return PartitionSnapshot(self.index, "active")
        left = "its log is read" if self.left < 0 else f"{self.left} records are left to read"
        return PartitionSnapshot(self.index, "loading", reason=left)

    def group_ids(self, *, used: bool = False) -> list[str]:
        return [*self._groups] if self.is_ready else []

    def peek(self, group_id: str) -> Group | None:
        view = self._groups.get(group_id)
        if view is None:
            return None
        view.group.offsets = self.offsets.get(group_id) or {}
        return view.group

    def look(self, group_id: str) -> Slices[View] | None:
        group = self.peek(group_id)
        return None if group is None else self._look(group)

    def _look(self, group: Group) -> Slices[View]:
        view = yield from live_view(group, Deadlines(), self._clock.now(), self._clock.wall())
        newer = group if isinstance(group, NewerGroup) else None
        rows, behind = list[View](), set[str]() if newer is None else {*newer.behind}
        for number, each in enumerate(view["members"], 1):
            row = each | _NOT_IN_THE_LOG
            rows.append(row if newer is None else row_with_epoch(row, newer, behind))
            if not number % MEMBERS_IN_A_SLICE:
                yield
        view["members"] = rows
        if newer is not None:
            return with_epochs(view, newer, self._clock.wall())
        self.phases.show(view)
        return view

    def silence(self, group: Group) -> Slices[int | None]:
        yield
        return None


class WatchedGroups:
    """All partitions, by index."""

    def __init__(self, count: int, clock: Clock) -> None:
        self.partitions = [WatchedPartition(number, clock) for number in range(count)]

    def __iter__(self) -> Iterator[WatchedPartition]:
        return iter(self.partitions)

    def of(self, group_id: str) -> WatchedPartition:
        """Return the partition of a group, by Kafka's hash."""
        return self.partitions[partition_of(group_id, len(self.partitions))]

    def inferred_cause(self, group_id: str) -> dict[str, Any] | None:
        """See `WatchedPartition.inferred_cause`."""
        return self.of(group_id).inferred_cause(group_id)

    def offsets(self) -> Iterable[Mapping[str, TopicOffsets]]:
        """Return the committed offsets by group, of each partition."""
        return [each.offsets for each in self.partitions]

    def snapshots(self) -> Iterable[PartitionSnapshot]:
        """Return the state of every partition, without groups."""
        return [each.snapshot() for each in self.partitions]

    def counted(self) -> Slices[Iterable[PartitionSnapshot]]:
        """Return the state of every partition; count groups and members in slices."""
        return counted(self.partitions)

    @property
    def is_ready(self) -> bool:
        """Whether all partitions were read to their ends once."""
        return all(each.is_ready for each in self.partitions)


def counts_of(events: Iterable[Told]) -> Counter[tuple[str, ...]]:
    """Count events, and rebalances by cause, under the names of a server's counters."""
    counts: Counter[tuple[str, ...]] = Counter()
    for told in events:
        counts[WRITTEN] += 1
        if told.event.type == "rebalance_started":
            counts["rebalances", str((told.event.fields.get("cause") or {}).get("code"))] += 1
        elif told.event.type == "rebalance_completed":
            counts["rebalances_completed",] += 1
    return counts
