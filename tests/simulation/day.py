"""A day of fifty consumers under virtual time: what the disk holds, and how long a start takes.

Ten groups, half of their members static; each member commits its twenty partitions every five
seconds, which makes ten requests a second. Now and then one leaves, or is gone without a word, and
comes back. Heartbeats are rarer than those of real clients: they cost no byte. The cleaner has its
real settings; segments are smaller than by default, because a start reads the segment that takes
appends, and after one hour those of 100 MiB would be nearly empty.

    python -m tests.simulation.day [HOURS [SEGMENT_MIB]]

Each hour is a row. Starts are those of a copy of the disk, as `kill -9` leaves it: the CPU seconds
of the real code, from the locks to the last active partition.
"""

import asyncio
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console
from rich.progress import track
from rich.table import Table

from groupkeeper.observe import logs
from groupkeeper.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from groupkeeper.server.server import Server
from groupkeeper.storage.log.limits import Limits
from groupkeeper.storage.log.log import Log
from tests.simulation.clerk import Clerk
from tests.simulation.cluster import ADDRESS, START_OF_TIME_MS, Machine
from tests.simulation.consumer import TOPIC, Consumer, Wire
from tests.simulation.ledger import Ledger
from tests.simulation.seeds import errors_only
from tests.support.fake_files import CountingFiles
from tests.support.virtual_loop import VirtualLoop

HOUR_S: Final = 3600
LOOK_S: Final = 300
"""How often the disk is looked at."""
MIB: Final = 1 << 20
PARTITIONS_EACH: Final = 20
COMMIT_S: Final = 5.0
"""auto.commit.interval.ms of Kafka's consumer."""
SESSION_MS: Final = 45_000
MEMBERS: Final = (2, 3, 4, 4, 5, 5, 6, 6, 7, 8)
"""Of each group."""
RECORD_BYTES: Final = 7
"""What a record takes beside its key and its value."""
FACTOR: Final = 3
"""Closed segments take at most so many times the live data."""
JOURNALS: Final = 2
"""At most: one that is written, and one that waits until the logs in it are synced. Each is filled
with zeros a MiB ahead."""
STARTS: Final = 3
"""A start is tried so often; the fastest counts, since other programs slow it down."""
SLOWER: Final = 1.25
"""How much longer a start may take for the same number of bytes: what a busy machine adds."""


class Member(Consumer):
    """A consumer that commits more often than it beats."""

    async def _session(self) -> None:
        self.dial()
        beats_at = 0.0
        await asyncio.sleep(self.loop.random.uniform(0, COMMIT_S))
        while not self.is_fenced:
            if self.generation < 0 and not await self._join():
                await asyncio.sleep(0.05)
                continue
            await asyncio.sleep(COMMIT_S)
            if self.loop.time() >= beats_at:
                beats_at = self.loop.time() + self.session_ms / 3_000
                await self._beat()
            if self.generation >= 0:
                await self._commit()


@dataclass(frozen=True)
class Look:
    """The disk at one moment, in bytes."""

    live: int
    """The newest record of each key."""
    closed: int
    """Closed segments, compacted or not, and all small files."""
    fresh: int
    """Segments that were closed since the cleaner has last looked, and are not compacted yet."""
    active: int
    """The segments that take appends."""
    journals: int
    archive: int

    @property
    def logs(self) -> int:
        return self.closed + self.fresh + self.active


@dataclass(frozen=True)
class Start:
    """A start after a kill. Sizes are in bytes."""

    seconds: float
    """CPU time."""
    read: int
    stored: int
    """In logs and journals."""


