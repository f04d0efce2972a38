"""Examines the logs of a target: damage at which a server would refuse to start, and what a repair
would keep and lose.

Changes nothing: logs are opened in an overlay whose changes stay in memory
(storage/files/overlay.py), first like a server, and after a refusal again with the loss accepted.
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
from groupkeeper.storage.errors import ACCEPT_FILE, Corrupt, Loss, remedy
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
    """A log that a server refuses to open, and its readable contents."""

    name: str
    refused: str
    """The reason for the refusal, in one line with file and position."""
    beyond_repair: str = ""
    """Why the log cannot be repaired; empty if it can. If set, the fields below are empty."""
    contents: LogContents | None = None
    losses: list[Loss] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    """What a repair drops or corrects, a line each."""
    archive: str = ""
    """The folder with the log's segments from before compaction; empty if there are none."""
    overwritten: frozenset[str] = frozenset()
    """Files changed in place by a repair, including all such segments."""


@dataclass
class DamagedCatalog:
    """A catalog that a server refuses to open, and the readable part of both copies."""

    refused: str
    left: LeftOfCatalog
    from_folders: dict[str, int]
    """{topic: partition count} for topics with folders that are missing in the readable part."""


@dataclass
class Survey:
    """The result of a survey."""

    target: RepairTarget
    logs: list[DamagedLog] = field(default_factory=list)
    catalog: DamagedCatalog | None = None
    format_damage: str = ""
    """The damage of the format file; empty if there is none."""
    sound: dict[str, LogContents] = field(default_factory=dict)
    """Contents of the undamaged logs, by name."""
    mended: list[str] = field(default_factory=list)
    """What the next server start repairs by itself, a line each."""

    @property
    def is_damaged(self) -> bool:
        """Whether a server would refuse to start."""
        return bool(self.logs or self.catalog or self.format_damage)

    @property
    def repairable(self) -> list[DamagedLog]:
        """The damaged logs that can be repaired."""
        return [log for log in self.logs if not log.beyond_repair]

    def topics(self) -> list[LogContents]:
        """Return the contents of all logs except `__consumer_offsets`, damaged or not."""
        contents = self.sound | {log.name: log.contents for log in self.logs if log.contents}
        return [each for name, each in contents.items() if not is_of_groups(name)]


def survey(files: Files, target: RepairTarget, progress: ReadProgress) -> Survey:
    """Examine a target. The caller holds the locks of all nodes (NodeLocks).

    Raises OSError, and StorageError for a directory of another version.
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
        """Reset the overlay to the folder on disk, minus the mark of an interrupted repair."""
        self._overlay.show(self._folder(name))
        self._overlay.remove(f"{self._folder(name)}/{ACCEPT_FILE}")

    def look_at_format(self) -> None:
        if not self._target.served:
            return
        try:
            read_format(self._overlay, self._target.data_dir)
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
        """Add what is readable of a log once its loss is accepted."""
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
_UNREADABLE = "the disk is failing: copy what is still readable to another one, repair the copy"
