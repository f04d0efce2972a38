"""Looks at the logs of a target: what a start would refuse, what is readable of it, what is lost.

Changes nothing: logs are opened in files whose changes stay in memory (storage/overlay_files.py),
first as a server opens them; if that is refused, once more with the loss accepted.
"""

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from groupkeeper.coordinator.replay import Replay
from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.record_batch import CorruptBatch
from groupkeeper.repair.catalog import CatalogContents, LeftOfCatalog, TopicState, contents_of
from groupkeeper.repair.contents import (
    Contents,
    GroupContents,
    MessageContents,
    State,
    certain_from,
    read_groups,
    read_messages,
)
from groupkeeper.repair.logs import LIMITS, Logs, is_of_groups
from groupkeeper.repair.recognition import Recognized, recognized_in
from groupkeeper.repair.target import Target
from groupkeeper.storage.archive import archive_folder
from groupkeeper.storage.errors import ACCEPT_FILE, Corrupt, Loss, NewerFormat, remedy
from groupkeeper.storage.files import Files
from groupkeeper.storage.format import FILE_NAME as FORMAT_FILE
from groupkeeper.storage.format import read_format
from groupkeeper.storage.log import Log
from groupkeeper.storage.opening import accept_loss
from groupkeeper.storage.overlay_files import OverlayFiles
from groupkeeper.topics.catalog_log import FOLDERS as CATALOG
from groupkeeper.topics.catalog_log import CatalogFolders

Progress = Callable[[str, int], None]
"""Called with the name of a log and how many more bytes of it were read."""


@dataclass
class DamagedLog:
    """A log that a start refuses, and what is left of it."""

    name: str
    refused: str
    """Why a start refuses it, in a line that names file and place."""
    beyond_repair: str = ""
    """Why it cannot be repaired either; empty if it can. Then the fields below are empty."""
    lines: list[str] = field(default_factory=list)
    """What a repair leaves out or mends."""
    losses: list[Loss] = field(default_factory=list)
    contents: Contents | None = None
    recognized: list[Recognized] = field(default_factory=list)
    archive: str = ""
    """The folder with its segments as they were before compaction, if there are any."""
    overwritten: frozenset[str] = frozenset()
    """The files that a repair changes in place."""

    @property
    def certain_from(self) -> int | None:
        """See `certain_from` in contents.py."""
        return certain_from(self.losses)

    def uncertain(self) -> list[State]:
        """The newest readable states that are not the newest for certain."""
        found = self.contents
        if not isinstance(found, GroupContents):
            return []
        certain = self.certain_from
        return [state for state in found.states if certain is None or state.at < certain]


@dataclass
class DamagedCatalog:
    """A catalog that a start refuses, and what is left of both copies."""

    refused: str
    left: LeftOfCatalog
    contents: CatalogContents
    from_folders: list[TopicState]

    @property
    def losses(self) -> Sequence[Loss]:
        return self.left.losses


@dataclass
class Survey:
    """What was found."""

    target: Target
    logs: list[DamagedLog] = field(default_factory=list)
    catalog: DamagedCatalog | None = None
    format_damage: str = ""
    """What is wrong with the format file; empty if nothing is."""
    sound: dict[str, Contents] = field(default_factory=dict)
    """What the logs hold that a start serves."""
    mended: list[str] = field(default_factory=list)
    """What the next start mends by itself, a line each."""

    @property
    def is_damaged(self) -> bool:
        """Whether a start refuses anything."""
        return bool(self.logs or self.catalog or self.format_damage)

    def topics(self) -> list[MessageContents]:
        """What the logs of topics hold, sound or not."""
        contents = [*self.sound.values(), *(log.contents for log in self.logs)]
        return [each for each in contents if isinstance(each, MessageContents)]


