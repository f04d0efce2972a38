"""Makes a data directory of a backup, which stays as it is.

Theory of operation. As long as the folder `restoring` is in a data directory, a start refuses it,
so an interrupted restore is never taken for a directory with fewer topics. The folder is durable
before the first file is copied, and is removed when all of them are verified and durable. The data
directory itself is not renamed: it may be where a volume is mounted.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from groupkeeper.storage.backup_note import FILE_NAME as NOTE
from groupkeeper.storage.backup_note import BackupError, BackupNote, read_note
from groupkeeper.storage.files import Files, parent_of
from groupkeeper.storage.format import RESTORING
from groupkeeper.storage.tree import (
    Pair,
    opened,
    parents_to_sync,
    remove_tree,
    sync_tree,
    walk,
)


def read_checked_note(files: Files, backup: str) -> BackupNote:
    """The note of a backup that has exactly the files that it names, with their sizes.

    Raises BackupError and OSError.
    """
    note = read_note(files, backup)
    found = {path: stat.size for path, stat in walk(files, backup) if stat is not None}
    del found[f"{backup}/{NOTE}"]
    expected = {f"{backup}/{entry.name}": entry.size for entry in note.files}
    for path in sorted(found.keys() | expected.keys()):
        if path not in found:
            raise BackupError(f"{path} is missing: use another backup")
        if path not in expected:
            raise BackupError(f"{path} is no part of the backup: was a server started on it?")
        if found[path] != expected[path]:
            raise BackupError(
                f"{path} has {found[path]} bytes instead of {expected[path]}: use another backup"
            )
    return note


def restore(
    source: Files,
    target: Files,
    backup: str,
    data_dir: str,
    told: Callable[[str, int], None] = lambda what, size: None,
) -> BackupNote:
    """Copy a backup to a data directory that is missing or empty; returns its note.

    `told` is called with the name of a file and the size of each piece, in bytes. If it fails,
    nothing is left. Raises BackupError and OSError.
    """
    note = read_checked_note(source, backup)
    if target.list_folder(data_dir):
        raise BackupError(f"{data_dir} is not empty: name another folder, or remove what is in it")
    was_there = bool(target.stamp(data_dir))
    parents = parents_to_sync(target, data_dir)
    restoring = f"{data_dir}/{RESTORING}"
    try:
        target.make_folder(restoring)
        target.sync_folder(data_dir)
        for name, size, crc in note.files:
            target.make_folder(parent_of(f"{data_dir}/{name}"))
            with (
                opened(source, path := f"{backup}/{name}") as reading,
                opened(target, f"{data_dir}/{name}", create=True) as writing,
            ):
                pair = Pair(source, reading, target, writing)
                if pair.copy(partial(told, name)) != (size, crc):
                    raise BackupError(
                        f"{path} is damaged: its checksum is wrong; use another backup"
                    )
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
