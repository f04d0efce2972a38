"""One life of a test broker's server: a thread with an event loop, from its start until it ends in
good order, or is killed.
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
"""How long tasks may take to end when the server is killed."""

ITERATIONS: Final = 4
"""Of the loop at its end: a socket is accepted, made a connection, lost and closed in one each."""
_LIVES: Final = WeakSet["RunningServer"]()
"""Of this process, for its forks."""
LOAD_S: Final = 10.0
"""How long a start waits for the groups in the log; if it is damaged, they never come."""

_log = Logger("testing")


class RunningServer:
    """A server on a thread of its own."""

    def __init__(self, bench: Host) -> None:
        self._bench = bench
        self.files = KillableFiles(bench.files, lambda: bench.disk_full)
        self._executors: list[ThreadPoolExecutor] = []
        self._asking = threading.RLock()  # a handler of signals may call, too
        """Held while work is handed to the loop, and when that is over."""
        self._asked: dict[Future[Any], None] = {}
        """What other threads wait for."""
        self._is_over = self._is_broken = False
        self.has_died = False
        """By `die`, whether its thread has ended or not."""
        self._is_elsewhere = False
        """This process is a fork of the one that the server runs in."""
        _LIVES.add(self)

    def start(self) -> None:
        """Returns when it serves. Raises what the server raises."""
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
        except BaseException as error:  # noqa: BLE001  # to be raised where it was started
            self._end()
            died = "a fault rule has crashed the broker while it started: restart() starts it again"
            ready.set_exception(BrokerDown(died) if self.has_died else error)
            return
        ready.set_result(None)
        loop.run_forever()
        self._end()

    async def _start(self) -> None:
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

    # Any: asyncio's.
    def _failed(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A callback has raised, or a task was not awaited."""
        if not self._is_over:
            error = context.get("exception")
            _log.error(context.get("message", "callback failed"), exc_info=error)

    def _end(self) -> None:
        """End what is left on the loop: after a kill that is nearly everything."""
        self._is_over = True
        loop = self.loop
        self._iterate()  # what is being accepted is a connection now
        if hasattr(self, "server") and hasattr(self.server, "listener"):
            self.server.listener.stop()
            self._abort_connections()
        self._end_tasks()
        loop.run_until_complete(loop.shutdown_asyncgens())
        for executor in self._executors:
            executor.shutdown(cancel_futures=True)
        if hasattr(self, "server"):  # else it could not be made
            self.server.topics.worker.close()
        self.files.kill()
        asyncio.set_event_loop(None)
        with self._asking:
            self._end_tasks()  # what the executors and other threads have begun meanwhile
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
        """Let go of sockets and files, in a process that was forked from the server's: else they
        would stay open when the server ends or crashes.
        """
        self._is_elsewhere = True
        self._asking = threading.RLock()  # who held it is not in this process
        self.files.kill()
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in self._sockets():
            os.dup2(nothing, descriptor, inheritable=False)  # objects refer to it by its number
        os.close(nothing)

    def _sockets(self) -> list[int]:
        if self._is_over or not hasattr(self, "server") or not hasattr(self.server, "listener"):
            return []
        return self.server.listener.descriptors

    # -- for other threads ---------------------------------------------------------------------

    def later(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Run a coroutine on the loop; cancelled when the server ends before. Raises BrokerDown."""
        if self._is_elsewhere:
            work.close()
            raise BrokerDown("the broker runs in the process that started it, not in its forks")
        with self._asking:
            if self.loop.is_closed():
                work.close()
                raise BrokerDown("the broker has ended: restart() starts it")
            # Not in the context of the caller, whose lines go elsewhere.
            asked = self._context.copy().run(asyncio.run_coroutine_threadsafe, work, self.loop)
            self._asked[asked] = None
        asked.add_done_callback(lambda done: self._asked.pop(done, None))
        return asked

    def soon(self, callback: Callable[[], None]) -> None:
        """Call it on the loop soon; never if the server has ended."""
        with self._asking:
            if not self._is_elsewhere and not self.loop.is_closed():
                self.loop.call_soon_threadsafe(callback, context=self._context)

    def call(self, function: Callable[[], T]) -> T:
        """Call a function on the loop, and wait for what it returns or raises. Raises BrokerDown
        also if the server ends before.
        """

        async def run() -> T:
            return function()

        return self.result(run())

    def result(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop, and wait for what it returns or raises; see `call`."""
        try:
            return self.later(work).result()
        except CancelledError:
            raise BrokerDown("the broker ended before it answered") from None

    def stop(self) -> None:
        """End in good order: what was acknowledged, and what is under way, is written."""
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
        """End at once: nothing more is written or answered, and connections break."""
        self.files.kill()
        self.soon(self._break)
        self._thread.join()

    def die(self) -> None:
        """As `kill`, from a callback on its loop; does not wait."""
        self.has_died = True
        self.files.kill()
        self.loop.call_soon(self._break)

    def forsake(self) -> bool:
        """As `die`, from wherever the collector of garbage runs: it takes no lock and waits for
        nothing. False if there is nothing to end.
        """
        if self._is_elsewhere or self._is_over:
            return False
        try:
            self.loop.call_soon_threadsafe(self.die, context=self._context)
        except RuntimeError:  # the loop was closed meanwhile
            return False
        return True

    def _break(self) -> None:
        if self._is_broken:
            return
        self._is_broken = True
        self.server.readers.flush()  # of what was answered
        self.server.listener.pause()
        self._abort_connections()
        # The sockets are closed in the next iteration.
        self.loop.call_soon(self.loop.stop)

    def _abort_connections(self) -> None:
        connections = self.server.listener.connections
        for connection in [*connections.opened, *connections.orphans]:
            connection.abort()


def blocks_a_loop() -> bool:
    """Whether the caller is a coroutine: while it waits, its event loop stands still."""
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
