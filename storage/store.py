"""
The data directory of one process: its locks, its logs, and the round that makes them durable
together.

Theory of operation. A round is one write and one sync of the journal for the batches of all logs;
then they may be acknowledged. The segments get the same bytes later and without a sync: each
round writes what is queued for one log, and an idle moment the rest, because a write per log and
round would cost more than all else together. So a log on the disk is always "a sound beginning,
and the journal has the rest". When the journal is full a new one begins; every commit then syncs
one of the logs the old one stands in for, and when all are synced the old one is removed. Opening
a log puts the two together again.

One thread at a time calls `commit`, `catch_up`, `usable_log`, `settle` and `close`. Meanwhile one
other may call `claim` and `recover_log`, for logs that no round is written to and that `usable_log`
did not return, and any may read logs. A log either goes through `commit`, or is appended to
directly and synced when its owner likes, never both.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from groupkeeper.protocol.record_batch import KeyValue, encode_batch
from groupkeeper.storage.errors import AppendFailed, DirectoryLost, Fenced, StorageError, SyncFailed
from groupkeeper.storage.files import Files, parent_of
from groupkeeper.storage.folders import FolderList, is_partition, partition_of
from groupkeeper.storage.format import read_format, write_format
from groupkeeper.storage.journal import FOLDER
from groupkeeper.storage.journal_format import batch_entry
from groupkeeper.storage.journals import Journals
from groupkeeper.storage.limits import Limits
from groupkeeper.storage.locks import LEASES, NODES, Lease, lock_node, node_path
from groupkeeper.storage.log import Log
from groupkeeper.storage.scan import Batch

WRITE_BACK_BYTES = 4 * 1024 * 1024
"""When so much was written to a log, it is brought to the disk beside the rounds: a round that has
to sync the log, because its segment is full or an old journal is to go, finds little left to do."""

QUEUE_BYTES = 64 * 1024
"""What may be queued for one log; beyond that it is written at once."""


@dataclass(slots=True)
class Append:
    """A batch to be: records of one log under an epoch, all with one time (epoch milliseconds)."""

    log: Log
    epoch: int
    timestamp_ms: int
    records: Sequence[KeyValue]


class Store:
    """Made by `Store.open`, which takes the node's lock; `close` gives it back."""

    def __init__(self, files: Files, data_dir: str, node_id: int, limits: Limits) -> None:
        self._files = files
        self._limits = limits
        self._leases: dict[int, Lease] = {}
        self._logs: dict[str, Log] = {}
        self._behind: dict[str, Log] = {}
        """Logs with queued batches, the one that waits longest first."""
        self._found: dict[int, tuple[int, int]] = {}
        """The epoch of each shard, as journals and as its lease had it before it was claimed."""
        self._unsynced: dict[str, int] = {}
        """About how many bytes of each log were not written back yet."""
        self.aside: Callable[[Callable[[], None]], None] | None = None
        """Does a job on another thread, by and by. None: nothing is written back beside rounds."""
        self._fenced: set[str] = set()
        """Open logs whose shard's lock is lost."""
        self._lost: list[int] = []
        """The shards that were found lost since `verify` was called."""
        self._stamp: tuple[int, ...] = ()
        """Of the folder of the leases, when they were looked at."""
        self._failed: SyncFailed | None = None
        self.committed_bytes = 0
        """Bytes of all batches made durable by rounds so far."""
        self.data_dir = data_dir
        self.node_id = node_id
        self.format = read_format(files, data_dir)
        """None before `settle_format` if the directory is new or older than all formats."""
        self.was_used = bool(self.format or files.list_folder(f"{data_dir}/{FOLDER}"))
        """Whether the directory has served before."""
        for folder in (FOLDER, LEASES, NODES):
            files.make_folder(f"{data_dir}/{folder}")
        # Each time: an earlier process may have been killed between making and syncing them.
        files.sync_folder(data_dir)
        files.sync_folder(parent_of(data_dir))
        self._lock = lock_node(files, data_dir, node_id)
        try:
            self.folders = FolderList(files, data_dir)
            self._journals = Journals(files, data_dir, node_id, limits.journal_bytes)
        except BaseException:
            files.close(self._lock)
            raise

    @classmethod
    def open(
        cls, files: Files, data_dir: str, node_id: int, limits: Limits | None = None
    ) -> "Store":
        """
        Take the node's lock on a data directory, made if need be, and read its journals.

        Raises Locked if a living process has the node id, Corrupt if a journal is damaged,
        NewerFormat if the directory was made by a newer version.
        """
        return cls(files, data_dir, node_id, limits or Limits())

    def take_repairs(self) -> list[str]:
        """What was damaged or unfinished, outside of logs, a line each; once."""
        repairs = [*self.folders.repairs, *self._journals.repairs]
        self.folders.repairs, self._journals.repairs = [], []
        return repairs

    def known_shards(self) -> int:
        """
        How many shards the data was made with; 0 if nothing tells, as in a new directory. All are
        claimed before the first round, and every journal names all of them, so this holds after
        any crash.
        """
        return self.format.shards if self.format else self._journals.known_shards()

    def settle_format(self, shards: int) -> str:
        """
        Carry the directory forward to the newest format, durably, unless it is in it. Returns the
        directory's id. Raises OSError.
        """
        if self.format is None:
            self.format = write_format(self._files, self.data_dir, shards)
        return self.format.directory_id

    def claim(self, shard: int, at_least: int = 0) -> int:
        """
        Take the lock of a shard and return its epoch, higher than any before, and than `at_least`:
        the last epoch of its log, of which leases and journals know nothing if the log comes from
        elsewhere. Raises Locked.

        Nothing is synced yet: the claims made so far become durable with the next round, so before
        any batch of a round carries their epochs. Until then it does no harm to give one again.
        """
        if shard in self._leases and not self._leases[shard].is_held:
            self._lose(shard)
        lease = self._leases.get(shard) or Lease(self._files, self.data_dir, shard, self.node_id)
        self._leases[shard] = lease
        known = self._journals.known_epoch(shard)
        self._found.setdefault(shard, (known, lease.epoch))
        epoch = lease.raise_epoch(max(at_least, known))
        self._journals.claimed(shard, epoch)
        return epoch

    def settle(self) -> None:
        """
        Make the claims durable now, with one sync. Due before a log is appended to directly under
        a claimed epoch: its batches might reach the disk before the next round does.
        """
        self._check()
        try:
            self._journals.settle()
        except SyncFailed as error:
            self._failed = error
            raise

    def release(self, shard: int) -> None:
        """Give a shard's lock back. Close its logs first."""
        lease = self._leases.pop(shard, None)
        if lease is not None:
            lease.close()

    def log_names(self) -> list[str]:
        """The partition folders there are: `<topic>-<partition>`."""
        return [name for name in self._files.list_folder(self.data_dir) if is_partition(name)]

    def open_log(self, name: str) -> Log:
        """
        The log of a partition folder, repaired from the journals. One that is open is returned as
        it is, unless it is broken: then it is closed and opened again.

        Raises Corrupt, and AppendFailed if what the journals hold for it could not be written.
        """
        return self.usable_log(name) or self.recover_log(name)

    def usable_log(self, name: str) -> Log | None:
        """
        A log that is open and sound, with all in its files that was written; None if there is none,
        and one that is broken is closed: see `recover_log`.
        """
        self._check()
        log = self._logs.get(name)
        if log is None or log.closed:
            return None
        if name in self._behind:
            self._write(log)  # whoever opens a log reads it
        if not log.broken:
            return log
        log.close()
        return None

    def recover_log(self, name: str) -> Log:
        """The second half of `open_log`, which may take long: all of the last segment is read."""
        if not is_partition(name) or "/" in name:
            raise ValueError(f"{name!r} is not <topic>-<partition>")
        self.folders.check(name)
        # A shard's claims are durable before its batches: if a log has an epoch of which the
        # journals know nothing, and the lease does, somebody has removed one.
        known, leased = self._found.get(partition_of(name), (0, 0))
        try:
            with self._journals.held(name, range(known + 1, leased + 1)) as held:
                log = Log.open(self._files, f"{self.data_dir}/{name}", self._limits, held)
        except SyncFailed as error:
            self._failed = error
            raise
        self._logs[name] = log
        self._fenced.discard(name)
        self._journals.recovered(name, log.durable)
        return log

    def commit(self, appends: Sequence[Append]) -> list[StorageError | None]:
        """
        Write one batch per append and make them durable together.

        Returns per append None, or why it was left out: Fenced by an older epoch than its log's,
        AppendFailed because its log is to be opened again. The others are durable all the same.
        Raises if nothing may be acknowledged: AppendFailed if the journal could not be written,
        SyncFailed after which the store takes no more work, ValueError for what no batch holds.
        """
        self._check()
        left_out: list[StorageError | None] = []
        ends: dict[str, int] = {}
        queue: list[tuple[Log, bytes, Batch]] = []
        pieces: list[bytes] = []
        for append in appends:
            log = append.log
            left_out.append(self._objection(append))
            if left_out[-1] is not None:
                continue
            base = ends.get(log.name, log.end_offset)
            data = encode_batch(base, append.epoch, append.timestamp_ms, append.records)
            ends[log.name] = end = base + len(append.records)
            batch = Batch(0, len(data), base, end - 1, append.epoch, append.timestamp_ms)
            queue.append((log, data, batch))
            pieces += batch_entry(log.name_bytes, data)
        if queue:
            self._write_round(pieces, ends, queue)
        return left_out

    def _write_round(
        self, pieces: list[bytes], ends: Mapping[str, int], queue: list[tuple[Log, bytes, Batch]]
    ) -> None:
        try:
            self._journals.write(pieces, ends)
            for log, data, batch in queue:
                self._behind[log.name] = log
                self.committed_bytes += len(data)
                if log.queue(data, batch) > QUEUE_BYTES:
                    self._write(log)
            self._write_one()
            self._sync_one()
        except SyncFailed as error:
            self._failed = error
            raise

    def _count_unsynced(self, log: Log, size: int) -> None:
        size += self._unsynced.get(log.name, 0)
        if size > WRITE_BACK_BYTES and self.aside is not None:
            size = 0
            self.aside(partial(self._write_back, log))
        self._unsynced[log.name] = size

    def _write_back(self, log: Log) -> None:
        try:
            log.write_back()
        except SyncFailed as error:
            self._failed = error  # the next round says so

    def catch_up(self) -> None:
        """
        Write to the segments what only the journal has so far. For idle moments: the rounds of a
        busy store do one log each. A log that cannot be written is broken, and says so when it
        takes part in a round again.
        """
        self._check()
        try:
            while self._behind:
                self._write_one()
        except SyncFailed as error:
            self._failed = error
            raise

    def _write_one(self) -> None:
        """The log that has been behind for longest."""
        for log in self._behind.values():
            self._write(log)
            break

    def _write(self, log: Log) -> None:
        self._behind.pop(log.name, None)
        try:
            self._count_unsynced(log, log.write_queued())
        except SyncFailed:
            raise
        except AppendFailed:
            pass  # the journal has it; the log is broken now, and is repaired when opened again

    def _sync_one(self) -> None:
        """One piece of the work of dropping an old journal: at most one more sync in a round."""
        for name in self._journals.waiting_for():
            log = self._logs[name]
            if name in self._behind:
                self._write(log)
            if not log.broken:
                log.sync()
                self._journals.synced(name, log.durable)
                break
        self._journals.drop_done()

    def verify(self) -> list[int]:
        """
        Look whether the directory, the journal and all locks are still ours, a few times a second:
        rounds look at the folder of the leases only. Returns the shards whose locks were lost since
        the last look and not taken again; their logs take no more. Raises DirectoryLost.
        """
        self._check()
        self._check_place()
        lost = [*self._lost, *self._lose_what_is_lost()]
        self._lost = []
        return [shard for shard in lost if shard not in self._leases]

    def _check(self) -> None:
        """
        Raises DirectoryLost; a shard whose lock is lost takes no more. With one system call: the
        thread gives up the GIL for each, and gets it back when the loop's thread waits.
        """
        if self._failed is not None:
            raise SyncFailed(f"{self.data_dir} failed before: {self._failed}")
        stamp = self._files.stamp(f"{self.data_dir}/{LEASES}")
        if stamp != self._stamp:  # a lock file was made, by us most likely, or removed
            self._check_place()
            self._stamp = stamp
            self._lost += self._lose_what_is_lost()

    def _check_place(self) -> None:
        lock = node_path(self.data_dir, self.node_id)
        if not self._files.is_at(self._lock, lock) or not self._journals.are_in_place:
            self._failed = DirectoryLost(
                f"{self.data_dir} was removed or replaced while it was in use: "
                f"{lock}, or this process's journal, is not there any more"
            )
            raise self._failed

    def _lose_what_is_lost(self) -> list[int]:
        lost = [shard for shard, lease in list(self._leases.items()) if not lease.is_held]
        for shard in lost:
            self._lose(shard)
        return lost

    def _lose(self, shard: int) -> None:
        """
        Another process may own the shard. What was acknowledged is in our journal, where it looks;
        what we would write to the segments now might be written over its batches.
        """
        self.release(shard)
        for log in list(self._logs.values()):  # another thread may add to them, and to the leases
            if partition_of(log.name) == shard:
                log.broken = True
                self._fenced.add(log.name)
                self._behind.pop(log.name, None)

    def _objection(self, append: Append) -> StorageError | None:
        """Why an append cannot take part in a round."""
        log = append.log
        if log.name in self._fenced:
            return Fenced(f"the lock of {log.name} was removed: another process may own it")
        if log.broken or log.closed:
            return AppendFailed(f"{log.name} must be opened again before it takes a round")
        if append.epoch < log.last_epoch:
            return Fenced(f"{log.name} is in epoch {log.last_epoch}, not {append.epoch}")
        return None

    def close(self) -> None:
        """Sync and close the logs, leave short journals behind, give back all locks."""
        try:
            self._lose_what_is_lost()
            for log in self._logs.values():
                log.close()
                if not log.broken:
                    self._journals.synced(log.name, log.durable)
            clean = self._failed is None and not any(log.broken for log in self._logs.values())
            self._journals.close(clean=clean)
            if clean:
                with suppress(OSError):  # without it a lost folder is not missed
                    self.folders.leave(self.log_names())
        finally:
            for shard in list(self._leases):
                self.release(shard)
            self._files.close(self._lock)
