"""Repairs what a survey has found, and keeps the originals.

First every file that may change, or go, is kept in a folder `repaired-<time>` in the data
directory, durably: by a second name for the same bytes (a hard link) where the file system has
those, else as a copy. A file that the repair overwrites in place is then given bytes of its own.
Only after that is a log opened with its loss accepted, as a start does it with the file
`accept-loss`. A crash leaves a directory that can be repaired again; the next repair has an own
folder for its originals.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from groupkeeper.repair.catalog import Added
from groupkeeper.repair.contents import Contents, Progress, read_contents
from groupkeeper.repair.logs import Logs, is_journaled, node_id_of
from groupkeeper.repair.survey import DamagedLog, Survey
from groupkeeper.storage.files import Files
from groupkeeper.storage.folders import FILE_NAME as FOLDER_LIST
from groupkeeper.storage.format import FILE_NAME as FORMAT_FILE
from groupkeeper.storage.journal import FOLDER as JOURNALS
from groupkeeper.storage.locks import LEASES, NodeLocks
from groupkeeper.storage.opening import accept_loss
from groupkeeper.storage.segment import LOG_SUFFIX
from groupkeeper.topics.catalog_log import FOLDERS as CATALOG

REPORT_FILE: Final = "report.txt"
"""What the survey said, beside the originals."""

_WHILE_COPIED: Final = ".original"


@dataclass(frozen=True)
class Wishes:
    """What a repair needs from outside."""

    stamp: str
    """The time, as part of a folder's name."""
    wall_ms: int
    cluster_id: str
    """A new one, if that of the catalog is lost."""
    report: str
    """The text of the survey."""


@dataclass
class Repaired:
    """What was done."""

    originals: str
    """The folder with the originals."""
    contents: dict[str, Contents] = field(default_factory=dict)
    """What the repaired logs hold now."""
    lines: list[str] = field(default_factory=list)
    """What was left out or mended, a line each."""


def write(
    files: Files, survey: Survey, locks: NodeLocks, wishes: Wishes, progress: Progress
) -> Repaired:
    """Repair all that can be repaired. `locks` are those that the survey was made under.

    Raises StorageError and OSError: then run the command again.
    """
    data_dir = survey.target.data_dir
    originals = Originals(files, data_dir, wishes.stamp)
    originals.keep_all_of(survey, wishes.report)
    locks.give_back(node_id_of(files, data_dir))  # the store takes it
    if survey.format_damage:
        files.remove(f"{data_dir}/{FORMAT_FILE}")
        files.sync_folder(data_dir)
    done = Repaired(originals.folder)
    logs = Logs(files, survey.target)
    try:
        for each in survey.logs:
            if not each.beyond_repair:
                _repair(files, logs, f"{data_dir}/{each.name}", done, progress)
        if survey.catalog is not None:
            topics = survey.topics()
            added = Added(
                wall_ms=wishes.wall_ms,
                cluster_id=wishes.cluster_id,
                next_producer_id=max((each.next_producer_id for each in topics), default=0),
                leader_epoch=max((each.last_epoch for each in topics), default=0),
                topics=survey.catalog.from_folders,
            )
            survey.catalog.left.write(files, data_dir, added)
    finally:
        logs.close()
    return done


def _repair(files: Files, logs: Logs, folder: str, done: Repaired, progress: Progress) -> None:
    accept_loss(files, folder)
    log = logs.open(folder.rpartition("/")[2])
    try:
        done.lines += log.take_repairs()
        done.contents[log.name] = read_contents(log, progress)
    finally:
        log.close()


class Originals:
    """The folder in which a repair keeps what it changes."""

    def __init__(self, files: Files, data_dir: str, stamp: str) -> None:
        self._files = files
        self._data_dir = data_dir
        there = files.list_folder(data_dir)
        name = f"repaired-{stamp}"
        while name in there:
            name += "+"
        self.folder = f"{data_dir}/{name}"

    def keep_all_of(self, survey: Survey, report: str) -> None:
        """Keep all files that the repair of a survey may change. Raises OSError."""
        self._files.make_folder(self.folder)
        self._write_report(report)
        for log in survey.logs:
            if not log.beyond_repair:
                self._keep_folder(log.name, partial(_is_overwritten, log))
        if survey.catalog is not None:
            for name in CATALOG:
                self._keep_folder(name, lambda path: True)
        if survey.target.served:
            self._keep_files([FORMAT_FILE, FOLDER_LIST])
            if any(is_journaled(log.name) for log in survey.logs):
                self._keep_folder(JOURNALS, lambda path: False)
                self._keep_folder(LEASES, lambda path: True)
        self._files.sync_folder(self.folder)
        self._files.sync_folder(self._data_dir)

    def _write_report(self, report: str) -> None:
        handle = self._files.open(f"{self.folder}/{REPORT_FILE}", create=True)
        try:
            self._files.write(handle, report.encode(), 0)
            self._files.sync(handle)
        finally:
            self._files.close(handle)

    def _keep_folder(self, name: str, overwritten: Callable[[str], bool]) -> None:
        """Keep the files of a folder. `overwritten`: whether a path may be changed in place."""
        files, source, target = self._files, f"{self._data_dir}/{name}", f"{self.folder}/{name}"
        names = files.list_folder(source)
        if not names:
            return
        files.make_folder(target)
        for each in names:
            path = f"{source}/{each}"
            if path.endswith(_WHILE_COPIED):
                files.remove(path)  # left by a repair that was interrupted
            else:
                self._keep(path, f"{target}/{each}", overwritten=overwritten(path))
        files.sync_folder(target)
        files.sync_folder(source)

    def _keep_files(self, names: Iterable[str]) -> None:
        there = self._files.list_folder(self._data_dir)
        for name in names:
            if name in there:
                self._keep(f"{self._data_dir}/{name}", f"{self.folder}/{name}", overwritten=True)

    def _keep(self, path: str, kept: str, *, overwritten: bool) -> None:
        files = self._files
        try:
            files.link(path, kept)
        except OSError:  # the file system has no links, or the file has too many
            _copy(files, path, kept)
            return
        if overwritten:
            _copy(files, path, path + _WHILE_COPIED)
            files.rename(path + _WHILE_COPIED, path)


def _is_overwritten(log: DamagedLog, path: str) -> bool:
    """Whether a repair may change a file of a log in place. Of segments, which may be large, it is
    known.
    """
    return not path.endswith(LOG_SUFFIX) or path in log.overwritten


def _copy(files: Files, path: str, to: str) -> None:
    """Copy a file, synced."""
    source = files.open(path)
    try:
        target = files.open(to, create=True)
        try:
            files.truncate(target, 0)
            files.copy(source, 0, files.size(source), target, 0)
            files.sync(target)
        finally:
            files.close(target)
    finally:
        files.close(source)
