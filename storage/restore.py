"""Makes a data directory of a backup, which stays as it is: all files are copied, none is linked.

Theory of operation. The files are copied into the folder `restoring` in the data directory, checked
and synced there, then moved to their places. As long as that folder is there, a start refuses the
directory, so an interrupted restore is never taken for one with fewer topics. The data directory
itself is not renamed: it may be where a volume is mounted.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from crc32c import crc32c

from groupkeeper.storage.backup import missing_parents, remove_tree
from groupkeeper.storage.backup_note import FILE_NAME as NOTE
from groupkeeper.storage.backup_note import BackupError, BackupNote, FileEntry, read_note
from groupkeeper.storage.files import Files, parent_of
from groupkeeper.storage.format import RESTORING
from groupkeeper.storage.window import PIECE


def check_files(files: Files, backup: str) -> BackupNote:
    """The note of a backup that has exactly the files that it names, with their sizes.

    Raises BackupError and OSError.
    """
    note = read_note(files, backup)
    found = {name: size for name, size in _all_files(files, backup, "") if name != NOTE}
    expected = {entry.name: entry.size for entry in note.files}
    for name in sorted(found.keys() | expected.keys()):
        path = f"{backup}/{name}"
        if name not in found:
            raise BackupError(f"{path} is missing: use another backup")
        if name not in expected:
            raise BackupError(f"{path} is no part of the backup: was a server started on it?")
        if found[name] != expected[name]:
            raise BackupError(
                f"{path} has {found[name]} bytes instead of {expected[name]}: use another backup"
            )
    return note


def _all_files(files: Files, folder: str, prefix: str) -> Iterator[tuple[str, int]]:
    """Path in the backup and size of all files in a folder and below."""
    for name in files.list_folder(folder):
        status = files.look(f"{folder}/{name}")
        if status is not None:
            yield prefix + name, status.size
        else:
            yield from _all_files(files, f"{folder}/{name}", f"{prefix}{name}/")


def restore(
    source: Files,
    target: Files,
    backup: str,
    data_dir: str,
    told: Callable[[int], None] = lambda size: None,
) -> BackupNote:
    """Copy a backup to a data directory that is missing or empty; returns its note.

    `told` is called with the size of each piece, in bytes. If it fails, nothing is left. Raises
    BackupError and OSError.
    """
    note = check_files(source, backup)
    if target.list_folder(data_dir):
        raise BackupError(f"{data_dir} is not empty: name another folder, or remove what is in it")
    was_there = bool(target.stamp(data_dir))
    parents = missing_parents(target, data_dir)
    try:
        _Copies(source, target, backup, f"{data_dir}/{RESTORING}", told).make(note.files)
        for parent in (data_dir, *parents):
            target.sync_folder(parent)
        _move_up(target, data_dir)
    except BaseException:
        with suppress(OSError):
            remove_tree(target, data_dir)
            if was_there:
                target.make_folder(data_dir)
        raise
    return note


def _move_up(files: Files, data_dir: str) -> None:
    folder = f"{data_dir}/{RESTORING}"
    for name in files.list_folder(folder):
        files.rename(f"{folder}/{name}", f"{data_dir}/{name}")
    files.sync_folder(data_dir)
    files.remove_folder(folder)
    files.sync_folder(data_dir)


@dataclass(slots=True)
class _Copies:
    """Files of a backup, copied to a new folder."""

    source: Files
    target: Files
    backup: str
    folder: str
    told: Callable[[int], None]

    def make(self, entries: Sequence[FileEntry]) -> None:
        """Copy the files, and make them durable in the folder."""
        self.target.make_folder(self.folder)
        folders = {self.folder}
        for entry in entries:
            folder = parent_of(f"{self.folder}/{entry.name}")
            if folder not in folders:
                self.target.make_folder(folder)
                folders |= {folder, parent_of(folder)}
            self._copy(entry)
        self.target.write_back()
        for entry in entries:
            handle = self.target.open(f"{self.folder}/{entry.name}")
            try:
                self.target.sync(handle)
            finally:
                self.target.close(handle)
        for folder in sorted(folders):
            self.target.sync_folder(folder)

    def _copy(self, entry: FileEntry) -> None:
        path = f"{self.backup}/{entry.name}"
        with ExitStack() as stack:
            reading = self.source.open(path)
            stack.callback(self.source.close, reading)
            writing = self.target.open(f"{self.folder}/{entry.name}", create=True)
            stack.callback(self.target.close, writing)
            position, crc = 0, 0
            while data := self.source.read(reading, PIECE, position):
                self.target.write(writing, data, position)
                position, crc = position + len(data), crc32c(data, crc)
                self.told(len(data))
        if position != entry.size or entry.crc not in (None, crc):
            raise BackupError(f"{path} is damaged: its checksum is wrong; use another backup")
