"""A machine with one server on it, under virtual time: start, kill, cut the power, start again."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from groupkeeper.clock import Clock
from groupkeeper.coordinator.facts import GroupsLoaded, NotedFact
from groupkeeper.observe.fact_readers import Origin
from groupkeeper.server.server import Server, World
from groupkeeper.settings.options import ServeOptions
from groupkeeper.settings.table import load
from groupkeeper.storage.compaction import compact
from groupkeeper.topics.partitions import Failed
from groupkeeper.topics.topics import TopicsWorld
from tests.support.fake_files import FakeDisk, FakeFiles
from tests.support.virtual_loop import VirtualExecutor, VirtualLoop

START_OF_TIME_MS = 1_700_000_000_000
ADDRESS = ("127.0.0.1", 9092)


class VirtualClock(Clock):
    """Wall time is virtual, too."""

    def wall(self) -> int:
        return START_OF_TIME_MS + self.now()


class Machine:
    """A disk and, most of the time, a server that uses it."""

    def __init__(self, loop: VirtualLoop, trace: Callable[[str], None], *assignments: str) -> None:
        self.loop = loop
        self.disk = FakeDisk()
        self.settings, _ = load(assignments=assignments)
        self._trace = trace
        self._ids = 0
        self.topics_failed: Failed = lambda where, error: None
        self.topics_told: Callable[[str], None] = lambda what: None
        self.server: Server | None = None

    async def start(self) -> None:
        """A new process on the same disk."""
        self.files = FakeFiles(self.disk)
        writer, loader, worker, cleaner = self.executors = [
            VirtualExecutor(self.loop) for _ in range(4)
        ]
        world = World(
            files=self.files,
            clock=VirtualClock,
            new_member_id=self._new_member_id,
            executor={"writer": writer, "loader": loader, "cleaner": cleaner}.__getitem__,
            compact=partial(compact, self.files),
            topics=TopicsWorld(
                files=self.files,
                worker=worker,  # type: ignore[arg-type]  # the same calls as a WorkerThread
                wall_ms=lambda: START_OF_TIME_MS,
                random_bytes=self.loop.random.randbytes,
                failed=self.topics_failed,
                repaired=self.topics_told,
            ),
        )
        options = ServeOptions(Path("data"), ADDRESS, http=None, settings=self.settings)
        self.server = Server(options, world)
        self.server.readers.subscribe("trace", self._note)
        await self.server.start()

    def kill(self) -> None:
        """kill -9: sockets break, locks are freed, nothing is finished."""
        server, self.server = self.server, None
        assert server is not None
        listener = self.loop.listeners[ADDRESS]
        listener.close()
        for executor in self.executors:
            executor.alive = False
        self.files.kill()
        server.listener.stop()
        server._watch.stop()
        server.group_partitions.stop()
        for pipe in listener.pipes:
            pipe.close()

    def cut_power(self, mode: str) -> None:
        """As kill, and the disk forgets what was not synced."""
        self.kill()
        self.disk.power_cut(mode, self.loop.random.randrange(1 << 30))

    def _new_member_id(self, prefix: str) -> str:
        self._ids += 1
        return f"{prefix}-{self._ids:08d}"

    def _note(self, _: Origin, noted: NotedFact) -> None:
        if self.server is not None and not isinstance(noted.fact, GroupsLoaded):
            self._trace(f"{self.loop.time():12.4f} {noted.fact!r}")
