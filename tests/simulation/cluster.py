"""A machine with one server on it, under virtual time: start, kill, cut the power, start again."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from groupkeeper.clock import Clock
from groupkeeper.coordinator.facts import GroupsLoaded, NotedFact
from groupkeeper.observe.fact_readers import Origin
from groupkeeper.server.retention_lines import RetentionLines
from groupkeeper.server.server import Server, World
from groupkeeper.settings.options import Listen, ServeOptions
from groupkeeper.settings.table import load
from groupkeeper.storage.compaction.compaction import Compacted, CompactionJob, compact
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.log.limits import Limits
from groupkeeper.topics.partitions import Failed
from groupkeeper.topics.topics import TopicsWorld
from tests.support.fake_files import Crash, FakeDisk, FakeFiles
from tests.support.virtual_loop import VirtualExecutor, VirtualLoop

START_OF_TIME_MS = 1_700_000_000_000
_LIMITS = "groupkeeper.topics.log_policy.Limits"
ADDRESS = ("127.0.0.1", 9092)


class VirtualClock(Clock):
    """Wall time is virtual, too."""

    def wall(self) -> int:
        return START_OF_TIME_MS + self.now()


class CleanerThread(VirtualExecutor):
    """Its jobs are done when they begin, and whoever waits hears of it up to two seconds later: the
    log has moved on meanwhile.
    """

    LATER_S = (0.001, 2.0)

    def _perform(self, job: Callable[[], Any], future: "asyncio.Future[Any]") -> None:
        later = self._loop.random.uniform(*self.LATER_S)

        def tell(what: Callable[[Any], None], result: Any) -> None:
            if self.alive and not future.cancelled():
                what(result)

        done, failed = (
            partial(self._loop.call_later, later, tell, what)
            for what in (future.set_result, future.set_exception)
        )
        if self.alive:
            self._do(job, done, failed)


class Machine:
    """A disk and, most of the time, a server that uses it."""

    def __init__(self, loop: VirtualLoop, trace: Callable[[str], None], *assignments: str) -> None:
        self.loop = loop
        self.disk = FakeDisk()
        self.disk.wall_ms = lambda: START_OF_TIME_MS + int(loop.time() * 1000)
        self.settings, _ = load(assignments=assignments)
        self._trace = trace
        self._ids = 0
        self.topics_failed: Failed = lambda where, error: None
        self.topics_told: Callable[[str], None] = lambda what: None
        self.data_dir = Path("data")
        self.listeners = (Listen(bind=ADDRESS),)
        self.make_files = FakeFiles
        """Makes what a process sees of the disk."""
        self.journal_bytes = Limits().journal_bytes
        """When a journal is full, which is no setting."""
        self.created: Callable[[Server], None] = lambda server: None
        """Told about every server before it starts."""
        self.compacting: Callable[[], None] = lambda: None
        self.compacted: Callable[[], None] = lambda: None
        """Told when a compaction begins, and when its files are complete."""
        self.died: Callable[[], None] | None = None
        """Told when the process has died by itself, see `crash_in`."""
        self.server: Server | None = None

    async def start(self) -> None:
        """A new process on the same disk. Raises Crash if it dies before it serves."""
        self.files = self.make_files(self.disk)
        self.executors = {
            name: VirtualExecutor(self.loop)
            for name in ("writer", "loader", "topics", "login-1", "login-2")
        }
        self.executors["cleaner"] = CleanerThread(self.loop)
        for executor in self.executors.values():
            executor.died = self.died and self._died
        world = World(
            files=self.files,
            clock=VirtualClock,
            new_member_id=self._new_member_id,
            executor=self.executors.__getitem__,
            compact=partial(self._compact, self.files),
            topics=TopicsWorld(
                files=self.files,
                worker=self.executors["topics"],  # type: ignore[arg-type]  # the same calls as a WorkerThread
                wall_ms=self.disk.wall_ms,
                random_bytes=self.loop.random.randbytes,
                failed=self.topics_failed,
                repaired=self.topics_told,
                retention=RetentionLines(),
            ),
        )
        options = ServeOptions(self.data_dir, self.listeners, http=None, settings=self.settings)
        try:
            with patch(_LIMITS, partial(Limits, journal_bytes=self.journal_bytes)):
                self.server = Server(options, world)
            self.server.readers.subscribe("trace", self._note)
            self.created(self.server)
            await self.server.start()
        except Crash:
            self.kill()
            raise

    def kill(self) -> None:
        """kill -9: sockets break, locks are freed, nothing is finished."""
        server, self.server = self.server, None
        for executor in self.executors.values():
            executor.alive = False
        self.files.kill()
        if self.disk.dead:
            self.disk.revive()
        listener = self.loop.listeners.get(ADDRESS)
        if listener is not None:
            listener.close()
        if server is not None:
            server.topics.retention.stop()
        for part in ("listener", "_watch", "group_partitions"):
            if hasattr(server, part):  # else it died before that was made
                getattr(server, part).stop()
        for pipe in listener.pipes if listener is not None else ():
            pipe.close()

    def cut_power(self, mode: str) -> None:
        """As kill, and the disk forgets what was not synced."""
        self.kill()
        self.disk.power_cut(mode, self.loop.random.randrange(1 << 30))

    def crash_in(self, calls: int) -> None:
        """Let the process die in the middle of one of the next calls that change the disk."""
        self.disk.crash_at = self.disk.calls + calls

    def _died(self) -> None:
        self.kill()
        assert self.died is not None
        self.died()

    def _compact(self, files: Files, job: CompactionJob) -> Compacted:
        self.compacting()
        compacted = compact(files, job)
        self.compacted()
        return compacted

    def _new_member_id(self, prefix: str) -> str:
        self._ids += 1
        return f"{prefix}-{self._ids:08d}"

    def _note(self, _: Origin, noted: NotedFact) -> None:
        if self.server is not None and not isinstance(noted.fact, GroupsLoaded):
            self._trace(f"{self.loop.time():12.4f} {noted.fact!r}")
