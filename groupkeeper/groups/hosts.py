"""All partitions of ``__consumer_offsets`` in this process, and which group lives where.

One process owns them all so far; whom to send a client to instead would be said here.
"""

from collections.abc import Iterable, Iterator, Sequence

from groupkeeper.coordinator.placement import partition_of
from groupkeeper.groups.host import PartitionHost
from groupkeeper.groups.host_services import HostServices
from groupkeeper.groups.topic_check import Deletions
from groupkeeper.observe.metrics import PartitionSnapshot
from groupkeeper.storage.errors import StorageError
from groupkeeper.storage.log import Log
from groupkeeper.storage.store import Store
from groupkeeper.turns import Slices

PLACEMENTS = 10_000
"""How many group ids are remembered with their partition; hashing one takes longer than a step."""
PLACEMENT_LENGTH = 255
"""Longer ids are hashed each time: a client chooses them, and 10,000 of them are memory."""


class Hosts:
    """Partitions by index."""

    def __init__(self, epochs: Sequence[int], services: HostServices) -> None:
        """``epochs`` are those under which the partitions were claimed, by index."""
        self._hosts = [PartitionHost(n, services, epoch) for n, epoch in enumerate(epochs)]
        self.deletions = Deletions()
        """The topics that were deleted in this process."""
        self._release = services.release
        self._placed: dict[str, PartitionHost] = {}

    def __iter__(self) -> Iterator[PartitionHost]:
        return iter(self._hosts)

    def __len__(self) -> int:
        return len(self._hosts)

    def of(self, group_id: str) -> PartitionHost:
        """The partition that a group lives in."""
        host = self._placed.get(group_id)
        if host is None:
            host = self._hosts[partition_of(group_id, len(self._hosts))]
            if len(self._placed) >= PLACEMENTS:
                self._placed.clear()
            if len(group_id) <= PLACEMENT_LENGTH:
                self._placed[group_id] = host
        return host

    def start(self, store: Store) -> None:
        """Load everything: what has no log at once, the rest in the background."""
        existing = set(store.log_names())
        waiting = [
            host for host in self._hosts if host.name in existing or not host.load_empty(store)
        ]
        # Only now: the store takes logs from one thread at a time.
        for host in waiting:
            host.start_loading()

    def fence(self, partition: int, error: StorageError) -> None:
        """Another process may own the partition: it is claimed and loaded again, or not ours."""
        self._hosts[partition].fence(error)

    def stop(self) -> None:
        """The process ends: nobody is served any more."""
        for host in self._hosts:
            host.stop()

    def close(self) -> None:
        """After :meth:`stop`, and when everything is written: dismiss whoever still waits."""
        for host in self._hosts:
            host.close()
        self._release.flush()

    def log_of(self, partition: int) -> Log | None:
        """The log of one partition of the offsets topic, for who fetches it as a topic."""
        return self._hosts[partition].log if 0 <= partition < len(self._hosts) else None

    def snapshots(self) -> Iterable[PartitionSnapshot]:
        """Every partition as it is now; their groups are not counted."""
        return [host.snapshot() for host in self._hosts]

    def counted(self) -> Slices[Iterable[PartitionSnapshot]]:
        """The same with their groups, members and offsets."""
        found = []
        for host in self._hosts:
            found.append((yield from host.counted()))
            yield
        return found
