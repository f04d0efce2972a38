"""One thread beside the event loop for blocking work on topics, and responses that wait for it.

Not a pool: jobs run one at a time, so opening, creating and deleting logs needs no locks. Ordinary
requests do not wait for the worker.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from groupkeeper.exchange import ReplyTo, Response
from groupkeeper.turns import Turns

T = TypeVar("T")

Task = Coroutine[Any, Any, Response]
"""Any: what a coroutine yields and is sent is asyncio's."""


class WorkerThread:
    """A single thread, started by the first job. Jobs run strictly in the order of the calls."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "groupkeeper-topics")

    def __call__(self, job: Callable[[], T]) -> Awaitable[T]:
        """Run a job in the caller's context, so that log lines have the same destination."""
        in_context = partial(copy_context().run, job)
        return asyncio.get_running_loop().run_in_executor(self._executor, in_context)

    def close(self) -> None:
        """Wait for the running job; drop the others."""
        self._executor.shutdown(wait=True, cancel_futures=True)


class ResponseTasks:
    """Responses after their handler has returned: tasks that end with one `answer` each."""

    def __init__(self, failed: Callable[[str, BaseException], None], turns: Turns) -> None:
        self._failed = failed
        self.turns = turns
        """Runs the slices of such tasks."""
        # Any: results are not used.
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Task, reply_to: ReplyTo, if_failed: Callable[[], Response]) -> None:
        """Answer with the result of `work`, or with `if_failed()` if it raises."""
        task = asyncio.get_running_loop().create_task(self._answer(work, reply_to, if_failed))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(
        self, work: Task, reply_to: ReplyTo, if_failed: Callable[[], Response]
    ) -> None:
        try:
            response = await work
        except Exception as error:  # noqa: BLE001  # a request ends here, and must be answered
            self._failed("request", error)
            response = if_failed()
        if response is not None:
            reply_to.answer(response)

    async def finish(self) -> None:
        """Wait until all of them are answered."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
