"""A Kafka broker in the process of a test: `Broker`, and `AsyncBroker` to await it."""

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from os import PathLike
from typing import Any, Self, Unpack
from weakref import finalize

from groupkeeper.testing import arguments
from groupkeeper.testing.bench import Bench
from groupkeeper.testing.broker_sight import BrokerSight
from groupkeeper.testing.cluster.nodes import AsyncNode, Node
from groupkeeper.testing.faults.rules import Effect, Rule, When
from groupkeeper.testing.group import AsyncGroup, Group
from groupkeeper.testing.on_thread import OnThread, on_thread
from groupkeeper.testing.seeding import Data, Headers, Record, timed, timed_ones
from groupkeeper.testing.time.control import TIMEOUT_S


class Broker(BrokerSight):
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
        as_version: str | None = None,
    ) -> None:
        """`topics`: names and numbers of partitions. `settings`: as of `groupkeeper serve --dev`,
        under Kafka's names. `data`: a data directory; None keeps everything in memory. `brokers`:
        as many nodes, with ids from 0, and a port each; see `node`. `as_version`: serve the
        versions of APIs that this release of Kafka serves: 2.8, 3.9 or 4.1.

        One that is not stopped ends when it is collected as garbage, with a ResourceWarning, also
        if groups and nodes of it are still in use.

        Raises SettingsError, RequestFailed, WrongArgument, TypeError, ValueError.
        Any: the values of settings.
        """
        where = arguments.folder(data)
        self._bench = Bench(topics, settings, where, brokers, as_version)
        finalize(self, self._bench.forsake).atexit = False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.stop()
        if kind is None:
            self._bench.faults.check()

    @cached_property
    def aio(self) -> "AsyncBroker":
        """The same broker, to await."""
        return AsyncBroker(self)

    async def __aenter__(self) -> "AsyncBroker":
        self.start()
        return self.aio

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.__exit__(kind)

    # -- its life ------------------------------------------------------------------------------

    def start(self) -> None:
        """Start. Raises RequestFailed if it runs, StorageError and OSError if its data directory
        cannot be used.
        """
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
        """Forget all but the topics of the start; connections break, port and cluster id stay. Time
        is the machine's again, and runs.

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

        In a coroutine, await `broker.aio.advance` instead: clients on its event loop cannot answer
        meanwhile. A RuntimeWarning says so when members were waited for in vain.

        Raises TypeError, ValueError, and RequestFailed if `silent` names no member.
        """
        self._bench.time_control.advance(seconds, silent, all, timeout)

    def freeze(self) -> None:
        """Let time stand still for groups, offsets and retention; no error if it does. Requests are
        answered, and Fetch requests wait, as ever.
        """
        self._bench.time_control.freeze()

    def resume(self) -> None:
        """Let time run again, from where it stands; no error if it runs."""
        self._bench.time_control.resume()

    # -- groups --------------------------------------------------------------------------------

    def group(self, group_id: str) -> Group:
        """A group, whether it exists or not: to look at, to wait for, to act on."""
        return Group(self._bench, group_id)

    # -- topics, records and offsets -------------------------------------------------------------

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
        record = timed(value, key, headers, self._bench.time_of(timestamp_ms))
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
        records = timed_ones(values, self._bench.time_of(timestamp_ms))
        return self._bench.seeding.produce(topic, records, partition)

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

    # -- faults ------------------------------------------------------------------------------------

    def fault(self, effect: Effect, **when: Unpack[When]) -> Rule:
        """Let something happen to requests, from now on:

            broker.fault(effects.error("NOT_COORDINATOR"), api="OffsetCommit", group="g", times=2)

        What a rule does not name may be anything. Groups, topics, partitions and members are those
        that the request contains, wherever it has them. A request goes to the first rule that it
        matches. Rules outlive crashes. One that never fired fails the test when the broker's `with`
        statement ends. Raises WrongArgument; see `effects` and docs/testing-faults.md.
        """
        return self._bench.faults.add(effect, when)

    # -- nodes ---------------------------------------------------------------------------------

    def node(self, node_id: int) -> Node:
        """One of `brokers=`, by its id from 0. Raises RequestFailed if there is none."""
        return Node(self._bench, node_id)

    @property
    def nodes(self) -> list[Node]:
        """All, whether they run or not."""
        return [Node(self._bench, node_id) for node_id in range(self._bench.cluster.size)]

    def move_coordinator(self, group: str, *, to: int) -> None:
        """Let another node coordinate a group, and all others in its partition of
        `__consumer_offsets`, as in a failover: requests that wait get NOT_COORDINATOR, and the
        groups are loaded from the log, with their members. Returns when they are.

        Raises BrokerDown, and RequestFailed if that node does not run.
        """
        arguments.text(group, "a group's id")
        self._bench.run(lambda: self._bench.cluster.move_coordinator(group, to))

    def move_leader(self, topic: str, partition: int, *, to: int) -> None:
        """Let another node lead a partition, in a new leader epoch. Raises as above."""
        self._bench.run(lambda: self._bench.cluster.move_leader(topic, partition, to))


class AsyncBroker(OnThread[Broker], BrokerSight):
    """The same broker for coroutines: what takes time is awaited."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self._bench = broker._bench  # the other half of it

    start = on_thread(Broker.start)
    stop = on_thread(Broker.stop)
    crash = on_thread(Broker.crash)
    restart = on_thread(Broker.restart)
    reset = on_thread(Broker.reset)
    advance = on_thread(Broker.advance)
    freeze = on_thread(Broker.freeze)
    resume = on_thread(Broker.resume)
    create_topic = on_thread(Broker.create_topic)
    produce = on_thread(Broker.produce)
    produce_many = on_thread(Broker.produce_many)
    records = on_thread(Broker.records)
    committed = on_thread(Broker.committed)
    commit = on_thread(Broker.commit)
    fault = on_thread(Broker.fault)
    move_coordinator = on_thread(Broker.move_coordinator)
    move_leader = on_thread(Broker.move_leader)

    def group(self, group_id: str) -> AsyncGroup:
        """See `Broker.group`."""
        return AsyncGroup(self._blocking.group(group_id))

    def node(self, node_id: int) -> AsyncNode:
        """See `Broker.node`."""
        return AsyncNode(self._blocking.node(node_id))

    @property
    def nodes(self) -> list[AsyncNode]:
        """See `Broker.nodes`."""
        return [AsyncNode(node) for node in self._blocking.nodes]
