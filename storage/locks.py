"""File locks of a data directory: one per node id, and one per shard with the shard's epoch.

The locks are kernel locks (`flock`): they end with the process, however it ends, and have no effect
on other machines. The lock files remain. Their contents are for operators and for the next owner on
this machine, and are not synced: the journal makes an epoch durable.

A lock belongs to a file, not to its path. Once the file is removed, another process can lock a new
file under the same path, so the owner checks whether its file is still in place.
"""

from typing import Final

from groupkeeper.storage.errors import Locked
from groupkeeper.storage.files.files import Files

LEASES: Final = "leases"
NODES: Final = "nodes"

LOCK_TRIES: Final = 10
"""Attempts to lock a file that others keep removing between open and lock."""


class Lease:
    """The right to write to one shard, held until `close`. The file contains `epoch nodeId`."""

    def __init__(self, files: Files, data_dir: str, shard: int, node_id: int) -> None:
        """Lock the shard and read its epoch. Raises Locked and OSError."""
        self._files = files
        self._node_id = node_id
        self._path = f"{data_dir}/{LEASES}/{shard}"
        self._handle, locked = _lock(files, self._path)
        try:
            self.epoch = self._read_epoch(shard, locked=locked)
        except (Locked, OSError):
            self.close()
            raise

    @property
    def is_held(self) -> bool:
        """False once the lock file was removed or replaced: another process may own the shard."""
        return self._files.is_at(self._handle, self._path)

    def _read_epoch(self, shard: int, *, locked: bool) -> int:
        epoch, _, owner = _text(self._files, self._handle).partition(" ")
        if not locked:
            raise Locked(f"shard {shard} is held by node {owner or 'unknown'}")
        # Empty or garbled after a power cut; the journals have the epoch.
        return int(epoch) if epoch.isdigit() else 0

    def raise_epoch(self, known: int) -> int:
        """Set the epoch to one above both the file's epoch and `known`. Written, not synced."""
        self.epoch = max(self.epoch, known) + 1
        _write(self._files, self._handle, f"{self.epoch} {self._node_id}")
        return self.epoch

    def close(self) -> None:
        self._files.close(self._handle)


class Locks:
    """The locks that this process holds. One thread may claim shards while another checks them."""

    def __init__(self, files: Files, data_dir: str, node_id: int) -> None:
        """Lock `nodes/<id>` and write the process id into it. Raises Locked and OSError."""
        self._files = files
        self._data_dir = data_dir
        self._node_id = node_id
        self.node_path = f"{data_dir}/{NODES}/{node_id}"
        self._leases: dict[int, Lease] = {}
        self._stamp: tuple[int, ...] = ()
        """The stamp of the leases folder at the last call of `changed`."""
        self._node, locked = _lock(files, self.node_path)
        try:
            if not locked:
                owner = _text(files, self._node) or "unknown"
                raise Locked(
                    f"node {node_id} is already running on {data_dir} (pid {owner}); "
                    "stop it or choose another --node-id or --data-dir"
                )
            _write(files, self._node, str(files.process_id()))
        except (Locked, OSError):
            files.close(self._node)
            raise

    def lease(self, shard: int) -> Lease:
        """Return the lease of a shard; take it if not held yet. Raises Locked and OSError."""
        lease = self._leases.get(shard) or Lease(self._files, self._data_dir, shard, self._node_id)
        self._leases[shard] = lease
        return lease

    def has_lease(self, shard: int) -> bool:
        """Return whether the shard was claimed and not released since."""
        return shard in self._leases

    def release(self, shard: int) -> None:
        """Release the lock of a shard, if held."""
        lease = self._leases.pop(shard, None)
        if lease is not None:
            lease.close()

    def changed(self) -> bool:
        """Return whether a lock file was created or removed since the last call.

        A single system call, because each one gives up the GIL and gets it back late when the event
        loop's thread is waiting for it, too.
        """
        stamp = self._files.stamp(f"{self._data_dir}/{LEASES}")
        changed, self._stamp = stamp != self._stamp, stamp
        return changed

    @property
    def has_node(self) -> bool:
        """False once the node's lock file, or the directory, was removed or replaced."""
        return self._files.is_at(self._node, self.node_path)

    def is_lost(self, shard: int) -> bool:
        """Return whether a claimed shard's lock file was removed or replaced."""
        lease = self._leases.get(shard)
        return lease is not None and not lease.is_held

    def lost(self) -> list[int]:
        """Return the claimed shards whose lock files were removed or replaced."""
        return [shard for shard in list(self._leases) if self.is_lost(shard)]

    def close(self) -> None:
        for shard in list(self._leases):
            self.release(shard)
        self._files.close(self._node)


class NodeLocks:
    """The locks of all nodes that ever ran on a data directory; none can start meanwhile.

    Creates and changes no file.
    """

    def __init__(self, files: Files, data_dir: str) -> None:
        """Take all locks. Raises OSError, and Locked if a server is running."""
        self._files = files
        self._handles: dict[int, int] = {}
        try:
            for name in files.list_folder(f"{data_dir}/{NODES}"):
                if name.isdigit():
                    self._take(data_dir, int(name))
        except BaseException:
            self.close()
            raise

    def _take(self, data_dir: str, node_id: int) -> None:
        handle = self._handles[node_id] = self._files.open(f"{data_dir}/{NODES}/{node_id}")
        if not self._files.lock(handle):
            owner = _text(self._files, handle) or "unknown"
            raise Locked(f"node {node_id} is running on {data_dir} (pid {owner}): stop it first")

    def give_back(self, node_id: int) -> None:
        handle = self._handles.pop(node_id, None)
        if handle is not None:
            self._files.close(handle)

    def close(self) -> None:
        for node_id in list(self._handles):
            self.give_back(node_id)


def _lock(files: Files, path: str) -> tuple[int, bool]:
    """Open a lock file, creating it if missing, and try to lock it. Returns handle and success."""
    for _ in range(LOCK_TRIES):
        handle = files.open(path, create=True)
        try:
            locked = files.lock(handle)
            if not locked or files.is_at(handle, path):
                return handle, locked
        except OSError:
            files.close(handle)
            raise
        files.close(handle)  # removed before it was locked: another file may be there
    raise Locked(f"{path} was removed by another process during every attempt to lock it")


def _text(files: Files, handle: int) -> str:
    return files.read(handle, 64, 0).decode("ascii", "replace").strip("\x00\n ")


def _write(files: Files, handle: int, text: str) -> None:
    data = (text + "\n").encode("ascii")
    files.write(handle, data, 0)
    if files.size(handle) > len(data):
        files.truncate(handle, len(data))