def survey(files: Files, target: Target, progress: Progress) -> Survey:
    """Look at a target, under the locks of all nodes (NodeLocks).

    Raises OSError, and StorageError for a directory that a newer version made.
    """
    surveyor = _Surveyor(files, target, progress)
    surveyor.look_at_format()
    surveyor.look_at_logs()
    return surveyor.found


class _Surveyor:
    def __init__(self, files: Files, target: Target, progress: Progress) -> None:
        self._files = files
        self._overlay = OverlayFiles(files)
        self._target = target
        self._progress = progress
        self.found = Survey(target)

    def _folder(self, name: str) -> str:
        return f"{self._target.data_dir}/{name}"

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
        logs = Logs(self._overlay, self._target)
        try:
            self.found.mended += logs.take_repairs()
            names = logs.names()
            for name in names:
                self._look_at(logs, name)
                self._overlay.forget(self._folder(name))
            if self._target.catalog:
                self._look_at_catalog(names, must_exist=logs.was_used)
        finally:
            logs.close()

    def _look_at(self, logs: Logs, name: str) -> None:
        # Left by a repair that was interrupted.
        self._overlay.remove(f"{self._folder(name)}/{ACCEPT_FILE}")
        try:
            log = logs.open(name)
            try:
                self.found.sound[name] = self._read(log, states=False)
                self.found.mended += log.repairs
            finally:
                log.close()
        except Corrupt as error:
            refused = str(error).removesuffix(f": {remedy(self._folder(name))}")
            self.found.logs.append(self._left_of(logs, DamagedLog(name, refused)))
        except (CorruptBatch, DecodeError) as error:
            refused = f"{self._folder(name)}: a record cannot be decoded: {error}"
            self.found.logs.append(DamagedLog(name, refused, beyond_repair=_UNDECODABLE))
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            refused = f"{self._folder(name)} cannot be read: {error}"
            self.found.logs.append(DamagedLog(name, refused, beyond_repair=_UNREADABLE))

    def _read(self, log: Log, *, states: bool) -> Contents:
        self._progress(log.name, 0)
        if is_of_groups(log.name):
            return read_groups(log, lambda size: self._progress(log.name, size), states=states)
        return read_messages(log, lambda size: self._progress(log.name, size))

    def _left_of(self, logs: Logs, damaged: DamagedLog) -> DamagedLog:
        """What is left of a log once the loss is accepted."""
        folder = self._folder(damaged.name)
        self._overlay.forget(folder)
        was_missing = not self._files.list_folder(folder)
        accept_loss(self._overlay, folder)
        try:
            log = logs.open(damaged.name)
            try:
                damaged.contents = self._read(log, states=True)
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
        if is_of_groups(damaged.name):
            for loss in damaged.losses:
                damaged.recognized += recognized_in(self._files, loss)
        return damaged

    def _look_at_catalog(self, names: Sequence[str], *, must_exist: bool) -> None:
        overlay, data_dir = self._overlay, self._target.data_dir
        for name in CATALOG:
            overlay.remove(f"{self._folder(name)}/{ACCEPT_FILE}")
        mended: list[str] = []
        folders = CatalogFolders(overlay, data_dir, LIMITS, mended.append, must_exist=must_exist)
        try:
            log = folders.open()
            try:
                replay = Replay()
                for chunk in log.batches():
                    replay.take(chunk)
                contents_of(replay.newest)
            finally:
                log.close()
            self.found.mended += mended
        except Corrupt as error:
            for name in CATALOG:
                overlay.forget(self._folder(name))
            left = LeftOfCatalog.of(overlay, data_dir)
            there = [name for name in names if self._files.list_folder(self._folder(name))]
            refused = str(error).partition(": restore")[0]
            self.found.catalog = DamagedCatalog(refused, left, left.contents, left.topics_of(there))


_UNDECODABLE = "its checksums are right, but a record cannot be decoded: restore it from a backup"
_UNREADABLE = "the disk fails: copy what it still reads to another one, and repair the copy"
