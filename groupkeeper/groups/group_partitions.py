"""All partitions of `__consumer_offsets` in this process, and the partition of each group."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

from groupkeeper.coordinator.group import Group
from groupkeeper.coordinator.live import View
from groupkeeper.coordinator.prolong import note_stall
from groupkeeper.coordinator.stalls import Stall
from groupkeeper.groups.driver import PartitionDriver
from groupkeeper.groups.partition_log import PartitionLog
from groupkeeper.groups.services import DriverServices
from groupkeeper.groups.topic_check import DeletedTopics
from groupkeeper.observe.metrics import PartitionSnapshot
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.placement import partition_of
from groupkeeper.turns import Slices

PLACEMENTS = 10_000
"""Number of group ids cached with their partition; hashing an id takes longer than a step."""
PLACEMENT_LENGTH = 255
"""Longer ids are not cached: clients choose them, and 10,000 long ones would take much memory."""

COUNTED_IN_A_SLICE = 500
"""Number of groups and of their topics that one slice counts, in less than a millisecond."""


class ServedPartition(Protocol):
    """A partition as pages and metrics read it: that of a coordinator, or of an observer."""

    index: int

    @property
    def absence(self) -> ErrorCode:
        """See `PartitionDriver.absence`."""

    @property
    def configs(self) -> Mapping[str, Mapping[str, str]]:
        """See `PartitionDriver.configs`."""

    def snapshot(self) -> PartitionSnapshot:
        """Return the state without groups."""

    def group_ids(self, *, used: bool = False) -> list[str]:
        """See `Partition.group_ids`; empty unless the partition is active."""

    def peek(self, group_id: str) -> Group | None:
        """Return the present group."""

    def look(self, group_id: str) -> Slices[View] | None:
        """Describe the group's state; None if it does not exist. See `live_view`."""

    def silence(self, group: Group) -> Slices[int | None]:
        """See `longest_silence`."""


class ServedGroups(Protocol):
    """All partitions, by index."""

    def __iter__(self) -> Iterator[ServedPartition]: ...

    def of(self, group_id: str) -> ServedPartition:
        """Return the partition of a group, by Kafka's hash."""


class GroupPartitions:
    """The drivers of all partitions, by index."""

    def __init__(
        self, logs: Sequence[PartitionLog], events: Sequence[PartitionLog], services: DriverServices
    ) -> None:
        """`logs`, `events`: the log and the event log of each partition, by index."""
        pairs = zip(logs, events, strict=True)
        self._drivers = [PartitionDriver(n, *pair, services) for n, pair in enumerate(pairs)]
        self.deleted_topics = DeletedTopics()
        """The topics deleted while this process runs."""
        self._replies = services.replies
        self._loader = services.loader
        self._placed: dict[str, PartitionDriver] = {}

    def __iter__(self) -> Iterator[PartitionDriver]:
        return iter(self._drivers)

    def __len__(self) -> int:
        return len(self._drivers)

    def of(self, group_id: str) -> PartitionDriver:
        """Return the driver of a group's partition, by Kafka's hash."""
        driver = self._placed.get(group_id)
        if driver is None:
            driver = self._drivers[partition_of(group_id, len(self._drivers))]
            if len(self._placed) >= PLACEMENTS:
                self._placed.clear()
            if len(group_id) <= PLACEMENT_LENGTH:
                self._placed[group_id] = driver
        return driver

    def unserved(self) -> list[int]:
        """Return the indexes of unserved partitions; see `PartitionDriver.is_unserved`."""
        return [driver.index for driver in self._drivers if driver.is_unserved]

    def start(self) -> None:
        """Load all partitions: those without a log immediately, the others in the background."""
        waiting = [driver for driver in self._drivers if not driver.load_empty()]
        # After all of `load_empty`, which must come before the first append: loading appends.
        for driver in waiting:
            driver.start_loading()

    def load_now(self) -> None:
        """Reload failed partitions without further delay; see `Loader.try_now`."""
        self._loader.try_now()

    async def loaded(self, seconds: float) -> None:
        """Wait until all loads are over, for at most `seconds`."""
        loads = [driver.loading for driver in self._drivers if driver.loading is not None]
        if loads:
            await asyncio.wait(loads, timeout=seconds)

    def stalled(self, stall: Stall, jump_ms: int | None = None) -> None:
        """Note a time in which the process did not answer: see `note_stall`."""
        for driver in self._drivers:
            if not driver.absence:
                driver.decide(partial(note_stall, stall, jump_ms=jump_ms))

    def stop(self) -> None:
        """Refuse new requests from now on, as the process ends."""
        for driver in self._drivers:
            driver.stop()

    def close(self) -> None:
        """Refuse the requests that are still parked. Call `stop` before, and write everything."""
        for driver in self._drivers:
            driver.close()
        self._replies.flush()

    def snapshots(self) -> Iterable[PartitionSnapshot]:
        """Return the state of every partition, without counting groups, members and offsets."""
        return [driver.snapshot() for driver in self._drivers]

    def counted(self) -> Slices[Iterable[PartitionSnapshot]]:
        """Return the state of every partition; count groups, members and offsets in slices."""
        return counted(self._drivers)


def counted(partitions: Iterable[ServedPartition]) -> Slices[Iterable[PartitionSnapshot]]:
    """Return the state of partitions; count groups, members and offsets in slices."""
    found, work = [], 0
    for partition in partitions:
        snapshot = partition.snapshot()
        for group_id in partition.group_ids():
            group = partition.peek(group_id)
            if group is None:  # gone meanwhile
                continue
            snapshot.groups[str(group.state)] += 1
            snapshot.members += len(group.members)
            snapshot.seats += len(group.seats)
            snapshot.standbys += len(group.standbys)
            snapshot.offsets += sum(map(len, group.offsets.values()))
            work += 1 + len(group.offsets)
            if work >= COUNTED_IN_A_SLICE:
                work = 0
                yield
        found.append(snapshot)
        yield
    return found
