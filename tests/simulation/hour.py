"""A scripted hour of an eight-member group: crashes on every side, invariants all along.

Run as a program it prints the trace and its digest, so that two processes can be compared:

    python -m tests.simulation.hour SEED
"""

import asyncio
import hashlib
import sys
from collections.abc import Coroutine
from typing import Any

from groupkeeper.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.simulation.cluster import ADDRESS, Machine
from tests.simulation.consumer import PARTITIONS, TOPIC, Consumer, Wire
from tests.support.accounts import check_accounts
from tests.support.virtual_loop import VirtualLoop

HOUR_S = 3600.0


class Hour:
    """The machine, its eight consumers, and what must hold of them."""

    def __init__(self, seed: int) -> None:
        self.loop = VirtualLoop(seed)
        self.trace: list[str] = []
        self.machine = Machine(self.loop, self.trace.append, "offsets.topic.num.partitions=3")
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.consumers: dict[str, Consumer] = {}
        self.owners: dict[tuple[int, int], str] = {}
        self.highest: dict[str, int] = {}
        self.crashes = 0
        self.checks = 0

    def run(self) -> str:
        """The whole hour; returns the digest of the trace."""
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(self._hour())
        finally:
            asyncio.set_event_loop(None)
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()

    # -- the script ----------------------------------------------------------------------------

    async def _hour(self) -> None:
        await self.machine.start()
        await self._create_topic()
        for number in range(8):
            self._join(f"c{number}")
        self.tasks["accounts"] = self.loop.create_task(self._keep_accounts())
        while self.loop.time() < HOUR_S:
            await asyncio.sleep(self.loop.random.uniform(20, 90))
            await self._mishap()
        await asyncio.sleep(120)
        self._check_settled()
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)

    async def _create_topic(self) -> None:
        wire = Wire("admin")
        self.loop.dial(ADDRESS, wire)
        topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
        reply = await wire.call(5, CreateTopicsRequest(topics=[topic], timeout_ms=1000))
        assert reply.topics[0].error_code == 0

    def _join(self, name: str) -> None:
        """A process starts: even numbers are static members."""
        instance = f"instance-{name}" if int(name[1:]) % 2 == 0 else None
        consumer = Consumer(self.loop, ADDRESS, name, instance, synced=self._synced)
        old = self.consumers.get(name)
        if old is not None:
            consumer.acknowledged = old.acknowledged
        self.consumers[name] = consumer
        self.tasks[name] = self.loop.create_task(consumer.run())

    async def _mishap(self) -> None:
        random = self.loop.random
        what = random.choice(["die", "die", "leave", "kill", "power", "nothing"])
        name = f"c{random.randrange(8)}"
        self.trace.append(f"{self.loop.time():12.4f} --- {what} {name}")
        if what == "kill":
            await self._outage(self.machine.kill)
        elif what == "power":
            mode = random.choice(["lose", "tear", "keep"])
            await self._outage(lambda: self.machine.cut_power(mode))
        elif what == "die":
            await self._end(name, polite=False)
        elif what == "leave":
            await self._end(name, polite=True)

    async def _outage(self, crash: Any) -> None:
        crash()
        self.crashes += 1
        await asyncio.sleep(self.loop.random.uniform(0.1, 6))
        await self.machine.start()
        await self._check_offsets()

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

    # -- what must hold ------------------------------------------------------------------------

    async def _keep_accounts(self) -> None:
        """Every second: no request is lost between its connection and where it waits."""
        while True:
            await asyncio.sleep(1)
            server = self.machine.server
            if server is not None:
                check_accounts(server)
                self.checks += 1

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

    async def _check_offsets(self) -> None:
        """Whatever was acknowledged is there, after every crash."""
        reader = Consumer(self.loop, ADDRESS, "reader", wire=Wire("reader"))
        assert reader.wire is not None
        self.loop.dial(ADDRESS, reader.wire)
        promised: dict[int, int] = {}
        for consumer in self.consumers.values():
            for partition, offset in consumer.acknowledged.items():
                promised[partition] = max(offset, promised.get(partition, 0))
        found = await _until_it_works(reader.fetch)
        for partition, offset in promised.items():
            assert found.get(partition, -1) >= offset, (partition, offset, found.get(partition))
        self.trace.append(f"{self.loop.time():12.4f} offsets {sorted(found.items())}")

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


async def _until_it_works(work: Any) -> Any:
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
