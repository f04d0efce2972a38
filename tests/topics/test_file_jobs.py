"""File jobs on threads: order, ends and errors."""

import asyncio
import gc
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from errno import EMFILE

import pytest

from groupkeeper.topics.file_jobs import IN_VAIN, PAUSE_S, THREADS, FileJob, FileThreads, Patience

SECONDS = 20.0


def held(gate: threading.Event, number: int = 0) -> Callable[[], int]:
    """A call that stands like a disk, until the gate is open."""

    def call() -> int:
        assert gate.wait(SECONDS)
        return number

    return call


async def test_a_job_runs_on_another_thread() -> None:
    jobs = FileThreads()
    assert await jobs.run(threading.get_ident) != threading.get_ident()
    await jobs.close()


async def test_a_job_runs_on_a_reserved_thread_when_no_descriptor_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none_left() -> tuple[int, int]:
        raise OSError(EMFILE, "none left")

    jobs = FileThreads()
    jobs.reserve()
    jobs.reserve()
    monkeypatch.setattr("groupkeeper.topics.file_jobs.os.pipe", none_left)
    assert await jobs.run(threading.get_ident) != threading.get_ident()
    await jobs.close()


async def test_an_error_is_raised_by_its_result() -> None:
    def fail() -> None:
        raise OSError("no disk")

    jobs = FileThreads()
    with pytest.raises(OSError, match="no disk"):
        await jobs.run(fail)
    await jobs.close()


async def test_jobs_that_find_no_idle_thread_wait_for_one() -> None:
    jobs, gate = FileThreads(), threading.Event()
    started = [jobs.start(held(gate, number), wait=False) for number in range(3 * THREADS)]
    gate.set()
    async with asyncio.timeout(SECONDS):
        assert [await job.wait() for job in started] == list(range(3 * THREADS))
    await jobs.close()


async def test_close_waits_for_the_jobs_under_way_and_those_that_follow() -> None:
    jobs, gate, last = FileThreads(), threading.Event(), list[FileJob[int]]()
    started = [jobs.start(held(gate), wait=False) for _ in range(2 * THREADS)]
    started[-1].when_done(lambda: last.append(jobs.start(held(gate, 7), wait=False)))
    closing = asyncio.ensure_future(jobs.close())
    await asyncio.sleep(0)
    assert not closing.done()
    gate.set()
    async with asyncio.timeout(SECONDS):
        await closing
    assert all(job.done for job in started)
    assert [job.result() for job in last] == [7]


def waits_in_vain(patience: Patience, now: float, most: int = 100) -> int:
    """How often the event loop waits for jobs that take long, at one moment."""
    count = 0
    while patience.may_wait(now) and count < most:
        patience.in_vain(now)
        count += 1
    return count


def test_now_and_then_the_loop_may_wait_in_vain() -> None:
    patience = Patience()
    for number in range(1, 100):
        patience.in_vain(1.01 * number * PAUSE_S)
        assert patience.may_wait(1.01 * number * PAUSE_S)


def test_a_slow_disk_makes_the_loop_wait_seldom() -> None:
    patience, now = Patience(), 1000.0
    assert waits_in_vain(patience, now) == IN_VAIN
    assert not patience.may_wait(now + PAUSE_S / 2)
    assert [waits_in_vain(patience, now + 1.01 * PAUSE_S * n) for n in range(1, 5)] == [1] * 4
    assert waits_in_vain(patience, now + 1_000 * PAUSE_S) == IN_VAIN


async def test_a_job_fails_if_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    gc.collect()  # what other tests have left has descriptors, too
    jobs, descriptors = FileThreads(), {*os.listdir("/proc/self/fd")}
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        for _ in range(3):
            assert isinstance(jobs.start(threading.get_ident).error, OSError)
    gc.collect()
    assert {*os.listdir("/proc/self/fd")} <= descriptors
    assert await jobs.run(threading.get_ident) != threading.get_ident()
    await jobs.close()


async def test_a_job_that_fails_is_freed_with_its_last_reference() -> None:
    def fail() -> None:
        raise OSError("no disk")

    def count() -> int:
        return sum(type(each) is FileJob for each in gc.get_objects())

    jobs = FileThreads()
    gc.collect()
    gc.disable()
    try:
        before = count()
        for _ in range(10):
            with suppress(OSError):
                await jobs.run(fail)
            with suppress(OSError):
                await jobs.start(fail).wait()
        assert count() == before
    finally:
        gc.enable()
    await jobs.close()
