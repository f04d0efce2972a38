"""Threads for the syncs of a stop: syncs of different files wait for the disk concurrently."""

from collections import deque
from collections.abc import Sequence
from threading import Thread
from typing import Final

from groupkeeper.storage.files.at_once import Job, raised

AT_ONCE: Final = 64
"""Maximum threads of one call. They wait for the disk, and need hardly any memory."""


class SyncThreads:
    """An `AtOnce`. Several threads may call it at the same time, and others read `left`."""

    def __init__(self) -> None:
        self._calls: list[tuple[int, list[None]]] = []
        """Number of jobs of each call, and an item for each that has ended."""

    @property
    def left(self) -> int:
        """Number of jobs of all calls that have not ended."""
        return sum(count - len(ended) for count, ended in list(self._calls))

    def __call__(self, jobs: Sequence[Job]) -> list[Exception | None]:
        """Run jobs on the calling thread, and on as many others as the system permits. These are
        daemons: a sync that never ends does not keep the process alive.
        """
        # The error of a job that ends its thread, as SystemExit would.
        errors: list[Exception | None] = [RuntimeError("did not come to its end") for _ in jobs]
        waiting, ended = deque(enumerate(jobs)), list[None]()

        def work() -> None:
            while True:
                try:
                    at, job = waiting.popleft()
                except IndexError:
                    return
                errors[at] = raised(job)
                ended.append(None)

        call = len(jobs), ended
        self._calls.append(call)
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
        self._calls.remove(call)
        return errors
