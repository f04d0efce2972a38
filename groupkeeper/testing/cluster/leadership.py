"""The nodes of a test broker: which run, and who leads a partition or coordinates a group.

All nodes are ports of one server with one state, so every node has every replica, and nothing is
lost when a leader moves. Who leads is decided here; `layer` makes requests and answers
agree with it. Everything is called on the server's loop.

As long as nobody moves anything, partition p of every topic, `__consumer_offsets` included, is led
by node p modulo the number of nodes. A node that stops hands over to the nodes after it; one that
comes back leads nothing until something is moved to it, as in Kafka without automatic rebalancing
of leaders. Each move raises the leader epoch by one.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, Protocol
from weakref import WeakSet

from groupkeeper.groups.loader import Moved
from groupkeeper.protocol.placement import partition_of
from groupkeeper.server.server import Server
from groupkeeper.settings.options import Address, Listen
from groupkeeper.testing import arguments
from groupkeeper.testing.errors import RequestFailed
from groupkeeper.topics.catalog import Topic
from groupkeeper.topics.names import EVENT_TOPIC, GROUP_TOPIC

ANY_PORT: Final = Listen(bind=("127.0.0.1", 0))
MOST: Final = 16
"""Nodes of a test broker, as listeners of a server."""
LOAD_S: Final = 10.0
"""How long a move waits until the groups are loaded."""


class Leader(NamedTuple):
    """Who leads a partition, and how often that changed: by so much its leader epoch is higher than
    the server's own.
    """

    node: int
    moves: int


class Waiting(Protocol):
    """A request that is under way."""

    def stop_waiting(self) -> None:
        """Be answered soon, as a leader has changed."""


class Cluster:
    """The nodes, by id from 0; their ports and what was moved survive restarts of the server."""

    server: Server
    """The present one."""

    def __init__(self, size: int, listeners: Sequence[Listen] = (ANY_PORT,)) -> None:
        """`listeners`: where node 0 listens, and where others do; a node without one takes the port
        after that of the node before it, or any free one. Raises RequestFailed.
        """
        if not 1 <= arguments.whole(size, "brokers=") <= MOST:
            raise RequestFailed(f"brokers={size}: a test broker has 1 to {MOST} nodes")
        self.size = size
        self.listeners = [*listeners]
        """What a server listens on; ports stay the same from the first start on."""
        host, port = listeners[0].bind
        for node in range(len(listeners), size):
            bind = host, port + node if port else 0
            self.listeners.append(Listen(f"NODE-{node}", bind))
        self._names = [each.name for each in self.listeners[:size]]
        self._up = [True] * size
        self._moved: dict[tuple[bytes, int], Leader] = {}
        """By topic id and partition: those that are not led as they were at first."""
        self.waiting: WeakSet[Waiting] = WeakSet()
        """Requests that may be answered long after they came."""

    # -- its life --------------------------------------------------------------------------------

    def started(self) -> None:
        """The server listens: all nodes run."""
        bound = self.server.bound
        self.listeners = [replace(each, bind=bound[each.name]) for each in self.listeners]
        self._up = [True] * self.size

    def forget(self) -> None:
        """Forget what was moved: the next server begins with nothing."""
        self._moved.clear()

    @property
    def up(self) -> list[int]:
        """The nodes that run."""
        return [node for node in range(self.size) if self._up[node]]

    def address(self, node: int) -> Address:
        """Where a node listens, or did; port 0 before the first start."""
        each = self.listeners[node]
        return each.advertised or each.bind

    def check(self, node: int) -> int:
        """Raises TypeError, and RequestFailed if there is no such node."""
        if not 0 <= arguments.whole(node, "a node's id") < self.size:
            raise RequestFailed(f"there is no node {node}: this broker has 0 to {self.size - 1}")
        return node

    async def stop(self, node: int) -> None:
        """Hand over what a node leads, then close its port and connections; no error if it does not
        run. Raises RequestFailed for the last one.
        """
        if not self._up[self.check(node)]:
            return
        if self.up == [node]:
            raise RequestFailed(f"node {node} is the last that runs: stop() or crash() the broker")
        led = [each for each in self._partitions() if self.leader(*each).node == node]
        before = [self.leader(*each) for each in led]
        self._up[node] = False
        self._hand_over(led, before, self._heir(node))
        await self._loaded()
        self.server.listener.pause(self._names[node])
        for _ in range(2):
            await asyncio.sleep(0)
        self.server.listener.leave(self._names[node])

    async def start(self, node: int) -> None:
        """Listen again; no error if it runs. Raises OSError if another process has its port."""
        if self._up[self.check(node)]:
            return
        for topic, index in self._partitions():  # they stay where they are
            if (topic.topic_id, index) not in self._moved and index % self.size == node:
                self._moved[topic.topic_id, index] = self.leader(topic, index)
        await self.server.listener.start(self.listeners[node].bind, self._names[node])
        self._up[node] = True

    # -- who leads -------------------------------------------------------------------------------

    def node_of(self, listener: str) -> int:
        """The node that a connection is to."""
        return self._names.index(listener)

    def leader(self, topic: Topic, index: int) -> Leader:
        """Who leads a partition; always a node that runs."""
        return self._moved.get((topic.topic_id, index)) or Leader(self._heir(index % self.size), 0)

    def replicas(self, index: int) -> list[int]:
        """Of a partition: all nodes, the one that leads it at first before the others."""
        return [(index + node) % self.size for node in range(self.size)]

    def _heir(self, node: int) -> int:
        """The node, or the next one that runs."""
        return next(each for each in self.replicas(node) if self._up[each])

    def coordinator(self, group_id: str) -> int:
        """The node that coordinates a group: the leader of its partition of
        `__consumer_offsets`.
        """
        topic = self.server.topics.catalog.by_name[GROUP_TOPIC]
        return self.leader(topic, self._partition_of(group_id)).node

    def _partition_of(self, group_id: str) -> int:
        return partition_of(group_id, len(self.server.group_partitions))

    def leader_of(self, topic: str, partition: int) -> int:
        """The node that leads a partition. Raises RequestFailed if there is none."""
        return self.leader(self._found(topic, partition), partition).node

    def _found(self, name: str, partition: int) -> Topic:
        topic = self.server.topics.catalog.by_name.get(name)
        if topic is None or not 0 <= partition < topic.partition_count:
            raise RequestFailed(f"there is no partition {partition} of a topic '{name}'")
        return topic

    def _partitions(self) -> Iterator[tuple[Topic, int]]:
        for topic in self.server.topics.catalog.by_name.values():
            yield from ((topic, index) for index in range(topic.partition_count))

    # -- moves -----------------------------------------------------------------------------------

    async def move_coordinator(self, group_id: str, to: int) -> None:
        """Let another node coordinate a group, and those in the same partition. Returns when they
        are loaded. Raises RequestFailed.
        """
        await self.move_leader(GROUP_TOPIC, self._partition_of(group_id), to)

    async def move_leader(self, name: str, partition: int, to: int) -> None:
        """Let another node lead a partition. Raises RequestFailed."""
        topic = self._found(name, partition)
        if not self._up[self.check(to)]:
            raise RequestFailed(f"node {to} does not run: node({to}).start() starts it")
        moving = [(topic, partition)]
        if name == GROUP_TOPIC:  # the events of groups are written where the groups are
            moving.append((self._found(EVENT_TOPIC, partition), partition))
        before = [self.leader(*each) for each in moving]
        if before[0].node != to:
            self._hand_over(moving, before, to)
            await self._loaded()

    def _hand_over(
        self, moving: Sequence[tuple[Topic, int]], before: Sequence[Leader], to: int
    ) -> None:
        """Groups are closed and loaded from the log again, as by a node that takes them over: their
        parked requests get NOT_COORDINATOR. Fetches that wait are answered, and told who leads.
        """
        server = self.server
        self._moved = {
            key: leader
            for key, leader in self._moved.items()
            if key[0] in server.topics.catalog.by_id
        }
        drivers = list(server.group_partitions)
        for (topic, index), (node, moves) in zip(moving, before, strict=True):
            self._moved[topic.topic_id, index] = Leader(to, moves + 1)
            if topic.name == GROUP_TOPIC:
                drivers[index].lost(Moved(f"the partition moves from node {node} to node {to}"))
        for asked in list(self.waiting):
            asked.stop_waiting()  # or not begin to
        for waiting in list(server.topics.waiting_fetches):
            waiting.changed()

    async def _loaded(self) -> None:
        await self.server.group_partitions.loaded(LOAD_S)
