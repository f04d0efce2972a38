"""What waits for an append that takes long is appended and answered in short callbacks."""

import gc
from collections.abc import Callable
from typing import Any, TypeVar
from unittest.mock import Mock

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.topics.appender import AT_ONCE, Appender, Appends, PendingAppend
from groupkeeper.topics.batches import RefusedByLog
from groupkeeper.topics.file_jobs import FileJob, FileJobs, FileThreads

T = TypeVar("T")


class SlowThenFast(FileJobs):
    """The first job takes long. Others end while the caller waits for them, if it does."""

    def __init__(self) -> None:
        self.held: list[FileJob[Any]] = []
        self.count = 0

    def start(self, call: Callable[[], T], *, wait: bool = True) -> FileJob[T]:
        self.count += 1
        if wait and self.count > 1:
            return super().start(call, wait=wait)
        job = FileJob(call)
        self.held.append(job)
        return job

    def go(self) -> None:
        """End one of those that take long."""
        job = self.held.pop(0)
        job.run()
        job.finish()


def test_what_waited_for_a_slow_append_is_appended_in_one_callback_for_each_job() -> None:
    jobs, appends, partition = SlowThenFast(), Appends(), Mock()
    appender = Appender(jobs)
    lots = 20
    for _ in range(lots * AT_ONCE + 1):
        appender.start([appends.add(partition, b"", Mock(size=100))])
    callbacks = 0
    while jobs.held:
        before = partition.append.call_count
        jobs.go()
        callbacks += 1
        assert partition.append.call_count - before <= AT_ONCE
    assert (callbacks, appends.done) == (lots + 1, True)


async def test_an_append_that_is_refused_is_freed_with_its_last_reference() -> None:
    def refuse(*_: object) -> None:
        raise RefusedByLog(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "a gap")

    def count() -> int:
        return sum(type(each) is PendingAppend for each in gc.get_objects())

    async def append() -> None:
        appends = Appends()
        appender.start([appends.add(partition, b"", Mock(size=100))])
        await appends.wait()

    jobs, partition = FileThreads(), Mock(append=refuse)
    appender = Appender(jobs)
    gc.collect()
    gc.disable()
    try:
        before = count()
        for _ in range(10):
            await append()
        assert count() == before
    finally:
        gc.enable()
    await jobs.close()
