"""Backs up a data directory, even while another process writes to it, and restores backups.

The copy is a state that the directory was in: it has everything that was acknowledged before the
backup began, a server starts from it without complaint, and no committed offset is beyond the end
of its topic.

Theory of operation. The copy is made in passes. Each brings it up to date, so the first one takes
long and the others do not. The first undisturbed pass is the last. A pass

1. opens all journals, and holds them open,
2. copies the format, the list of folders, and the catalog,
3. copies the folders of the logs that go through the journal (folders.py),
4. reads the journals until now: this is the moment of the backup,
5. copies the folders of all other logs, and the archive,
6. checks that the catalog is still the same, byte by byte.

Why the copy is sound, if no journal came and went between 1 and 4, and the catalog has not changed:

* Logs with a journal. A batch is in its segment only after its flush is in the journal, so the
  batches copied in 3 belong to flushes before 4. A batch of these flushes that was not in its
  segment in 3 was in a journal that existed in 1 or was created since. All logs are at the flush
  of 4.
  Marks in the journals may be beyond the copied segments, but not beyond those flushes.
* Topics. A message is in its segment before any client gets it, and a client commits an offset
  after it got the message. So 5 finds the messages before all offsets that were committed until 4.
* The catalog. A topic is in it before its folder is created, and before an offset of it is
  committed. It records the deletion of a topic before offsets and files of the topic are removed,
  and drops the topic afterwards. So no topic of the copy lacks files or offsets or has too many,
  and a start completes a deletion that is under way.
* The list of folders was copied before the folders, so every folder it names exists.
* The format was the same before and after, and locks mean nothing to another directory.

The copy has a temporary name until all of it is synced, and the note is written last.

As long as the folder `restoring` is in a data directory, a start refuses it, so an interrupted
restore is never taken for a directory with fewer topics. The folder is durable before the first
file is copied, and is removed when all of them are verified and durable. The data directory itself
is not renamed: it may be the mount point of a volume.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Final

from groupkeeper.storage.backup.folders import Copier
from groupkeeper.storage.backup.journals import Disturbed, HeldJournals
from groupkeeper.storage.backup.note import (
    INCOMPLETE,
    BackupError,
    BackupNote,
    FileEntry,
    read_note,
    write_note,
)
from groupkeeper.storage.compaction.archive import FOLDER as ARCHIVE
from groupkeeper.storage.files.files import Files, parent_of
from groupkeeper.storage.files.whole import copy_file, parents_to_sync, remove_tree, sync_tree
from groupkeeper.storage.folders import FILE_NAME as FOLDER_LIST
from groupkeeper.storage.folders import is_partition
from groupkeeper.storage.format import FILE_NAME as FORMAT
from groupkeeper.storage.format import RESTORING, read_format
from groupkeeper.storage.journal.journal import FOLDER as JOURNALS
from groupkeeper.storage.locks import LEASES, NODES

PASSES: Final = 100
"""Maximum number of disturbed passes before the backup fails. All but the first are short."""


@dataclass(slots=True, frozen=True)
class BackupJob:
    """Source, destination and scope of a backup."""

    data_dir: str
    dest: str
    """A missing or empty folder."""
    catalog: Sequence[str]
    """The folders of the catalog."""
    journaled: Collection[str]
    """The topics whose logs go through the journal."""
    now: Callable[[], str]
    """Returns the time in the format of the note."""
    pause: Callable[[], None] = lambda: None
    """Called before a retry of something that has changed meanwhile."""


def back_up(source: Files, target: Files, job: BackupJob) -> BackupNote:
    """Copy a data directory. `source` is only read; a failed backup leaves nothing behind.

    Raises BackupError, other StorageErrors and OSError.
    """
    names = source.list_folder(job.data_dir)
    if not any(name in (FORMAT, JOURNALS, *job.catalog) or is_partition(name) for name in names):
        raise BackupError(f"{job.data_dir} has no Groupkeeper data: name one with --data-dir")
    if target.list_folder(job.dest):
        raise BackupError(f"{job.dest} is not empty: name a new folder")
    copy_dir = job.dest + INCOMPLETE
    if target.list_folder(copy_dir):
        raise BackupError(
            f"{copy_dir} exists: another backup is being written, or was interrupted; remove it, "
            "or name another folder"
        )
    parents = parents_to_sync(target, job.dest)
    try:
        target.make_folder(copy_dir)
        note = _Backup(source, target, job, copy_dir).run()
        sync_tree(target, copy_dir)
        write_note(target, copy_dir, note)
        target.sync_folder(copy_dir)
        target.rename(copy_dir, job.dest)
        for parent in parents:
            target.sync_folder(parent)
    except BaseException:
        with suppress(OSError):
            remove_tree(target, copy_dir)
        raise
    return note


def left_out(files: Files, job: BackupJob) -> list[str]:
    """Return the names in the data directory that are not Groupkeeper's, and are not copied."""
    ours = (FORMAT, FOLDER_LIST, JOURNALS, LEASES, NODES, ARCHIVE, *job.catalog)
    names = files.list_folder(job.data_dir)
    return [name for name in names if name not in ours and not is_partition(name)]


