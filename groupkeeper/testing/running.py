"""Runs the server of a test broker on a thread with its own event loop, until it is stopped or
killed.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, Final, TypeVar
from weakref import WeakSet

from groupkeeper.observe.logs import Logger, keep_lines
from groupkeeper.server.server import Server, World
from groupkeeper.storage.compaction.compaction import compact
from groupkeeper.testing.errors import BrokerDown
from groupkeeper.testing.files import KillableFiles
from groupkeeper.testing.host import Host
from groupkeeper.testing.time.clock import MovableClock

T = TypeVar("T")

END_S: Final = 5.0
"""Maximum time for cancelled tasks to end when the server ends."""

ITERATIONS: Final = 4
"""Loop iterations at the end: one each to accept a socket, make a connection, lose and close it."""
_LIVES: Final = WeakSet["RunningServer"]()
"""All servers of this process, for `_forked`."""
LOAD_S: Final = 10.0
"""Maximum time that a start waits for groups to load; with a damaged log they never do."""

_log = Logger("testing")


class RunningServer:
    """One server, on its own thread."""

    def __init__(self, bench: Host) -> None:
        self._bench = bench
        self.files = KillableFiles(bench.files, lambda: bench.disk_full)
        self._executors: list[ThreadPoolExecutor] = []
        self._asking = threading.RLock()  # reentrant: a signal handler may call, too
        """Held while work is submitted to the loop, and while the loop is closed."""
        self._asked: dict[Future[Any], None] = {}
        """Futures that other threads are waiting for."""
        self._is_over = self._is_broken = False
        self.has_died = False
        """Whether `die` was called; the thread may still be running."""
        self._is_elsewhere = False
        """Whether this process is a fork of the server's process."""
        _LIVES.add(self)

    def start(self) -> None:
        """Start, and wait until the server serves. Raises the errors of `Server.start`."""
        ready: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(ready,), name="groupkeeper", daemon=True
        )
        self._thread.start()
        ready.result()

    # -- on the thread -------------------------------------------------------------------------

    def _run(self, ready: "Future[None]") -> None:
        keep_lines(self._bench.keep)
        self._context = copy_context()
        try:
            self.loop = loop = asyncio.SelectorEventLoop()
        except OSError as error:  # no file descriptor is left
            ready.set_exception(error)
            return
        loop.set_exception_handler(self._failed)
        asyncio.set_event_loop(loop)
        try:
            self.server = self._make()
            self._bench.created(self.server)
            loop.run_until_complete(self._start())
        except BaseException as error:  # noqa: BLE001  # raised again by `start`
            self._end()
            died = "a fault rule crashed the broker during its start: restart() starts it again"
            ready.set_exception(BrokerDown(died) if self.has_died else error)
            return
        ready.set_result(None)
        loop.run_forever()
        self._end()

    async def _start(self) -> None:
        await self._bench.prepare(self.server)
        await self.server.start()
        await self.server.group_partitions.loaded(LOAD_S)

    def _make(self) -> Server:
        bench, files = self._bench, self.files
        world = World(
            files=files,
            clock=partial(MovableClock, source=bench.time),
            executor=self._executor,
            compact=partial(compact, files),
            wall_ms=bench.time.wall,
            cluster_id=bench.cluster_id,
            around=bench.tap.around,
        )
        return Server(bench.options(), world)

    def _executor(self, name: str) -> Executor:
        made = ThreadPoolExecutor(1, name, initializer=keep_lines, initargs=(self._bench.keep,))
        self._executors.append(made)
        return made

    # Any: the context of asyncio's exception handlers.
    def _failed(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log an exception of a callback or of a task that was never awaited."""
        if not self._is_over:
            error = context.get("exception")
            _log.error(context.get("message", "callback failed"), exc_info=error)

    def _end(self) -> None:
        """Close what is still open on the loop; after a kill, that is nearly everything."""
        self._is_over = True
        loop = self.loop
        self._iterate()  # let pending accepts become connections
        if hasattr(self, "server") and hasattr(self.server, "listener"):
            self.server.listener.stop()
            self._abort_connections()
        self._end_tasks()
        loop.run_until_complete(loop.shutdown_asyncgens())
        for executor in self._executors:
            executor.shutdown(cancel_futures=True)
        if hasattr(self, "server"):  # else creating it failed
            self.server.topics.worker.close()
        self.files.kill()
        asyncio.set_event_loop(None)
        with self._asking:
            self._end_tasks()  # tasks started by executors and other threads in the meantime
            loop.close()
        for asked in list(self._asked):
            asked.cancel()

    def _end_tasks(self) -> None:
        for _ in range(ITERATIONS):
            self._iterate()
            tasks = asyncio.all_tasks(self.loop)
            if not tasks:
                return
            for task in tasks:
                task.cancel()
            self.loop.run_until_complete(asyncio.wait(tasks, timeout=END_S))

    def _iterate(self) -> None:
        for _ in range(ITERATIONS):
            self.loop.run_until_complete(asyncio.sleep(0))

    def forked(self) -> None:
        """Close sockets and files in a forked child process; otherwise they would stay open after
        the server stops or crashes.
        """
        self._is_elsewhere = True
        self._asking = threading.RLock()  # its holder does not exist in this process
        self.files.kill()
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in self._sockets():
            os.dup2(nothing, descriptor, inheritable=False)  # objects keep the number
        os.close(nothing)

    def _sockets(self) -> list[int]:
        if self._is_over or not hasattr(self, "server") or not hasattr(self.server, "listener"):
            return []
        return self.server.listener.descriptors

    # -- for other threads ---------------------------------------------------------------------

    def later(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Submit a coroutine; cancelled if the server ends first. Raises BrokerDown."""
        if self._is_elsewhere:
            work.close()
            raise BrokerDown("the broker runs in the process that started it, not in its forks")
        with self._asking:
            if self.loop.is_closed():
                work.close()
                raise BrokerDown("the broker has ended: restart() starts it")
            # Not in the caller's context, whose log lines go elsewhere.
            asked = self._context.copy().run(asyncio.run_coroutine_threadsafe, work, self.loop)
            self._asked[asked] = None
        asked.add_done_callback(lambda done: self._asked.pop(done, None))
        return asked

    def soon(self, callback: Callable[[], None]) -> None:
        """Schedule a callback on the loop; does nothing if the server has ended."""
        with self._asking:
            if not self._is_elsewhere and not self.loop.is_closed():
                self.loop.call_soon_threadsafe(callback, context=self._context)

    def call(self, function: Callable[[], T]) -> T:
        """Call a function on the loop and return its result. Raises its exceptions, and BrokerDown
        if the server has ended or ends first.
        """

        async def run() -> T:
            return function()

        return self.result(run())

    def result(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and return its result; see `call`."""
        try:
            return self.later(work).result()
        except CancelledError:
            raise BrokerDown("the broker ended before it responded") from None

    def stop(self) -> None:
        """Shut down cleanly: acknowledged and pending writes are completed."""
        if self._is_elsewhere:
            return
        try:
            self.later(self.server.stop()).result()
        except (CancelledError, BrokerDown):
            if not self.has_died:
                raise
        else:
            self.soon(self.loop.stop)
        self._thread.join()

    def kill(self) -> None:
        """End immediately: nothing more is written or sent, and connections are aborted."""
        self.files.kill()
        self.soon(self._break)
        self._thread.join()

    def die(self) -> None:
        """Like `kill`, but from a callback on the server's loop, and without waiting."""
        self.has_died = True
        self.files.kill()
        self.loop.call_soon(self._break)

    def _break(self) -> None:
        if self._is_broken:
            return
        self._is_broken = True
        self.server.readers.flush()  # the facts behind responses that were sent
        self.server.listener.pause()
        self._abort_connections()
        # The sockets are closed in the next iteration.
        self.loop.call_soon(self.loop.stop)

    def _abort_connections(self) -> None:
        connections = self.server.listener.connections
        for connection in [*connections.opened, *connections.orphans]:
            connection.abort()


def blocks_a_loop() -> bool:
    """Whether the caller runs in an event loop, which it would block by waiting."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _forked() -> None:
    for life in list(_LIVES):
        life.forked()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no forks
    os.register_at_fork(after_in_child=_forked)
