"""Repairs the damage found by a survey, and keeps the original files.

First, every file that may be changed or removed is kept durably in a folder `repaired-<time>` in
the data directory, as a hard link, or as a copy if the file system has no links. A linked file that
the repair overwrites in place is replaced by a copy. Only then are logs opened with their loss
accepted, as a server does if there is a file `accept-loss`. After a crash the directory can be
repaired again; each repair has its own folder for originals.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from groupkeeper.protocol.record_batch import KeyValue, encode_batch
from groupkeeper.repair.logs import LIMITS, DirectoryLogs, is_journaled, node_id_of
from groupkeeper.repair.survey import DamagedCatalog, DamagedLog, Survey
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.files.whole import copy_file, overwrite, sync_file
from groupkeeper.storage.folders import FILE_NAME as FOLDER_LIST
from groupkeeper.storage.format import FILE_NAME as FORMAT_FILE
from groupkeeper.storage.journal.journal import FOLDER as JOURNALS
from groupkeeper.storage.locks import LEASES, NodeLocks
from groupkeeper.storage.log.segment import LOG_SUFFIX
from groupkeeper.storage.recovery.opening import accept_loss, open_log
from groupkeeper.topics.catalog import (
    LEADER_EPOCH,
    PRODUCER_ID_BLOCK,
    PRODUCER_IDS,
    Topic,
    record_of,
)
from groupkeeper.topics.catalog_log import EPOCH, FIRST_KEY, CatalogFolders
from groupkeeper.topics.catalog_log import FOLDERS as CATALOG

REPORT_FILE: Final = "report.txt"
"""File with the text of the survey, in the folder of originals."""

_WHILE_COPIED: Final = ".original"


@dataclass(frozen=True)
class Wishes:
    """Inputs of a repair from its environment."""

    stamp: str
    """The time, for the name of the folder of originals."""
    wall_ms: int
    cluster_id: str
    """A new cluster id, used if that of the catalog is lost."""
    report: str
    """The text of the survey."""


def write(files: Files, survey: Survey, locks: NodeLocks, wishes: Wishes) -> str:
    """Repair everything that can be repaired; return the folder of the originals. `locks`: the
    locks held during the survey.

    Raises StorageError and OSError, after which the repair can be run again.
    """
    data_dir = survey.target.data_dir
    originals = _Originals(files, data_dir, wishes.stamp)
    originals.keep_all_of(survey, wishes.report)
    locks.give_back(node_id_of(files, data_dir))  # the store takes this lock itself
    if survey.format_damage:
        files.remove(f"{data_dir}/{FORMAT_FILE}")
        files.sync_folder(data_dir)
    logs = DirectoryLogs(files, survey.target)
    try:
        for each in survey.repairable:
            accept_loss(files, f"{data_dir}/{each.name}")
            logs.open(each.name).close()
        if survey.catalog is not None:
            records = [*_catalog_records(files, survey, survey.catalog, wishes)]
            _write_catalog(files, data_dir, survey.catalog.left.end, wishes.wall_ms, records)
    finally:
        logs.close()
    return originals.folder


def _catalog_records(
    files: Files, survey: Survey, catalog: DamagedCatalog, wishes: Wishes
) -> Iterator[KeyValue]:
    """Yield the current value of each key of the catalog, the cluster's first."""
    left, topics = catalog.left, survey.topics()
    # Each lost record may have allocated a block of producer ids.
    lost = sum((loss.end or loss.first) - loss.first for loss in left.losses)
    ids = left.value(PRODUCER_IDS).get("next", 0) + lost * PRODUCER_ID_BLOCK
    epochs = [left.value(LEADER_EPOCH).get("epoch", 0), *(each.last_epoch for each in topics)]
    counters: dict[str, dict[str, object]] = {
        FIRST_KEY.decode(): {"id": left.cluster_id or wishes.cluster_id},
        PRODUCER_IDS: {"next": max([ids, *(each.next_producer_id for each in topics)])},
        LEADER_EPOCH: {"epoch": max(epochs)},
    }
    yield from map(record_of, counters.items())
    for key, (_, value) in left.newest.items():
        if value is not None and key.decode() not in counters:
            yield key, value
    for name, partitions in catalog.from_folders.items():
        yield record_of(Topic(name, files.random_bytes(16), partitions).entry())


def _write_catalog(
    files: Files, data_dir: str, end: int, wall_ms: int, records: Sequence[KeyValue]
) -> None:
    """Replace both copies of the catalog by these records, starting at offset `end`."""
    folder = f"{data_dir}/{CATALOG[0]}"
    accept_loss(files, folder)
    log = open_log(files, folder, LIMITS)
    try:
        log.skip_to(end)
        log.roll()
        start = log.next_offset
        log.append(encode_batch(start, EPOCH, wall_ms, records))
        log.sync()
        log.delete_before(start)
    finally:
        log.close()
    CatalogFolders(files, data_dir, LIMITS, lambda what: None, must_exist=True).open().close()


class _Originals:
    """The folder in which a repair keeps the original files."""

    def __init__(self, files: Files, data_dir: str, stamp: str) -> None:
        self._files = files
        self._data_dir = data_dir
        there = files.list_folder(data_dir)
        name = f"repaired-{stamp}"
        while name in there:
            name += "+"
        self.folder = f"{data_dir}/{name}"

    def keep_all_of(self, survey: Survey, report: str) -> None:
        """Keep, durably, all files that a repair may change. Raises OSError."""
        files = self._files
        files.make_folder(self.folder)
        overwrite(files, f"{self.folder}/{REPORT_FILE}", report.encode(), sync=True)
        for log in survey.repairable:
            self._keep_folder(log.name, partial(_is_overwritten, log))
        if survey.catalog is not None:
            for name in CATALOG:
                self._keep_folder(name, lambda path: True)
        if survey.target.served:
            for name in {FORMAT_FILE, FOLDER_LIST}.intersection(files.list_folder(self._data_dir)):
                self._keep(name, overwritten=True)
            if any(is_journaled(log.name) for log in survey.logs):
                self._keep_folder(JOURNALS, lambda path: False)
                self._keep_folder(LEASES, lambda path: True)
        files.sync_folder(self.folder)
        files.sync_folder(self._data_dir)

    def _keep_folder(self, folder: str, overwritten: Callable[[str], bool]) -> None:
        """Keep the files of a folder. `overwritten`: whether a file may be changed in place."""
        files, source, target = self._files, f"{self._data_dir}/{folder}", f"{self.folder}/{folder}"
        names = files.list_folder(source)
        if not names:
            return
        files.make_folder(target)
        for name in names:
            if name.endswith(_WHILE_COPIED):
                files.remove(f"{source}/{name}")  # left over from an interrupted repair
            else:
                self._keep(f"{folder}/{name}", overwritten=overwritten(f"{source}/{name}"))
        files.sync_folder(target)
        files.sync_folder(source)

    def _keep(self, name: str, *, overwritten: bool) -> None:
        files, path, kept = self._files, f"{self._data_dir}/{name}", f"{self.folder}/{name}"
        try:
            files.link(path, kept)
        except OSError:  # the file system has no links, or the file has too many
            self._copy(path, kept)
            return
        if overwritten:
            self._copy(path, path + _WHILE_COPIED)
            files.rename(path + _WHILE_COPIED, path)

    def _copy(self, path: str, to: str) -> None:
        copy_file(self._files, path, self._files, to)
        sync_file(self._files, to)


def _is_overwritten(log: DamagedLog, path: str) -> bool:
    """Whether a repair may change a file in place; for segments the survey has determined it."""
    return not path.endswith(LOG_SUFFIX) or path in log.overwritten
