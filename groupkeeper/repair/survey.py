"""Looks at the logs of a target: what a start would refuse, what is readable of it, what is lost.

Changes nothing: logs are opened in files whose changes stay in memory (storage/files/overlay.py),
first as a server opens them; if that is refused, once more with the loss accepted.
"""

import errno
from dataclasses import dataclass, field

from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.record_batch import CorruptBatch
from groupkeeper.repair.catalog import LeftOfCatalog
from groupkeeper.repair.logs import (
    LIMITS,
    DirectoryLogs,
    LogContents,
    ReadProgress,
    RepairTarget,
    is_of_groups,
    read_contents,
)
from groupkeeper.storage.compaction.archive import archive_folder
from groupkeeper.storage.errors import ACCEPT_FILE, Corrupt, Loss, NewerFormat, remedy
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.files.overlay import OverlayFiles
from groupkeeper.storage.format import FILE_NAME as FORMAT_FILE
from groupkeeper.storage.format import read_format
from groupkeeper.storage.journal.journal import FOLDER as JOURNALS
from groupkeeper.storage.locks import LEASES, NODES
from groupkeeper.storage.recovery.opening import accept_loss
from groupkeeper.topics.catalog_log import FOLDERS as CATALOG
from groupkeeper.topics.catalog_log import CatalogFolders


@dataclass
class DamagedLog:
    """A log that a start refuses, and what is left of it."""

    name: str
    refused: str
    """Why a start refuses it, in a line that names file and place."""
    beyond_repair: str = ""
    """Why it cannot be repaired either; empty if it can. Then the fields below are empty."""
    contents: LogContents | None = None
    losses: list[Loss] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    """What a repair leaves out or mends."""
    archive: str = ""
    """The folder with its segments as they were before compaction, if there are any."""
    overwritten: frozenset[str] = frozenset()
    """The segments that a repair changes in place, among other files."""


@dataclass
class DamagedCatalog:
    """A catalog that a start refuses, and what is left of both copies."""

    refused: str
    left: LeftOfCatalog
    from_folders: dict[str, int]
    """Partition counts of topics that the readable part does not know, but that have folders."""


@dataclass
class Survey:
    """What was found."""

    target: RepairTarget
    logs: list[DamagedLog] = field(default_factory=list)
    catalog: DamagedCatalog | None = None
    format_damage: str = ""
    """What is wrong with the format file; empty if nothing is."""
    sound: dict[str, LogContents] = field(default_factory=dict)
    """What the logs hold that a start serves."""
    mended: list[str] = field(default_factory=list)
    """What the next start mends by itself, a line each."""

    @property
    def is_damaged(self) -> bool:
        """Whether a start refuses anything."""
        return bool(self.logs or self.catalog or self.format_damage)

    @property
    def repairable(self) -> list[DamagedLog]:
        """The damaged logs without those that are beyond repair."""
        return [log for log in self.logs if not log.beyond_repair]

    def topics(self) -> list[LogContents]:
        """What the logs of topics hold, sound or not."""
        contents = self.sound | {log.name: log.contents for log in self.logs if log.contents}
        return [each for name, each in contents.items() if not is_of_groups(name)]


def survey(files: Files, target: RepairTarget, progress: ReadProgress) -> Survey:
    """Look at a target, under the locks of all nodes (NodeLocks).

    Raises OSError, and StorageError for a directory that a newer version made.
    """
    surveyor = _Surveyor(files, target, progress)
    surveyor.look_at_format()
    surveyor.look_at_logs()
    return surveyor.found


