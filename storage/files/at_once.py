"""Disk jobs that run concurrently where the caller has threads for them.

Concurrent syncs of different files are cheaper than consecutive ones: file systems put them into
one transaction, and disks into one flush.
"""

from collections.abc import Callable, Sequence

Job = Callable[[], None]
AtOnce = Callable[[Sequence[Job]], list[Exception | None]]
"""Runs all jobs, in any order, and returns when all have ended: each job's exception or None."""


def one_after_another(jobs: Sequence[Job]) -> list[Exception | None]:
    """Run all jobs on the calling thread: an `AtOnce`."""
    return [raised(job) for job in jobs]


def raised(job: Job) -> Exception | None:
    """Run a job; return the exception it raised, or None."""
    try:
        job()
    except Exception as error:  # noqa: BLE001  # sorted out by the caller of all jobs
        return error
    return None
