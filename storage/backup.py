"""A backup of a data directory, which another process may write to all the time.

The copy is a state that the directory was in: everything that was acknowledged before the backup
began is in it, a start refuses none of it, and no committed offset is beyond the end of its topic.

Theory of operation. The copy is made in passes. Each brings it up to date, so that the first one
takes long and the others do not, and the first one that nothing disturbs is the last. A pass

1. opens all journals, and holds them open,
2. copies the format, the list of folders, and the catalog,
3. copies the folders of the logs that go through the journal (folder_copy.py),
4. reads the journals until now: this moment is that of the backup,
5. copies the folders of all other logs, and the archive,
6. checks that the catalog is still the same, byte by byte.

Why the copy is sound, if no journal came and went between 1 and 4, and the catalog has not changed:

* Logs with a journal. Their batches are in a segment only after their round is in the journal. So
  what was copied in 3 belongs to rounds before 4. A batch of such a round that was not copied in 3
  was not on the disk in its segment then, so its journal was not removed before 3. It was there in
  1, or has come since, so it is in the copy. All logs are at the same round: that of 4.
* Topics. A message is in its segment before any client gets it, and a client commits an offset
  after it got the message. So 5 finds the messages before all offsets that were committed until 4.
* The catalog. A topic is in it before its folder is made, and before an offset of it is committed.
  It says that a topic is deleted before offsets and files of the topic are removed, and drops the
  topic after them. As it did not change, no topic of the copy lacks files or offsets, or has too
  many, and a deletion that is under way is completed by a start.
* The list of folders was copied before the folders, so it names none that is not there.
* Marks in the journals may be beyond the copied segments. Every batch up to such a mark was in a
  round before 4, so the journals hold what the segments lack.
* The format was the same before and after, and locks mean nothing to another directory.

The copy has a temporary name until all of it is synced, and the note is written last.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from crc32c import crc32c

from groupkeeper.storage.archive import FOLDER as ARCHIVE
from groupkeeper.storage.backup_note import (
    INCOMPLETE,
    BackupError,
    BackupNote,
    FileEntry,
    write_note,
)
from groupkeeper.storage.file_copy import Copier
from groupkeeper.storage.files import Files, parent_of
from groupkeeper.storage.folder_copy import CopiedFile, FolderCopy
from groupkeeper.storage.folders import FILE_NAME as FOLDER_LIST
from groupkeeper.storage.folders import is_partition
from groupkeeper.storage.format import FILE_NAME as FORMAT
from groupkeeper.storage.format import read_format
from groupkeeper.storage.journal import FOLDER as JOURNALS
from groupkeeper.storage.journal_copy import HeldJournals
from groupkeeper.storage.locks import LEASES, NODES
from groupkeeper.storage.segment import base_of
from groupkeeper.storage.whole import overwrite, read_whole

PASSES: Final = 100
"""How many passes may be disturbed before the backup is given up: all but the first are short."""


class Progress(NamedTuple):
    """How far a pass is."""

    number: int
    """1 for the first pass."""
    done: int
    """Folders."""
    total: int
    bytes_copied: int
    """In all passes; linked files do not count."""


@dataclass(slots=True, frozen=True)
class BackupJob:
    """What is copied, and how."""

    data_dir: str
    dest: str
    """Missing, or an empty folder."""
    catalog: Sequence[str]
    """The folders of the catalog."""
    journaled: Collection[str]
    """The topics whose logs go through the journal."""
    now: Callable[[], str]
    """The time, as the note has it."""
    may_link: bool = True
    pause: Callable[[], None] = lambda: None
    """Called before something that has changed meanwhile is tried again."""
    told: Callable[[Progress], None] = lambda progress: None
    """Called after each folder."""


class Made(NamedTuple):
    """A backup."""

    note: BackupNote
    no_links: str
    """Why files were copied that could be linked, about the place; empty if none was."""
    warnings: Sequence[str]
    """What is damaged or unfinished in the data directory, and so in the backup: a line each."""
    left_out: Sequence[str]
    """Names in the data directory that are none of ours."""


def back_up(source: Files, target: Files, job: BackupJob) -> Made:
    """Copy a data directory. `source` is only read; nothing is left of a backup that fails.

    Raises BackupError, other StorageErrors and OSError.
    """
    names = source.list_folder(job.data_dir)
    if not any(name in (FORMAT, JOURNALS, *job.catalog) or is_partition(name) for name in names):
        raise BackupError(f"{job.data_dir} holds no data of Groupkeeper: name it with --data-dir")
    if target.list_folder(job.dest):
        raise BackupError(f"{job.dest} is not empty: name a new folder")
    copy_dir = job.dest + INCOMPLETE
    if target.list_folder(copy_dir):
        raise BackupError(
            f"{copy_dir} is there: another backup is being written, or was interrupted; remove it, "
            "or name another folder"
        )
    parents = missing_parents(target, job.dest)
    try:
        made = _Backup(source, target, job, copy_dir).run()
        target.rename(copy_dir, job.dest)
        for parent in parents:
            target.sync_folder(parent)
    except BaseException:
        with suppress(OSError):
            remove_tree(target, copy_dir)
        raise
    return made


def missing_parents(files: Files, path: str) -> list[str]:
    """The folders that get a new name when a path is made, with its parents."""
    parents = [parent_of(path)]
    while not files.stamp(parents[-1]):
        parents.append(parent_of(parents[-1]))
    return parents


def remove_tree(files: Files, folder: str) -> None:
    """Remove a folder and all in it. Raises OSError."""
    for name in files.list_folder(folder):
        path = f"{folder}/{name}"
        if files.look(path) is not None:
            files.remove(path)
        else:
            remove_tree(files, path)
    files.remove_folder(folder)


class _Backup:
    """One backup while it is made."""

    def __init__(self, source: Files, target: Files, job: BackupJob, copy_dir: str) -> None:
        self._source = source
        self._target = target
        self._job = job
        self._copier = Copier(source, job.data_dir, target, copy_dir, job.pause, job.may_link)
        self._folders: dict[str, FolderCopy] = {}
        """By path in the data directory."""
        self._small: dict[str, bytes] = {}
        """The files in the data directory itself."""
        self._journals: list[CopiedFile] = []
        self._gaps: set[str] = set()
        """What was missing between segments and journals in the last pass."""
        self._number = 0
        self._made_at = ""
        self._disturbed = ""
        """What changed during the last pass."""

    def run(self) -> Made:
        """Copy everything, durably, under the temporary name."""
        copy_dir, job = self._copier.copy_dir, self._job
        self._target.make_folder(copy_dir)
        for self._number in range(1, PASSES + 1):
            if self._pass():
                break
            job.pause()
        else:
            raise BackupError(
                f"{job.data_dir} did not hold still: in each of {PASSES} passes "
                f"{self._disturbed}; try again when less is going on, or stop the server"
            )
        note = self._note()
        self._sync(note)
        write_note(self._target, copy_dir, note)
        self._target.sync_folder(copy_dir)
        warnings = [*self._copier.warnings.values(), *sorted(self._gaps)]
        return Made(note, self._copier.no_links, warnings, self._left_out())

    def _pass(self) -> bool:
        """Bring the copy up to date; False if it was disturbed, and is no state of the source."""
        names = self._names()
        catalog = [name for name in names if name in self._job.catalog]
        with HeldJournals(self._copier) as journals:
            self._small = self._copy_small()
            self._update(catalog)
            logs = [name for name in names if self._has_journal(name, journals)]
            self._update(logs)
            if not journals.cut():
                return self._disturb("journals came and went")
            self._made_at = self._job.now()
            ends = {name: self._folders[name].next_offset for name in logs}
            before, self._gaps = self._gaps, journals.gaps(ends)
            if not self._gaps <= before:  # two nodes were read one after the other
                return self._disturb("a partition got another owner")
            self._journals = journals.copy()
            # A log with a journal whose folder is new is in the journal as a whole.
            topics = [name for name in self._names() if not self._has_journal(name, journals)]
        topics = [name for name in topics if is_partition(name)]
        self._update(topics)
        archived = self._update_archive()
        self._drop_all_but({*catalog, *logs, *topics, *archived} & {*self._names(), *archived})
        return self._has_held_still(catalog)

    def _has_journal(self, name: str, journals: HeldJournals) -> bool:
        topic = name.rpartition("-")[0]
        return is_partition(name) and (topic in self._job.journaled or name in journals.names)

    def _drop_all_but(self, names: Collection[str]) -> None:
        """Remove the copies of folders that are gone, or were too new for this pass."""
        for name in self._folders.keys() - names:
            self._folders.pop(name).discard()

    def _disturb(self, what: str) -> bool:
        self._disturbed = what
        return False

    def _has_held_still(self, catalog: Sequence[str]) -> bool:
        """Whether the catalog and the format are what they were at the beginning of the pass."""
        if catalog != [name for name in self._names() if name in self._job.catalog]:
            return self._disturb("the catalog was made or removed")
        if not all(self._folders[name].has_not_changed() for name in catalog):
            return self._disturb("topics were made, changed or deleted")
        if self._read(FORMAT) != self._small.get(FORMAT):
            return self._disturb("the directory was upgraded")
        return True

    def _names(self) -> list[str]:
        """What is in the data directory."""
        return self._source.list_folder(self._job.data_dir)

    def _read(self, name: str) -> bytes | None:
        try:
            return read_whole(self._source, f"{self._job.data_dir}/{name}")
        except FileNotFoundError:
            return None

    def _copy_small(self) -> dict[str, bytes]:
        """Copy the files in the data directory itself. Raises NewerFormat and Corrupt."""
        read_format(self._source, self._job.data_dir)
        copied = {}
        for name in (FORMAT, FOLDER_LIST):
            path, data = f"{self._copier.copy_dir}/{name}", self._read(name)
            if data is None:
                self._target.remove(path)
            else:
                overwrite(self._target, path, data, sync=False)
                copied[name] = data
        return copied

    def _update(self, names: Sequence[str], *, finished: bool = False) -> None:
        for done, name in enumerate(names, 1):
            known = self._folders.get(name)
            if known is None:
                known = self._folders[name] = FolderCopy(self._copier, name, finished=finished)
            known.update()
            copied = self._copier.bytes_copied
            self._job.told(Progress(self._number, done, len(names), copied))

    def _update_archive(self) -> list[str]:
        """After the logs: a segment is in the archive before it is compacted."""
        names = self._source.list_folder(f"{self._job.data_dir}/{ARCHIVE}")
        folders = [f"{ARCHIVE}/{name}" for name in names]
        self._update(folders, finished=True)
        return folders

    def _contents(self) -> list[CopiedFile]:
        small = [CopiedFile(n, len(d), crc32c(d), linked=False) for n, d in self._small.items()]
        folders = [each for folder in self._folders.values() for each in folder.contents()]
        return [*small, *self._journals, *folders]

    def _note(self) -> BackupNote:
        contents = self._contents()
        found = read_format(self._target, self._copier.copy_dir)
        return BackupNote(
            made_at=self._made_at,
            data_dir=self._job.data_dir,
            directory_id=found.directory_id if found is not None else "",
            partitions=sum(is_partition(name) for name in self._folders),
            segments=sum(base_of(each.name.rpartition("/")[2]) is not None for each in contents),
            linked=sum(each.linked for each in contents),
            files=sorted(FileEntry(*each[:3]) for each in contents),
        )

    def _sync(self, note: BackupNote) -> None:
        """Make all of the copy durable. Linked files are synced, too: a broker may have left them
        to the page cache.
        """
        copy_dir = self._copier.copy_dir
        self._target.write_back()
        for each in note.files:
            handle = self._source.open(f"{copy_dir}/{each.name}")  # reads: linked files are shared
            try:
                self._source.sync(handle)
            finally:
                self._source.close(handle)
        for name in sorted({JOURNALS, *self._folders}):
            self._target.sync_folder(f"{copy_dir}/{name}")
        if any(name.startswith(f"{ARCHIVE}/") for name in self._folders):
            self._target.sync_folder(f"{copy_dir}/{ARCHIVE}")
        self._target.sync_folder(copy_dir)

    def _left_out(self) -> list[str]:
        ours = (FORMAT, FOLDER_LIST, JOURNALS, LEASES, NODES, ARCHIVE, *self._job.catalog)
        return [name for name in self._names() if name not in ours and not is_partition(name)]
