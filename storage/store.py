"""The data directory of one process: its locks, its logs, and the flushes that make them durable.

Theory of operation. Batches are written in flushes (flush_writer.py), to the journal first and to
the segments later. So a log on disk is always a sound beginning whose continuation is in the
journal; opening a log joins the two. A process may write to the directory while it holds the lock
of its node id, and to a log while it holds the lock of the log's shard (locks.py); every call
checks this cheaply.

`commit`, `catch_up`, `usable_log`, `close_log`, `verify` and `close` are called by one thread at a
time. Meanwhile, one other thread may call `claim` and `recover_log` for logs that no flush writes
to and that `usable_log` did not return, and any thread may read logs. Only `commit` may write to a
log that `open_log` returned.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from groupkeeper.storage.errors import (
    AppendFailed,
    DirectoryLost,
    LockLost,
    StorageError,
    SyncFailed,
)
from groupkeeper.storage.files.at_once import AtOnce, one_after_another
from groupkeeper.storage.files.files import Files, parent_of
from groupkeeper.storage.folders import FolderList, is_partition, partition_of
from groupkeeper.storage.format import read_format, write_format
from groupkeeper.storage.journal.flush_writer import FlushWriter
from groupkeeper.storage.journal.journal import FOLDER
from groupkeeper.storage.journal.journals import Journals
from groupkeeper.storage.locks import LEASES, NODES, Locks
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.log.log import Log
from groupkeeper.storage.log.queued_log import Append, LateAppend, QueuedLog
from groupkeeper.storage.recovery.opening import open_log


class Store:
    """One data directory, locked by a node id until `close`."""

    def __init__(
        self, files: Files, data_dir: str, node_id: int, limits: Limits | None = None
    ) -> None:
        """Lock the node id in a data directory, created if missing, and read its journals.

        Raises Locked if a running process has the node id, Corrupt if the format file is damaged,
        OtherFormat if another version made the directory, StorageError if it is being restored, and
        OSError.
        """
        self._files = files
        self._limits = limits = limits or Limits()
        self._logs: dict[str, QueuedLog] = {}
        self._epochs_before: dict[int, tuple[int, int]] = {}
        """The epoch of each shard in the journals and in its lease, before it was claimed."""
        self._unclosed: list[AppendFailed] = []
        """Errors of logs that could not be written and synced when they were closed."""
        self._lost: list[int] = []
        """Shards whose locks were found lost since the last `verify`."""
        self.data_dir = data_dir
        self.node_id = node_id
        self.format = read_format(files, data_dir)
        """None until `write_format` if the directory has no such file."""
        self.was_used = bool(self.format or files.list_folder(f"{data_dir}/{FOLDER}"))
        """Whether a server has used the directory before."""
        for folder in (FOLDER, LEASES, NODES):
            files.make_folder(f"{data_dir}/{folder}")
        # At every start: a process may have been killed between creating and syncing them.
        files.sync_folder(data_dir)
        files.sync_folder(parent_of(data_dir))
        self._locks = Locks(files, data_dir, node_id)
        try:
            self.folders = FolderList(files, data_dir)
            self._journals = Journals(files, data_dir, node_id, limits.journal_bytes)
        except BaseException:
            self._locks.close()
            raise
        self._flushes = FlushWriter(self._journals, self._logs)

    def write_back_on(self, aside: Callable[[Callable[[], None]], None] | None) -> None:
        """Sync logs beside the flushes; `aside` runs a job on another thread. None stops this."""
        self._flushes.aside = aside

    @property
    def committed_bytes(self) -> int:
        """Total bytes of batches made durable by flushes."""
        return self._flushes.committed_bytes

    def take_repairs(self) -> list[str]:
        """Return and clear the messages about damage or unfinished work outside of logs."""
        repairs = [*self.folders.repairs, *self._journals.repairs]
        self.folders.repairs, self._journals.repairs = [], []
        return repairs

    def known_shards(self) -> int:
        """Return the number of shards the data was made with; 0 if unknown, as in a new directory.

        All shards are claimed before the first flush and every journal names all of them, so the
        number is known after any crash.
        """
        return self.format.shards if self.format else self._journals.known_shards()

    def write_format(self, shards: int) -> str:
        """Durably write the format file if it is missing. Returns its id. Raises OSError."""
        if self.format is None:
            self.format = write_format(self._files, self.data_dir, shards)
        return self.format.directory_id

    # -- shards --------------------------------------------------------------------------------

    def claim(self, shard: int, at_least: int = 0) -> int:
        """Lock a shard and return its epoch, larger than all before. Raises Locked and OSError.

        The epoch is also larger than `at_least`, for a log copied from another directory whose last
        epoch is in no lease and no journal here. The claim becomes durable with the next flush,
        that is, before any batch with its epoch; an epoch lost until then may be handed out again.
        """
        if self._locks.is_lost(shard):
            self._lose(shard)
        lease = self._locks.lease(shard)
        known = self._journals.known_epoch(shard)
        self._epochs_before.setdefault(shard, (known, lease.epoch))
        epoch = lease.raise_epoch(max(at_least, known))
        self._journals.claimed(shard, epoch)
        return epoch

    def release(self, shard: int) -> None:
        """Release the lock of a shard. Close its logs first."""
        self._locks.release(shard)

    # -- logs ----------------------------------------------------------------------------------

    def log_names(self) -> list[str]:
        """Return the partition folders in the directory: `<topic>-<partition>`."""
        return [name for name in self._files.list_folder(self.data_dir) if is_partition(name)]

    def told_names(self) -> set[str]:
        """Return the logs named in the journals. These, and the listed ones, must have folders."""
        return self._journals.told_names()

    def has_log(self, name: str) -> bool:
        """Return whether the folder of a log exists and has files."""
        return bool(self._files.list_folder(f"{self.data_dir}/{name}"))

    def is_new(self, name: str) -> bool:
        """Return whether a log never had records: no folder, no journal and no list has it."""
        known = name in self.folders.names or self._journals.tells_of(name)
        return not known and not self.has_log(name)

    def open_new(self, name: str) -> Log:
        """Open a log that is `is_new`, immediately. Its first append creates the files.

        For the thread of flushes, also during a flush. Raises LockLost if this process has lost the
        shard: logs opened after the loss would not be fenced.
        """
        shard = partition_of(name)
        if not self.has_lease(shard):
            raise LockLost(f"the lock of shard {shard} was removed")
        log = open_log(self._files, f"{self.data_dir}/{name}", self._limits)
        self._logs[name] = QueuedLog(log)
        return log

    def has_lease(self, shard: int) -> bool:
        """Return whether a shard is claimed and its lock is not known to be lost."""
        return self._locks.has_lease(shard)

    def open_log(self, name: str) -> Log:
        """Return the log of a partition folder, repaired from the journals.

        A log that is already open is returned as is, unless it is `failed`: then it is closed and
        reopened. Raises Corrupt, and AppendFailed if its journal entries could not be written.
        """
        return self.usable_log(name) or self.recover_log(name)

    def usable_log(self, name: str) -> Log | None:
        """Return an open log that is not `failed`, with its queue written to the segments.

        None if `recover_log` must open the log; a `failed` log is closed.
        """
        self._check()
        queued = self._logs.get(name)
        if queued is None or queued.log.closed:
            return None
        self._flushes.write(queued)
        if not queued.log.failed:
            return queued.log
        queued.close()
        return None

    def recover_log(self, name: str) -> Log:
        """Do the second half of `open_log`, which may be slow: it reads the whole last segment."""
        try:
            log = self.examine_log(name)
        except SyncFailed as error:
            self._flushes.failure = str(error)
            raise
        epochs = self._epochs_before.get(partition_of(name))
        if epochs is not None and log.last_epoch > max(epochs):
            # The folder was copied from elsewhere. The next claim puts its epoch into the lease,
            # and a crash before the next flush would leave the epoch in no journal: record that the
            # log is complete.
            log.write_manifest()
        self._logs[name] = QueuedLog(log)
        self._journals.recovered(name, log.durable)
        return log

    def behind(self) -> list[str]:
        """Return the names of claimed shards' logs whose segments may lack records of a journal.
        They were not opened, or have failed since. `open_log` brings them up to date.
        """
        failed = {name for name, queued in self._logs.items() if queued.log.failed}
        names = failed | (self._journals.names() - self._logs.keys())
        return sorted(name for name in names if self.has_lease(partition_of(name)))

    def examine_log(self, name: str) -> Log:
        """Return a log, repaired from the journals, that takes no flushes. The caller closes it.

        For a process that only inspects or repairs logs. Raises as `open_log`.
        """
        if not is_partition(name) or "/" in name:
            raise ValueError(f"{name!r} is not <topic>-<partition>")
        restored = self.folders.check(name)
        # Claims are durable before batches of their epochs. So if a log has an epoch that the lease
        # has and the journals lack, a journal was removed.
        known, leased = self._epochs_before.get(partition_of(name), (0, 0))
        with self._journals.cover(name, range(known + 1, leased + 1)) as cover:
            log = open_log(self._files, f"{self.data_dir}/{name}", self._limits, cover)
        log.repairs = [*([restored] if restored else []), *log.repairs]
        return log

    def close_log(self, name: str) -> None:
        """Close a log, and release the lock of its shard if no other log of the shard is open.

        Raises AppendFailed and SyncFailed: the journals have the records that were not written.
        """
        self._lose_all_lost()
        queued = self._logs.get(name)
        if queued is not None:  # else it could not be opened
            self._close(queued)
        shard, logs = partition_of(name), [each.log for each in list(self._logs.values())]
        if all(log.closed for log in logs if partition_of(log.name) == shard):
            self.release(shard)

    def _close(self, queued: QueuedLog) -> None:
        try:
            queued.close()
        except SyncFailed as error:
            self._flushes.failure = str(error)
            raise
        if not queued.log.failed:
            self._journals.synced(queued.log.name, queued.log.durable)

    # -- flushes --------------------------------------------------------------------------------

    def commit(self, appends: Sequence[Append | LateAppend]) -> list[StorageError | None]:
        """Write the batches of all appends and make them durable together.

        Returns one item per append: None, or the reason it was left out: Fenced if its log has a
        newer epoch, LockLost if another process may write to the log, AppendFailed if the log must
        be reopened, or the error of the append that it depends on. The other appends are durable
        regardless. Raises if no append may be acknowledged: AppendFailed if the journal could not
        be written, SyncFailed (the store then takes no more work), and ValueError for records that
        do not fit into a batch.
        """
        self._check()
        return self._flushes.commit(appends)

    def catch_up(self) -> None:
        """Write all queues to the segments, for idle moments. Raises SyncFailed.

        A log that cannot be written becomes `failed` and is left out of its next flush.
        """
        self._check()
        while self._flushes.write_one():
            pass

    # -- ownership -----------------------------------------------------------------------------

    def verify(self) -> list[int]:
        """Check that this process still owns the directory, the journal and all locks.

        For a timer: flushes only check the folder of the leases. Returns the shards whose locks
        were lost since the last call and not taken again; their logs take no more appends. Raises
        DirectoryLost.
        """
        self._check()
        self._check_directory()
        self._lose_all_lost()
        lost, self._lost = self._lost, []
        return [shard for shard in lost if not self._locks.has_lease(shard)]

    def _check(self) -> None:
        """Raise SyncFailed after a failed sync, and check the locks if one may be lost."""
        if self._flushes.failure:
            raise SyncFailed(f"{self.data_dir} failed before: {self._flushes.failure}")
        if self._locks.changed():  # also true after a claim by this process
            self._check_directory()
            self._lose_all_lost()

    def _check_directory(self) -> None:
        if not self._locks.has_node or not self._journals.are_in_place:
            lost = DirectoryLost(
                f"{self.data_dir} was removed or replaced while it was in use: "
                f"{self._locks.node_path}, or the journal of this process, is missing"
            )
            self._flushes.failure = str(lost)
            raise lost

    def _lose_all_lost(self) -> None:
        for shard in self._locks.lost():
            self._lost.append(shard)
            self._lose(shard)

    def _lose(self, shard: int) -> None:
        """Fence the logs of a shard: another process may own it and write to their folders.

        Acknowledged records are in this process's journal, where the other process looks for them.
        """
        self.release(shard)
        for queued in list(self._logs.values()):  # another thread may open logs
            if partition_of(queued.log.name) == shard:
                queued.fence()

    def leave(self) -> None:
        """Release all locks without a flush. The journals stay as they are.

        For a process that only examined logs.
        """
        assert not self._logs, "opened for flushes"
        self._journals.close(clean=False)
        self._locks.close()

    def close_logs(self, at_once: AtOnce = one_after_another) -> None:
        """Write, sync and close all logs, in parallel if `at_once` can. The first half of `close`,
        which raises the errors that occur here.
        """
        self._lose_all_lost()
        logs = list(self._logs.values())
        errors = at_once([partial(queued.close, with_parent=False) for queued in logs])
        try:
            self._files.sync_folder(self.data_dir)  # covers the folders of all logs
        except OSError as error:
            errors.append(SyncFailed(f"cannot sync {self.data_dir}: {error}"))
        for failure in filter(None, errors):
            if not isinstance(failure, AppendFailed):
                self._flushes.failure = str(failure)  # so that `close` keeps the journals
                raise failure
            if isinstance(failure, SyncFailed):
                self._flushes.failure = str(failure)
            self._unclosed.append(failure)
        for queued in logs:
            if not queued.log.failed:
                self._journals.synced(queued.log.name, queued.log.durable)

    def close(self) -> None:
        """Close all open logs, leave short journals behind, and release all locks.

        Raises AppendFailed and SyncFailed at the end: the journals are then kept, and have what
        could not be written. They are also kept for logs that are `behind`.
        """
        try:
            if not all(queued.log.closed for queued in self._logs.values()):
                self.close_logs()
            self._lose_all_lost()
            clean = not self._flushes.failure and not any(
                queued.log.failed for queued in self._logs.values()
            )
            self._journals.close(clean=clean)
            if clean:
                with suppress(OSError):  # without the list, a lost folder goes unnoticed
                    # A log that another process has to recover may not be on disk yet.
                    waiting = self._journals.names() - self._logs.keys()
                    self.folders.leave(n for n in self.log_names() if n not in waiting)
        finally:
            self._locks.close()
        if self._unclosed:
            raise self._unclosed[0]
