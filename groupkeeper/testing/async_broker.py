"""A Kafka broker in the process of a test: `Broker`, and `AsyncBroker` to await it."""

from asyncio import to_thread
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property, partial
from types import TracebackType
from typing import Unpack

from groupkeeper.testing.bench import Bench
from groupkeeper.testing.broker import BlockingBroker
from groupkeeper.testing.effects import Effect
from groupkeeper.testing.group import AsyncGroup
from groupkeeper.testing.nodes import AsyncNode
from groupkeeper.testing.rules import Rule, When
from groupkeeper.testing.seeding import Data, Headers, Record
from groupkeeper.testing.time_control import TIMEOUT_S


class AsyncBroker:
    """The same broker for coroutines: what takes time is awaited."""

    def __init__(self, broker: BlockingBroker, bench: Bench) -> None:
        self._broker = broker
        self._bench = bench

    @property
    def bootstrap_servers(self) -> str:
        """See `Broker.bootstrap_servers`."""
        return self._broker.bootstrap_servers

    @property
    def cluster_id(self) -> str:
        """See `Broker.cluster_id`."""
        return self._broker.cluster_id

    @property
    def logs(self) -> list[str]:
        """See `Broker.logs`."""
        return self._broker.logs

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

    def groups(self) -> list[str]:
        """See `Broker.groups`."""
        return self._bench.sights.group_ids()

    def groups_seen(self) -> list[str]:
        """See `Broker.groups_seen`."""
        return self._broker.groups_seen()

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
        await to_thread(self._broker.advance, seconds, silent=silent, all=all, timeout=timeout)

    async def freeze(self) -> None:
        """See `Broker.freeze`."""
        await to_thread(self._broker.freeze)

    async def resume(self) -> None:
        """See `Broker.resume`."""
        await to_thread(self._broker.resume)

    def transcript(
        self,
        *,
        apis: Collection[str] = (),
        clients: Collection[str] = (),
        times: bool = True,
    ) -> str:
        """See `Broker.transcript`."""
        return self._broker.transcript(apis=apis, clients=clients, times=times)

    # -- faults --------------------------------------------------------------------------------

    async def fault(self, effect: Effect, **when: Unpack[When]) -> Rule:
        """See `Broker.fault`."""
        return await to_thread(self._bench.faults.add, effect, when)

    @property
    def faults(self) -> Collection[Rule]:
        """See `Broker.faults`."""
        return self._bench.faults

    def check_faults(self) -> None:
        """See `Broker.check_faults`."""
        self._broker.check_faults()


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
