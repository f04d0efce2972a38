"""Makes a data directory of a backup, which stays as it is.

Theory of operation. As long as the folder `restoring` is in a data directory, a start refuses it,
so an interrupted restore is never taken for a directory with fewer topics. The folder is durable
before the first file is copied, and is removed when all of them are verified and durable. The data
directory itself is not renamed: it may be where a volume is mounted.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from groupkeeper.storage.backup_note import BackupError, BackupNote, read_note
from groupkeeper.storage.files import Files, parent_of
from groupkeeper.storage.format import RESTORING
from groupkeeper.storage.tree import copy_file, parents_to_sync, remove_tree, sync_tree


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
    note = read_note(source, backup)
    for name, size, _ in note.files:  # before all of them are read
        found = source.look(f"{backup}/{name}")
        if found is None:
            raise BackupError(f"{backup}/{name} is missing: use another backup")
        if found.size != size:
            raise BackupError(
                f"{backup}/{name} has {found.size} bytes instead of {size}: use another backup"
            )
    if target.list_folder(data_dir):
        raise BackupError(f"{data_dir} is not empty: name another folder, or remove what is in it")
    was_there = bool(target.stamp(data_dir))
    parents = parents_to_sync(target, data_dir)
    restoring = f"{data_dir}/{RESTORING}"
    try:
        target.make_folder(restoring)
        target.sync_folder(data_dir)
        for name, size, crc in note.files:
            path, to = f"{backup}/{name}", f"{data_dir}/{name}"
            target.make_folder(parent_of(to))
            if copy_file(source, path, target, to, partial(told, name)) != (size, crc):
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
