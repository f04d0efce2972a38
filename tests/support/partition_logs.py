"""Every implementation of `PartitionLog`, under processes that start, fail and outbid each other.

A `Stores` is what outlives processes; `start` is a process on it, as a server uses it:

    process = stores.start()
    log = process.log(OFFSETS)
    hand = Hand(log)
    epoch = await log.claim(hand)
    assert await hand.append(b"value") == [b"value"]
"""

import asyncio
import errno
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from groupkeeper.clock import Clock
from groupkeeper.coordinator.gate import Unwritten
from groupkeeper.coordinator.step import size_of
from groupkeeper.groups.embedded_log import EmbeddedLog, EmbeddedLogs, LogServices
from groupkeeper.groups.loader import Loader
from groupkeeper.groups.partition_log import Author, LateRecords, LogBatch, LogOwner, PartitionLog
from groupkeeper.groups.writer import Writer
from groupkeeper.observe.metrics import AppendStats
from groupkeeper.protocol.timed_batch import TimedRecord
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.files.memory import MemoryFiles
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.store import Store
from tests.support.batches import values_of
from tests.support.fake_files import FakeDisk, FakeFiles
from tests.support.virtual_loop import VirtualExecutor, VirtualLoop

TOPIC = "__consumer_offsets"
OFFSETS = f"{TOPIC}-0"
EVENTS = "__group_events-0"
"""Another log, which an author writes beside the first."""


# -- who writes ------------------------------------------------------------------------------------


class Owner:
    """Owns one log, and keeps what it is told: the values of a batch, or the error."""

    def __init__(self) -> None:
        self.told: deque[Any] = deque()
        self._news = asyncio.Event()

    def written(self, unwritten: Unwritten) -> None:
        self._note([value for _, value in unwritten.records])

    def not_written(self, error: BaseException) -> None:
        self._note(error)

    def lost(self, error: BaseException) -> None:
        self._note(error)

    def _note(self, what: Any) -> None:
        self.told.append(what)
        self._news.set()

    async def outcome(self) -> Any:
        """The next thing that it is told."""
        while not self.told:
            self._news.clear()
            await self._news.wait()
        return self.told.popleft()


class Hand(Owner):
    """An author whose records are given to it by a test."""

    def __init__(self, log: PartitionLog) -> None:
        super().__init__()
        self.log = log
        self.to_write: deque[list[LogBatch]] = deque()
        self.asked = 0
        self._was_asked = asyncio.Event()

    def take(self) -> list[LogBatch]:
        self.asked += 1
        self._was_asked.set()
        return self.to_write.popleft() if self.to_write else []

    def give(self, *values: bytes, beside: tuple[LogBatch, ...] = ()) -> None:
        """Write soon, in one take."""
        self.give_batches(batch(self.log, self, *values), *beside)

    def give_batches(self, *batches: LogBatch) -> None:
        self.to_write.append([*batches])
        self.log.append_from(self)

    async def is_asked(self) -> None:
        """Wait until the log has asked for the first time."""
        await self._was_asked.wait()

    async def append(self, *values: bytes) -> Any:
        """Write, and return what it is told."""
        self.give(*values)
        return await self.outcome()

    async def read(self) -> list[bytes | None]:
        """The values of all records."""
        pieces: list[bytes] = []
        await self.log.read(pieces.append)
        return [value for piece in pieces for value in values_of(piece)]


class Through:
    """A log whose authors' batches are looked at, or added to, on their way to another one."""

    def __init__(
        self, log: PartitionLog, change: Callable[[Sequence[LogBatch]], Sequence[LogBatch]]
    ) -> None:
        self._log = log
        self._change = change
        self._authors: dict[Author, Author] = {}

    async def claim(self, owner: LogOwner) -> int:
        return await self._log.claim(owner)

    def claim_empty(self, owner: LogOwner) -> int | None:
        return self._log.claim_empty(owner)

    @property
    def is_new(self) -> bool:
        return self._log.is_new

    def claim_new(self, owner: LogOwner, epoch: int) -> None:
        self._log.claim_new(owner, epoch)

    async def claim_beside(self, owner: LogOwner, epoch: int) -> int:
        return await self._log.claim_beside(owner, epoch)

    async def read(self, take: Callable[[bytes], None]) -> None:
        await self._log.read(take)

    def append_from(self, author: Author) -> None:
        known = self._authors.setdefault(author, _ThroughAuthor(author, self._take))
        self._log.append_from(known)

    def _take(self, author: Author) -> Sequence[LogBatch]:
        batches = author.take()
        for each in batches:
            each.log = self._log
        return self._change(batches)

    async def release(self) -> None:
        await self._log.release()


class _ThroughAuthor:
    def __init__(self, author: Author, take: Callable[[Author], Sequence[LogBatch]]) -> None:
        self._author = author
        self._take = take
        self.written, self.not_written, self.lost = author.written, author.not_written, author.lost

    def take(self) -> Sequence[LogBatch]:
        return self._take(self._author)


