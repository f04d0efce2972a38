"""Finds the logs for a path given to `groupkeeper repair`, opens them like a server, and counts
their records and, in `__consumer_offsets`, groups, members and offsets.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from groupkeeper.coordinator.groups import Groups
from groupkeeper.coordinator.replay import Replay
from groupkeeper.protocol.record_batch import iter_batches
from groupkeeper.storage.errors import StorageError
from groupkeeper.storage.files.files import Files, parent_of
from groupkeeper.storage.folders import is_partition, partition_of, partitions_among
from groupkeeper.storage.format import FILE_NAME as FORMAT_FILE
from groupkeeper.storage.journal.journal import FOLDER as JOURNALS
from groupkeeper.storage.journal.journal import node_of
from groupkeeper.storage.locks import NODES
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.log.log import Log
from groupkeeper.storage.log.segment import base_of
from groupkeeper.storage.recovery.opening import open_log
from groupkeeper.storage.store import Store
from groupkeeper.topics.catalog_log import FOLDERS as CATALOG
from groupkeeper.topics.names import GROUP_TOPIC, RESERVED

LIMITS: Final = Limits()
"""Defaults suffice: nothing is appended except batches from the journal."""


ReadProgress = Callable[[str, int], None]
"""Called with the name of a log and the number of bytes read since the last call."""

_OF_A_SERVER = frozenset({FORMAT_FILE, JOURNALS, NODES, *CATALOG})


@dataclass(frozen=True)
class RepairTarget:
    """The logs to examine."""

    data_dir: str
    """The folder that contains the partition folders."""
    names: tuple[str, ...] | None = None
    """Names of partition folders; None: all."""
    served: bool = False
    """Whether the folder is the data directory of a server, with locks and journals. Otherwise it
    has only partition folders, such as a copy or a Kafka broker's data directory."""

    @property
    def has_catalog(self) -> bool:
        """Whether the catalog is one of the logs."""
        return self.served and self.names is None

    @property
    def path(self) -> str:
        """The argument of `groupkeeper repair` for this target."""
        if self.names is None:
            return self.data_dir
        return f"{self.data_dir}/{self.names[0]}"


def target_of(files: Files, path: str) -> RepairTarget:
    """Return the target for an existing folder or segment. Raises StorageError and OSError."""
    folder, _, name = path.rpartition("/")
    if base_of(name) is not None:
        return target_of(files, folder or ".")
    names = files.list_folder(path)
    if _OF_A_SERVER.intersection(names):
        return RepairTarget(path, served=True)
    parent = parent_of(path)
    served = bool(_OF_A_SERVER.intersection(files.list_folder(parent)))
    if served and name in CATALOG:  # topics are also found by their folders: examine all
        return RepairTarget(parent, served=True)
    if is_partition(name) or any(base_of(each) is not None for each in names):
        return RepairTarget(parent, (name,), served=served)
    if any(is_partition(each) for each in names):
        return RepairTarget(path)
    raise StorageError(
        f"{path} is not a data directory, partition folder or segment: there is nothing to repair"
    )


def node_id_of(files: Files, data_dir: str) -> int:
    """Return the lowest node id that has used a data directory."""
    ran = [int(name) for name in files.list_folder(f"{data_dir}/{NODES}") if name.isdigit()]
    wrote = map(node_of, files.list_folder(f"{data_dir}/{JOURNALS}"))
    return min([*ran, *(node for node in wrote if node is not None)], default=0)


def topic_of(name: str) -> str:
    """Return the topic of a partition folder."""
    return name.rpartition("-")[0]


class DirectoryLogs:
    """Opens the logs of a target. The journal is not written."""

    def __init__(self, files: Files, target: RepairTarget) -> None:
        """Lock the node if the target is a server's. Raises StorageError (Locked) and OSError."""
        self._files = files
        self._target = target
        self._store: Store | None = None
        self._told: set[str] = set()
        if target.served:
            self._store = Store(files, target.data_dir, node_id_of(files, target.data_dir))
            self._told = self._store.told_names()

    @property
    def was_used(self) -> bool:
        """Whether a server has served the directory before."""
        return self._store is not None and self._store.was_used

    def take_repairs(self) -> Sequence[str]:
        """Return a line for each damage outside the logs."""
        return () if self._store is None else self._store.take_repairs()

    def names(self) -> list[str]:
        """Return the names of the target's partition folders, including missing ones."""
        if self._target.names is not None:
            return [*self._target.names]
        names = {*self._files.list_folder(self._target.data_dir)}
        if self._store is not None:
            names |= self._told | self._store.folders.names
        return partitions_among(names)

    def open(self, name: str) -> Log:
        """Open a log; the caller closes it. Raises StorageError (also Corrupt) and OSError."""
        store, folder = self._store, f"{self._target.data_dir}/{name}"
        if store is None:
            return open_log(self._files, folder, LIMITS)
        if is_journaled(name) or name in self._told:
            store.claim(partition_of(name))
            return store.examine_log(name)
        restored = store.folders.check(name)
        log = open_log(self._files, folder, LIMITS)
        log.repairs = [*([restored] if restored else []), *log.repairs]
        return log

    def close(self) -> None:
        """Release the locks."""
        if self._store is not None:
            self._store.leave()


def is_journaled(name: str) -> bool:
    """Whether a log's batches are written to the journal first."""
    return topic_of(name) in RESERVED


def is_of_groups(name: str) -> bool:
    """Whether a log holds groups and their offsets."""
    return topic_of(name) == GROUP_TOPIC


@dataclass
class LogContents:
    """The counted contents of a log."""

    first: int
    """Log start offset."""
    end: int
    """Log end offset, after the last record."""
    batches: int = 0
    records: int = 0
    """Number of records, without control records."""
    groups: int = 0
    members: int = 0
    offsets: int = 0
    """Committed offsets of all groups."""
    next_producer_id: int = 0
    """One more than the highest producer id in the log."""
    last_epoch: int = 0
    """The highest leader epoch in the log."""


def read_contents(log: Log, progress: ReadProgress) -> LogContents:
    """Read a log and count its contents; groups are built with the server's code.

    Raises Corrupt, and CorruptBatch and DecodeError for records that a server cannot load.
    """
    found = LogContents(log.start_offset, log.next_offset)
    replay, groups = Replay(), Groups()
    for chunk in log.batches(log.start_offset):
        for header in iter_batches(chunk):
            found.batches += 1
            found.last_epoch = max(found.last_epoch, header.leader_epoch)
            found.next_producer_id = max(found.next_producer_id, header.producer_id + 1)
            if not header.is_control:
                found.records += header.record_count
        if is_of_groups(log.name):
            replay.take(chunk)
        progress(log.name, len(chunk))
    for _ in replay.restore(groups):
        pass
    found.groups = len(groups)
    found.members = sum(len(group.members) for group in groups.values())
    found.offsets = sum(len(each) for group in groups.values() for each in group.offsets.values())
    return found
