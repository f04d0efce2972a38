"""An observer beside a server, both in memory and under virtual time.

observed = Observed(Served())
settle(observed.served.client(), "billing")
observed.caught_up()
observed.web.found("groups", "billing", "why")
"""

import asyncio
from pathlib import Path
from typing import Any, Final, cast

from groupkeeper.client import CallFailed, Client
from groupkeeper.observe.exposition import Exposition
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.group_events import Event, decode
from groupkeeper.protocol.message import Message
from groupkeeper.protocol.record_batch import decode_records, iter_batches
from groupkeeper.storage.log.log import Log
from groupkeeper.topics.names import GROUP_TOPIC
from groupkeeper.topics.topics import TopicsWorld
from groupkeeper.watch.observer import Observer
from groupkeeper.watch.options import ObserveOptions, ObserverWorld
from groupkeeper.watch.topic import look
from tests.simulation.cluster import VirtualClock
from tests.support.fake_files import FakeDisk, FakeFiles
from tests.support.served import Served
from tests.support.slices import whole
from tests.support.virtual_loop import VirtualExecutor
from tests.support.web import Web
from tests.watch.clocks import SteppedClock

VERSIONS: Final = {
    "DescribeGroupsRequest": 5,
    "FetchRequest": 12,
    "ListGroupsRequest": 4,
    "ListOffsetsRequest": 7,
    "MetadataRequest": 12,
}


class ServedCluster:
    """A server as the cluster of a client. Each call has a connection of its own."""

    timeout_s = 5.0
    nodes = (0,)

    def __init__(self, served: Served) -> None:
        self._served = served
        self.is_down = False
        self.calls: list[tuple[float, str]] = []
        """Time and API of all requests."""

    @property
    def asked(self) -> set[str]:
        """APIs that were used."""
        return {api for _, api in self.calls}

    def apart(self) -> "ServedCluster":
        return self

    async def call_in_slices(self, request: Message, *, node: int | None = None) -> Any:
        return await self.call(request, node=node)

    async def call(self, request: Message, *, node: int | None = None) -> Any:
        api = type(request).__name__
        self.calls.append((asyncio.get_running_loop().time(), api))
        if self.is_down:
            await asyncio.sleep(0.001)
            raise CallFailed(api, node, ErrorCode.BROKER_NOT_AVAILABLE)
        client = self._served.client()
        try:
            client.send(VERSIONS[api], request)
            while not client.frames:  # noqa: ASYNC110  # frames of a pipe in memory
                await asyncio.sleep(0.0005)
            return client._exchange.response(client.frames.pop(0))
        finally:
            client.hang_up()


class Observed:
    """The observer of a server. `start` begins another process on the same disk."""

    def __init__(self, served: Served, *, ask: bool = True) -> None:
        self.served = served
        self.ask = ask
        self.cluster = ServedCluster(served)
        self.disk = FakeDisk()
        self.start()

    def start(self) -> None:
        self.run(self._start())

    async def _start(self) -> None:
        loop, disk = self.served.loop, self.disk
        self.files = FakeFiles(disk)
        client = cast("Client", self.cluster)
        seen = await look(client, GROUP_TOPIC)
        worker: Any = VirtualExecutor(loop)
        topics = TopicsWorld(files=self.files, worker=worker, wall_ms=VirtualClock(loop).wall)
        world = ObserverWorld(
            files=self.files,
            clock=SteppedClock,
            executor=lambda: VirtualExecutor(loop),
            topics=topics,
        )
        options = ObserveOptions("cluster:9092", Path("data"), ask=self.ask)
        self.server = Observer(client, seen, "cluster", options, world)
        await self.server.start()
        self._running = asyncio.create_task(self.server.run())
        self.web = Web(self)

    def run(self, work: Any) -> Any:
        return self.served.run(work)

    def stop(self) -> None:
        """As SIGTERM."""
        self.run(self._ended())
        self.run(self.server.stop())

    def kill(self) -> None:
        """kill -9."""
        self.run(self._ended())
        self.files.kill()
        self.disk.revive()

    async def _ended(self) -> None:
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)

    def caught_up(self) -> None:
        """Wait until all that the server has written was read."""
        self.run(self.served.server._writer.drain())
        self.served.advance(1)
        logs = self.served.server.logs.by_partition
        ends = [0 if each.log is None else each.log.next_offset for each in logs]
        self.served.until(
            lambda: [self.server.position(number) for number in range(len(ends))] == ends
        )
        self.served.until(lambda: self.server.groups.is_ready)

    def metrics(self) -> str:
        """The page that Prometheus reads."""
        exposition = Exposition(self.server.metrics)
        return b"".join(whole(exposition.page(self.run(exposition.look())))).decode()

    def inferred(self) -> list[Event]:
        """All events of the observer, by partition."""
        store = self.server.watch_store
        return _events(store.log_of(number) for number in range(len(self.server.folds)))

    def told(self) -> list[Event]:
        """All events of the server, by partition."""
        self.served.advance(1)
        return _events(each.log for each in self.served.server.event_logs.by_partition)


def _events(logs: Any) -> list[Event]:
    found: list[Event] = []
    log: Log | None
    for log in logs:
        for chunk in [] if log is None else log.batches(log.start_offset):
            for header in iter_batches(chunk):
                records = decode_records(chunk, header)
                found += [decode(each.key, each.value or b"") for each in records]
    return found
