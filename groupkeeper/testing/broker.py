"""An in-process Kafka broker for tests: `Broker`, and `AsyncBroker` for coroutines."""

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from os import PathLike
from typing import Any, Self, Unpack

from groupkeeper.testing import arguments
from groupkeeper.testing.bench import Bench
from groupkeeper.testing.broker_sight import BrokerSight
from groupkeeper.testing.cluster.nodes import AsyncNode, Node
from groupkeeper.testing.faults.rules import Effect, Rule, When
from groupkeeper.testing.group import AsyncGroup, Group
from groupkeeper.testing.on_thread import OnThread, on_thread
from groupkeeper.testing.security import SecurityArguments, security_of
from groupkeeper.testing.seeding import Data, Headers, Record, timed, timed_ones
from groupkeeper.testing.time.control import TIMEOUT_S


class Broker(BrokerSight):
    """A broker on its own thread, with a port on the loopback address.

        with Broker(topics={"orders": 6}) as broker:
            consumer = KafkaConsumer("orders", bootstrap_servers=broker.bootstrap_servers)

    In a coroutine, `async with Broker(...) as broker` gives an `AsyncBroker`; `broker.aio` is the
    `AsyncBroker` of an existing broker.
    """

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        *,
        settings: Mapping[str, Any] | None = None,
        data: str | PathLike[str] | None = None,
        brokers: int = 1,
        as_version: str | None = None,
        **access: Unpack[SecurityArguments],
    ) -> None:
        """`topics`: {name: number of partitions}. `settings`: settings as for `groupkeeper serve
        --dev`, by Kafka's names. `data`: a data directory; None keeps everything in memory.
        `brokers`: number of nodes, with ids from 0 and a port each; see `node`. `as_version`: serve
        the API versions of this Kafka release: 2.8, 3.9 or 4.1.

        `users`: {name: password}: clients log in, with SCRAM or PLAIN. `tls`: connections are
        encrypted, with certificates made for this process. `for_kafka_python`, `for_aiokafka`,
        `for_confluent` and `for_java` return the settings that clients need then.

        A broker that is not stopped runs until the process ends.

        Raises SettingsError, RequestFailed, WrongArgument, TypeError, ValueError.
        Any: the values of settings.
        """
        where = arguments.folder(data)
        security = security_of(access)
        self._bench = Bench(topics, settings, where, brokers, as_version, security)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.stop()
        if kind is None:
            self._bench.faults.check()

    @cached_property
    def aio(self) -> "AsyncBroker":
        """The `AsyncBroker` of this broker."""
        return AsyncBroker(self)

    async def __aenter__(self) -> "AsyncBroker":
        self.start()
        return self.aio

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.__exit__(kind)

    # -- start and stop ------------------------------------------------------------------------

    def start(self) -> None:
        """Start the broker. Raises RequestFailed if it is running, and StorageError or OSError if
        the data directory cannot be used.
        """
        self._bench.start()

    def stop(self) -> None:
        """Shut down cleanly; does nothing if the broker is not running."""
        self._bench.stop()

    def crash(self) -> None:
        """Crash as by `kill -9`: nothing more is written or sent, and connections are aborted.
        Acknowledged writes survive, also in memory. Raises BrokerDown.
        """
        self._bench.crash()

    def restart(self) -> None:
        """Start again on the same port and data; a running broker is crashed first."""
        if self._bench.is_up:
            self._bench.crash()
        self._bench.start()

    def reset(self) -> None:
        """Delete everything except the initial topics, which are empty again. Connections are
        aborted, port and cluster id stay, and the clock shows the machine's time again.

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
        """Move the broker's clock forward, and run everything that becomes due, in order: session
        and rebalance timeouts, offset expiry, retention.

        Live members (open connection, recent heartbeats) stay in their groups as if they had
        continued to send heartbeats, except those in `silent` (member, instance or client ids), or
        all members with `all`. Whenever a group waits for requests of live members, the
        clock stops for up to `timeout` real seconds. If the broker is down, only its clock moves.

        In a coroutine, await `broker.aio.advance` instead: this call blocks the event loop, and the
        clients on it cannot respond. A RuntimeWarning is given if that happened.

        Raises TypeError, ValueError, and RequestFailed if a name in `silent` fits no member.
        """
        self._bench.time_control.advance(seconds, silent, all, timeout)

    def freeze(self) -> None:
        """Stop the clock of groups, offsets and retention; does nothing if it is stopped. Requests
        are still handled, and Fetch waits in real time.
        """
        self._bench.time_control.freeze()

    def resume(self) -> None:
        """Let the clock run again from its present time; does nothing if it is running."""
        self._bench.time_control.resume()

    # -- groups --------------------------------------------------------------------------------

    def group(self, group_id: str) -> Group:
        """Return an object to inspect, wait for and act on a group, which need not exist."""
        return Group(self._bench, group_id)

    # -- topics, records and offsets -------------------------------------------------------------

    def create_topic(
        self, name: str, partitions: int = 1, *, configs: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic; `configs` is a dict such as {"cleanup.policy": "compact"}. Raises
        BrokerDown, and RequestFailed, also if the topic exists.
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
        """Append a record, and return it as stored. A str is encoded as UTF-8.

        The default partition is that of Kafka's clients for the key (murmur2); records without a
        key go to the partitions in turn. The default timestamp is the broker's time (Unix ms).
        A missing topic is created only with `auto.create.topics.enable`.
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
        """Append records, given as values or (key, value) pairs; see `produce`."""
        records = timed_ones(values, self._bench.time_of(timestamp_ms))
        return self._bench.seeding.produce(topic, records, partition)

    def records(self, topic: str, partition: int | None = None) -> list[Record]:
        """Return all records of a topic or partition, partition by partition, decompressed, without
        control records. Raises RequestFailed and BrokerDown.
        """
        return self._bench.seeding.records(topic, partition)

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """Return a group's committed offsets, {(topic, partition): offset}; empty for an unknown
        group. Raises RequestFailed and BrokerDown.
        """
        return self._bench.seeding.committed(group)

    def commit(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit offsets for a group without members, to set where its consumers start. Raises
        RequestFailed and BrokerDown.
        """
        self._bench.seeding.commit(group, offsets)

    # -- faults ------------------------------------------------------------------------------------

    def fault(self, effect: Effect, **when: Unpack[When]) -> Rule:
        """Add a fault rule, which applies an effect to matching requests:

            broker.fault(effects.error("NOT_COORDINATOR"), api="OffsetCommit", group="g", times=2)

        Conditions left out match everything. Groups, topics, partitions and members match wherever
        the request names them. A request goes to the first rule that it matches. Rules survive
        crashes. A rule that never fired fails the test at the end of the broker's `with` statement.
        Raises WrongArgument; see `effects` and docs/testing-faults.md.
        """
        return self._bench.faults.add(effect, when)

    # -- nodes ---------------------------------------------------------------------------------

    def node(self, node_id: int) -> Node:
        """Return the node with this id, counted from 0. Raises RequestFailed if there is none."""
        return Node(self._bench, node_id)

    @property
    def nodes(self) -> list[Node]:
        """All nodes, running or not, by id."""
        return [Node(self._bench, node_id) for node_id in range(self._bench.cluster.size)]

    def move_coordinator(self, group: str, *, to: int) -> None:
        """Make another node the coordinator of a group, and of all others in its partition of
        `__consumer_offsets`, as in a failover: pending requests get NOT_COORDINATOR, and the groups
        and their members are loaded from the log. Returns when they are loaded.

        Raises BrokerDown, and RequestFailed if the node is not running.
        """
        arguments.text(group, "a group's id")
        self._bench.run(lambda: self._bench.cluster.move_coordinator(group, to))

    def move_leader(self, topic: str, partition: int, *, to: int) -> None:
        """Make another node the leader of a partition, in a new leader epoch. Raises BrokerDown,
        and RequestFailed if the node is not running.
        """
        self._bench.run(lambda: self._bench.cluster.move_leader(topic, partition, to))


class AsyncBroker(OnThread[Broker], BrokerSight):
    """The interface of `Broker` for coroutines: blocking methods are awaitable."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self._bench = broker._bench  # both classes belong to one interface

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
