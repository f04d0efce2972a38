"""A scripted hour of an eight-member group and a clerk: crashes on every side, also in the middle
of compactions, swaps, starts and writes; invariants all along.

Segments are small and time is short, so that an hour holds what takes a server weeks: logs roll by
size and by age, are compacted over and over, and their archive is emptied.

Run as a program it prints the trace and its digest, so that two processes can be compared:

    python -m tests.simulation.hour SEED
"""

import asyncio
import errno
import hashlib
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any
from unittest.mock import patch

from groupkeeper.protocol.placement import partition_of
from groupkeeper.server.server import Server
from groupkeeper.storage.log.limits import Limits
from tests.simulation import reserved
from tests.simulation.backup import Backup
from tests.simulation.clerk import Clerk
from tests.simulation.cluster import ADDRESS, START_OF_TIME_MS, Machine
from tests.simulation.consumer import PARTITIONS, TOPIC, Consumer, Wire
from tests.simulation.event_ledger import EventLedger
from tests.simulation.ledger import Ledger, check_archive
from tests.simulation.producer import CONFIGS, EVENTS, Producer
from tests.simulation.reserved import Reserved
from tests.simulation.tally import STARTED, Tally
from tests.support.accounts import check_accounts
from tests.support.fake_files import Crash
from tests.support.requests import create_request
from tests.support.virtual_loop import VirtualLoop

HOUR_S = 3600.0
LOGS = 3
BUSY = partition_of("billing", LOGS)
SEGMENT_BYTES = 16_000
SEGMENT_MS = 200_000
JOURNAL_BYTES = 100_000
AHEAD_BYTES = 16_384
LIMITS = Limits(segment_bytes=SEGMENT_BYTES, segment_ms=SEGMENT_MS, journal_bytes=JOURNAL_BYTES)
TOMBSTONES_MS = 240_000
LONGEST_TOMBSTONE_MS = TOMBSTONES_MS + SEGMENT_MS + 90_000
"""They wait for their segment to roll, and for two compactions, of which a crash puts off some; in
the log of the members, which is compacted every minute.
"""
FACTOR = 3
"""Closed segments take at most so many times the live data, when they are compacted."""
FRESH_BYTES = 6 * SEGMENT_BYTES
"""What the cleaner has not seen yet, or has not finished for crashes, and tombstones."""
SETTINGS = {
    "offsets.topic.num.partitions": LOGS,
    "offsets.topic.segment.bytes": SEGMENT_BYTES,
    "offsets.raw.retention.ms": 900_000,
    "log.roll.ms": SEGMENT_MS,
    "log.segment.bytes": 3_000,
    "log.cleaner.backoff.ms": 3_000,
    "log.cleaner.delete.retention.ms": TOMBSTONES_MS,
    "log.retention.check.interval.ms": 30_000,
}
STEPS = 50
"""So many answers are between two comparisons of the log with what is known."""
POWER_CUTS = ("lose", "tear", "keep", "names", "spoil")
TORN = ("tear", "spoil")
CRASHES = ("kill", *POWER_CUTS)
LONGEST_BACKUP_S = 1.0
"""A crash in the middle comes sooner."""
SOON_S = 120.0
"""How long a crash that was prepared may take to happen."""
MISHAPS = (
    *["die", "die", "leave", "kill", "power", "nothing"] * 2,
    *["crash in a compaction", "crash in a swap", "crash in a start", "crash in a write"] * 2,
    "crash in a swap",
    *["fault in a compaction", "fault in a swap", "backup", "crash in a backup"],
)
"""Come in a random order, each as often as it stands here, and then again."""
EVERY_HOUR = (
    "rolled by size",
    "rolled by age",
    "swap",
    "swap of a topic",
    "swap completed by a start",
    "unfinished compaction removed",
    "archived",
    "removed from the archive",
    "segments in the archive",
    "journal begun",
    "records deleted by retention",
    "records of a topic compacted away",
    "comparison",
    "backup",
    *(what for what in MISHAPS if "in a" in what),
)
"""What must have happened in each."""
CALLS = {"compaction": 12, "swap": 25, "start": 60, "write": 6}
"""About how many calls change the disk meanwhile."""


