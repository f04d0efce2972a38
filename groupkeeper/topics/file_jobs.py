"""Runs the file calls of Produce, Fetch and lookups, which the event loop must not make itself.

Theory of operation. A call served by the page cache takes microseconds, less than a round trip
through the event loop to a thread. So the loop gives a job to an idle thread and waits for it, for
a millisecond at most. A longer job is left to its thread, and the loop is notified through its
selector when the job has ended. After some such jobs the loop stops waiting for a while: a slow
disk costs the loop one millisecond in a hundred.

Each thread has two pipes, one to be woken by and one to signal the end of a job. A write to a pipe
releases the GIL, so that the woken thread finds it free, and the kernel often lets the thread run
on the processor of the writer, which is about to wait: locks of `threading` and sockets cost more
(measured: docs/decisions/019-files-and-the-event-loop.md).
"""

import asyncio
import os
import select
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from errno import EAGAIN
from time import monotonic
from typing import Any, Final, Generic, TypeVar, cast

T = TypeVar("T")

THREADS: Final = 3
"""Maximum threads of a `FileThreads`, that is, of calls that wait for the disk at once."""

WAIT_MS: Final = 1
"""How long the event loop waits for a job that it has just given to a thread."""

PAUSE_S: Final = 0.1
"""Minimum interval between two vain waits of the event loop, for jobs longer than `WAIT_MS`."""

IN_VAIN: Final = 3
"""Number of consecutive vain waits permitted after a while without any."""

_ONE: Final = b"x"


class FileJob(Generic[T]):
    """A call on another thread, and its outcome. Everything except `run` is for the loop."""

    __slots__ = ("_call", "_context", "_result", "_then", "done", "error")

    def __init__(self, call: Callable[[], T]) -> None:
        self._call: Callable[[], T] | None = call
        self._context = copy_context()  # for the destination of log lines
        self._result: T | None = None
        self.error: Exception | None = None
        """The exception of the call, when the job is done."""
        self._then: list[Callable[[], None]] = []
        self.done = False
        """Whether `result` may be called."""

    def run(self) -> None:
        """Make the call, on any thread."""
        call, self._call = self._call, None
        assert call is not None, "a job runs once"
        try:
            self._result = self._context.run(call)
        except Exception as error:  # noqa: BLE001  # raised again by `result`
            self.error = error
            del self, call  # the error refers to this frame: they would be a cycle

    def finish(self) -> None:
        """Mark the job as done, and notify everything that waits for it."""
        self.done = True
        then, self._then = self._then, []
        for each in then:
            each()

    def when_done(self, then: Callable[[], None]) -> None:
        """Call `then` on the event loop when the job is done: now, if it already is."""
        if self.done:
            then()
        else:
            self._then.append(then)

    def result(self) -> T:
        """Return the result of the call, or raise its exception."""
        assert self.done, "the call is in progress"
        if self.error is not None:
            try:
                raise self.error
            finally:
                del self  # as in `run`
        return cast("T", self._result)  # None is a T if the call returned it

    async def wait(self) -> T:
        """Return the result, when the job is done."""
        if not self.done:
            end = asyncio.Event()
            self.when_done(end.set)
            await end.wait()
        try:
            return self.result()
        finally:
            del self  # as in `run`


class FileJobs:
    """Runs each job immediately, on the caller's thread: for files in memory."""

    def start(self, call: Callable[[], T], *, wait: bool = True) -> FileJob[T]:
        """Start a job. `wait`: it is expected to be short, so it may be done on return."""
        job = FileJob(call)
        job.run()
        job.finish()
        return job

    async def run(self, call: Callable[[], T]) -> T:
        """Run a job for a coroutine, with other callbacks of the event loop in between."""
        job = self.start(call, wait=False)
        try:
            if job.done:
                await asyncio.sleep(0)
            return await job.wait()
        finally:
            del job  # as in `FileJob.run`

    def reserve(self) -> None:
        """Make sure that jobs can be run when no file descriptor is left."""

    async def close(self) -> None:
        """Wait for current jobs, and end the threads. No job may be started afterwards.

        Some jobs have outlived their request: the client has gone, or the server is stopping.
        """


