"""Repairs what a survey has found, and keeps the originals.

First every file that may change, or go, is kept in a folder `repaired-<time>` in the data
directory, durably: by a second name for the same bytes (a hard link) where the file system has
those, else as a copy. A file that the repair overwrites in place is then given bytes of its own.
Only after that is a log opened with its loss accepted, as a start does it with the file
`accept-loss`. A crash leaves a directory that can be repaired again; the next repair has an own
folder for its originals.
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


def write(files: Files, survey: Survey, locks: NodeLocks, wishes: Wishes) -> str:
    """Repair all that can be repaired; returns the folder of the originals. `locks` are those that
    the survey was made under.

    Raises StorageError and OSError: then run the command again.
    """
    data_dir = survey.target.data_dir
    originals = _Originals(files, data_dir, wishes.stamp)
    originals.keep_all_of(survey, wishes.report)
    locks.give_back(node_id_of(files, data_dir))  # the store takes it
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
    """All current values of the catalog, that of the cluster first."""
    left, topics = catalog.left, survey.topics()
    # Each record that is lost may have been the allocation of a block of producer ids.
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
    """Write these records from an offset on, and nothing else, to both copies of the catalog."""
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
        """Keep all files that the repair of a survey may change, durably. Raises OSError."""
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
        """Keep the files of a folder. `overwritten`: whether a path may be changed in place."""
        files, source, target = self._files, f"{self._data_dir}/{folder}", f"{self.folder}/{folder}"
        names = files.list_folder(source)
        if not names:
            return
        files.make_folder(target)
        for name in names:
            if name.endswith(_WHILE_COPIED):
                files.remove(f"{source}/{name}")  # left by a repair that was interrupted
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
    """Whether a repair may change a file of a log in place. Of segments it is known."""
    return not path.endswith(LOG_SUFFIX) or path in log.overwritten
