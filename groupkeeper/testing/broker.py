"""A Kafka broker in the process of a test: `Broker` to call, `AsyncBroker` to await."""

from asyncio import to_thread, wrap_future
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from groupkeeper.observe.log_writer import readable
from groupkeeper.testing.bench import Bench
from groupkeeper.testing.group import AsyncGroup, Group
from groupkeeper.testing.nodes import AsyncNode, Node
from groupkeeper.testing.seeding import Data, Headers, Record, timed, timed_ones
from groupkeeper.testing.time_control import TIMEOUT_S


class Broker:
    """A broker on a thread of its own, with a port on the loopback address.

        with Broker(topics={"orders": 6}) as broker:
            consumer = KafkaConsumer("orders", bootstrap_servers=broker.bootstrap_servers)

    In a coroutine, `async with Broker(...) as broker` gives an `AsyncBroker`; `broker.aio` is that
    of a broker that runs.
    """

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        *,
        settings: Mapping[str, Any] | None = None,
        data: str | PathLike[str] | None = None,
        brokers: int = 1,
    ) -> None:
        """`topics`: names and numbers of partitions. `settings`: as of `groupkeeper serve --dev`,
        under Kafka's names. `data`: a data directory; None keeps everything in memory. `brokers`:
        as many nodes, with ids from 0, and a port each; see `node`.

        Raises SettingsError and RequestFailed. Any: the values of settings.
        """
        self._bench = Bench(topics, settings, None if data is None else Path(data), brokers)
        self.aio = AsyncBroker(self, self._bench)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    async def __aenter__(self) -> "AsyncBroker":
        self.start()
        return self.aio

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # -- its life ------------------------------------------------------------------------------

    def start(self) -> None:
        """Start. Raises StorageError and OSError if its data directory cannot be used."""
        self._bench.start()

    def stop(self) -> None:
        """End in good order; no error if it does not run."""
        self._bench.stop()

    def crash(self) -> None:
        """End as by `kill -9`: nothing more is written or answered, and connections break. What was
        acknowledged survives, in memory too. Raises BrokerDown.
        """
        self._bench.crash()

    def restart(self) -> None:
        """Start again on the same port, with what was written; crash first if it runs."""
        if self._bench.is_up:
            self._bench.crash()
        self._bench.start()

    def reset(self) -> None:
        """Forget all but the topics of the start; connections break, port and cluster id stay.

        Raises RequestFailed if the broker has a data directory.
        """
        self._bench.reset()

    # -- time ----------------------------------------------------------------------------------

    def advance(
        self,
        seconds: float,
        *,
        silent: Collection[str] = (),
        all: bool = False,  # noqa: A002  # reads as a sentence
        timeout: float = TIMEOUT_S,
    ) -> None:
        """Move the broker's time ahead, through all that is due until then, in order: sessions,
        rebalance timeouts, expired offsets, retention.

        Members whose connection is open and whose heartbeats came until now stay, as if they went
        on, but for those that `silent` names (by member, instance or client id; `all`: all of
        them). When a group waits for members that stay, time waits for them, each time for
        `timeout` real seconds at most. Of a broker that does not run, only the time moves on.

        Raises TypeError, ValueError, and RequestFailed if `silent` names no member.
        """
        self._bench.advance(seconds, silent, all, timeout).result()

    def freeze(self) -> None:
        """Let time stand still for groups, offsets and retention; no error if it does. Requests are
        answered, and Fetch requests wait, as ever.
        """
        self._bench.freeze().result()

    def resume(self) -> None:
        """Let time run again, from where it stands; no error if it runs."""
        self._bench.resume().result()

    # -- topics, records, offsets --------------------------------------------------------------

    def create_topic(
        self, name: str, partitions: int = 1, *, configs: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic; `configs` as {"cleanup.policy": "compact"}. Raises RequestFailed, also
        if it exists, and BrokerDown.
        """
        self._bench.seeding.create_topic(name, partitions, configs or {})

    def produce(
        self,
        topic: str,
        value: Data,
        *,
        key: Data = None,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> Record:
        """Append a record, and return it as it is in the log. A str stands for its UTF-8 bytes.

        Without `partition`, the key decides as Kafka's clients do (murmur2), and records without
        a key go to the partitions in turn. The time is the broker's unless it is given (Unix ms).
        A topic that does not exist is created only by `auto.create.topics.enable`.
        Raises RequestFailed and BrokerDown.
        """
        at_ms = self._bench.time.wall() if timestamp_ms is None else timestamp_ms
        record = timed(value, key, headers, at_ms)
        return self._bench.seeding.produce(topic, [record], partition)[0]

    def produce_many(
        self,
        topic: str,
        values: Iterable[Data | tuple[Data, Data]],
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> list[Record]:
        """Append many records, given as values or as pairs of key and value; see `produce`."""
        at_ms = self._bench.time.wall() if timestamp_ms is None else timestamp_ms
        return self._bench.seeding.produce(topic, timed_ones(values, at_ms), partition)

    def records(self, topic: str, partition: int | None = None) -> list[Record]:
        """All records that are in a topic now, partition after partition, decompressed, without
        control records. Raises RequestFailed and BrokerDown.
        """
        return self._bench.seeding.records(topic, partition)

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """The offsets that a group has committed, by topic and partition; empty for a group that
        does not exist. Raises RequestFailed and BrokerDown.
        """
        return self._bench.seeding.committed(group)

    def commit(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit offsets for a group that has no members, to say where consumers begin. Raises
        RequestFailed and BrokerDown.
        """
        self._bench.seeding.commit(group, offsets)

    # -- groups --------------------------------------------------------------------------------

    def group(self, group_id: str) -> Group:
        """A group, whether it exists or not: to look at, to wait for, to act on."""
        return Group(self._bench.sights, self._bench.waits, group_id)

    def groups(self) -> list[str]:
        """The ids of the groups that exist now, sorted. Raises BrokerDown."""
        return self._bench.sights.group_ids()

    def timeline(self, group_id: str) -> str:
        """What happened to a group since the broker's start or reset, and why, and what it does
        now, as `groupkeeper why` prints it. Also when the broker has crashed or was stopped.
        """
        return self._bench.sights.timeline(group_id)

    # -- what it is ----------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """`HOST:PORT` of each node that runs, as clients take it.

        Raises BrokerDown before the first start.
        """
        return self._bench.bootstrap_servers

    @property
    def cluster_id(self) -> str:
        """As Metadata responses have it."""
        return self._bench.cluster_id

    @property
    def logs(self) -> list[str]:
        """The last lines of the broker's log, as `groupkeeper serve` prints them."""
        return [*map(readable(), self._bench.lines.copy())]

    # -- nodes ---------------------------------------------------------------------------------

    def node(self, node_id: int) -> Node:
        """One of `brokers=`, by its id from 0. Raises RequestFailed if there is none."""
        return Node(self._bench, node_id)

    def coordinator(self, group: str) -> int:
        """The id of the node that coordinates a group. Raises BrokerDown."""
        return self._bench.running.call(lambda: self._bench.cluster.coordinator(group))

    def leader(self, topic: str, partition: int) -> int:
        """The id of the node that leads a partition. Raises BrokerDown, RequestFailed."""
        return self._bench.running.call(lambda: self._bench.cluster.leader_of(topic, partition))

    def move_coordinator(self, group: str, *, to: int) -> None:
        """Let another node coordinate a group, and all others in its partition of
        `__consumer_offsets`, as in a failover: requests that wait get NOT_COORDINATOR, and the
        groups are loaded from the log, with their members. Returns when they are.

        Raises BrokerDown, and RequestFailed if that node does not run.
        """
        self._bench.run(lambda: self._bench.cluster.move_coordinator(group, to))

    def move_leader(self, topic: str, partition: int, *, to: int) -> None:
        """Let another node lead a partition, in a new leader epoch. Raises as above."""
        self._bench.run(lambda: self._bench.cluster.move_leader(topic, partition, to))


class AsyncBroker:
    """The same broker for coroutines: what takes time is awaited."""

    def __init__(self, broker: Broker, bench: Bench) -> None:
        self._broker = broker
        self._bench = bench

    @property
    def bootstrap_servers(self) -> str:
        """See `Broker.bootstrap_servers`."""
        return self._broker.bootstrap_servers

    # -- nodes ---------------------------------------------------------------------------------

    def node(self, node_id: int) -> AsyncNode:
        """See `Broker.node`."""
        return AsyncNode(self._broker.node(node_id))

    async def move_coordinator(self, group: str, *, to: int) -> None:
        """See `Broker.move_coordinator`."""
        await to_thread(self._broker.move_coordinator, group, to=to)

    async def move_leader(self, topic: str, partition: int, *, to: int) -> None:
        """See `Broker.move_leader`."""
        await to_thread(self._broker.move_leader, topic, partition, to=to)

    # -- groups --------------------------------------------------------------------------------

    def group(self, group_id: str) -> AsyncGroup:
        """See `Broker.group`."""
        return AsyncGroup(self._bench.sights, self._bench.waits, group_id)

    def groups(self) -> list[str]:
        """See `Broker.groups`."""
        return self._bench.sights.group_ids()

    def timeline(self, group_id: str) -> str:
        """See `Broker.timeline`."""
        return self._bench.sights.timeline(group_id)

    # -- topics, records, offsets: as of `Broker`, on a thread --------------------------------

    async def create_topic(
        self, name: str, partitions: int = 1, *, configs: Mapping[str, str] | None = None
    ) -> None:
        """See `Broker.create_topic`."""
        await to_thread(self._broker.create_topic, name, partitions, configs=configs)

    async def produce(
        self,
        topic: str,
        value: Data,
        *,
        key: Data = None,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> Record:
        """See `Broker.produce`."""
        produce = partial(self._broker.produce, headers=headers, timestamp_ms=timestamp_ms)
        return await to_thread(produce, topic, value, key=key, partition=partition)

    async def produce_many(
        self,
        topic: str,
        values: Iterable[Data | tuple[Data, Data]],
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> list[Record]:
        """See `Broker.produce_many`."""
        many = partial(self._broker.produce_many, timestamp_ms=timestamp_ms)
        return await to_thread(many, topic, values, partition=partition)

    async def records(self, topic: str, partition: int | None = None) -> list[Record]:
        """See `Broker.records`."""
        return await to_thread(self._broker.records, topic, partition)

    async def committed(self, group: str) -> dict[tuple[str, int], int]:
        """See `Broker.committed`."""
        return await to_thread(self._broker.committed, group)

    async def commit(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """See `Broker.commit`."""
        await to_thread(self._broker.commit, group, offsets)

    # -- time ----------------------------------------------------------------------------------

    async def advance(
        self,
        seconds: float,
        *,
        silent: Collection[str] = (),
        all: bool = False,  # noqa: A002  # as `Broker.advance`
        timeout: float = TIMEOUT_S,  # noqa: ASYNC109  # bounds waits on the way, not the call
    ) -> None:
        """See `Broker.advance`."""
        await wrap_future(self._bench.advance(seconds, silent, all, timeout))

    async def freeze(self) -> None:
        """See `Broker.freeze`."""
        await wrap_future(self._bench.freeze())

    async def resume(self) -> None:
        """See `Broker.resume`."""
        await wrap_future(self._bench.resume())
