"""Backups on a disk in memory: the steps that their tests share."""

from typing import Any

from groupkeeper.storage.backup.backup import BackupJob, back_up
from groupkeeper.storage.backup.note import BackupNote
from groupkeeper.topics.catalog_log import FOLDERS as CATALOG
from groupkeeper.topics.names import RESERVED
from tests.support.fake_files import FakeDisk, FakeFiles

DEST = "backups/today"
NOW = "2026-11-22T12:00:00+00:00"


def job(dest: str = DEST, **more: Any) -> BackupJob:  # Any: fields of the class
    return BackupJob("data", dest, CATALOG, RESERVED, lambda: NOW, **more)


def backed_up(disk: FakeDisk, **more: Any) -> BackupNote:  # Any: fields of the job
    """What another process does."""
    files = FakeFiles(disk)
    return back_up(files, files, job(**more))


def tree(disk: FakeDisk, folder: str) -> dict[str, bytes | None]:
    """The files of a folder, by path in it, and None for folders."""
    found = {}
    for path, inode in disk._tree.items():
        if path.startswith(f"{folder}/"):
            found[path.removeprefix(f"{folder}/")] = None if inode is None else bytes(inode.data)
    return found


def disk_with(folder: dict[str, bytes | None]) -> FakeDisk:
    """A machine that has these files as its data directory, and nothing else."""
    disk = FakeDisk()
    files = FakeFiles(disk)
    for name, data in sorted(folder.items()):
        path = f"data/{name}"
        if data is None:
            files.make_folder(path)
            continue
        files.make_folder(path.rpartition("/")[0])
        handle = files.open(path, create=True)
        files.write(handle, data, 0)
        files.close(handle)
    disk.write_back()
    return disk
