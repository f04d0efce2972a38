"""Several jobs that wait for the disk, done at the same time where the caller has threads for that.

The syncs of different files wait for the disk together: file systems put them into one transaction,
and disks into one flush.
"""

from collections.abc import Callable, Sequence

Job = Callable[[], None]
AtOnce = Callable[[Sequence[Job]], list[Exception | None]]
"""Runs all jobs, in any order, and returns when all have ended: for each, what it raised."""


def one_after_another(jobs: Sequence[Job]) -> list[Exception | None]:
    """An `AtOnce` on the calling thread alone."""
    return [raised(job) for job in jobs]


def raised(job: Job) -> Exception | None:
    """Run a job; returns what it raised."""
    try:
        job()
    except Exception as error:  # noqa: BLE001  # the caller of all jobs tells those that it expects
        return error
    return None
