"""Threads for the syncs of a stop: syncs of different files wait for the disk concurrently."""

from collections import deque
from collections.abc import Sequence
from threading import Thread
from typing import Final

from groupkeeper.storage.files.at_once import Job, raised

AT_ONCE: Final = 64
"""Maximum threads of one call. They wait for the disk, and need hardly any memory."""


def sync_threads(jobs: Sequence[Job]) -> list[Exception | None]:
    """Run jobs on the calling thread, and on as many others as the system permits: an `AtOnce`.
    The others are daemons: a sync that never ends does not keep the process alive.
    """
    # The error of a job that ends its thread, as SystemExit would.
    errors: list[Exception | None] = [RuntimeError("did not come to its end") for _ in jobs]
    waiting = deque(enumerate(jobs))

    def work() -> None:
        while True:
            try:
                at, job = waiting.popleft()
            except IndexError:
                return
            errors[at] = raised(job)

    threads = []
    for _ in range(min(len(jobs), AT_ONCE) - 1):
        thread = Thread(target=work, name="sync", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no more threads can be started: fewer do it
            break
        threads.append(thread)
    work()
    for thread in threads:
        thread.join()
    return errors
