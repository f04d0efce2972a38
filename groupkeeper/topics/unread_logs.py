"""Reads what opening long logs has left unread, on the worker, between its other jobs.

A log is served meanwhile. Clients verify the checksum of each batch, and reads look at the offsets
that no batch has a checksum of; so damage is not served in silence until it is found here. Then the
log is closed, and refused from its next use on.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from groupkeeper.storage.errors import StorageError
from groupkeeper.topics.partition import TopicPartition
from groupkeeper.topics.worker import WorkerThread


class UnreadLogs:
    """The partitions whose logs are read, one after the other."""

    def __init__(self, worker: WorkerThread, failed: Callable[[str, BaseException], None]) -> None:
        self._worker = worker
        self._failed = failed
        self._left: dict[TopicPartition, None] = {}
        """At most every partition that is open."""
        self._task: asyncio.Task[None] | None = None

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Read their logs, as far as that is due."""
        for partition in partitions:
            if partition.log is not None and partition.log.unread is not None:
                self._left[partition] = None
        if self._left and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while self._left:
            partition = next(iter(self._left))
            del self._left[partition]
            log = partition.log
            segment = log.unread if log is not None else None
            if log is not None and segment is not None:
                await self._read(partition, partition.compare(log, segment))

    async def _read(self, partition: TopicPartition, pieces: Iterator[None]) -> None:
        try:
            while await self._worker(lambda: next(pieces, "the end")) is None:
                pass
        except (StorageError, OSError) as error:
            if not partition.deleted:
                self._failed(partition.folder, error)

    async def close(self) -> None:
        """Read no more; what is left is due again after the next opening."""
        self._left.clear()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
