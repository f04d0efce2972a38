"""Threads for the work of logins that takes milliseconds: deriving keys, verifying tokens, imports.

Two, so that logins cannot take all processors; what waits for them is bounded.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import copy_context
from functools import partial
from typing import Final, TypeVar

from groupkeeper.access.sasl import SaslFailed

T = TypeVar("T")

THREADS: Final = 2
WAITING_MOST: Final = 1_000
"""Jobs that may wait; further logins fail."""


class LoginThreads:
    """Runs jobs of logins, in turn on each thread. A thread starts with its first job."""

    def __init__(self, executor: Callable[[str], Executor]) -> None:
        """`executor` makes one with a single thread of this name."""
        self._make = executor
        self._executors: list[Executor] = []
        self._jobs = self._waiting = 0

    async def __call__(self, job: Callable[[], T]) -> T:
        """Return a job's result. Raises its exceptions, and SaslFailed if too many jobs wait."""
        if self._waiting >= WAITING_MOST:
            raise SaslFailed(f"more than {WAITING_MOST} logins wait for a thread")
        if len(self._executors) < THREADS:
            self._executors.append(self._make(f"login-{len(self._executors) + 1}"))
        self._jobs += 1
        executor = self._executors[self._jobs % len(self._executors)]
        self._waiting += 1
        try:
            in_context = partial(copy_context().run, job)
            return await asyncio.get_running_loop().run_in_executor(executor, in_context)
        finally:
            self._waiting -= 1

    async def close(self) -> None:
        """Drop the jobs that wait, and let the threads end."""
        for each in self._executors:
            each.shutdown(wait=False, cancel_futures=True)
