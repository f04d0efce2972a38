"""Partition logs in the data directory of this process: `PartitionLog` on top of `Store`.

A log is claimed and opened on the loader's thread. Only the flushes' thread checks whether it is
already open, after a flush that may write to it. Appends are flushes of all logs together
(`writer.py`).
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeVar

from groupkeeper.coordinator.gate import Unwritten
from groupkeeper.groups.loader import Loader
from groupkeeper.groups.partition_log import Author, LateRecords, LogOwner
from groupkeeper.observe.logs import Logger
from groupkeeper.storage.errors import Fenced, Locked, LockLost, StorageError
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.log.log import Log
from groupkeeper.storage.log.queued_log import Append, LateAppend, TimedAppend
from groupkeeper.storage.store import Store
from groupkeeper.turns import Slices

T = TypeVar("T")

_log = Logger("partition")


class Flushes(Protocol):
    """The part of `writer.Writer` that logs use."""

    store: Store

    def call(self, job: Callable[..., T], *args: object) -> "asyncio.Future[T]":
        """Run a job with the store, between flushes."""

    def enqueue(self, author: Author) -> None:
        """Take the batches of this author in the next flush."""


@dataclass(slots=True)
class LogServices:
    """Shared services of the logs of a store."""

    flushes: Flushes
    loader: Loader
    grew: Callable[[int, int], None]
    """Called with shard and bytes when a log has grown, for fetches of the topic."""
    limits: Limits
    """When these logs begin a new segment."""


class EmbeddedLog:
    """One partition folder, and the right to write to it."""

    def __init__(
        self, services: LogServices, shard: int, name: str, epoch: int | None = None
    ) -> None:
        """`name` is the folder's name. `epoch` is that of an existing claim."""
        self.shard = shard
        self.name = name
        self.log: Log | None = None
        """The log as of the last claim; None before and after."""
        self.epoch = -1
        self._services = services
        self._claimed = epoch
        """Epoch of a claim that `claim` has not returned yet."""
        self._owner: LogOwner | None = None
        self._grown_to = 0

    @property
    def is_new(self) -> bool:
        """Implements `PartitionLog.is_new`."""
        return self.log is None and self._services.flushes.store.is_new(self.name)

    async def claim(self, owner: LogOwner) -> int:
        """Implements `PartitionLog.claim`.

        A lost lock is taken again unless another running process has it. A log with batches of a
        newer epoch (its folder was copied) is claimed above that epoch.
        """
        store, call = self._services.flushes.store, self._services.loader.call
        epoch, self._claimed = self._claimed, None
        try:
            if epoch is None:
                epoch = await call(store.claim, self.shard)
            # After the current flush, which may still write to the log.
            log = await self._services.flushes.call(store.usable_log, self.name)
            if log is None:
                log = await call(store.recover_log, self.name)
            if epoch <= log.last_epoch:
                epoch = await call(store.claim, self.shard, log.last_epoch)
        except Locked as error:
            raise Fenced(str(error)) from error
        self._take(log, epoch, owner)
        for what in log.take_repairs():
            _log.warning("log repaired", partition=self.shard, what=what)
        return epoch

    async def claim_beside(self, owner: LogOwner, epoch: int) -> int:
        """Implements `PartitionLog.claim_beside`, when another log of the shard was claimed. A new
        log is opened by the flush of its first append.
        """
        flushes, call = self._services.flushes, self._services.loader.call
        log = await flushes.call(flushes.store.usable_log, self.name)  # after the current flush
        if not flushes.store.has_lease(self.shard):
            raise LockLost(f"the lock of shard {self.shard} was removed")
        if log is None and self.is_new:
            self.claim_new(owner, epoch)
            return epoch
        if log is None:
            log = await call(flushes.store.recover_log, self.name)
        if epoch < log.last_epoch or (epoch == log.last_epoch and epoch != self.epoch):
            # From a copied folder. Not from this claim, which would make `self.epoch` equal.
            epoch = await call(flushes.store.claim, self.shard, log.last_epoch)
        self._take(log, epoch, owner)
        for what in log.take_repairs():
            _log.warning("log repaired", log=self.name, what=what)
        return epoch

    def claim_new(self, owner: LogOwner, epoch: int) -> None:
        """Implements `PartitionLog.claim_new`: the flush of the first append opens the log."""
        self.epoch, self._owner = epoch, owner

    def claim_empty(self, owner: LogOwner) -> int | None:
        """Implements `PartitionLog.claim_empty`: a log without a folder is opened immediately."""
        store, epoch = self._services.flushes.store, self._claimed
        if epoch is None or store.has_log(self.name):
            return None
        try:
            log = store.open_log(self.name)
        except (StorageError, OSError):
            return None  # `claim` will get the error again
        if log.next_offset > 0 or log.repairs:
            return None  # the folder was lost in a power cut, and restored from the journal
        self._claimed = None
        self._take(log, epoch, owner)
        return epoch

    def _take(self, log: Log, epoch: int, owner: LogOwner) -> None:
        self.log, self.epoch, self._owner = self._limited(log), epoch, owner
        self.grown()

    def _limited(self, log: Log) -> Log:
        limits = self._services.limits
        log.limits = replace(
            log.limits,
            segment_bytes=min(log.limits.segment_bytes, limits.segment_bytes),
            segment_ms=limits.segment_ms,
            server_times=limits.server_times,
        )
        return log

    async def read(self, take: Callable[[bytes], None]) -> None:
        """Implements `PartitionLog.read`: on the loader's thread, in turns with other logs."""
        assert self.log is not None, "claimed before"
        pieces = self.log.batches(self.log.start_offset)
        await self._services.loader.run(_passed(pieces, take))

    def append_from(self, author: Author) -> None:
        """Implements `PartitionLog.append_from`: with the next flush."""
        self._services.flushes.enqueue(author)

    def prepare(self, unwritten: Unwritten, wall_ms: int) -> Append | LateAppend:
        """Implements `FlushedLog.prepare`."""
        if isinstance(unwritten, LateRecords):
            assert self.epoch >= 0, f"{self.name} is not claimed"
            return LateAppend(partial(self._made, unwritten, self.epoch))
        assert self.log is not None, f"{self.name} is not claimed"
        return Append(self.log, self.epoch, wall_ms, unwritten.records)

    def _made(self, late: LateRecords, epoch: int) -> Append:
        """Make the records, on the thread of flushes. No claim runs meanwhile; `release` may."""
        batches = late.make()
        if self.log is None:
            self.log = self._limited(self._services.flushes.store.open_new(self.name))
        return TimedAppend(self.log, epoch, 0, (), batches)

    def grown(self) -> None:
        """Implements `FlushedLog.grown`: wakes fetches of the topic."""
        if self.log is not None and not self.log.closed:  # else: woken after the next claim
            before, self._grown_to = self._grown_to, self.log.uncompacted_size
            if self._grown_to > before:
                self._services.grew(self.shard, self._grown_to - before)

    def lost(self, error: StorageError) -> None:
        """Tell the owner that the lock of the shard is lost."""
        if self._owner is not None:
            self._owner.lost(error)

    async def release(self) -> None:
        """Implements `PartitionLog.release`: the shard is released with the last of its logs."""
        self._owner, self.epoch = None, -1
        await self._services.flushes.call(self._services.flushes.store.close_log, self.name)
        self.log = None


class EmbeddedLogs:
    """The logs of one topic, one per shard."""

    def __init__(self, services: LogServices, topic: str, epochs: Sequence[int | None]) -> None:
        """`epochs`: each shard's epoch if it was claimed for this topic's log, else None."""
        self.by_partition: Sequence[EmbeddedLog] = [
            EmbeddedLog(services, shard, f"{topic}-{shard}", epoch)
            for shard, epoch in enumerate(epochs)
        ]

    def log_of(self, partition: int) -> Log | None:
        """Return the log of one partition, for fetches of the topic; None if it is not open."""
        logs = self.by_partition
        return logs[partition].log if 0 <= partition < len(logs) else None

    def is_new(self, partition: int) -> bool:
        """Return whether the log of a partition never had records."""
        return self.by_partition[partition].is_new

    def lost(self, shard: int) -> None:
        """Tell the owner that the lock of a shard is lost, so that it claims the shard again."""
        self.by_partition[shard].lost(LockLost(f"the lock of shard {shard} was removed"))


def _passed(pieces: Iterator[bytes], take: Callable[[bytes], None]) -> Slices[None]:
    for piece in pieces:
        take(piece)
        yield