class Day:
    """A machine and its consumers, for as many hours as are asked for."""

    def __init__(
        self,
        seed: int,
        segment_bytes: int,
        members: tuple[int, ...] = MEMBERS,
        journal_bytes: int = Limits().journal_bytes,
    ) -> None:
        self.loop = VirtualLoop(seed)
        self._settings = [f"offsets.topic.segment.bytes={segment_bytes}"]
        self._journal_bytes = journal_bytes
        self.machine = self._machine(self.loop)
        self.machine.disk.trace = deque(maxlen=0)  # type: ignore[assignment]  # it would fill the memory
        self.machine.created = self._created
        self.segment_bytes = segment_bytes
        self.ledger = Ledger(self.machine.settings.offsets_topic_num_partitions, Limits())
        self.answers = 0
        self.looks: list[Look] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.consumers: dict[str, Consumer] = {}
        self._members = members

    def _machine(self, loop: VirtualLoop) -> Machine:
        machine = Machine(loop, lambda line: None, *self._settings)
        machine.journal_bytes = self._journal_bytes
        return machine

    # -- the script ----------------------------------------------------------------------------

    def begin(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self._begin())

    async def _begin(self) -> None:
        await self.machine.start()
        wire = Wire("admin")
        self.loop.dial(ADDRESS, wire)
        most = PARTITIONS_EACH * max(self._members)
        topic = CreatableTopic(name=TOPIC, num_partitions=most, replication_factor=1)
        reply = await wire.call(5, CreateTopicsRequest(topics=[topic], timeout_ms=1000))
        assert reply.topics[0].error_code == 0
        for group, count in enumerate(self._members):
            for number in range(count):
                self._join(f"group-{group}", number)
        clerk = Clerk(self.loop, ADDRESS, self._heard, pause_s=(60.0, 120.0))
        self.tasks["clerk"] = self.loop.create_task(clerk.run())
        self.tasks["churn"] = self.loop.create_task(self._churn())

    def _join(self, group_id: str, number: int) -> None:
        name = f"{group_id}-member-{number}"
        consumer = Member(
            self.loop,
            ADDRESS,
            name,
            instance_id=name if number % 2 else None,
            group_id=group_id,
            partitions=PARTITIONS_EACH * self._members[int(group_id.rpartition("-")[2])],
            session_ms=SESSION_MS,
        )
        consumer.heard = self._heard
        self.consumers[name] = consumer
        self.tasks[name] = self.loop.create_task(consumer.run())

    async def _churn(self) -> None:
        """Every ten minutes a member goes, politely or not, and comes back."""
        while True:
            await asyncio.sleep(self.loop.random.uniform(300, 900))
            name = self.loop.random.choice(sorted(self.consumers))
            consumer = self.consumers[name]
            self.tasks[name].cancel()
            wire = consumer.wire
            if wire is not None and wire.transport is not None:
                if consumer.instance_id is None and self.loop.random.random() < 0.5:
                    await consumer.leave()
                wire.transport.close()
            await asyncio.sleep(self.loop.random.uniform(5, 60))
            self._join(consumer.group_id, int(name.rpartition("-")[2]))

    def hours(self, count: int) -> Iterator[Look]:
        """Let hours pass; the disk at the end of each."""
        for _ in range(count):
            for _ in range(HOUR_S // LOOK_S):
                self.loop.run_until_complete(asyncio.sleep(LOOK_S))
                self.looks.append(self.look())
            for task in self.tasks.values():
                if task.done() and not task.cancelled():
                    task.result()
            yield self.looks[-1]

    def end(self) -> None:
        _close(self.loop)

    def _created(self, server: Server) -> None:
        self.ledger.watch(server)

    def _heard(self) -> None:
        self.answers += 1

    # -- what is measured ----------------------------------------------------------------------

    def look(self) -> Look:
        server, disk = self.machine.server, self.machine.disk
        assert server is not None
        sizes: Counter[str] = Counter()
        for path, size in disk.files():
            folder = path.split("/")[1]
            sizes["logs" if folder.startswith("__consumer_offsets") else folder] += size
        opened = [log for shard in range(50) if (log := server.logs.log_of(shard)) is not None]
        fresh = sum(self._fresh(log) for log in opened)
        active = sum(log.size - sum(each.size for each, _ in log.finished) for log in opened)
        return Look(
            live=self.ledger.live_bytes(RECORD_BYTES),
            closed=sizes["logs"] - fresh - active,
            fresh=fresh,
            active=active,
            journals=sizes["journals"],
            archive=sizes["archive"],
        )

    def _fresh(self, log: Log) -> int:
        """Bytes that the cleaner could not have compacted yet: it looks every backoff."""
        now_ms = START_OF_TIME_MS + int(self.loop.time() * 1000)
        since = now_ms - 2 * self.machine.settings.log_cleaner_backoff_ms
        return sum(
            segment.size
            for segment, end in log.finished
            if end > log.first_dirty and segment.index.max_timestamp >= since
        )

    def is_small(self, look: Look) -> bool:
        """What must hold of the disk at any time."""
        journals = JOURNALS * (self._journal_bytes + MIB)
        return look.closed <= FACTOR * look.live and look.journals <= journals

    def start(self) -> Start:
        """The fastest of a few starts on a copy of the disk, as `kill -9` leaves it."""
        return min((self._start() for _ in range(STARTS)), key=lambda start: start.seconds)

    def _start(self) -> Start:
        loop = VirtualLoop()
        loop.idle.now = self.loop.time()
        asyncio.set_event_loop(loop)
        machine = self._machine(loop)
        machine.make_files = CountingFiles
        machine.disk = self.machine.disk.copy()
        began = time.process_time()
        loop.run_until_complete(machine.start())
        server = machine.server
        assert server is not None
        while any(each.state != "active" for each in server.group_partitions.snapshots()):
            loop.run_until_complete(asyncio.sleep(0.001))
        took = time.process_time() - began
        assert isinstance(machine.files, CountingFiles)
        machine.kill()
        _close(loop)
        asyncio.set_event_loop(self.loop)
        look = self.looks[-1]
        return Start(took, machine.files.bytes_read, look.logs + look.journals)


def _close(loop: VirtualLoop) -> None:
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(_ended(tasks))
    asyncio.set_event_loop(None)
    loop.close()


async def _ended(tasks: set["asyncio.Task[Any]"]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


def is_no_longer(first: Start, last: Start) -> bool:
    """Whether the last start took no longer than the first one, byte for byte: the segments that
    take appends are not equally full at all times.
    """
    return last.seconds <= SLOWER * first.seconds * max(1.0, last.stored / first.stored)


def main(arguments: list[str]) -> int:
    """A day; 0 if the disk stayed small and starts fast."""
    hours, segment_mib = (int(each) for each in [*arguments, *["24", "4"][len(arguments) :]])
    logs.keep_lines(errors_only)
    day = Day(1, segment_mib * MIB)
    day.begin()
    table = Table("hour", "requests", "live", "closed", "fresh", "active", "journals", "archive")
    starts: list[Start] = []
    for hour, look in enumerate(track(day.hours(hours), "Simulated hours", hours), 1):
        row = [look.live, look.closed, look.fresh, look.active, look.journals, look.archive]
        table.add_row(f"{hour}", f"{day.answers:,}", *(f"{each / MIB:,.2f}" for each in row))
        if hour in (1, hours):
            starts.append(day.start())
    day.end()
    console = Console()
    console.print(table, "in MiB but for hours and requests", sep="\n")
    worst = max(day.looks, key=lambda look: look.closed / look.live)
    console.print(
        f"closed segments: at most {worst.closed / worst.live:.2f} times the live data, in "
        f"{len(day.looks)} looks; at most {FACTOR} allowed"
    )
    for when, start in zip(
        ("the first hour", f"hour {hours}"), (starts[0], starts[-1]), strict=True
    ):
        console.print(
            f"start from kill -9 after {when}: {start.seconds:.3f} CPU s; {start.read / MIB:.1f} "
            f"MiB read of {start.stored / MIB:.1f} in logs and journals"
        )
    good = all(day.is_small(look) for look in day.looks) and is_no_longer(starts[0], starts[-1])
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