class _Surveyor:
    def __init__(self, files: Files, target: RepairTarget, progress: ReadProgress) -> None:
        self._files = files
        self._overlay = OverlayFiles(files)
        self._target = target
        self._progress = progress
        self.found = Survey(target)
        self._overlay.show(target.data_dir)
        if target.served:
            for name in (JOURNALS, LEASES, NODES):
                self._show(name)

    def _folder(self, name: str) -> str:
        return f"{self._target.data_dir}/{name}"

    def _show(self, name: str) -> None:
        """Begin with the folder as it is, but for what a repair left that was interrupted."""
        self._overlay.show(self._folder(name))
        self._overlay.remove(f"{self._folder(name)}/{ACCEPT_FILE}")

    def look_at_format(self) -> None:
        if not self._target.served:
            return
        try:
            read_format(self._overlay, self._target.data_dir)
        except NewerFormat:
            raise
        except Corrupt as error:
            self.found.format_damage = str(error)
            self._overlay.remove(f"{self._target.data_dir}/{FORMAT_FILE}")

    def look_at_logs(self) -> None:
        logs = DirectoryLogs(self._overlay, self._target)
        try:
            self.found.mended += logs.take_repairs()
            names = logs.names()
            for name in names:
                self._show(name)
                self._look_at(logs, name)
            if self._target.has_catalog:
                there = [name for name in names if self._files.list_folder(self._folder(name))]
                self._look_at_catalog(there, must_exist=logs.was_used)
        finally:
            logs.close()

    def _look_at(self, logs: DirectoryLogs, name: str) -> None:
        folder = self._folder(name)
        try:
            log = logs.open(name)
            try:
                self.found.sound[name] = read_contents(log, self._progress)
                self.found.mended += log.repairs
            finally:
                log.close()
        except Corrupt as error:
            refused = str(error).removesuffix(f": {remedy(folder)}")
            self.found.logs.append(self._left_of(logs, DamagedLog(name, refused)))
        except (CorruptBatch, DecodeError) as error:
            refused = f"{folder}: a record cannot be decoded: {error}"
            self.found.logs.append(DamagedLog(name, refused, _UNDECODABLE))
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            refused = f"{folder} cannot be read: {error}"
            self.found.logs.append(DamagedLog(name, refused, _UNREADABLE))

    def _left_of(self, logs: DirectoryLogs, damaged: DamagedLog) -> DamagedLog:
        """What is left of a log once the loss is accepted."""
        folder = self._folder(damaged.name)
        self._show(damaged.name)
        was_missing = not self._overlay.list_folder(folder)
        accept_loss(self._overlay, folder)
        try:
            log = logs.open(damaged.name)
            try:
                damaged.contents = read_contents(log, self._progress)
                damaged.lines, damaged.losses = [*log.repairs], [*log.losses]
            finally:
                log.close()
        except Corrupt as error:
            damaged.beyond_repair = str(error).removesuffix(f": {remedy(folder)}")
        except (CorruptBatch, DecodeError) as error:
            damaged.beyond_repair = f"{_UNDECODABLE}: {error}"
        if was_missing and not damaged.losses:
            damaged.losses.append(Loss(damaged.refused, 0, None))
        archive = archive_folder(self._target.data_dir, damaged.name)
        damaged.archive = archive if self._files.list_folder(archive) else ""
        damaged.overwritten = frozenset(self._overlay.overwritten)
        return damaged

    def _look_at_catalog(self, folders: list[str], *, must_exist: bool) -> None:
        overlay, data_dir = self._overlay, self._target.data_dir
        for name in CATALOG:
            self._show(name)
        mended: list[str] = []
        catalog = CatalogFolders(overlay, data_dir, LIMITS, mended.append, must_exist=must_exist)
        try:
            catalog.open().close()
            self.found.mended += mended
        except Corrupt as error:
            for name in CATALOG:
                self._show(name)
            left = LeftOfCatalog.of(overlay, data_dir)
            refused = str(error).partition(": restore")[0]
            self.found.catalog = DamagedCatalog(refused, left, left.topics_of(folders))


_UNDECODABLE = "its checksums are right, but a record cannot be decoded: restore it from a backup"
_UNREADABLE = "the disk fails: copy what it still reads to another one, and repair the copy"