class Hour:
    """The machine, its eight consumers, and what must hold of them."""

    def __init__(self, seed: int) -> None:
        self.loop = VirtualLoop(seed)
        self.loop.set_exception_handler(self._unhandled)
        self.trace: list[str] = []
        self.reserves = seed % 3 == 0
        """Partitions of lost members are reserved."""
        self.mishaps = (*MISHAPS, *(reserved.MISHAPS if self.reserves else ()))
        more = reserved.SETTINGS if self.reserves else {}
        settings = (f"{key}={value}" for key, value in {**SETTINGS, **more}.items())
        self.machine = Machine(self.loop, self.trace.append, *settings)
        self.machine.journal_bytes = JOURNAL_BYTES
        self.machine.created = self._created
        self.machine.died = self._died
        self.ledger = Ledger(LOGS, LIMITS)
        self.event_ledger = EventLedger()
        self.reserved = Reserved()
        self.rounds = 0
        """Rebalances whose events were stored."""
        self.happened: Counter[str] = Counter()
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.consumers: dict[str, Consumer] = {}
        self.clerk = Clerk(self.loop, ADDRESS, self._step)
        self.producer = Producer(self.loop)
        self.owners: dict[tuple[int, int], str] = {}
        self.highest: dict[str, int] = {}
        self.crashes = 0
        self.checks = 0
        self._answers = 0
        self._crashed = asyncio.Event()
        self._bugs: list[BaseException] = []

    def run(self) -> str:
        """The whole hour; returns the digest of the trace."""
        asyncio.set_event_loop(self.loop)
        try:
            with patch("groupkeeper.storage.journal.journal.AHEAD_BYTES", AHEAD_BYTES):
                self.loop.run_until_complete(self._hour())
        finally:
            asyncio.set_event_loop(None)
        tally = Tally(SEGMENT_BYTES)
        tally.read(self.machine.disk.trace)
        self.happened += tally.counts
        self.happened["records deleted by retention"] = self.producer.starts[EVENTS]
        self.happened["records of a topic compacted away"] = self.producer.compacted_away
        self.happened["records of topics lost in power cuts"] = self.producer.lost
        if self.reserves:
            self.happened.update(self.reserved.counts)
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()

    # -- the script ----------------------------------------------------------------------------

    async def _hour(self) -> None:
        await self._start()
        await self._create_topic()
        for number in range(8):
            self._join(f"c{number}")
        self.tasks["clerk"] = self.loop.create_task(self.clerk.run())
        self.tasks["producer"] = self.loop.create_task(self.producer.run())
        self.tasks["accounts"] = self.loop.create_task(self._keep_accounts())
        mishaps: list[str] = []
        while self.loop.time() < HOUR_S:
            if not mishaps:
                mishaps = self.loop.random.sample(self.mishaps, len(self.mishaps))
            await asyncio.sleep(self.loop.random.uniform(20, 70))
            await self._mishap(mishaps.pop())
            self._check_tasks()
        await asyncio.sleep(120)
        self._check_settled()
        self._check_tasks()
        assert self.machine.server is not None
        self.rounds = self.event_ledger.check(self.machine.server)
        self.machine.kill()
        self._settle()
        tasks = asyncio.all_tasks(self.loop) - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _create_topic(self) -> None:
        wire = Wire("admin")
        self.loop.dial(ADDRESS, wire)
        reply = await wire.call(5, create_request(TOPIC, partitions=PARTITIONS))
        assert reply.topics[0].error_code == 0

    def _join(self, name: str) -> None:
        """A process starts: even numbers are static members."""
        instance = f"instance-{name}" if int(name[1:]) % 2 == 0 else None
        consumer = Consumer(self.loop, ADDRESS, name, instance)
        consumer.synced = self._synced
        consumer.committed = self._committed
        consumer.newest = lambda: max(self.highest.values(), default=-1)
        consumer.heard = self._step
        old = self.consumers.get(name)
        if old is not None:
            consumer.acknowledged = old.acknowledged
        self.consumers[name] = consumer
        self.tasks[name] = self.loop.create_task(consumer.run())

    async def _mishap(self, what: str) -> None:
        random = self.loop.random
        name = f"c{random.randrange(8)}"
        self.trace.append(f"{self.loop.time():12.4f} --- {what} {name}")
        if what == "kill":
            await self._outage("kill")
        elif what == "power":
            await self._outage(random.choice(POWER_CUTS))
        elif what in ("die", "leave"):
            await self._end(name, polite=what == "leave")
        elif what == "freeze":
            self.consumers[name].freeze_s = random.uniform(1, reserved.LONGEST_FREEZE_S)
        elif what == "backup":
            await self._back_up()
        elif what == "crash in a backup":
            await self._back_up(crash=random.choice(CRASHES))
        elif what.startswith("crash in"):
            await self._crash_in(what.rpartition(" ")[2])
        elif what.startswith("fault in"):
            await self._fault_in(what.rpartition(" ")[2])

    def _settle(self) -> None:
        """What is on the disk, looked at while no process runs."""
        disk = self.machine.disk
        logs = self.ledger.settle(disk)
        now = START_OF_TIME_MS + int(self.loop.time() * 1000)
        closed = sum(segment.size for log in logs for segment, _ in log.finished)
        assert closed <= FACTOR * self.ledger.live_bytes() + FRESH_BYTES, "the disk fills"
        self.ledger.check_tombstones(logs, now - TOMBSTONES_MS)
        oldest = self.ledger.oldest_tombstone(logs[BUSY])
        assert oldest is None or oldest > now - LONGEST_TOMBSTONE_MS, "a tombstone is kept for good"
        self.happened["segments in the archive"] = check_archive(disk, logs)

    async def _end(self, name: str, *, polite: bool) -> None:
        """A consumer's process ends, and comes back after a while."""
        consumer = self.consumers[name]
        self.tasks[name].cancel()
        if polite and consumer.wire is not None:
            await _quietly(consumer.leave())
        if consumer.wire is not None and consumer.wire.transport is not None:
            consumer.wire.transport.close()
        await asyncio.sleep(self.loop.random.uniform(1, 25))
        self._join(name)

    # -- crashes -------------------------------------------------------------------------------

    async def _outage(self, how: str, *, calls: int = 0) -> None:
        """The process ends, unless it has already, and another one starts; that one dies after so
        many calls, too, if any are given.
        """
        machine = self.machine
        if machine.server is not None:
            machine.kill()
        if how != "kill":
            if how in TORN:
                # Of a topic, whose messages are in no journal, the server would refuse the rest.
                for topic in CONFIGS:
                    machine.disk.write_back_files(f"data/{topic}-0")
            machine.disk.power_cut(how, self.loop.random.randrange(1 << 30))
            self.producer.power_cut()
        self.crashes += 1
        self._crashed.clear()
        self._settle()
        await asyncio.sleep(self.loop.random.uniform(0.1, 6))
        if calls:
            machine.crash_in(calls)
        await self._start()

    async def _start(self) -> None:
        machine = self.machine
        machine.disk.trace.append(STARTED)
        try:
            await machine.start()
        except Crash:
            self._crashed.set()
            return
        server = machine.server
        if server is not None:
            server.failed.add_done_callback(lambda _: self._gave_up(server))

    def _gave_up(self, server: Server) -> None:
        """A sync has failed: the process ends by itself."""
        if self.machine.server is server:
            self.machine.kill()
            self._crashed.set()

    async def _crash_in(self, job: str) -> None:
        """The process dies in the middle of a job: the power fails, or somebody kills it."""
        random, machine = self.loop.random, self.machine
        calls, how = random.randint(1, CALLS[job]), random.choice(CRASHES)
        if job == "start":
            await self._outage(random.choice(CRASHES), calls=calls)
        elif job == "write":
            machine.crash_in(calls)
        else:
            self._when(job, lambda: machine.crash_in(calls))
        if await self._dies():
            last = machine.disk.trace[-1]
            self.trace.append(f"{self.loop.time():12.4f} died in: {last}")
            self.happened[f"crash in a {job}"] += 1
            await self._outage(how)
        await self._check_offsets()

    async def _fault_in(self, job: str) -> None:
        """The disk refuses one call. If it is a sync that matters, the process ends."""
        calls, disk = self.loop.random.randint(1, CALLS[job] // 2), self.machine.disk
        error = OSError(errno.EIO, "Input/output error")

        def fail() -> None:
            disk.failures[disk.calls + calls] = error

        self._when(job, fail)
        ended = await self._dies()
        self.happened[f"fault in a {job}"] += sum(call <= disk.calls for call in disk.failures)
        disk.failures.clear()
        if ended:
            await self._outage(self.loop.random.choice(CRASHES))
        await self._check_offsets()

    async def _back_up(self, crash: str = "") -> None:
        """Take a backup, perhaps with a crash in the middle; what it has is what was once so."""
        disk, random = self.machine.disk, self.loop.random
        backup = Backup(self.loop, disk)
        self.ledger.remember()
        taken = self.loop.create_task(backup.run())
        if crash:
            await asyncio.sleep(random.uniform(0, LONGEST_BACKUP_S))
            self.happened["crash in a backup"] += not taken.done()
            if crash != "kill":
                backup.cut_power()
            await self._outage(crash)
        if await taken:
            copy = backup.restored(random.choice(POWER_CUTS), random.getrandbits(30))
            self.ledger.check_backup(copy, self.ledger.forget())
            self.happened["backup"] += 1
        self.ledger.forget()

    def _when(self, job: str, then: Callable[[], None]) -> None:
        """Do something once, when a compaction begins, or a swap, which follows a compaction."""
        machine = self.machine

        def once() -> None:
            machine.compacting = machine.compacted = lambda: None
            then()

        machine.compacting = once if job == "compaction" else lambda: None
        machine.compacted = once if job == "swap" else lambda: None

    async def _dies(self) -> bool:
        """Wait for a crash that was prepared; whether it came."""
        try:
            async with asyncio.timeout(SOON_S):
                await self._crashed.wait()
        except TimeoutError:
            self._when("", lambda: None)
            self.machine.disk.crash_at = None
            return False
        return True

    def _created(self, server: Server) -> None:
        self.ledger.watch(server)
        self.event_ledger.watch(server)
        self.reserved.watch(server)

    def _died(self) -> None:
        self._crashed.set()

    def _unhandled(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None and not isinstance(error, Crash):
            self._bugs.append(error)

    # -- what must hold ------------------------------------------------------------------------

    def _step(self) -> None:
        """An answer came: now and then, the log is compared with what is known."""
        self._answers += 1
        server = self.machine.server
        if self._answers % STEPS or server is None:
            return
        how = CRASHES[self._answers // STEPS % len(CRASHES)]
        self.ledger.check(self.machine.disk, how, seed=self._answers)
        self.ledger.check_live(server)
        self.happened["comparison"] += 1

    async def _keep_accounts(self) -> None:
        """Every second: no request is lost between its connection and where it waits."""
        while True:
            await asyncio.sleep(1)
            server = self.machine.server
            ends = self.machine.disk.dead  # in this call of the disk: what it answers is lost
            if server is not None and not ends and not server.topics.response_tasks._tasks:
                check_accounts(server)
                self.checks += 1

    def _check_tasks(self) -> None:
        """Nothing that runs beside the script has failed."""
        for bug in self._bugs:
            raise bug
        for task in self.tasks.values():
            if task.done() and not task.cancelled():
                task.result()

    def _synced(self, consumer: Consumer) -> None:
        """No generation goes back, and no partition has two owners in one generation."""
        self.trace.append(
            f"{self.loop.time():12.4f} {consumer.name} {consumer.member_id} "
            f"generation {consumer.generation} owns {consumer.assignment}"
        )
        assert consumer.generation >= self.highest.get(consumer.name, 0)
        self.highest[consumer.name] = consumer.generation
        for partition in consumer.assignment:
            owner = self.owners.setdefault((consumer.generation, partition), consumer.name)
            assert owner == consumer.name, (consumer.generation, partition, owner, consumer.name)

    def _committed(self, consumer: Consumer, generation: int, places: set[int]) -> None:
        """A commit was accepted: nobody else had been told before that the partition is its own."""
        for partition in places:
            owner = self.owners.get((generation, partition), consumer.name)
            assert owner == consumer.name, (generation, partition, owner, consumer.name)

    async def _check_offsets(self) -> None:
        """Whatever was acknowledged is there, after every crash."""
        promised: dict[int, int] = {}
        for consumer in self.consumers.values():
            for partition, offset in consumer.acknowledged.items():
                promised[partition] = max(offset, promised.get(partition, 0))
        found = await _until_it_works(self._fetch)
        for partition, offset in promised.items():
            assert found.get(partition, -1) >= offset, (partition, offset, found.get(partition))
        self.trace.append(f"{self.loop.time():12.4f} offsets {sorted(found.items())}")

    async def _fetch(self) -> dict[int, int]:
        reader = Consumer(self.loop, ADDRESS, "reader")
        reader.dial()
        return await reader.fetch()

    def _check_settled(self) -> None:
        """In the end everybody is in one generation, and every partition has one owner."""
        generations = {consumer.generation for consumer in self.consumers.values()}
        assert len(generations) == 1, generations
        owned = sorted(p for consumer in self.consumers.values() for p in consumer.assignment)
        assert owned == list(range(PARTITIONS)), owned


async def _quietly(work: Coroutine[Any, Any, Any]) -> None:
    try:
        async with asyncio.timeout(5):
            await work
    except (ConnectionError, TimeoutError):
        pass


async def _until_it_works(work: Callable[[], Awaitable[Any]]) -> Any:
    while True:
        try:
            return await work()
        except ConnectionError:
            await asyncio.sleep(0.05)


if __name__ == "__main__":
    hour = Hour(int(sys.argv[1]))
    digest = hour.run()
    print("\n".join(hour.trace))
    print(digest)
