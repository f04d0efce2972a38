"""
Who may write: the lock of a node id, and of each shard with its epoch.

A lock is the kernel's (flock): it ends with the process, however that ends, and says nothing
about other machines. The files stay; what they hold is for people and for the next owner on this
machine, and is not synced: the journal is what makes an epoch durable.
"""

from storage.errors import Locked
from storage.files import Files


def lock_node(files: Files, data_dir: str, node_id: int) -> int:
    """
    Take `nodes/<id>` and write our process id into it. Raises Locked. Returns the handle that
    holds the lock.
    """
    handle = files.open(f"{data_dir}/nodes/{node_id}", create=True)
    try:
        if not files.lock(handle):
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
        self._handle = files.open(f"{data_dir}/leases/{shard}", create=True)
        try:
            self.epoch = self._take(shard)
        except (Locked, OSError):
            self.close()
            raise

    def _take(self, shard: int) -> int:
        locked = self._files.lock(self._handle)
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


def _text(files: Files, handle: int) -> str:
    return files.read(handle, 64, 0).decode("ascii", "replace").strip("\x00\n ")


def _write(files: Files, handle: int, text: str) -> None:
    data = (text + "\n").encode("ascii")
    files.write(handle, data, 0)
    if files.size(handle) > len(data):
        files.truncate(handle, len(data))
