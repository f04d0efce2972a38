"""The folders of topic partitions in the data directory, and the opening of their logs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from groupkeeper.storage.files.files import Files
from groupkeeper.storage.folders import FolderList, is_partition
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.log.log import Log
from groupkeeper.storage.log.start import write_start
from groupkeeper.storage.recovery.opening import open_log
from groupkeeper.topics.catalog import Topic
from groupkeeper.topics.log_policy import LogPolicy

READ_AT_ONCE: Final = 16 * 1024 * 1024
"""Maximum bytes of a log read while a request waits for its opening; if the log's checksum covers
more, it is compared later."""


@dataclass(slots=True)
class TopicFolders:
    """One folder `<topic>-<partition>` for each log, in the data directory."""

    files: Files
    data_dir: str
    repaired: Callable[[str], None]
    """Called with a description of damage that was repaired."""
    policy_of: Callable[[Topic], LogPolicy]
    known: FolderList | None = None
    """The folders that must exist."""
    _noting: Lock = field(default_factory=Lock)
    """Held while `known` is changed, which several threads do."""

    def open_log(self, name: str, limits: Limits) -> Log:
        """Open a log; without a folder it is empty. Raises StorageError and OSError."""
        if self.known is not None and (what := self.known.check(name)):
            self.repaired(what)
        log = open_log(self.files, f"{self.data_dir}/{name}", limits, read_most=READ_AT_ONCE)
        for what in log.take_repairs():
            self.repaired(what)
        return log

    def note_start(self, name: str, offset: int) -> None:
        """Durably set the start offset of a log, blocking. Raises as `write_start`."""
        write_start(self.files, f"{self.data_dir}/{name}", offset)
        if self.known is not None:
            with self._noting:
                self.known.note(name, offset)

    def note_made(self, name: str) -> None:
        """Record that a log has its first records, so that its folder must exist. Blocks."""
        if self.known is not None:
            with self._noting:
                self.known.note(name)

    def remove(self, name: str) -> None:
        """Remove a folder and its files, if it exists. Raises OSError."""
        folder = f"{self.data_dir}/{name}"
        for file in self.files.list_folder(folder):
            self.files.remove(f"{folder}/{file}")
        self.files.remove_folder(folder)
        if self.known is not None:
            with self._noting:
                self.known.note_removed(name)

    def names(self) -> list[str]:
        """Return all folders of partitions, known or not, blocking. Raises OSError."""
        return [name for name in self.files.list_folder(self.data_dir) if is_partition(name)]

    def sync(self) -> None:
        """Make the set of existing folders durable, blocking. Raises OSError."""
        if self.known is not None:
            with self._noting:
                self.known.save()
        self.files.sync_folder(self.data_dir)
