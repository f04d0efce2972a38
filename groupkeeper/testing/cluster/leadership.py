"""The nodes of a test broker, and the leaders of its partitions and coordinators of its groups.

All nodes are ports of one server with one state, so every node has every replica, and nothing is
lost when a leader moves. Leadership is decided here; `layer` adapts requests and responses to it.
Everything is called on the server's loop.

Initially, partition p of every topic, `__consumer_offsets` included, is led by node p modulo the
number of nodes. A node that stops hands over to the next running node. A node that starts again
leads nothing until a partition is moved to it, as in Kafka without automatic rebalancing of
leaders. Each move raises the leader epoch by one.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

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
"""Maximum number of nodes; also that of a server's listeners."""
LOAD_S: Final = 10.0
"""Maximum time that a move waits for groups to load."""


class Leader(NamedTuple):
    """The leader of a partition, and its number of moves, which is added to the server's own leader
    epoch.
    """

    node: int
    moves: int


class Cluster:
    """The nodes, by id from 0. Ports and moves survive restarts of the server."""

    server: Server
    """The running server, or the last one."""

    def __init__(self, size: int, listeners: Sequence[Listen] = (ANY_PORT,)) -> None:
        """`listeners`: those of the first nodes, from node 0. Each further node takes the port
        after that of the previous node, or any free one, and the protocol of node 0. Raises
        RequestFailed.
        """
        if not 1 <= arguments.whole(size, "brokers=") <= MOST:
            raise RequestFailed(f"brokers={size}: a test broker has 1 to {MOST} nodes")
        self.size = size
        self.listeners = [*listeners]
        """The server's listeners; their ports are fixed at the first start."""
        host, port = listeners[0].bind
        for node in range(len(listeners), size):
            bind = host, port + node if port else 0
            self.listeners.append(Listen(f"NODE-{node}", bind, protocol=listeners[0].protocol))
        self._names = [each.name for each in self.listeners[:size]]
        self._up = [True] * size
        self._moved: dict[tuple[bytes, int], Leader] = {}
        """Moved partitions, by (topic id, partition)."""

    # -- start and stop --------------------------------------------------------------------------

    def started(self) -> None:
        """Take the ports of a started server; all nodes are running."""
        bound = self.server.bound
        self.listeners = [replace(each, bind=bound[each.name]) for each in self.listeners]
        self._up = [True] * self.size

    def forget(self) -> None:
        """Forget all moves, for a reset."""
        self._moved.clear()

    @property
    def up(self) -> list[int]:
        """Ids of the running nodes."""
        return [node for node in range(self.size) if self._up[node]]

    def address(self, node: int) -> Address:
        """Return the address of a node, running or not; its port is 0 before the first start."""
        each = self.listeners[node]
        return each.advertised or each.bind

    def check(self, node: int) -> int:
        """Return a valid node id. Raises TypeError, and RequestFailed if there is no such node."""
        if not 0 <= arguments.whole(node, "a node's id") < self.size:
            raise RequestFailed(f"there is no node {node}: this broker has 0 to {self.size - 1}")
        return node

    async def stop(self, node: int) -> None:
        """Hand over a node's partitions, then close its port and connections; does nothing if it is
        not running. Raises RequestFailed for the last running node.
        """
        if not self._up[self.check(node)]:
            return
        if self.up == [node]:
            raise RequestFailed(f"node {node} is the last running: stop() or crash() the broker")
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
        """Listen again, unless the node is running. Raises OSError if its port is taken."""
        if self._up[self.check(node)]:
            return
        for topic, index in self._partitions():  # keep their present leaders
            if (topic.topic_id, index) not in self._moved and index % self.size == node:
                self._moved[topic.topic_id, index] = self.leader(topic, index)
        await self.server.listener.start(self.listeners[node].bind, self._names[node])
        self._up[node] = True

    # -- leadership ------------------------------------------------------------------------------

    def node_of(self, listener: str) -> int:
        """Return the node of a listener."""
        return self._names.index(listener)

    def leader(self, topic: Topic, index: int) -> Leader:
        """Return the leader of a partition, which is always a running node."""
        return self._moved.get((topic.topic_id, index)) or Leader(self._heir(index % self.size), 0)

    def replicas(self, index: int) -> list[int]:
        """Return the replicas of a partition: all nodes, with the preferred leader first."""
        return [(index + node) % self.size for node in range(self.size)]

    def _heir(self, node: int) -> int:
        """Return the node if it is running, else the next running one."""
        return next(each for each in self.replicas(node) if self._up[each])

    def coordinator(self, group_id: str) -> int:
        """Return a group's coordinator: the leader of its partition of `__consumer_offsets`."""
        topic = self.server.topics.catalog.by_name[GROUP_TOPIC]
        return self.leader(topic, self._partition_of(group_id)).node

    def _partition_of(self, group_id: str) -> int:
        return partition_of(group_id, len(self.server.group_partitions))

    def leader_of(self, topic: str, partition: int) -> int:
        """Return the leader of a partition. Raises RequestFailed for an unknown partition."""
        return self.leader(self._found(topic, partition), partition).node

    def _found(self, name: str, partition: int) -> Topic:
        topic = self.server.topics.catalog.by_name.get(name)
        if topic is None or not 0 <= partition < topic.partition_count:
            raise RequestFailed(f"there is no partition {partition} of topic '{name}'")
        return topic

    def _partitions(self) -> Iterator[tuple[Topic, int]]:
        for topic in self.server.topics.catalog.by_name.values():
            yield from ((topic, index) for index in range(topic.partition_count))

    # -- moves -----------------------------------------------------------------------------------

    async def move_coordinator(self, group_id: str, to: int) -> None:
        """See `Broker.move_coordinator`. Raises RequestFailed."""
        await self.move_leader(GROUP_TOPIC, self._partition_of(group_id), to)

    async def move_leader(self, name: str, partition: int, to: int) -> None:
        """See `Broker.move_leader`. Raises RequestFailed."""
        topic = self._found(name, partition)
        if not self._up[self.check(to)]:
            raise RequestFailed(f"node {to} is not running: node({to}).start() starts it")
        moving = [(topic, partition)]
        if name == GROUP_TOPIC:  # the group's events are written by the same node
            moving.append((self._found(EVENT_TOPIC, partition), partition))
        before = [self.leader(*each) for each in moving]
        if before[0].node != to:
            self._hand_over(moving, before, to)
            await self._loaded()

    def _hand_over(
        self, moving: Sequence[tuple[Topic, int]], before: Sequence[Leader], to: int
    ) -> None:
        """Change leaders. Groups of moved partitions are closed and loaded from the log again, and
        their pending requests get NOT_COORDINATOR. Waiting fetches are answered.
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
        for waiting in list(server.topics.waiting_fetches):
            waiting.changed()

    async def _loaded(self) -> None:
        await self.server.group_partitions.loaded(LOAD_S)
