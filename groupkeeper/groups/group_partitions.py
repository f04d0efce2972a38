"""All partitions of ``__consumer_offsets`` in this process, and which group lives where.

One process owns them all so far; whom to send a client to instead would be said here.
"""

from collections.abc import Iterable, Iterator, Sequence

from groupkeeper.coordinator.placement import partition_of
from groupkeeper.groups.driver import PartitionDriver
from groupkeeper.groups.driver_services import DriverServices
from groupkeeper.groups.topic_check import DeletedTopics
from groupkeeper.observe.metrics import PartitionSnapshot
from groupkeeper.storage.errors import StorageError
from groupkeeper.storage.log import Log
from groupkeeper.storage.store import Store
from groupkeeper.turns import Slices

PLACEMENTS = 10_000
"""How many group ids are remembered with their partition; hashing one takes longer than a step."""
PLACEMENT_LENGTH = 255
"""Longer ids are hashed each time: a client chooses them, and 10,000 of them are memory."""


class GroupPartitions:
    """Partitions by index."""

    def __init__(self, epochs: Sequence[int], services: DriverServices) -> None:
        """``epochs`` are those under which the partitions were claimed, by index."""
        self._drivers = [PartitionDriver(n, services, epoch) for n, epoch in enumerate(epochs)]
        self.deleted_topics = DeletedTopics()
        """The topics that were deleted in this process."""
        self._replies = services.replies
        self._placed: dict[str, PartitionDriver] = {}

    def __iter__(self) -> Iterator[PartitionDriver]:
        return iter(self._drivers)

    def __len__(self) -> int:
        return len(self._drivers)

    def of(self, group_id: str) -> PartitionDriver:
        """The partition that a group lives in."""
        driver = self._placed.get(group_id)
        if driver is None:
            driver = self._drivers[partition_of(group_id, len(self._drivers))]
            if len(self._placed) >= PLACEMENTS:
                self._placed.clear()
            if len(group_id) <= PLACEMENT_LENGTH:
                self._placed[group_id] = driver
        return driver

    def start(self, store: Store) -> None:
        """Load everything: what has no log at once, the rest in the background."""
        existing = set(store.log_names())
        waiting = [
            driver
            for driver in self._drivers
            if driver.name in existing or not driver.load_empty(store)
        ]
        # Only now: the store takes logs from one thread at a time.
        for driver in waiting:
            driver.start_loading()

    def fence(self, partition: int, error: StorageError) -> None:
        """Another process may own the partition: it is claimed and loaded again, or not ours."""
        self._drivers[partition].fence(error)

    def stop(self) -> None:
        """The process ends: nobody is served any more."""
        for driver in self._drivers:
            driver.stop()

    def close(self) -> None:
        """After :meth:`stop`, and when everything is written: dismiss whoever still waits."""
        for driver in self._drivers:
            driver.close()
        self._replies.flush()

    def log_of(self, partition: int) -> Log | None:
        """The log of one partition of the offsets topic, for who fetches it as a topic."""
        return self._drivers[partition].log if 0 <= partition < len(self._drivers) else None

    def snapshots(self) -> Iterable[PartitionSnapshot]:
        """Every partition as it is now; their groups are not counted."""
        return [driver.snapshot() for driver in self._drivers]

    def counted(self) -> Slices[Iterable[PartitionSnapshot]]:
        """The same with their groups, members and offsets."""
        found = []
        for driver in self._drivers:
            found.append((yield from driver.counted()))
            yield
        return found
