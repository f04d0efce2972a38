"""Flushes: the batches of many logs, made durable with one write and one sync of the journal.

Theory of operation. After the sync the batches of a flush may be acknowledged. The segments get the
same bytes later and without a sync: each flush writes the queue of one log, and an idle moment
writes the rest, because a write per log and flush would cost more than everything else. When a
journal is full, a new one begins, and each of the following flushes syncs one of the logs that have
batches in the full one. When all are synced, and a flush has written their marks, the full journal
is removed.

Beside the flushes, on another thread, a log is synced whenever much was written to it, and gets a
recovery point, whose mark goes into the next flush. Index files are not written in a flush: each
system call may let another thread run first.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from groupkeeper.storage.errors import AppendFailed, StorageError, SyncFailed
from groupkeeper.storage.journal.format import batch_entry
from groupkeeper.storage.journal.journals import Journals
from groupkeeper.storage.log.log import Log
from groupkeeper.storage.log.queued_log import Append, Encoded, LateAppend, QueuedLog
from groupkeeper.storage.log.scan import Batch
from groupkeeper.storage.log.segment import Stand
from groupkeeper.storage.recovery.marks import Mark

WRITE_BACK_BYTES: Final = 4 * 1024 * 1024
"""Bytes written to a log after which it is synced beside the flushes. A flush that has to sync the
log, because a segment is full or a full journal is due for removal, then has little left to do."""


class FlushWriter:
    """Writes flushes to the journal, and queued batches to the logs."""

    def __init__(self, journals: Journals, logs: Mapping[str, QueuedLog]) -> None:
        """Take the open `logs` by name."""
        self._journals = journals
        self._logs = logs
        self._behind: dict[str, QueuedLog] = {}
        """Logs with queued batches, longest waiting first."""
        self.aside: Callable[[Callable[[], None]], None] | None = None
        """Runs a job on another thread. None: no log is synced beside the flushes."""
        self._marks: deque[tuple[str, Mark]] = deque()
        """Marks made by that thread since the last flush, with the names of the logs."""
        self.failure = ""
        """The error of a failed sync, after which the store takes no more work; or ""."""
        self.committed_bytes = 0
        """Total bytes of batches made durable by flushes."""

    def commit(self, appends: Sequence[Append | LateAppend]) -> list[StorageError | None]:
        """Write a flush: see `Store.commit`."""
        errors: list[StorageError | None] = []
        left_out: dict[int, StorageError] = {}
        ends: dict[str, int] = {}
        queue: list[tuple[QueuedLog, bytes, Batch]] = []
        pieces: list[bytes] = []
        for each in appends:
            encoded = self._encoded(each, left_out, ends)
            if isinstance(encoded, StorageError):
                errors.append(encoded)
                left_out[id(each)] = encoded
                continue
            errors.append(None)
            log, batches = encoded
            for data, batch in batches:
                ends[log.log.name] = batch.last_offset + 1
                queue.append((log, data, batch))
                pieces += batch_entry(log.name_bytes, data)
        if not queue:
            return errors
        while self._marks:
            self._journals.marked(*self._marks.popleft())
        try:
            self._journals.write(pieces, ends)
            for log, data, batch in queue:
                self._behind[log.log.name] = log
                self.committed_bytes += len(data)
                if log.queue(data, batch):
                    self.write(log)
            self.write_one()
            self._sync_one()
        except SyncFailed as error:
            self.failure = str(error)
            raise
        return errors

    def _encoded(
        self, each: Append | LateAppend, left_out: dict[int, StorageError], ends: Mapping[str, int]
    ) -> tuple[QueuedLog, Sequence[Encoded]] | StorageError:
        """Return an append's log and batches, or the reason it is left out."""
        append = each.made(left_out) if isinstance(each, LateAppend) else each
        if isinstance(append, StorageError):
            return append
        log = self._logs[append.log.name]
        error = log.error_for(append)
        if error is not None:
            return error
        base = ends.get(append.log.name, log.end_offset)
        if not isinstance(each, LateAppend):
            return log, append.encode(base)
        batches = each.encoded(append, base)
        return batches if isinstance(batches, StorageError) else (log, batches)

    def write_one(self) -> bool:
        """Write the queue of the longest waiting log. Returns False if no log has a queue."""
        log = next(iter(self._behind.values()), None)
        if log is not None:
            self.write(log)
        return log is not None

    def write(self, log: QueuedLog) -> None:
        """Write the queue of a log. Raises SyncFailed.

        If the write fails, the log becomes `failed` and is repaired from the journal when reopened.
        """
        self._behind.pop(log.log.name, None)
        try:
            log.unsynced_bytes += log.write()
        except SyncFailed as error:
            self.failure = str(error)
            raise
        except AppendFailed:
            return
        if log.unsynced_bytes > WRITE_BACK_BYTES:
            self._checkpoint_aside(log)

    def _checkpoint_aside(self, log: QueuedLog) -> None:
        stand = log.log.stand()
        if self.aside is not None and stand is not None:
            log.unsynced_bytes = 0
            self.aside(partial(self._checkpoint, log.log, stand))

    def _checkpoint(self, log: Log, stand: Stand) -> None:
        try:
            mark = log.checkpoint(stand)
        except SyncFailed as error:
            self.failure = str(error)
        else:
            if mark is not None:
                self._marks.append((log.name, mark))

    def _sync_one(self) -> None:
        """Remove full journals that are not needed; sync at most one log so that another can go."""
        self._journals.drop_done()
        for name in self._journals.waiting_for():
            log = self._logs[name]
            if name in self._behind:
                self.write(log)
            if not log.log.failed:
                log.log.sync()
                self._journals.synced(name, log.log.durable)
                self._checkpoint_aside(log)  # for its recovery point
                break
