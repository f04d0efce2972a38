"""
Who may write: the lock of a node id, and of each shard with its epoch.

A lock is the kernel's (flock): it ends with the process, however that ends, and says nothing
about other machines. The files stay; what they hold is for people and for the next owner on this
machine, and is not synced: the journal is what makes an epoch durable.

The lock is the file's, not the path's. Once the file is removed somebody else may lock another one
under the same path, so whoever holds a lock looks whether its file is still there.
"""

from typing import Final

from groupkeeper.storage.errors import Locked
from groupkeeper.storage.files import Files

LEASES: Final = "leases"
NODES: Final = "nodes"

LOCK_TRIES: Final = 10
"""How often a lock file may be removed between its opening and its locking."""


def node_path(data_dir: str, node_id: int) -> str:
    """The lock file of a node id."""
    return f"{data_dir}/{NODES}/{node_id}"


def lock_node(files: Files, data_dir: str, node_id: int) -> int:
    """
    Take `nodes/<id>` and write our process id into it. Raises Locked. Returns the handle that
    holds the lock.
    """
    handle, locked = _lock(files, node_path(data_dir, node_id))
    try:
        if not locked:
            owner = _text(files, handle) or "unknown"
            raise Locked(
                f"node {node_id} is already running on {data_dir} (pid {owner}); "
                "stop it or choose another --node-id or --data-dir"
            )
        _write(files, handle, str(files.process_id()))
    except (Locked, OSError):
        files.close(handle)
        raise
    return handle


class Lease:
    """The right to write one shard, held until closed. File: `epoch nodeId`."""

    def __init__(self, files: Files, data_dir: str, shard: int, node_id: int) -> None:
        self._files = files
        self._node_id = node_id
        self._path = f"{data_dir}/{LEASES}/{shard}"
        self._handle, locked = _lock(files, self._path)
        try:
            self.epoch = self._take(shard, locked=locked)
        except (Locked, OSError):
            self.close()
            raise

    @property
    def is_held(self) -> bool:
        """No once the lock's file was removed or replaced: another process may own the shard."""
        return self._files.is_at(self._handle, self._path)

    def _take(self, shard: int, *, locked: bool) -> int:
        epoch, _, owner = _text(self._files, self._handle).partition(" ")
        if not locked:
            raise Locked(f"shard {shard} is held by node {owner or 'unknown'}")
        # Empty or odd after a power cut: the journals know better.
        return int(epoch) if epoch.isdigit() else 0

    def raise_epoch(self, known: int) -> int:
        """One more than the file and `known`, written but not synced."""
        self.epoch = max(self.epoch, known) + 1
        _write(self._files, self._handle, f"{self.epoch} {self._node_id}")
        return self.epoch

    def close(self) -> None:
        self._files.close(self._handle)


def _lock(files: Files, path: str) -> tuple[int, bool]:
    """The handle of a lock file, made if need be, and whether we have its lock."""
    for _ in range(LOCK_TRIES):
        handle = files.open(path, create=True)
        try:
            locked = files.lock(handle)
            if not locked or files.is_at(handle, path):
                return handle, locked
        except OSError:
            files.close(handle)
            raise
        files.close(handle)  # removed before we had the lock: there may be another file by now
    raise Locked(f"{path} is removed again and again by somebody else")


def _text(files: Files, handle: int) -> str:
    return files.read(handle, 64, 0).decode("ascii", "replace").strip("\x00\n ")


def _write(files: Files, handle: int, text: str) -> None:
    data = (text + "\n").encode("ascii")
    files.write(handle, data, 0)
    if files.size(handle) > len(data):
        files.truncate(handle, len(data))
