"""Runs the appends of Produce on threads: sequentially per partition, in parallel otherwise.

Appends to a partition with an append in progress are queued, and then run together. So a hanging
disk delays only its own partitions, and each append is checked against the result of the previous
one: the sequences of producers are checked in the order of the requests.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

from groupkeeper.protocol.record_batch import BatchHeader
from groupkeeper.topics.file_jobs import FileJob, FileJobs
from groupkeeper.topics.partition import Appended, TopicPartition
from groupkeeper.topics.refusals import Refused

AT_ONCE: Final = 64
"""Maximum number of appends per job, so that reporting their results is quick."""

WAITED_BYTES: Final = 1280 * 1024
"""The event loop does not wait for a job that appends more bytes."""


class PendingAppend:
    """One batch on its way into the log of its partition."""

    __slots__ = ("_batch", "_group", "appended", "error", "header", "partition")

    def __init__(
        self,
        group: "Appends",
        partition: TopicPartition,
        batch: bytes | memoryview,
        header: BatchHeader,
    ) -> None:
        self._group = group
        self._batch = batch
        self.partition = partition
        self.header = header
        self.appended: Appended | None = None
        self.error: Exception | None = None
        """The reason it was not appended."""

    def run(self) -> None:
        """Append the batch, on a thread."""
        try:
            self.appended = self.partition.append(self._batch, self.header)
        except Refused as error:
            # Clients cause any number. The frames of its traceback refer to the append: a cycle.
            self.error = error.with_traceback(None)
        except Exception as error:  # noqa: BLE001  # answered by the handler
            self.error = error

    def finish(self) -> None:
        """Notify waiting requests of the outcome, on the event loop."""
        if self.appended is not None and self.appended.is_new:
            self.partition.grew(self.header.size)
        self._group.one_done()


class Appends:
    """The appends of one request."""

    def __init__(self) -> None:
        self._left = 0
        self._end: asyncio.Future[None] | None = None

    def add(
        self, partition: TopicPartition, batch: bytes | memoryview, header: BatchHeader
    ) -> PendingAppend:
        """Return another append, for `Appender.start`."""
        self._left += 1
        return PendingAppend(self, partition, batch, header)

    def one_done(self) -> None:
        self._left -= 1
        if not self._left and self._end is not None and not self._end.done():
            self._end.set_result(None)

    @property
    def done(self) -> bool:
        return not self._left

    async def wait(self) -> None:
        """Wait until all of them are done."""
        if self._left:
            self._end = asyncio.get_running_loop().create_future()
            await self._end


class Appender:
    """Hands appends to threads."""

    def __init__(self, jobs: FileJobs) -> None:
        self._jobs = jobs
        self._waiting: dict[TopicPartition, list[PendingAppend]] = {}
        """Partitions of current jobs, each with its next appends, from current requests."""

    def start(self, appends: Sequence[PendingAppend]) -> None:
        """Append batches, at most `AT_ONCE`; those of one partition in the order of the calls.

        Short appends are usually done on return.
        """
        waiting, free = self._waiting, []
        for append in appends:
            queue = waiting.get(append.partition)
            if queue is None:
                free.append(append)
            else:
                queue.append(append)
        if free:
            self._run(free, wait=True)

    def _run(self, appends: list[PendingAppend], *, wait: bool) -> None:
        size = 0
        for append in appends:
            self._waiting.setdefault(append.partition, [])
            size += append.header.size
        call = appends[0].run if len(appends) == 1 else partial(_append_all, appends)
        job = self._jobs.start(call, wait=wait and size <= WAITED_BYTES)
        if job.done:
            self._ended(appends, job)
        else:
            job.when_done(partial(self._ended, appends, job))

    def _ended(self, appends: list[PendingAppend], job: FileJob[None]) -> None:
        for append in appends:
            if job.error is not None:
                append.error = job.error
            append.finish()
        for partition in dict.fromkeys(append.partition for append in appends):
            queue = self._waiting.pop(partition)
            if queue:
                self._waiting[partition] = queue[AT_ONCE:]
                # Not waited for: the next ones of each partition would be in the same callback.
                self._run(queue[:AT_ONCE], wait=False)


def _append_all(appends: list[PendingAppend]) -> None:
    for append in appends:
        append.run()