def batch(log: PartitionLog, owner: LogOwner, *values: bytes) -> LogBatch:
    records: list[tuple[bytes, bytes | None]] = [(b"key", value) for value in values]
    return LogBatch(log, owner, Unwritten(records, 0, len(records), size_of(records), []))


class Late(LateRecords):
    """Batches of these values, made late; each record is a millisecond older than the one before
    it in its batch.
    """

    def __init__(self, batches: Sequence[Sequence[bytes]], *, fails: bool = False) -> None:
        super().__init__([], 0, 0, 100, [])
        self._batches = batches
        self._fails = fails

    def make(self) -> Sequence[Sequence[TimedRecord]]:
        if self._fails:
            raise RuntimeError("a bug")
        return [
            [TimedRecord(500 - at, b"key", value) for at, value in enumerate(values)]
            for values in self._batches
        ]


def beside(owner: Hand, belongs_to: LogBatch | None, value: bytes) -> LogBatch:
    """A batch of one value, made late, that belongs to another one."""
    return LogBatch(owner.log, owner, Late([[value]]), belongs_to)


# -- where it is written ---------------------------------------------------------------------------


class Process(ABC):
    """One process, and the faults that it can be given."""

    @abstractmethod
    def log(self, name: str) -> PartitionLog: ...

    @abstractmethod
    def refuse(self) -> None:
        """Nothing can be appended from now on."""

    @abstractmethod
    def refuse_one(self, name: str) -> None:
        """One log takes no appends from now on, perhaps after the next."""

    @abstractmethod
    def heal(self) -> None:
        """No faults any more."""

    @abstractmethod
    async def stop(self) -> None:
        """End in order."""

    @abstractmethod
    def kill(self) -> None:
        """End at once."""


class Stores(ABC):
    """What outlives processes."""

    @abstractmethod
    def start(self, *, takes_over: bool = False) -> Process:
        """A new process, of which none runs already, unless it takes the logs over from it."""


class Refusing(Files):
    """Has no room below some folders, and tells which files it has open."""

    full: tuple[str, ...] = ()

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.paths: dict[int, str] = {}

    def open(self, path: str, *, create: bool = False) -> int:
        handle = super().open(path, create=create)
        self.paths[handle] = path
        return handle

    def close(self, handle: int) -> None:
        super().close(handle)
        self.paths.pop(handle)

    def write(self, handle: int, data: bytes, position: int) -> None:
        if self.full and self.paths[handle].startswith(self.full):
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write(handle, data, position)


class RefusingDisk(Refusing, FakeFiles):
    """A process's view of a disk that forgets."""


class RefusingMemory(Refusing, MemoryFiles):
    """A file system in memory."""


class Embedded(Process):
    """As `Server` puts it together."""

    def __init__(self, files: Refusing, node: int) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.files = files
        self.store = Store(files, "data", node)
        self.writer_thread, self.loader_thread = (VirtualExecutor(loop) for _ in range(2))
        self._loader = Loader(self.loader_thread)
        self._writer = Writer(self.store, Clock(loop), self.writer_thread, AppendStats())
        services = LogServices(self._writer, self._loader, lambda *_: None, Limits())
        self.logs = EmbeddedLogs(services, TOPIC, [self.store.claim(0)])
        self._events = EmbeddedLog(services, 0, EVENTS)

    def log(self, name: str) -> EmbeddedLog:
        return self._events if name == EVENTS else self.logs.by_partition[0]

    def refuse(self) -> None:
        self.files.full = ("data/journals",)

    def refuse_one(self, name: str) -> None:
        self.files.full = (f"data/{name}",)

    def heal(self) -> None:
        self.files.full = ()

    async def stop(self) -> None:
        await self._writer.drain()
        self._writer.stop()
        await self._loader.close()
        await self._writer.call(self.store.close)

    def kill(self) -> None:
        self.writer_thread.alive = self.loader_thread.alive = False
        if isinstance(self.files, FakeFiles):
            self.files.kill()
        else:
            for handle in list(self.files.paths):
                self.files.close(handle)


class OnDisk(Stores):
    """The embedded store in files."""

    def __init__(self) -> None:
        self.disk = FakeDisk()
        self._started = 0

    def start(self, *, takes_over: bool = False) -> Embedded:
        if takes_over:
            self.disk.remove("data/leases/0")
        self._started += 1
        return Embedded(RefusingDisk(self.disk), self._started)


class InMemory(Stores):
    """The embedded store in memory: what would be its next process uses the same files."""

    def __init__(self) -> None:
        self.files = RefusingMemory()
        self._started = 0

    def start(self, *, takes_over: bool = False) -> Embedded:
        if takes_over:
            self.files.remove("data/leases/0")
        self._started += 1
        return Embedded(self.files, self._started)
