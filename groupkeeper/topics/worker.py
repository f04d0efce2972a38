"""Where the data plane does what may take long: one thread beside the event loop, one job at a
time.

Not a pool: that jobs run one after another is what makes opening, creating and deleting logs safe
without locks. Nothing that a message waits for in the ordinary case goes through here.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from groupkeeper.exchange import ReplyTo, Response
from groupkeeper.turns import Turns

T = TypeVar("T")


class Worker(Protocol):
    """Runs a blocking job and gives its result; jobs run strictly in the order they came."""

    def __call__(self, job: Callable[[], T]) -> Awaitable[T]: ...

    def close(self) -> None: ...


class WorkerThread:
    """The real thing: a single thread, started by the first job."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "groupkeeper-topics")

    def __call__(self, job: Callable[[], T]) -> Awaitable[T]:
        return asyncio.get_running_loop().run_in_executor(self._executor, job)

    def close(self) -> None:
        """Wait for the job under way; jobs not begun are dropped."""
        self._executor.shutdown(wait=True, cancel_futures=True)


class ResponseTasks:
    """The answers under way: each is a task that ends with exactly one ``reply_to.answer``."""

    def __init__(self, failed: Callable[[str, BaseException], None], turns: Turns) -> None:
        self._failed = failed
        self.turns = turns
        """Where such a task does in slices what may be long."""
        # Any: what a task returns is nobody's business here.
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(
        self,
        work: Coroutine[
            Any, Any, Response
        ],  # Any: a coroutine's yield and send types are asyncio's
        reply_to: ReplyTo,
        if_broken: Callable[[], Response],
    ) -> None:
        """Answer with what `work` returns, or with `if_broken()` when it raises."""
        task = asyncio.get_running_loop().create_task(self._answer(work, reply_to, if_broken))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(
        self,
        work: Coroutine[Any, Any, Response],
        reply_to: ReplyTo,
        if_broken: Callable[[], Response],
    ) -> None:
        try:
            response = await work
        except Exception as error:  # noqa: BLE001  # a request ends here, and must be answered
            self._failed("request", error)
            response = if_broken()
        if response is not None:
            reply_to.answer(response)

    async def finish(self) -> None:
        """Wait until all of them are answered (the answers themselves must not need waiting)."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
