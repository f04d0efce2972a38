"""A whole server in memory, under virtual time, driven from a plain test function.

    served = Served()
    client = served.client()
    member_id, generation = settle(client)
    served.advance(9)
    assert client.beat(member_id, generation) == 0

`call` runs the loop until the answer is there; `send` does not wait, `take` collects later.
The verbs of a client are those of real ones; what they return is what a test asks for.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from groupkeeper.coordinator.group import Group
from groupkeeper.groups.driver import PartitionDriver
from groupkeeper.groups.embedded_log import EmbeddedLog
from groupkeeper.observe.http_exchange import HttpRequest
from groupkeeper.observe.pages import pages
from groupkeeper.protocol.message import Message
from groupkeeper.protocol.placement import partition_of
from groupkeeper.server.server import Server
from groupkeeper.settings.options import Address, Listen
from groupkeeper.storage.errors import LockLost
from groupkeeper.storage.log.log import Log
from tests.simulation.cluster import ADDRESS, Machine
from tests.support.accounts import check_accounts
from tests.support.requests import (
    Places,
    commit_request,
    create_request,
    fetch_request,
    heartbeat,
    join_request,
    leave_request,
    list_request,
    sync_request,
)
from tests.support.virtual_loop import QUICK_S, Pipe, VirtualLoop
from tests.support.wire import Exchange, Frames

FAST = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=100")

Lines = Callable[[], list[dict[str, Any]]]
"""What was logged so far, from info on."""
Serve = Callable[..., "Served"]
"""Start a server in memory; settings are `key=value`."""


class Client(asyncio.Protocol):
    """A raw connection: frames out, frames in."""

    def __init__(self, served: "Served", address: Address = ADDRESS) -> None:
        self._served = served
        self._cutter = Frames()
        self._exchange = Exchange()
        self.frames: list[bytes] = []
        self.closed = False
        self.pipe: Pipe = served.loop.dial(address, self)

    def data_received(self, data: bytes) -> None:
        self.frames += self._cutter.feed(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True

    # -- any request ---------------------------------------------------------------------------

    def frame(self, version: int, request: Message) -> bytes:
        """The bytes of a request, noted as sent."""
        return self._exchange.request(version, request)

    def send(self, version: int, request: Message) -> None:
        self.pipe.write(self.frame(version, request))

    def deliver(self, *frames: bytes) -> None:
        """Put frames before the server together: one readable event."""
        self._served.at_once({self: b"".join(frames)})

    def take(self) -> Any:
        """The next answer; runs the loop until it is there."""
        disk = self._served.disk
        self._served.until(lambda: bool(self.frames) or self.closed or disk.dead)
        assert self.frames, "the server hung up"
        return self._exchange.response(self.frames.pop(0))

    def call(self, version: int, request: Message) -> Any:
        self.send(version, request)
        return self.take()

    def hang_up(self) -> None:
        self.pipe.close()

    # -- what clients do -----------------------------------------------------------------------

    def join(self, group_id: str = "g", member_id: str = "", **fields: Any) -> Any:
        """JoinGroup in the version without the second step; with an instance id in the newest."""
        version = 9 if "group_instance_id" in fields else 3
        return self.call(version, join_request(group_id, member_id, **fields))

    def sync(self, member_id: str, generation: int, group_id: str = "g", **plan: bytes) -> Any:
        return self.call(5, sync_request(member_id, generation, group_id, plan))

    def beat(self, member_id: str, generation: int, group_id: str = "g", **more: Any) -> int:
        """The error code."""
        request = heartbeat(member_id, generation, group_id, **more)
        return int(self.call(4, request).error_code)

    def leave(self, *member_ids: str, group_id: str = "g") -> int:
        request = leave_request(*member_ids, group_id=group_id)
        return int(self.call(5, request).error_code)

    def commit(self, offset: int, group_id: str = "g", **member: Any) -> int:
        """Commit for partition 0 of `orders`; the error code."""
        self.pipe.write(self.commit_frame(offset, group_id, **member))
        return self.committed()

    def commit_frame(self, offset: int, group_id: str = "g", **member: Any) -> bytes:
        return self.frame(8, commit_request({("orders", 0): offset}, group_id, **member))

    def committed(self) -> int:
        """The error code of a commit sent before."""
        return int(self.take().topics[0].partitions[0].error_code)

    def fetched(self, group_id: str = "g") -> Places:
        """All committed offsets of a group."""
        [group] = self.call(8, fetch_request(group_id)).groups
        assert not group.error_code, group.error_code
        return {
            (topic.name, each.partition_index): each.committed_offset
            for topic in group.topics
            for each in topic.partitions
        }

    def span(self, topic: str) -> tuple[int, int]:
        """First and next offset of partition 0."""
        found = [
            self.call(7, list_request(topic, 0, timestamp)).topics[0].partitions[0]
            for timestamp in (-2, -1)
        ]
        assert not any(each.error_code for each in found)
        return found[0].offset, found[1].offset


class Served:
    """A server with two topics, `orders` and `payments`, of six partitions each."""

    def __init__(
        self,
        *assignments: str,
        seed: int = 0,
        capacity: int | None = None,
        start: bool = True,
        listeners: Sequence[Listen] = (),
    ) -> None:
        """Without `start` there is a disk only, to put something on before the first start.
        `listeners`: besides the plain one.
        """
        self.loop = VirtualLoop(seed, QUICK_S)
        asyncio.set_event_loop(self.loop)
        self.machine = Machine(self.loop, lambda line: None, *FAST, *assignments)
        self.machine.listeners += tuple(listeners)
        self.disk = self.machine.disk
        self.disk.capacity = capacity
        if start:
            self.start()
            self._make_topics()

    def _make_topics(self) -> None:
        self.client().call(4, create_request("orders", "payments", partitions=6))

    @property
    def server(self) -> Server:
        assert self.machine.server is not None
        return self.machine.server

    # -- time ----------------------------------------------------------------------------------

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    def until(self, done: Callable[[], bool], seconds: float = 60.0) -> None:
        """Let time pass until something is so."""
        began = self.loop.time()
        while not done():
            waited = self.loop.time() - began
            assert waited < seconds, "it did not happen"
            self.advance(0.0005 if waited < 1 else 0.05)

    def advance(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds))

    def at_once(self, *iterations: dict[Client, bytes]) -> None:
        """What arrives in the same iteration of the loop, and in those that follow; time does not
        pass.
        """

        async def turn() -> None:
            for frames in iterations:
                for client, data in frames.items():
                    assert client.pipe.peer is not None
                    client.pipe.peer.protocol.data_received(data)
                await asyncio.sleep(0)

        self.run(turn())

    # -- the process ---------------------------------------------------------------------------

    def client(self, address: Address = ADDRESS) -> Client:
        return Client(self, address)

    def restart(self, crash: Callable[[], None] | None = None, after: float = 0.0) -> None:
        """kill -9, or another crash, and a new process on the same disk some seconds later."""
        (crash or self.machine.kill)()
        self.advance(after)
        self.run(self.machine.start())

    def cut_power(self, mode: str = "lose") -> None:
        """As restart, and of what was not synced the disk keeps what `mode` says."""
        self.restart(lambda: self.machine.cut_power(mode))

    def stop(self) -> None:
        """As SIGTERM: everything is finished and synced, and the journal left empty."""
        self.run(self.server.stop())

    def start(self) -> None:
        self.run(self.machine.start())

    def settled(self) -> None:
        """Wait until every partition is active and all is written."""
        self.until(lambda: set(self.states()) == {"active"})
        self.run(self.server._writer.drain())

    def recover(self, power_cut: str = "") -> None:
        """kill -9, or a power cut in a mode of `cut_power`; a new process; all of it loaded."""
        if power_cut:
            self.cut_power(power_cut)
        else:
            self.restart()
        self.settled()

    def restart_cleanly(self) -> None:
        """SIGTERM, and a new process that has loaded everything."""
        self.stop()
        self.start()
        self.settled()

    def states(self) -> list[str]:
        """Of the partitions, by index."""
        return [each.state for each in self.server.group_partitions.snapshots()]

    def page(self, path: str) -> tuple[int, str]:
        """Status and body of a page of the HTTP port."""
        answer = self.run(pages(self.server.metrics)[path](HttpRequest("GET", path)))
        return answer.status, answer.body.decode()

    def driver(self, group_id: str) -> PartitionDriver:
        return self.server.group_partitions.of(group_id)

    def partition_log(self, group_id: str = "g") -> EmbeddedLog:
        """The log of the group's partition."""
        return self.server.logs.by_partition[self.driver(group_id).index]

    def log(self, group_id: str = "g") -> Log:
        """The same, as the storage knows it; open."""
        log = self.partition_log(group_id).log
        assert log is not None
        return log

    def fail(self, group_id: str = "g") -> None:
        """Let the group's partition fail: it closes, and is loaded again."""
        self.driver(group_id).lost(LockLost("the lock was removed"))

    def group(self, group_id: str = "g") -> Group:
        return self.driver(group_id)._partition.groups[group_id]

    def members(self, group_id: str = "g") -> int:
        """How many the group has; 0 when there is no such group."""
        groups = self.driver(group_id)._partition.groups
        return len(groups[group_id].members) if group_id in groups else 0

    def syncs(self) -> int:
        """How many times a journal was synced so far."""
        return sum(line.startswith("sync data/journals/") for line in self.disk.trace)

    def check_accounts(self) -> None:
        check_accounts(self.server)

    def close(self) -> None:
        asyncio.set_event_loop(self.loop)
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        self.run(_ended(tasks))
        asyncio.set_event_loop(None)
        self.loop.close()


async def _ended(tasks: set["asyncio.Task[Any]"]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


def settle(client: Client, group_id: str = "g", **fields: Any) -> tuple[str, int]:
    """Join a group alone and bring it to Stable; returns member id and generation."""
    joined = client.join(group_id, **fields)
    if joined.error_code == 79:  # the second step of a member that has no id yet
        joined = client.join(group_id, joined.member_id, **fields)
    assert joined.error_code == 0
    member_id, generation = joined.member_id, joined.generation_id
    synced = client.sync(member_id, generation, group_id, **{member_id: b"plan"})
    assert synced.assignment == b"plan"
    return member_id, generation


def groups_apart(partitions: int, count: int = 2) -> list[str]:
    """Group ids that live in as many different partitions."""
    found: dict[int, str] = {}
    for number in range(1000):
        found.setdefault(partition_of(f"g{number}", partitions), f"g{number}")
    return list(found.values())[:count]