class _Thread:
    """One thread, and the pipes between it and the event loop."""

    def __init__(self) -> None:
        """Start the thread. Raises OSError if no file descriptor or no thread is left."""
        self.job: FileJob[Any] | None = None
        self._own: tuple[int, ...] = ()
        take, self._give = os.pipe()
        self._own = (take, self._give)
        try:
            self.told, tell = os.pipe()
            self._own += (self.told, tell)
            self._poll = select.poll()
            self._poll.register(self.told, select.POLLIN)
            parts = self, take, tell
            name = "groupkeeper-files"
            threading.Thread(target=_serve, args=parts, name=name, daemon=True).start()
        except (OSError, RuntimeError) as error:
            for each in self._own:
                os.close(each)
            raise OSError(EAGAIN, f"no thread for files: {error}") from error
        self._own = (self._give, self.told)

    def give(self, job: FileJob[Any]) -> None:
        self.job = job
        os.write(self._give, _ONE)

    def take(self) -> FileJob[Any] | None:
        """Return the job if it has ended; None if it has not after `WAIT_MS`."""
        if not self._poll.poll(WAIT_MS):
            return None
        os.read(self.told, 1)
        job, self.job = self.job, None
        assert job is not None, "the thread has signalled a job"
        return job

    def close(self) -> None:
        own, self._own = self._own, ()
        for each in own:
            os.close(each)


def _serve(thread: _Thread, take: int, tell: int) -> None:
    """Run the thread: it ends when the other end of its pipe is closed."""
    try:
        while os.read(take, 1):
            job = thread.job
            assert job is not None, "given before the thread was woken"
            job.run()
            del job  # the event loop has the last reference
            os.write(tell, _ONE)
    except BrokenPipeError:
        pass  # closed during the job
    finally:
        os.close(take)
        os.close(tell)


class Patience:
    """Decides when the event loop may wait for a job: rarely while the disk is slow.

    A job may occasionally take long because its thread has to wait for a processor. So a long job
    has no consequence if there was none for a while.
    """

    def __init__(self) -> None:
        self._from = 0.0

    def may_wait(self, now: float) -> bool:
        """Return whether to wait. `now`: seconds of a monotonic clock."""
        return now >= self._from

    def in_vain(self, now: float) -> None:
        self._from = max(self._from, now - (IN_VAIN - 1) * PAUSE_S) + PAUSE_S


class FileThreads(FileJobs):
    """Runs jobs on up to `THREADS` threads, which the first jobs start. For one event loop.

    Jobs without an idle thread wait in a queue. Each belongs to a current request, so the budgets
    of requests (`connections/budget.py`) bound it.
    """

    def __init__(self) -> None:
        self._threads: list[_Thread] = []
        self._idle: list[_Thread] = []
        self._queue: deque[FileJob[Any]] = deque()
        self._patience = Patience()
        self._loop: asyncio.AbstractEventLoop | None = None

    def reserve(self) -> None:
        if not self._threads:
            with suppress(OSError):  # the first job will report it
                self._idle.append(self._started())

    def start(self, call: Callable[[], T], *, wait: bool = True) -> FileJob[T]:
        job = FileJob(call)
        thread = self._idle.pop() if self._idle else self._new_thread(job)
        if thread is None:
            return job
        thread.give(job)
        if wait and self._patience.may_wait(monotonic()):
            if self._look(thread):
                return job
            self._patience.in_vain(monotonic())
        self._watch(thread)
        return job

    def _new_thread(self, job: FileJob[Any]) -> _Thread | None:
        """Return a new thread; None if the job has to wait in the queue, or has failed."""
        if len(self._threads) < THREADS:
            try:
                return self._started()
            except OSError as error:
                if not self._threads:
                    job.error = error
                    job.finish()
                    return None
        self._queue.append(job)
        return None

    def _started(self) -> _Thread:
        """Start another thread. Raises OSError."""
        thread = _Thread()
        self._loop = asyncio.get_running_loop()
        self._threads.append(thread)
        return thread

    def _look(self, thread: _Thread) -> bool:
        """Return whether its job has ended, or ends within `WAIT_MS`."""
        job = thread.take()
        if job is None:
            return False
        if self._queue:
            thread.give(self._queue.popleft())
            self._watch(thread)
        else:
            self._idle.append(thread)
        job.finish()
        return True

    def _watch(self, thread: _Thread) -> None:
        """Wait for the end of the thread's job through the selector. Only for late jobs: it is
        cheaper to add the thread now and then than to be notified of every job's end.
        """
        assert self._loop is not None, "set with the first thread"
        self._loop.add_reader(thread.told, self._late, thread)

    def _late(self, thread: _Thread) -> None:
        self._look(thread)
        if thread.job is None and self._loop is not None:
            self._loop.remove_reader(thread.told)

    async def close(self) -> None:
        # A job that ends may start others, and the jobs in the queue follow.
        while jobs := [thread.job for thread in self._threads if thread.job is not None]:
            for job in jobs:
                with suppress(Exception):  # reported to the tasks that wait for the job
                    await job.wait()
        self._end()

    def _end(self) -> None:
        threads, self._threads, self._idle = self._threads, [], []
        for thread in threads:
            if self._loop is not None and not self._loop.is_closed():
                self._loop.remove_reader(thread.told)
            thread.close()

    def __del__(self) -> None:
        with suppress(Exception):  # of an event loop that was abandoned
            self._end()
