"""A Kafka broker in the process of a test: `Broker` to call, `AsyncBroker` to await."""

from asyncio import wrap_future
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from groupkeeper.testing.bench import Bench
from groupkeeper.testing.nodes import AsyncNode, Node


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
        self.aio = AsyncBroker(self._bench)

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

    # -- nodes ---------------------------------------------------------------------------------

    def node(self, node_id: int) -> Node:
        """One of `brokers=`, by its id from 0. Raises RequestFailed if there is none."""
        return Node(self._bench, node_id)

    def coordinator(self, group: str) -> int:
        """The id of the node that coordinates a group. Raises BrokerDown."""
        return self._bench.call(lambda: self._bench.cluster.coordinator(group))

    def leader(self, topic: str, partition: int) -> int:
        """The id of the node that leads a partition. Raises BrokerDown, RequestFailed."""
        return self._bench.call(lambda: self._bench.cluster.leader_of(topic, partition))

    def move_coordinator(self, group: str, *, to: int) -> None:
        """Let another node coordinate a group, and all others in its partition of
        `__consumer_offsets`, as in a failover: requests that wait get NOT_COORDINATOR, and the
        groups are loaded from the log, with their members. Returns when they are.

        Raises BrokerDown, and RequestFailed if that node does not run.
        """
        self._bench.later(self._bench.cluster.move_coordinator(group, to)).result()

    def move_leader(self, topic: str, partition: int, *, to: int) -> None:
        """Let another node lead a partition, in a new leader epoch. Raises as above."""
        self._bench.later(self._bench.cluster.move_leader(topic, partition, to)).result()


class AsyncBroker:
    """The same broker for coroutines: what takes time is awaited."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    @property
    def bootstrap_servers(self) -> str:
        """See `Broker.bootstrap_servers`."""
        return self._bench.bootstrap_servers

    # -- nodes ---------------------------------------------------------------------------------

    def node(self, node_id: int) -> AsyncNode:
        """See `Broker.node`."""
        return AsyncNode(self._bench, node_id)

    async def move_coordinator(self, group: str, *, to: int) -> None:
        """See `Broker.move_coordinator`."""
        await wrap_future(self._bench.later(self._bench.cluster.move_coordinator(group, to)))

    async def move_leader(self, topic: str, partition: int, *, to: int) -> None:
        """See `Broker.move_leader`."""
        await wrap_future(self._bench.later(self._bench.cluster.move_leader(topic, partition, to)))
