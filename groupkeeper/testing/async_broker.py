"""A Kafka broker in the process of a test: `Broker`, and `AsyncBroker` to await it."""

from asyncio import to_thread
from collections.abc import Collection
from functools import cached_property
from types import TracebackType

from groupkeeper.testing.bench import Bench
from groupkeeper.testing.broker import BlockingBroker
from groupkeeper.testing.broker_faults import AsyncBrokerFaults
from groupkeeper.testing.broker_records import AsyncBrokerRecords
from groupkeeper.testing.broker_sight import BrokerSight
from groupkeeper.testing.cluster.nodes import AsyncNode
from groupkeeper.testing.group import AsyncGroup
from groupkeeper.testing.time.control import TIMEOUT_S


class AsyncBroker(AsyncBrokerFaults, AsyncBrokerRecords, BrokerSight):
    """The same broker for coroutines: what takes time is awaited."""

    def __init__(self, broker: BlockingBroker, bench: Bench) -> None:
        self._broker = self._records = broker
        self._bench = bench

    @property
    def bootstrap_servers(self) -> str:
        """See `Broker.bootstrap_servers`."""
        return self._broker.bootstrap_servers

    @property
    def cluster_id(self) -> str:
        """See `Broker.cluster_id`."""
        return self._broker.cluster_id

    # -- its life ------------------------------------------------------------------------------

    async def start(self) -> None:
        """See `Broker.start`."""
        await to_thread(self._broker.start)

    async def stop(self) -> None:
        """See `Broker.stop`."""
        await to_thread(self._broker.stop)

    async def crash(self) -> None:
        """See `Broker.crash`."""
        await to_thread(self._broker.crash)

    async def restart(self) -> None:
        """See `Broker.restart`."""
        await to_thread(self._broker.restart)

    async def reset(self) -> None:
        """See `Broker.reset`."""
        await to_thread(self._broker.reset)

    # -- nodes ---------------------------------------------------------------------------------

    def node(self, node_id: int) -> AsyncNode:
        """See `Broker.node`."""
        return AsyncNode(self._broker.node(node_id))

    @property
    def nodes(self) -> list[AsyncNode]:
        """See `Broker.nodes`."""
        return [AsyncNode(node) for node in self._broker.nodes]

    def coordinator(self, group: str) -> int:
        """See `Broker.coordinator`."""
        return self._broker.coordinator(group)

    def leader(self, topic: str, partition: int) -> int:
        """See `Broker.leader`."""
        return self._broker.leader(topic, partition)

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
        await to_thread(self._broker.advance, seconds, silent=silent, all=all, timeout=timeout)

    async def freeze(self) -> None:
        """See `Broker.freeze`."""
        await to_thread(self._broker.freeze)

    async def resume(self) -> None:
        """See `Broker.resume`."""
        await to_thread(self._broker.resume)


class Broker(BlockingBroker):
    """A broker on a thread of its own, with a port on the loopback address.

        with Broker(topics={"orders": 6}) as broker:
            consumer = KafkaConsumer("orders", bootstrap_servers=broker.bootstrap_servers)

    In a coroutine, `async with Broker(...) as broker` gives an `AsyncBroker`; `broker.aio` is that
    of a broker that runs.
    """

    @cached_property
    def aio(self) -> AsyncBroker:
        """The same broker, to await."""
        return AsyncBroker(self, self._bench)

    async def __aenter__(self) -> AsyncBroker:
        self.start()
        return self.aio

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, trace)