class _Backup:
    """One backup in progress."""

    def __init__(self, source: Files, target: Files, job: BackupJob, copy_dir: str) -> None:
        self._copier = Copier(source, job.data_dir, target, copy_dir, job.catalog, job.pause)
        self._job = job
        self._gaps: set[tuple[str, int]] = set()
        """Gaps between segments and journals in the last pass."""

    def run(self) -> BackupNote:
        """Copy everything, not durably yet. Returns the note, which is not written."""
        what = ""
        for _ in range(PASSES):
            try:
                return self._pass()
            except Disturbed as disturbed:
                what = str(disturbed)
            self._job.pause()
        raise BackupError(
            f"{self._job.data_dir} kept changing: in each of {PASSES} passes {what}; try "
            "again when less is going on, or stop the server"
        )

    def _pass(self) -> BackupNote:
        """Bring the copy up to date. Raises Disturbed if the copy is not a state of the source."""
        copier, job = self._copier, self._job
        before = read_format(copier.source, job.data_dir)
        with ExitStack() as stack:
            journals = HeldJournals(copier, stack)
            catalog = [name for name in self._names() if name in job.catalog]
            self._update(["", *catalog])
            logs = self._logs(journaled=True)
            self._update(logs)
            journals.cut()
            made_at = job.now()
            known = self._gaps
            self._gaps = journals.gaps({name: copier.next_offset(name) for name in logs})
            if not self._gaps <= known:  # two nodes were read one after the other
                raise Disturbed("a partition got another owner")
            journals.copy()
        topics = self._logs(journaled=False)
        self._update(topics)
        # After the logs: a segment is in the archive before it is compacted.
        archive = copier.source.list_folder(f"{job.data_dir}/{ARCHIVE}")
        archived = [f"{ARCHIVE}/{name}" for name in archive]
        self._update(archived)
        names = self._names()
        copier.keep_only({"", JOURNALS, *archived, *{*catalog, *logs, *topics}.intersection(names)})
        if catalog != [name for name in names if name in job.catalog]:
            raise Disturbed("the catalog was created or removed")
        if not all(copier.is_same(name) for name in catalog):
            raise Disturbed("topics were created, changed or deleted")
        if read_format(copier.source, job.data_dir) != before:
            raise Disturbed("another directory took its place")
        files = [
            FileEntry(f"{folder}/{name}".lstrip("/"), copy.size, copy.crc)
            for folder, copies in copier.folders.items()
            for name, copy in copies.items()
        ]
        return BackupNote(made_at, job.data_dir, sorted(files))

    def _logs(self, *, journaled: bool) -> list[str]:
        """Return the folders of the logs that go through the journal, or of all others."""
        return [
            name
            for name in self._names()
            if is_partition(name) and (name.rpartition("-")[0] in self._job.journaled) == journaled
        ]

    def _names(self) -> list[str]:
        return self._copier.source.list_folder(self._job.data_dir)

    def _update(self, folders: Sequence[str]) -> None:
        for folder in folders:
            self._copier.update(folder)


def restore(source: Files, target: Files, backup: str, data_dir: str) -> BackupNote:
    """Copy a backup to a data directory that is missing or empty; return its note.

    A failed restore leaves nothing behind. Raises BackupError and OSError.
    """
    note = read_note(source, backup)
    for name, size, _ in note.files:  # checked before any file is read
        found = source.look(f"{backup}/{name}")
        if found is None:
            raise BackupError(f"{backup}/{name} is missing: use another backup")
        if found.size != size:
            raise BackupError(
                f"{backup}/{name} has {found.size} bytes instead of {size}: use another backup"
            )
    if target.list_folder(data_dir):
        raise BackupError(f"{data_dir} is not empty: name another folder, or remove its contents")
    was_there = bool(target.stamp(data_dir))
    parents = parents_to_sync(target, data_dir)
    restoring = f"{data_dir}/{RESTORING}"
    try:
        target.make_folder(restoring)
        target.sync_folder(data_dir)
        for name, size, crc in note.files:
            path, to = f"{backup}/{name}", f"{data_dir}/{name}"
            target.make_folder(parent_of(to))
            if copy_file(source, path, target, to) != (size, crc):
                raise BackupError(f"{path} is damaged: its checksum is wrong; use another backup")
        sync_tree(target, data_dir)
        for parent in parents:
            target.sync_folder(parent)
        target.remove_folder(restoring)
        target.sync_folder(data_dir)
    except BaseException:
        with suppress(OSError):
            remove_tree(target, data_dir)
            if was_there:
                target.make_folder(data_dir)
        raise
    return note
