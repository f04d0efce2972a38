"""The logs of a target, opened as a server opens them, one at a time."""

from collections.abc import Sequence
from typing import Final

from groupkeeper.repair.target import Target
from groupkeeper.storage.files import Files
from groupkeeper.storage.folders import is_partition, partition_of
from groupkeeper.storage.journal import FOLDER as JOURNALS
from groupkeeper.storage.journal import node_of
from groupkeeper.storage.limits import Limits
from groupkeeper.storage.locks import NODES
from groupkeeper.storage.log import Log
from groupkeeper.storage.opening import open_log
from groupkeeper.storage.store import Store
from groupkeeper.topics.names import GROUP_TOPIC, RESERVED

LIMITS: Final = Limits()
"""Nothing is appended but what a journal holds: the sizes that a server uses need not be known."""


def node_id_of(files: Files, data_dir: str) -> int:
    """The lowest node id that has run on a data directory."""
    ran = [int(name) for name in files.list_folder(f"{data_dir}/{NODES}") if name.isdigit()]
    wrote = map(node_of, files.list_folder(f"{data_dir}/{JOURNALS}"))
    return min([*ran, *(node for node in wrote if node is not None)], default=0)


def topic_of(name: str) -> str:
    """The topic of a partition folder."""
    return name.rpartition("-")[0]


class Logs:
    """Opens logs. No round is written: journals stay as they are."""

    def __init__(self, files: Files, target: Target) -> None:
        """Takes the node's lock, if servers run on the directory. Raises StorageError (Locked among
        others) and OSError.
        """
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
        """What is damaged outside of logs, a line each."""
        return () if self._store is None else self._store.take_repairs()

    def names(self) -> list[str]:
        """The partition folders of the target, also those that are missing."""
        if self._target.names is not None:
            return [*self._target.names]
        names = {
            name for name in self._files.list_folder(self._target.data_dir) if is_partition(name)
        }
        if self._store is not None:
            names |= self._told | self._store.folders.names
        return sorted(names, key=lambda name: (topic_of(name), partition_of(name)))

    def open(self, name: str) -> Log:
        """Open a log. Raises StorageError, Corrupt among them, and OSError. Close it."""
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
        """Give the locks back."""
        if self._store is not None:
            self._store.leave()


def is_journaled(name: str) -> bool:
    """Whether batches of a log go through the journal."""
    return topic_of(name) in RESERVED


def is_of_groups(name: str) -> bool:
    """Whether a log has groups and their offsets."""
    return topic_of(name) == GROUP_TOPIC
